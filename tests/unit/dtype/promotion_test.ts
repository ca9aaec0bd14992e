/** Promotion against NumPy's table, which the Array API standard follows, and what NumPy has not. */
import { assertEquals, assertThrows } from "@std/assert";
import { type DType, dtypeInfo, dtypes } from "../../../src/dtype/mod.ts";
import { promote, promoteScalar } from "../../../src/dtype/promotion.ts";
import { DTypeError } from "../../../src/errors.ts";
import fixtures from "../array/numpy/fixtures.json" with { type: "json" };

Deno.test("promote is NumPy's promote_types", () => {
  const table = fixtures.promotion as Record<string, Record<string, string>>;
  for (const [a, row] of Object.entries(table)) {
    for (const [b, wanted] of Object.entries(row)) {
      // There is no int16.
      const expected = wanted === "int16" ? "int32" : wanted;
      assertEquals(promote(a as DType, b as DType), expected, `${a}, ${b}`);
    }
  }
});

Deno.test("promote knows the narrow floats, and is symmetric", () => {
  assertEquals(promote("float16", "bfloat16"), "float32");
  assertEquals(promote("float8_e4m3", "float8_e5m2"), "float16");
  assertEquals(promote("float8_e4m3", "bfloat16"), "bfloat16");
  assertEquals(promote("float8_e5m2", "float16"), "float16");
  assertEquals(promote("bfloat16", "uint8"), "bfloat16");
  assertEquals(promote("float8_e5m2", "int8"), "float16");
  assertEquals(promote("bfloat16", "complex64"), "complex64");
  for (const a of dtypes) for (const b of dtypes) assertEquals(promote(a, b), promote(b, a), `${a}, ${b}`);
  assertThrows(() => promote("float32", "float31" as DType), DTypeError, "There is no dtype");
});

Deno.test("complex32 is promoted as its parts are", () => {
  for (const dtype of dtypes) {
    const { isComplex, real } = dtypeInfo(dtype);
    const parts = promote("float16", isComplex ? real : dtype);
    const wanted = { float16: "complex32", float32: "complex64", float64: "complex128" }[parts as "float16"];
    assertEquals(promote("complex32", dtype), wanted, dtype);
  }
  assertEquals(promote("complex32", "bfloat16"), "complex64");
  assertEquals(promote("complex32", "uint8"), "complex32");
  assertEquals(promote("complex32", "int32"), "complex128");
  assertEquals(promoteScalar("complex32", 0.1), "complex32");
  assertEquals(promoteScalar("float16", [0, 1]), "complex32");
  assertEquals(promoteScalar("float8_e4m3", [0, 1]), "complex32");
  assertEquals(promoteScalar("bfloat16", [0, 1]), "complex64");
});

Deno.test("numbers of the script take the dtype of what they stand beside, if it can hold them", () => {
  assertEquals(promoteScalar("float32", 0.1), "float32");
  assertEquals(promoteScalar("float16", 3n), "float16");
  assertEquals(promoteScalar("int8", -128), "int8");
  assertEquals(promoteScalar("int8", 0.5), "float64");
  assertEquals(promoteScalar("int32", NaN), "float64");
  assertEquals(promoteScalar("int64", 2n ** 62n), "int64");
  assertEquals(promoteScalar("float32", [0, 1]), "complex64");
  for (const dtype of ["int8", "uint8", "int32", "int64"] as const) {
    assertEquals(promoteScalar(dtype, [0, 1]), "complex128");
  }
  assertEquals(promoteScalar("complex64", 2), "complex64");
  assertThrows(() => promoteScalar("uint8", -1), RangeError, "uint8 takes whole numbers from 0 to 255, not -1");
  assertThrows(() => promoteScalar("float64", 2n ** 60n + 1n), DTypeError, "is not exact as a float");
  assertThrows(() => promoteScalar("float64", "1" as unknown as number), DTypeError, 'not "1"');
});
