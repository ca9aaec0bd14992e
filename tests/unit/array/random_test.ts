import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { convert, toFloat64 } from "../../../src/dtype/conversion.ts";
import { allocate, type DType, dtypeInfo, dtypes, type TypedArray } from "../../../src/dtype/dtype.ts";
import type { Order } from "../../../src/array/layout.ts";
import { fillRandom, randomSource } from "../../../src/array/random.ts";
import { countOf, type Ranges } from "../../../src/array/traverse.ts";
import { toFloat32 } from "../../../src/dtype/narrow_floats.ts";
import { DTypeError } from "../../../src/errors.ts";

interface Options {
  seed?: number;
  low?: number;
  high?: number;
}

function draw(dtype: DType, shape: number[], ranges: Ranges, order: Order, options: Options = {}): TypedArray {
  const data = allocate(dtype, ranges.reduce((product, list) => product * countOf(list), 1));
  fillRandom(dtype, data, ranges, order, shape, randomSource(dtype, options, 0));
  return data;
}

function numbers(dtype: DType, data: TypedArray): Float64Array {
  const values = new Float64Array(data.length);
  toFloat64(dtypeInfo(dtype).real, data, values);
  return values;
}

/** n numbers of a vector. */
const vector = (dtype: DType, n: number, options: Options = {}) =>
  numbers(dtype, draw(dtype, [n], [[[0, n]]], "C", options));

Deno.test("random: an element depends on its global index only, not on the part or the order", () => {
  const shape = [5, 6, 7];
  for (const dtype of dtypes) {
    const { parts } = dtypeInfo(dtype);
    const whole = draw(dtype, shape, [[[0, 5]], [[0, 6]], [[0, 7]]], "C", { seed: 9 });
    const ranges: Ranges = [[[1, 2], [4, 5]], [[0, 3], [5, 6]], [[2, 3], [4, 7]]];
    const chosen = ranges.map((list) => list.flatMap(([a, b]) => Array.from({ length: b - a }, (_, i) => a + i)));
    for (const order of ["C", "F"] as const) {
      const part = draw(dtype, shape, ranges, order, { seed: 9 });
      chosen[0].forEach((i, a) =>
        chosen[1].forEach((j, b) =>
          chosen[2].forEach((k, c) => {
            const local = order === "C" ? (a * 4 + b) * 4 + c : a + 2 * (b + 4 * c);
            for (let p = 0; p < parts; p++) {
              assertEquals(part[local * parts + p], whole[((i * 6 + j) * 7 + k) * parts + p], `${dtype} ${order}`);
            }
          })
        )
      );
    }
  }
});

Deno.test("random: counters beyond 2^32 go on without repetition, and without a seam", () => {
  const shape = [2 ** 17, 2 ** 17];
  const [row, column] = [2 ** 15 - 1, 2 ** 17 - 50]; // index 2^32 lies between this row and the next
  const two: Ranges = [[[row, row + 2]], [[0, 2 ** 17]]];
  const whole = draw("float64", shape, two, "C");
  const parts = [draw("float64", shape, [[[row, row + 1]], [[column, 2 ** 17]]], "C")];
  assertEquals(parts[0], whole.slice(column, 2 ** 17));
  const columns = draw("float64", shape, [[[row, row + 2]], [[3, 5]]], "F");
  assertEquals([...columns], [whole[3], whole[2 ** 17 + 3], whole[4], whole[2 ** 17 + 4]]);
  const first = draw("float64", shape, [[[0, 1]], [[0, 2 ** 17]]], "C");
  const later = draw("float64", shape, [[[2 ** 15, 2 ** 15 + 1]], [[0, 2 ** 17]]], "C");
  let equal = 0;
  for (let i = 0; i < first.length; i++) if (first[i] === later[i]) equal++;
  assertEquals(equal, 0);
});

