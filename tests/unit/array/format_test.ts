/** Arrays as text, against strings that NumPy printed. */
import { assertEquals, assertThrows } from "@std/assert";
import { checkFormat, formatElements, shownIndices } from "../../../src/array/format.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import { type DType, dtypeInfo, type Scalar } from "../../../src/dtype/mod.ts";
import fixtures from "./numpy/fixtures.json" with { type: "json" };

/** The elements that are shown, in C order. */
function shown(dtype: DType, shape: readonly number[], numbers: readonly number[]): Scalar[] {
  const places = shownIndices(shape, checkFormat({})).reduce<number[]>(
    (places, list, d) => places.flatMap((place) => list.map((i) => place * shape[d] + i)),
    [0],
  );
  const { parts } = dtypeInfo(dtype);
  return places.map((place) => parts === 1 ? numbers[place] : [numbers[2 * place], numbers[2 * place + 1]]);
}

Deno.test("arrays are written as NumPy prints them", () => {
  for (const { dtype, shape, values, text } of fixtures.texts) {
    const numbers = (values as (number | string)[]).map(Number);
    const scalars = shown(dtype as DType, shape, numbers);
    const exact = dtype === "int64" ? scalars.map((value) => BigInt(value as number)) : scalars;
    assertEquals(formatElements(dtype as DType, shape, exact, checkFormat({})), text, `${dtype} [${shape}]`);
  }
});

Deno.test("narrow floats show as many digits as tell them apart", () => {
  const text = formatElements("bfloat16", [3], [0.10009765625, 3.140625, 1], checkFormat({}));
  assertEquals(text, "[0.1  3.14 1.  ]");
  assertEquals(
    formatElements("float8_e4m3", [2], [0.1015625, 448], checkFormat({ precision: 3 })),
    "[1.e-01 4.e+02]".replace("4.e+02", "4.5e+02").replace("1.e-01", "1.0e-01"),
  );
});

Deno.test("arrays without elements are written, whatever their other extents", () => {
  for (const shape of [[5e9, 0], [0, 2 ** 53 - 1], [2 ** 40, 0, 3]]) {
    assertEquals(shownIndices(shape, checkFormat({})), shape.map(() => []));
    assertEquals(LocalArray.zeros("float64", shape).format(), "[]");
  }
});

Deno.test("options of format are whole numbers", () => {
  assertEquals(formatElements("float64", [2], [1 / 3, 2], checkFormat({ precision: 2 })), "[0.33 2.  ]");
  assertEquals(shownIndices([10], checkFormat({ threshold: 4, edgeItems: 1 })), [[0, 9]]);
  assertThrows(
    () => checkFormat({ precision: 18 }),
    RangeError,
    "precision must be a whole number from 0 to 17, not 18",
  );
  assertThrows(() => checkFormat({ lineWidth: "a" as unknown as number }), TypeError, 'from 0 on, not "a"');
  assertThrows(() => checkFormat({ edges: 1 } as unknown as Record<never, never>), TypeError, "edgeItems");
});
