import { assertEquals, assertThrows } from "@std/assert";
import { type DType, dtypes } from "../../../src/dtype/dtype.ts";
import { DTypeError } from "../../../src/errors.ts";
import {
  COMPUTE_TYPES,
  type ComputeType,
  computeTypeNote,
  resolveTypes,
  type ScaleType,
} from "../../../src/linalg/matmul/compute_type.ts";

/** nvmath's table: factors, default compute type, scale type, accumulator, all compute types, all results. */
const TABLE: readonly [DType, DType, ComputeType, ScaleType, ComputeType[], DType[]][] = [
  ["float16", "float16", "float32", "float32", ["float32", "float32_pedantic", "float16", "float16_pedantic"], [
    "float16",
    "float32",
  ]],
  ["bfloat16", "bfloat16", "float32", "float32", ["float32", "float32_pedantic"], ["bfloat16", "float32"]],
  ["float32", "float32", "float32", "float32", [
    "float32",
    "float32_pedantic",
    "float32_fast_float16",
    "float32_fast_bfloat16",
    "float32_fast_tf32",
    "float32_emulated_16bfx9",
  ], ["float32"]],
  ["complex64", "complex64", "float32", "complex64", [
    "float32",
    "float32_pedantic",
    "float32_fast_float16",
    "float32_fast_bfloat16",
    "float32_fast_tf32",
    "float32_emulated_16bfx9",
  ], ["complex64"]],
  ["float64", "float64", "float64", "float64", ["float64", "float64_pedantic", "float64_emulated_fixedpoint"], [
    "float64",
  ]],
  ["complex128", "complex128", "float64", "complex128", [
    "float64",
    "float64_pedantic",
    "float64_emulated_fixedpoint",
  ], ["complex128"]],
  ["float8_e4m3", "float8_e4m3", "float32", "float32", ["float32"], ["float8_e4m3", "float16", "bfloat16", "float32"]],
  ["float8_e4m3", "float8_e5m2", "float32", "float32", ["float32"], [
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "bfloat16",
    "float32",
  ]],
  ["float8_e5m2", "float8_e4m3", "float32", "float32", ["float32"], [
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "bfloat16",
    "float32",
  ]],
];

Deno.test("each pair of factors has the compute, scale and result types of the table, and no others", () => {
  for (const a of dtypes) {
    for (const b of dtypes) {
      const row = TABLE.find((row) => row[0] === a && row[1] === b);
      if (!row) {
        assertThrows(() => resolveTypes({ a, b, c: null }), DTypeError, "Allowed pairs");
        continue;
      }
      const [, , computeType, scaleType, computeTypes, results] = row;
      const types = resolveTypes({ a, b, c: null });
      assertEquals([types.computeType, types.scaleType, types.d], [computeType, scaleType, a]);
      for (const candidate of COMPUTE_TYPES) {
        if (computeTypes.includes(candidate)) {
          assertEquals(resolveTypes({ a, b, c: null, computeType: candidate }).computeType, candidate);
        } else {
          assertThrows(() => resolveTypes({ a, b, c: null, computeType: candidate }), DTypeError, "allowed: ");
        }
      }
      for (const candidate of dtypes) {
        if (results.includes(candidate)) {
          assertEquals(resolveTypes({ a, b, c: null, resultType: candidate }).d, candidate);
        } else {
          assertThrows(() => resolveTypes({ a, b, c: null, resultType: candidate }), DTypeError, "no result of");
        }
      }
    }
  }
});

Deno.test("accumulators and scale types follow the compute type", () => {
  const half = resolveTypes({ a: "float16", b: "float16", c: null, computeType: "float16" });
  assertEquals([half.scaleType, half.accumulator], ["float16", "float32"]);
  assertThrows(
    () => resolveTypes({ a: "float16", b: "float16", c: null, computeType: "float16", resultType: "float32" }),
    DTypeError,
    "no result of",
  );
  assertEquals(resolveTypes({ a: "complex128", b: "complex128", c: null }).accumulator, "complex128");
  assertThrows(
    () => resolveTypes({ a: "float64", b: "float64", c: null, scaleType: "float32" }),
    DTypeError,
    "float64",
  );
});

Deno.test("D takes c's dtype, and c must fit D", () => {
  assertEquals(resolveTypes({ a: "float16", b: "float16", c: "float32" }).d, "float32");
  assertEquals(resolveTypes({ a: "float8_e4m3", b: "float8_e4m3", c: "bfloat16" }).d, "bfloat16");
  const quantized = { a: "float8_e4m3", b: "float8_e4m3", resultType: "float8_e4m3" } as const;
  assertEquals(resolveTypes({ ...quantized, c: "bfloat16" }).d, "float8_e4m3");
  assertThrows(() => resolveTypes({ ...quantized, c: "float32" }), DTypeError, "float16 or bfloat16");
  assertThrows(
    () => resolveTypes({ a: "float16", b: "float16", c: "float16", resultType: "float32" }),
    DTypeError,
    "c is float16",
  );
});

Deno.test("messages say what can be done", () => {
  assertThrows(() => resolveTypes({ a: "int8", b: "int8", c: null }), DTypeError, 'a.to({ dtype: "float32" })');
  assertThrows(() => resolveTypes({ a: "float32", b: "float64", c: null }), DTypeError, 'b.to({ dtype: "float32" })');
  assertThrows(
    () => resolveTypes({ a: "float8_e5m2", b: "float8_e5m2", c: null }),
    DTypeError,
    "One of the two must be float8_e4m3",
  );
  const noted = COMPUTE_TYPES.filter((type) => computeTypeNote(type) !== null);
  assertEquals(noted, [
    "float16",
    "float16_pedantic",
    "float32_fast_float16",
    "float32_fast_bfloat16",
    "float32_fast_tf32",
    "float32_emulated_16bfx9",
    "float64_emulated_fixedpoint",
    "int32",
    "int32_pedantic",
  ]);
});
