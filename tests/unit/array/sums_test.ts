/** Sums of many numbers on one rank: cut at places that a sample tells, or, where it is wrong, at those of all. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { findCompiler } from "../../../ffi/compiler.ts";
import { apply, cast, operand } from "../../../src/array/elementwise/expression.ts";
import { roundedSum } from "../../../src/array/elementwise/rounded_sum.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import type { ReductionPlan } from "../../../src/array/reductions/plan.ts";
import { sumCompiled, type Terms } from "../../../src/array/reductions/exact_sums.ts";
import { squaresByGuess, squaresOf, sumMemory, sumOf, unitOf } from "../../../src/array/reductions/sums.ts";

const N = 2 ** 20 + 77;

/** All elements of a dense vector become one number, on one rank. */
function planFor(array: LocalArray): ReductionPlan {
  const whole = { size: 1, strides: [0] };
  const plan = { ...whole, stream: null, count: array.size, isLocal: true, axes: [0], all: { ...whole, runs: [] } };
  return plan as unknown as ReductionPlan;
}

/** The sum by the ways there are: by the machine's compiler, if there is one, and by those for any expression. */
function sum(array: LocalArray, name: "positive" | "abs" = "positive"): number {
  const plan = planFor(array);
  const by = (known: { terms?: Terms }) =>
    sumOf(plan, apply(name, operand(0)), [array], array.shape, sumMemory(plan), known)[0];
  const [one, other] = [by({ terms: name === "abs" ? "magnitudes" : "values" }), by({})];
  assertEquals(one, other);
  return one;
}

/** The sum of numbers as whole multiples of 2^-1074, rounded once. */
function exactSum(values: Iterable<number>): number {
  const [number, bits] = [new Float64Array(1), new BigUint64Array(1)];
  const view = new DataView(number.buffer);
  let total = 0n;
  for (const value of values) {
    number[0] = value;
    bits[0] = view.getBigUint64(0, true);
    const [exponent, significand] = [bits[0] >> 52n & 0x7ffn, bits[0] & 0xfffffffffffffn];
    const size = exponent === 0n ? significand : (significand | 1n << 52n) << exponent - 1n;
    total += value < 0 ? -size : size;
  }
  // Of more than 53 bits all but 64 become one that says whether there are any: the conversion then rounds as it should.
  const size = total < 0n ? -total : total;
  const spare = BigInt(Math.max(0, size.toString(2).length - 64));
  const kept = size >> spare | (size & (1n << spare) - 1n ? 1n : 0n);
  const rounded = Number(kept) * 2 ** Number(spare > 537n ? spare - 537n : 0n) * 2 ** -537 *
    2 ** (Number(spare > 537n ? 537n : spare) - 537);
  return total < 0n ? -rounded : rounded;
}

function vector(dtype: "float64" | "float32", value: (i: number) => number): LocalArray {
  const array = LocalArray.zeros(dtype, [N]);
  for (let i = 0; i < N; i++) array.data[i] = value(i);
  return array;
}

for (const dtype of ["float64", "float32"] as const) {
  Deno.test(`many numbers are added without rounding, wherever the largest is: ${dtype}`, () => {
    const numbers = vector(dtype, (i) => (i * 7919 % 20011 - 10000) / 1024);
    const exact = (numbers.data as Float64Array).reduce((sum, value) => sum + value, 0);
    assertStrictEquals(sum(numbers), exact);
    for (const at of [0, 5000, N - 1]) {
      const larger = vector(dtype, (i) => i === at ? 3 * 2 ** 20 : numbers.data[i] as number);
      assertStrictEquals(sum(larger), exact - (numbers.data[at] as number) + 3 * 2 ** 20, `${at}`);
    }
    // Fractions that no number of bits holds: whatever the order, and wherever the sample is.
    const fractions = vector(dtype, (i) => 1 / (1 + i * 7919 % N));
    const turned = vector(dtype, (i) => fractions.data[N - 1 - i] as number);
    assertStrictEquals(sum(fractions), sum(turned));
    const doubled = vector("float64", (i) => fractions.data[i] as number);
    assertStrictEquals(sum(fractions), sum(doubled));
  });
}

Deno.test("sums of many numbers that are not finite, or very large, are as of few", () => {
  const some = (value: number, at: number) => vector("float64", (i) => i === at ? value : i % 3 - 1);
  for (const at of [3, N - 2]) {
    assertEquals(sum(some(NaN, at)), NaN);
    assertEquals(sum(some(-Infinity, at)), -Infinity);
    assertEquals(sum(some(2 ** 1023, at)), 2 ** 1023);
  }
  const ends = vector("float64", (i) => i === 5 ? Infinity : i === N - 1 ? -Infinity : 1);
  assertEquals(sum(ends), NaN);
  assertEquals(sum(vector("float64", () => 2 ** 1000)), N * 2 ** 1000);
  assertEquals(sum(vector("float64", () => -0)), 0);
  assertEquals(sum(vector("float64", (i) => i < 20000 ? 0 : -1), "abs"), N - 20000);
});

