import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { decode, encode } from "../../../src/dtype/narrow_floats.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import {
  absoluteMaximum,
  describeEpilog,
  EPILOG_NAMES,
  type EpilogBlock,
  type EpilogName,
  type EpilogValues,
  gelu,
  geluAuxShape,
  geluDerivative,
  geluErf,
  hasExtraOutputs,
  isTrivial,
  needsRealNumbers,
  prepareEpilog,
  reluAuxShape,
  requiredInputs,
  rowSums,
} from "../../../src/linalg/matmul/epilog.ts";
import { EPILOG_CODES } from "./epilog_codes.ts";

const [ROWS, COLUMNS] = [19, 5];

/** x(i, j), of both signs and with zeros. */
const value = (i: number, j: number) => ((7 * i + 11 * j) % 13 - 6) / 2;

/** The error function, by its series. */
function erf(x: number): number {
  let [sum, term] = [x, x];
  for (let n = 1; n < 100; n++) {
    term *= -x * x / n;
    sum += term / (2 * n + 1);
  }
  return 2 / Math.sqrt(Math.PI) * sum;
}

Deno.test("gelu and gelu_erf are the forms that their documentation tells", () => {
  const documents = ["src/linalg/matmul/epilog.ts", "src/linalg/matmul/options.ts", "README.md"].map((name) =>
    Deno.readTextFileSync(new URL(`../../../${name}`, import.meta.url)).replaceAll(/\s+(\* )?\s*/g, " ")
  );
  assertStringIncludes(
    documents[0],
    "`gelu` is the tanh form on every device, `0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))`, and `dgelu` its " +
      "derivative. - `gelu_erf` is the exact form, `0.5 x (1 + erf(x / sqrt(2)))`; the two differ by up to 0.0005.",
  );
  assertStringIncludes(documents[1], "`gelu` is the tanh form, `gelu_erf` the exact one");
  assertStringIncludes(documents[2], "GELU in the tanh form of cuBLASLt and the exact one (`gelu_erf`)");
  let largest = 0;
  for (let x = -6; x <= 6; x += 1 / 64) {
    assertAlmostEquals(gelu(x), 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3))), 1e-15);
    const exact = 0.5 * x * (1 + erf(x / Math.SQRT2));
    assertAlmostEquals(geluErf(x), exact, 1e-9); // the series loses digits far out
    largest = Math.max(largest, Math.abs(gelu(x) - exact));
  }
  assert(0.0004 < largest && largest < 0.0005, `${largest}`);
});

type Kind = typeof Float32Array | typeof Float64Array;

/** The same block in column-major, row-major or padded memory. */
function block(layout: "F" | "C" | "padded", kind: Kind = Float32Array): EpilogBlock {
  const strides = { F: [1, ROWS], C: [COLUMNS, 1], padded: [2, 2 * ROWS + 3] }[layout];
  const data = new kind(strides[0] * (ROWS - 1) + strides[1] * (COLUMNS - 1) + 1).fill(NaN);
  for (let i = 0; i < ROWS; i++) {
    for (let j = 0; j < COLUMNS; j++) data[i * strides[0] + j * strides[1]] = value(i, j);
  }
  return { data, rows: ROWS, columns: COLUMNS, rowStride: strides[0], columnStride: strides[1] };
}

const at = ({ data, rowStride, columnStride }: EpilogBlock, i: number, j: number) =>
  data[i * rowStride + j * columnStride];

function forEachElement(check: (i: number, j: number) => void): void {
  for (let i = 0; i < ROWS; i++) for (let j = 0; j < COLUMNS; j++) check(i, j);
}

function run(name: EpilogName, target: EpilogBlock, inputs: EpilogValues = {}, choices = {}): EpilogValues {
  const { outputs, apply } = prepareEpilog(describeEpilog(name, { auxDType: "float32", ...choices }), target, inputs);
  apply();
  return outputs;
}

