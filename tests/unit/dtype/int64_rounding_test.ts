import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { convert } from "../../../src/dtype/conversion.ts";
import { allocate, type DType, dtypeInfo } from "../../../src/dtype/dtype.ts";
import { fromFloat32, toFloat32 } from "../../../src/dtype/narrow_floats.ts";
import { LocalArray } from "../../../src/array/local_array.ts";

/** Significant bits, the largest finite value, and what lies above it: from the formats' definitions. */
const formats = {
  float64: { bits: 53, largest: Number.MAX_VALUE, above: Infinity },
  complex128: { bits: 53, largest: Number.MAX_VALUE, above: Infinity },
  float32: { bits: 24, largest: 2 ** 128 - 2 ** 104, above: Infinity },
  complex64: { bits: 24, largest: 2 ** 128 - 2 ** 104, above: Infinity },
  bfloat16: { bits: 8, largest: 2 ** 128 - 2 ** 120, above: Infinity },
  float16: { bits: 11, largest: 65504, above: Infinity },
  float8_e4m3: { bits: 4, largest: 448, above: 448 },
  float8_e5m2: { bits: 3, largest: 57344, above: 57344 },
} as const;
type Float = keyof typeof formats;
const floats = Object.keys(formats) as Float[];

/** The nearest number of a format to a whole one, ties to even, in integer arithmetic. */
function nearest(value: bigint, { bits, largest, above }: typeof formats[Float]): number {
  const magnitude = value < 0n ? -value : value;
  const dropped = BigInt(Math.max(0, magnitude.toString(2).length - bits));
  const unit = 1n << dropped;
  const [steps, rest] = [magnitude / unit, magnitude % unit];
  const isUp = 2n * rest > unit || 2n * rest === unit && steps % 2n === 1n;
  const rounded = Number((steps + (isUp ? 1n : 0n)) * unit); // exact: it has at most 53 significant bits
  return (value < 0n ? -1 : 1) * (rounded > largest ? above : rounded);
}

function converted(from: DType, source: BigInt64Array<ArrayBuffer> | Int32Array<ArrayBuffer>, to: Float): number[] {
  const target = allocate(to, source.length);
  convert(from, source, to, target);
  return new LocalArray({ data: target, dtype: to, shape: [source.length] }).toNumbers();
}

const [least, most] = [-(2n ** 63n), 2n ** 63n - 1n];

/** Any number, and those beside the middle between two neighbours of a format, where rounding twice goes wrong. */
const integer = fc.oneof(
  fc.bigInt({ min: least, max: most }),
  fc.tuple(
    fc.constantFrom(...floats),
    fc.nat({ max: 63 }),
    fc.bigInt({ min: 0n, max: most }),
    fc.bigInt({ min: -3n, max: 3n }),
    fc.boolean(),
  ).map(([format, shift, value, beside, isNegative]) => {
    const { bits } = formats[format];
    const tie = (2n * (value % (1n << BigInt(bits))) + 1n) << BigInt(Math.min(shift, 63));
    const signed = (isNegative ? -1n : 1n) * (tie + beside);
    return signed < least ? least : signed > most ? most : signed;
  }),
);

Deno.test("int64 is rounded once to every float, as NumPy does", () => {
  const source = BigInt64Array.of(2n ** 60n + 2n ** 36n + 1n, -(2n ** 60n) - 2n ** 36n - 1n);
  // numpy.array([2**60 + 2**36 + 1], "int64").astype("float32") gives 1152921642045800448.0, and so does complex64.
  assertEquals(converted("int64", source, "float32"), [1152921642045800448, -1152921642045800448]);
  assertEquals(converted("int64", source, "complex64"), [1152921642045800448, 0, -1152921642045800448, 0]);
  const ends = [least, most, 2n ** 53n + 1n, 2n ** 53n - 1n, -(2n ** 53n) - 1n, 0n];
  fc.assert(
    fc.property(fc.array(integer, { minLength: 1, maxLength: 50 }), (values) => {
      const given = BigInt64Array.from([...values, ...ends]);
      for (const to of floats) {
        const numbers = converted("int64", given, to);
        given.forEach((value, i) => {
          const { parts } = dtypeInfo(to);
          assertEquals(numbers[parts * i] + 0, nearest(value, formats[to]) + 0, `${value} to ${to}`);
        });
      }
    }),
    { numRuns: 300 },
  );
});

Deno.test("int32 and float64 are rounded once to bfloat16 and float8, not by way of float32", () => {
  const tie = 2 ** 30 + 2 ** 22;
  assertEquals(converted("int32", Int32Array.of(tie + 1, tie), "bfloat16"), [2 ** 30 + 2 ** 23, 2 ** 30]);
  fc.assert(
    fc.property(fc.array(fc.integer(), { minLength: 1 }), (values) => {
      for (const to of floats) {
        const numbers = converted("int32", Int32Array.from(values), to);
        const { parts } = dtypeInfo(to);
        values.forEach((value, i) => assertEquals(numbers[parts * i], nearest(BigInt(value), formats[to]), to));
      }
    }),
  );
  for (const to of ["bfloat16", "float16", "float8_e4m3", "float8_e5m2"] as const) {
    const { bits } = formats[to];
    // The middle of two neighbours above 1 is even; what lies above it by less than float32 can tell is not.
    const middle = 1 + 2 ** -bits;
    for (const [value, wanted] of [[middle, 1], [middle + 2 ** -40, 1 + 2 ** (1 - bits)], [middle - 2 ** -40, 1]]) {
      for (const sign of [1, -1]) {
        const target = allocate(to, 1);
        convert("float64", Float64Array.of(sign * value), to, target);
        const single = toFloat32(to, fromFloat32(to, sign * value));
        const filled = LocalArray.zeros(to, [1]);
        filled.fill(sign * value);
        const [array] = new LocalArray({ data: target, dtype: to, shape: [1] }).toNumbers();
        assertEquals([array, single, ...filled.toNumbers()], Array(3).fill(sign * wanted), `${sign * value} to ${to}`);
      }
    }
    assert(Object.is(toFloat32(to, fromFloat32(to, -1e-300)), -0));
  }
});
