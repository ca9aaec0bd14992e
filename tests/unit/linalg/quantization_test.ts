import { assertEquals, assertThrows } from "@std/assert";
import { DTypeError, ShapeError } from "../../../src/errors.ts";
import {
  checkSameScaling,
  indicesPerScale,
  type OperandTypes,
  type QuantizationScales,
  quantizationValues,
  scaleFacts,
  scalingOf,
} from "../../../src/linalg/matmul/quantization.ts";

const NARROW: OperandTypes = { a: "float8_e4m3", b: "float8_e5m2", c: "bfloat16", d: "float8_e4m3" };
const WIDE: OperandTypes = { a: "float32", b: "float32", c: null, d: "float32" };

Deno.test("8-bit matrices need a scale, given as a number or an array of one", () => {
  assertEquals(quantizationValues({ a: 2, b: Float32Array.of(0.5), d: [4] }, NARROW), { a: 2, b: 0.5, d: 4 });
  assertEquals(quantizationValues({ a: 2, b: 3 }, { ...NARROW, d: "float16" }), { a: 2, b: 3 });
  assertEquals(quantizationValues(undefined, WIDE), {});
  assertThrows(() => quantizationValues(undefined, NARROW), DTypeError, "a (float8_e4m3), b (float8_e5m2), d");
  assertThrows(() => quantizationValues({ a: 1, b: 1 }, NARROW), DTypeError, "a scale for d (float8_e4m3)");
});

Deno.test("other matrices must have none", () => {
  assertThrows(() => quantizationValues({ a: 1 }, WIDE), DTypeError, "leave out a (float32)");
  assertThrows(() => quantizationValues({ a: 1, b: 1, c: 1, d: 1 }, NARROW), DTypeError, "leave out c (bfloat16)");
  assertThrows(() => quantizationValues({ c: 1 }, WIDE), DTypeError, "leave out c (not there)");
});

Deno.test("a scale must be one positive finite number", () => {
  const types = { ...NARROW, d: "float16" } as const;
  for (const bad of [0, -1, Infinity, NaN, 1e39, 1e-60]) {
    assertThrows(() => quantizationValues({ a: bad, b: 1 }, types), RangeError, "positive and finite");
  }
  assertThrows(() => quantizationValues({ a: Float32Array.of(1, 2), b: 1 }, types), TypeError, "an array of 2");
  assertThrows(() => quantizationValues({ a: "1", b: 1 } as unknown as QuantizationScales, types), TypeError);
  const misspelt = { A: 1, b: 1 } as unknown as QuantizationScales;
  assertThrows(() => quantizationValues(misspelt, types), TypeError, 'no key "A"');
});

Deno.test("extents and counts tell how many indices share a scale", () => {
  assertEquals(indicesPerScale(256, 256), 1);
  assertEquals(indicesPerScale(256, 2), 128);
  assertEquals(indicesPerScale(300, 3), 128);
  assertEquals(indicesPerScale(300, 1), 300);
});

Deno.test("numbers scale tensors, and modes must stay as they were", () => {
  const factors = { a: { shape: [4, 4], summed: 0 }, b: { shape: [4, 4], summed: 0 } } as const;
  assertEquals(scalingOf({ a: 1, b: 2 }, factors, { ...NARROW, d: "bfloat16" }), null);
  assertEquals(scaleFacts({ a: 1, b: 2 }), { a: 1, b: 2 });
  const scaling = { a: "vector_128", b: "block_128x128" } as const;
  checkSameScaling(scaling, { ...scaling });
  checkSameScaling(null, null);
  assertThrows(() => checkSameScaling(null, scaling), ShapeError, "quantizationScales.a scales by tensor");
  assertThrows(() => checkSameScaling({ ...scaling, b: "vector_128" }, scaling), ShapeError, "b scales by vector_128");
});