function vector(length: number, f: (i: number) => number): LocalArray {
  return new LocalArray({ data: Float32Array.from({ length }, (_, i) => f(i)), dtype: "float32", shape: [length] });
}

const bias = vector(ROWS, (i) => i / 4 - 2);
const biased = (i: number, j: number) => value(i, j) + i / 4 - 2;

/** gelu by its definition with tanh written out by exponentials. */
function referenceGelu(x: number): number {
  const u = Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3);
  return x / (1 + Math.exp(-2 * u));
}

Deno.test("the names stand for the bits of cublasMpMatmulEpilogue_t", () => {
  const own = EPILOG_NAMES.filter((name) => !(name in EPILOG_CODES));
  assertEquals(own.length, EPILOG_NAMES.length - Object.keys(EPILOG_CODES).length);
  assertEquals(own.filter((name) => !/column_bias$|^gelu_erf|^silu/.test(name)), []);
  for (const [name, bits] of Object.entries(EPILOG_CODES) as [EpilogName, number][]) {
    const epilog = describeEpilog(name, { auxDType: "float32" });
    const isSet = (bit: number) => (bits & bit) !== 0;
    assertEquals(epilog.bias, isSet(4) ? "rows" : "none", name);
    assertEquals(epilog.allReduce, isSet(1), name);
    const isDerivative = isSet(8) || bits === 192 || bits === 208;
    assertEquals(epilog.aux, isSet(128) ? isDerivative ? "input" : "output" : "none", name);
    const activation = isSet(2) || isSet(8) ? "relu" : isSet(32) || isSet(64) ? "gelu" : "none";
    assertEquals(epilog.activation, activation, name);
    assertEquals(epilog.biasGradient, isSet(16) ? "d" : isSet(256) ? "a" : isSet(512) ? "b" : "none", name);
    assertEquals(hasExtraOutputs(epilog), name.includes("_aux") || name.includes("bgrad"), name);
    assertEquals(needsRealNumbers(epilog), name !== "all_reduce", name);
    assert(!isTrivial(epilog));
  }
  assert(isTrivial(describeEpilog("none", { auxDType: "float32" })));
  assert(!isTrivial(describeEpilog("none", { auxDType: "float32", resultAmax: true })));
});

Deno.test("required inputs follow the name", () => {
  const inputs = (name: EpilogName, auxDType: "float32" | "float8_e4m3" = "float32") =>
    requiredInputs(describeEpilog(name, { auxDType })).join();
  assertEquals(inputs("relu"), "");
  assertEquals(inputs("gelu_aux_bias"), "bias");
  assertEquals(inputs("gelu_aux_bias", "float8_e4m3"), "bias,auxQuantizationScale");
  assertEquals(inputs("drelu_bgrad"), "reluAux");
  assertEquals(inputs("silu_column_bias"), "columnBias");
  assertEquals(inputs("dgelu"), "geluAux");
});

Deno.test("gelu_erf and silu are PyTorch's gelu and silu", () => {
  // Python: [0.5 * x * math.erfc(-x / math.sqrt(2)) for x in X] and [x / (1 + math.exp(-x)) for x in X]
  const points = [-12, -5.5, -2, -0.75, -0.1, 0, 0.1, 0.75, 2, 5.5, 12];
  const wanted = {
    gelu_erf: [
      -2.1317785344932424e-32,
      -1.0444259356238256e-07,
      -0.04550026389635844,
      -0.16997051428265114,
      -0.0460172162722971,
      0.0,
      0.053982783727702904,
      0.5800294857173488,
      1.9544997361036416,
      5.499999895557407,
      12.0,
    ],
    silu: [
      -7.373009522657661e-05,
      -0.0223857574374287,
      -0.2384058440442351,
      -0.24061597561845527,
      -0.047502081252106004,
      0.0,
      0.052497918747894,
      0.5093840243815447,
      1.7615941559557646,
      5.477614242562572,
      11.999926269904773,
    ],
  };
  for (const [name, values] of Object.entries(wanted) as [EpilogName, number[]][]) {
    const data = Float64Array.from(points);
    run(name, { data, rows: points.length, columns: 1, rowStride: 1, columnStride: points.length });
    values.forEach((value, i) => assertAlmostEquals(data[i], value, 1e-13 * Math.abs(value), `${name}(${points[i]})`));
  }
});