Deno.test("random: uniform moments, no correlation between neighbours, parts or seeds", () => {
  const n = 100_000;
  for (const dtype of ["float64", "float32", "float16", "bfloat16", "complex64", "complex128"] as const) {
    const values = vector(dtype, n / dtypeInfo(dtype).parts);
    const mean = values.reduce((a, b) => a + b, 0) / n;
    const bias = dtype === "bfloat16" ? 2 ** -9 : dtype === "float16" ? 2 ** -12 : 0;
    assertAlmostEquals(mean + bias, 0.5, 0.004, dtype);
    const variance = values.reduce((a, b) => a + (b - mean) ** 2, 0) / n;
    assertAlmostEquals(variance, 1 / 12, 0.001, dtype);
    for (const lag of [1, 2, 64, 1000]) {
      let covariance = 0;
      for (let i = lag; i < n; i++) covariance += (values[i] - mean) * (values[i - lag] - mean);
      assertAlmostEquals(covariance / n / variance, 0, 0.015, `${dtype}, ${lag} apart`);
    }
  }
  const seeds = [0, 1, 2, -1, 2 ** 32, 2 ** 40 + 1, 1234567];
  for (const a of seeds) {
    for (const b of seeds) {
      if (a >= b) continue;
      const [x, y] = [vector("float64", 20_000, { seed: a }), vector("float64", 20_000, { seed: b })];
      const covariance = x.reduce((sum, value, i) => sum + (value - 0.5) * (y[i] - 0.5), 0) / x.length;
      assertAlmostEquals(covariance * 12, 0, 0.035, `seeds ${a} and ${b}`);
      assert(new Set([...x, ...y]).size === 40_000);
    }
  }
});

Deno.test("random: each of the 53 bits of a float64, and of the 24 of a float32, is a fair coin", () => {
  for (const [dtype, bits] of [["float64", 53], ["float32", 24]] as const) {
    const n = 40_000;
    const values = vector(dtype, n, { seed: 5 });
    for (let bit = 1; bit <= bits; bit++) {
      let ones = 0;
      for (const value of values) ones += Math.floor(value * 2 ** bit) % 2;
      assertAlmostEquals(ones / n, 0.5, 0.013, `${dtype} bit ${bit}`);
    }
  }
});

Deno.test("random: pairs of neighbours fill the unit square evenly (chi-square)", () => {
  const n = 200_000;
  const values = vector("float64", n, { seed: 77 });
  const cells = new Float64Array(256);
  for (let i = 0; i < n; i += 2) cells[Math.floor(values[i] * 16) * 16 + Math.floor(values[i + 1] * 16)]++;
  const expected = n / 2 / 256;
  const chiSquare = cells.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
  assert(chiSquare > 160 && chiSquare < 370, `${chiSquare}`); // 255 degrees of freedom: 255 +- 5 sigma
});

Deno.test("random: the upper 32 bits of a float64 repeat as often as chance has it", () => {
  const words = new Uint32Array(vector("float64", 400_000, { seed: 3 }).map((value) => Math.floor(value * 2 ** 32)))
    .sort();
  let repeats = 0;
  for (let i = 1; i < words.length; i++) if (words[i] === words[i - 1]) repeats++;
  assert(repeats >= 5 && repeats <= 38, `${repeats}`); // 18.6 expected
});

Deno.test("random: bounds, for floats and integers; never the upper one", () => {
  for (const dtype of dtypes.filter((dtype) => !dtypeInfo(dtype).isInteger)) {
    const values = vector(dtype, 30_000);
    assert(values.every((value) => value >= 0 && value < 1), dtype);
  }
  const scaled = vector("float64", 10_000, { low: -3, high: 5 });
  assert(Math.min(...scaled) < -2.99 && Math.max(...scaled) > 4.99 && scaled.every((x) => x >= -3 && x < 5));
  for (const dtype of ["int8", "uint8", "int32", "int64"] as const) {
    const dice = vector(dtype, 60_000, { low: 1, high: 7 });
    const counts = new Map<number, number>();
    for (const value of dice) counts.set(value, (counts.get(value) ?? 0) + 1);
    assertEquals([...counts.keys()].sort(), [1, 2, 3, 4, 5, 6]);
    for (const count of counts.values()) assertAlmostEquals(count, 10_000, 500);
    assert(vector(dtype, 5000).every((value) => value >= 0 && value < 100));
  }
  const wide = vector("int64", 10_000, { low: -(2 ** 52), high: 2 ** 52 });
  assert(wide.every(Number.isSafeInteger) && Math.min(...wide) < -(2 ** 51) && Math.max(...wide) > 2 ** 51);
  assert(new Set(wide.map((value) => Math.abs(value) % 2)).size === 2);
});

/** All numbers of a narrow dtype, as their codes have them. */
function allNumbers(dtype: "float16" | "bfloat16" | "float8_e4m3" | "float8_e5m2"): number[] {
  const { itemSize } = dtypeInfo(dtype);
  return Array.from({ length: 2 ** (8 * itemSize) }, (_, bits) => toFloat32(dtype, bits)).filter(Number.isFinite);
}