Deno.test("squares are added in the unit that a sample tells as in one that is known", () => {
  const magnitude = apply("abs", cast("float64", operand(0)));
  for (const dtype of ["float64", "float32"] as const) {
    for (const [largest, at] of [[7, 100], [5, N - 1], [1e10, N - 1], [1e38, 3]] as const) {
      const array = vector(dtype, (i) => i === at ? largest : i === 9 ? 1e-30 : 4.2 / (1 + i * 7919 % N));
      array.data[0] = 4.5;
      const [plan, memory, other] = [planFor(array), sumMemory(planFor(array)), sumMemory(planFor(array))];
      const guess = squaresByGuess(plan, magnitude, array, memory);
      assertEquals(memory.own[0][0], array.data[at]);
      const unit = { storage: Float64Array.of(unitOf(array.data[at] as number)), dtype: "float64" } as const;
      const parts = [array, { ...unit, offset: 0, strides: [0] }];
      const isCut = guess!(unit.storage[0]);
      if (largest < 1e10) assert(isCut);
      const wanted = sumOf(plan, squaresOf(magnitude), parts, array.shape, other, { bound: 1 })[0];
      assertStrictEquals(sumOf(plan, squaresOf(magnitude), parts, array.shape, memory, { bound: 1, isCut })[0], wanted);
    }
    for (const value of [NaN, Infinity]) {
      const array = vector(dtype, (i) => i === N - 1 ? value : 1);
      assertEquals(squaresByGuess(planFor(array), magnitude, array, sumMemory(planFor(array))), null);
    }
  }
});

Deno.test("sums of four numbers are rounded once", () => {
  const cases = [
    [1, 2 ** -53, 2 ** -200, 0],
    [1, 2 ** -53, -(2 ** -200), 0],
    [1, -(2 ** -54), -(2 ** -300), 2 ** -301],
    [1, -1, 2 ** -60, 2 ** -200],
    [2 ** 53, 1, 2 ** -60, -(2 ** -60)],
    [3, 2 ** -52, 2 ** -53, 2 ** -110],
    [0, 0, 0, -5e-324],
  ];
  for (let i = 0; i < 2000; i++) {
    const size = (k: number) => ((i * 7919 + k * 104729) % 2047 - 1023) * 2 ** -((i * (k + 3)) % 61 + 30 * k);
    cases.push([size(0), size(1), size(2), size(3)]);
  }
  for (const [a, b, c, d] of cases) {
    assertStrictEquals(roundedSum(a, b, c, d) + 0, exactSum([a, b, c, d]), `${[a, b, c, d]}`);
  }
});

const hasCompiler = findCompiler() !== null;

Deno.test({
  name:
    "compiled sums hold all bits: values of many sizes, zeros, blocks and ends of lines; or they say that they do not" +
    (hasCompiler ? "" : " (skipped: no compiler)"),
  ignore: !hasCompiler,
  fn: () => {
    // Sizes of a block differ by more than its sums take, or by less.
    const value = (i: number, range: number) => (i % 5 - 2) * (1 + i * 7919 % 104729) * 2 ** -(i * 31 % range);
    for (const dtype of ["float64", "float32"] as const) {
      for (
        const [terms, of] of Object.entries({
          values: (x: number) => x,
          magnitudes: Math.abs,
          squares: (x: number) => x * x,
        })
      ) {
        for (
          const [rows, columns, offset, range] of [[1, 4096, 0, 2], [1, 9001, 1, 37], [3, 4131, 5, 37], [40, 257, 2, 2]]
        ) {
          const array = LocalArray.zeros(dtype, [rows * columns + 8]);
          for (let i = 0; i < array.size; i++) array.data[i] = value(i, range);
          const elements = { storage: array.data, dtype, offset, strides: [columns, 1] };
          const slices = Array.from({ length: 4 }, () => new Float64Array(1));
          const size = [rows, columns];
          const extent = sumCompiled(elements, size, terms as Terms, 2 ** 20, 15, slices)!;
          const used = [...array.data.subarray(offset, offset + rows * columns) as Float64Array];
          const sizes = used.map(Math.abs).filter((size) => size > 0);
          assertEquals(extent, { largest: Math.max(...sizes), smallest: Math.min(...sizes) });
          const [a, b, c, d] = slices.map(([slice]) => slice);
          assertStrictEquals(roundedSum(a, b, c, d), exactSum(used.map(of)), `${dtype} ${terms} ${size}`);
        }
      }
      const ends = (first: number, last: number) => {
        const array = LocalArray.zeros(dtype, [1000]);
        [array.data[0], array.data[999]] = [first, last];
        const slices = Array.from({ length: 4 }, () => new Float64Array(1));
        return sumCompiled(array, [1000], "squares", 2, 10, slices);
      };
      assertEquals(ends(1.5, 3e-38), null);
      assertEquals(ends(1.5, 2.5), null);
      assertEquals(ends(NaN, 1), null);
      assertEquals(ends(1, -Infinity), null);
      assertEquals(ends(0, -0), { largest: 0, smallest: Infinity });
    }
  },
});