for (const layout of ["F", "C", "padded"] as const) {
  Deno.test(`bias, relu and gelu on ${layout} memory`, () => {
    for (const kind of [Float32Array, Float64Array]) {
      const relu = block(layout, kind);
      run("relu", relu);
      const both = block(layout, kind);
      run("gelu_bias", both, { bias });
      const plain = block(layout, kind);
      assertEquals(run("bias", plain, { bias }), {});
      forEachElement((i, j) => {
        assertEquals(at(relu, i, j), Math.max(0, value(i, j)));
        assertEquals(at(plain, i, j), biased(i, j));
        assertAlmostEquals(at(both, i, j), referenceGelu(biased(i, j)), kind === Float32Array ? 1e-6 : 1e-14);
      });
    }
  });

  Deno.test(`aux outputs and their gradients on ${layout} memory`, () => {
    const forward = block(layout);
    const { reluAux } = run("relu_aux_bias", forward, { bias });
    assertEquals([...reluAux!.shape], [16, COLUMNS]);
    assertEquals([...reluAux!.strides], [1, 16]);
    const bits = reluAux!.data as Uint8Array;
    for (let j = 0; j < COLUMNS; j++) {
      for (let bit = 0; bit < 128; bit++) {
        const expected = bit < ROWS && biased(bit, j) > 0;
        assertEquals((bits[16 * j + (bit >> 3)] >> (bit % 8) & 1) === 1, expected, `row ${bit} of column ${j}`);
      }
    }
    const backward = block(layout);
    const { dreluBgrad } = run("drelu_bgrad", backward, { reluAux: reluAux! });
    const rowSums = new Array(ROWS).fill(0);
    forEachElement((i, j) => {
      const expected = biased(i, j) > 0 ? value(i, j) : 0;
      rowSums[i] += expected;
      assertEquals(Math.abs(at(backward, i, j)), Math.abs(expected));
    });
    assertEquals(dreluBgrad!.toNumbers(), rowSums);
  });

  Deno.test(`gelu's aux is what it was given, and dgelu its numerical derivative, on ${layout} memory`, () => {
    const forward = block(layout, Float64Array);
    const { geluAux, geluAuxAmax } = run("gelu_aux_bias", forward, { bias }, { auxDType: "float64", auxAmax: true });
    assertEquals([...geluAux!.shape], [24, COLUMNS]);
    let largest = 0;
    forEachElement((i, j) => {
      assertEquals((geluAux!.data as Float64Array)[24 * j + i], biased(i, j));
      largest = Math.max(largest, Math.abs(biased(i, j)));
    });
    assertEquals(geluAuxAmax!.toNumbers(), [largest]);
    const backward = block(layout, Float64Array);
    const { dgeluBgrad } = run("dgelu_bgrad", backward, { geluAux: geluAux! });
    const rowSums = new Array(ROWS).fill(0);
    const step = 1e-5;
    forEachElement((i, j) => {
      const x = biased(i, j);
      const slope = (referenceGelu(x + step) - referenceGelu(x - step)) / (2 * step);
      assertAlmostEquals(at(backward, i, j), value(i, j) * slope, 1e-8);
      rowSums[i] += value(i, j) * slope;
    });
    dgeluBgrad!.toNumbers().forEach((sum, i) => assertAlmostEquals(sum, rowSums[i], 1e-7));
  });
}

