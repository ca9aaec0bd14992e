import { assertEquals, assertThrows } from "@std/assert";
import { DTypeError } from "../../../src/errors.ts";
import { type OperandTypes, type QuantizationScales, quantizationValues } from "../../../src/linalg/quantization.ts";

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
  for (const bad of [0, -1, Infinity, NaN]) {
    assertThrows(() => quantizationValues({ a: bad, b: 1 }, types), RangeError, "positive and finite");
  }
  assertThrows(() => quantizationValues({ a: Float32Array.of(1, 2), b: 1 }, types), TypeError, "an array of 2");
  assertThrows(() => quantizationValues({ a: "1", b: 1 } as unknown as QuantizationScales, types), TypeError);
  const misspelt = { A: 1, b: 1 } as unknown as QuantizationScales;
  assertThrows(() => quantizationValues(misspelt, types), TypeError, 'no key "A"');
});