Deno.test("random: floats that are rounded lie in the range, at its ends too", () => {
  for (const dtype of ["float16", "bfloat16", "float8_e4m3", "float8_e5m2"] as const) {
    const all = allNumbers(dtype);
    for (const [low, high] of [[0, 10], [-1, 0], [-3, -1], [1.01, 1.5], [0, 0.1], [100, 160], [-0.3, 0.2], [0, 1e-4]]) {
      const inside = all.filter((value) => value >= low && value < high);
      const values = vector(dtype, 20_000, { low, high });
      assert(values.every((value) => value >= low && value < high), `${dtype} [${low}, ${high})`);
      const source = randomSource(dtype, { low, high }, 0);
      assertEquals(
        [source.least, source.most],
        [Math.min(...inside), Math.max(...inside)],
        `${dtype} [${low}, ${high})`,
      );
    }
  }
  for (const dtype of ["float32", "complex64", "float64", "complex128"] as const) {
    const step = dtypeInfo(dtype).real === "float32" ? 2 ** -23 : 2 ** -52;
    for (
      const [low, high, wanted] of [
        [1, 1 + step, [1]],
        [1, 1 + 2 * step, [1, 1 + step]],
        [-1 - 2 * step, -1, [-1 - 2 * step, -1 - step]],
        [2 - step, 2 + 2 * step, [2 - step, 2]],
      ] as const
    ) {
      const values = vector(dtype, 2000, { low, high });
      assertEquals([...new Set(values)].sort((a, b) => a - b), wanted, `${dtype} [${low}, ${high})`);
    }
  }
  const single = vector("float32", 2000, { low: 1 + 2 ** -25, high: 1 + 2 ** -22 });
  assertEquals([...new Set(single)].sort(), [1 + 2 ** -23], "what would be 1 lies below the range");
  const [tiny] = vector("float32", 1, { low: 2 ** -150, high: 2 ** -148 });
  assertEquals(tiny, 2 ** -149);
});

Deno.test("random: numbers that were in the range are rounded as ever", () => {
  for (const dtype of dtypes.filter((dtype) => !dtypeInfo(dtype).isInteger)) {
    const [low, high] = [-2.5, 7.25];
    const [drawn, unit] = [vector(dtype, 5000, { seed: 3, low, high }), vector(dtype, 5000, { seed: 3 })];
    const rounded = allocate(dtypeInfo(dtype).real, unit.length);
    convert(
      "float64",
      unit.map((u) => low + u * (high - low)) as Float64Array<ArrayBuffer>,
      dtypeInfo(dtype).real,
      rounded,
    );
    const wanted = numbers(dtype, rounded);
    assert(wanted.some((value) => value >= low && value < high));
    wanted.forEach((value, i) => {
      if (value >= low && value < high) assertEquals(drawn[i], value, dtype);
      else assert(drawn[i] >= low && drawn[i] < high, dtype);
    });
  }
});

Deno.test("random: what is refused", () => {
  const source = (dtype: DType, options: Options) => () => randomSource(dtype, options, 0);
  assertThrows(source("float32", { seed: 1.5 }), RangeError, "seed must be a whole number");
  assertThrows(source("float32", { seed: null as unknown as number }), RangeError, "below 2^53, not null");
  assertThrows(source("float32", { low: null as unknown as number }), TypeError, "low must be a number, not null");
  assertThrows(source("int64", { high: 5n as unknown as number }), TypeError, "high must be a number, not 5n");
  assertThrows(source("float32", { low: 1, high: 1 }), RangeError, "low < high");
  assertThrows(source("float32", { low: 0, high: Infinity }), RangeError, "both finite");
  for (
    const [dtype, low, high] of [
      ["float32", 1 + 2 ** -30, 1 + 2 ** -24],
      ["complex64", 1 + 2 ** -30, 1 + 2 ** -24],
      ["float16", 1e5, 2e5],
      ["float32", 1e39, 2e39],
      ["bfloat16", 1.001, 1.002],
      ["float8_e4m3", 449, 1000],
      ["float8_e4m3", -1000, -448],
      ["float8_e5m2", 6e4, 1e5],
      ["float32", -1e300, -(2 ** 128 - 2 ** 104)],
    ] as const
  ) {
    assertThrows(source(dtype, { low, high }), RangeError, `${dtype} has no number from ${low} up to below ${high}`);
  }
  assertThrows(source("int32", { low: 0.5, high: 3 }), DTypeError, "whole bounds");
  assertThrows(source("int8", { low: 0, high: 1000 }), DTypeError, "high up to 127 + 1");
  assertThrows(source("uint8", { low: -1, high: 5 }), DTypeError, "low from 0");
  assertThrows(source("int64", { low: 0, high: 2 ** 60 }), DTypeError, "whole bounds");
});