Deno.test("gelu and its derivative have the right limits", () => {
  assertEquals(gelu(0), 0);
  assertEquals(geluDerivative(0), 0.5);
  assertEquals([gelu(50), geluDerivative(50)], [50, 1]);
  assertEquals([Math.abs(gelu(-50)), geluDerivative(-50)], [0, 0]);
  assertEquals([gelu(1e200), geluDerivative(1e200)], [1e200, 1]);
});

Deno.test("gelu's aux is rounded to its type, scaled if that is of 8 bits", () => {
  const { geluAux } = run("gelu_aux", block("F"), {}, { auxDType: "bfloat16" });
  assertEquals(geluAux!.dtype, "bfloat16");
  const scale = vector(1, () => 8);
  const inputs = { auxQuantizationScale: scale };
  const quantized = run("gelu_aux", block("F"), inputs, { auxDType: "float8_e4m3", auxAmax: true });
  assertEquals(quantized.geluAuxAmax!.toNumbers(), [3]);
  const [wide, narrow] = [geluAux!, quantized.geluAux!].map(({ dtype, data }) => decode(dtype, data));
  forEachElement((i, j) => {
    assertEquals(wide[24 * j + i], value(i, j));
    assertEquals(narrow[24 * j + i], decode("float8_e4m3", encode("float8_e4m3", Float32Array.of(8 * value(i, j))))[0]);
  });
});

Deno.test("a bias of another type is decoded, and may be a column or have a stride", () => {
  const bits = encode("bfloat16", bias.data as Float32Array<ArrayBuffer>);
  const target = block("F");
  run("bias", target, { bias: new LocalArray({ data: bits, dtype: "bfloat16", shape: [ROWS, 1] }) });
  const spread = new Float32Array(3 * ROWS);
  for (let i = 0; i < ROWS; i++) spread[3 * i] = (bias.data as Float32Array)[i];
  const strided = block("F");
  run("bias", strided, { bias: new LocalArray({ data: spread, dtype: "float32", shape: [ROWS], strides: [3] }) });
  forEachElement((i, j) => {
    assertEquals(at(target, i, j), biased(i, j));
    assertEquals(at(strided, i, j), biased(i, j));
  });
});

Deno.test("sums and maxima of a block", () => {
  for (const layout of ["F", "C", "padded"] as const) {
    const target = block(layout);
    const rows = new Array(ROWS).fill(0);
    forEachElement((i, j) => rows[i] += value(i, j));
    assertEquals([...rowSums(target, new Float64Array(ROWS))], rows);
    assertEquals(absoluteMaximum(target), 3);
    target.data[target.rowStride] = NaN;
    assertEquals(absoluteMaximum(target), NaN);
  }
});

Deno.test("resultAmax is that after the activation, and 0 of an empty block", () => {
  const { resultAmax } = run("relu", block("F"), {}, { resultAmax: true });
  assertEquals(resultAmax!.toNumbers(), [3]);
  const empty = { data: new Float32Array(0), rows: 0, columns: 4, rowStride: 1, columnStride: 1 };
  const outputs = run("relu_aux", empty, {}, { resultAmax: true });
  assertEquals(outputs.resultAmax!.toNumbers(), [0]);
  assertEquals([...outputs.reluAux!.shape], [0, 4]);
});

Deno.test("NaN passes relu and gelu", () => {
  for (const name of ["relu", "gelu"] as const) {
    const target = { data: Float32Array.of(NaN), rows: 1, columns: 1, rowStride: 1, columnStride: 1 };
    run(name, target);
    assertEquals(target.data[0], NaN);
  }
});

Deno.test("aux shapes are padded as cuBLASLt wants them", () => {
  assertEquals(reluAuxShape(1, 3), [16, 3]);
  assertEquals(reluAuxShape(128, 3), [16, 3]);
  assertEquals(reluAuxShape(129, 3), [32, 3]);
  assertEquals(geluAuxShape(8, 2), [8, 2]);
  assertEquals(geluAuxShape(9, 2), [16, 2]);
});
