/** Sums of many numbers on one rank: cut at places that a sample tells, or, where it is wrong, at those of all. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { apply, cast, operand } from "../../../src/array/elementwise/expression.ts";
import { LocalArray } from "../../../src/array/local_array.ts";
import type { ReductionPlan } from "../../../src/array/reductions/plan.ts";
import { squaresByGuess, squaresOf, sumMemory, sumOf, unitOf } from "../../../src/array/reductions/sums.ts";

const N = 2 ** 20 + 77;

/** All elements of a dense vector become one number, on one rank. */
function planFor(array: LocalArray): ReductionPlan {
  const whole = { size: 1, strides: [0] };
  const plan = { ...whole, stream: null, count: array.size, isLocal: true, axes: [0], all: { ...whole, runs: [] } };
  return plan as unknown as ReductionPlan;
}

function sum(array: LocalArray, name: "positive" | "abs" = "positive"): number {
  const plan = planFor(array);
  return sumOf(plan, apply(name, operand(0)), [array], array.shape, sumMemory(plan))[0];
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
    for (const [largest, at, isRight] of [[7, 100, true], [5, N - 1, true], [1e10, N - 1, false]] as const) {
      const array = vector(dtype, (i) => i === at ? largest : 4.2 / (1 + i * 7919 % N));
      array.data[0] = 4.5;
      const [plan, memory, other] = [planFor(array), sumMemory(planFor(array)), sumMemory(planFor(array))];
      const guess = squaresByGuess(plan, magnitude, array, memory);
      assertEquals(memory.own[0][0], largest);
      assertEquals(guess === unitOf(largest), isRight);
      const unit = { storage: Float64Array.of(guess), dtype: "float64", offset: 0, strides: [0] } as const;
      const square = squaresOf(magnitude);
      if (!isRight) continue;
      const wanted = sumOf(plan, square, [array, unit], array.shape, other, 1)[0];
      assertStrictEquals(sumOf(plan, square, [array, unit], array.shape, memory, 1, true)[0], wanted);
    }
    for (const value of [NaN, Infinity]) {
      const array = vector(dtype, (i) => i === N - 1 ? value : 1);
      assertEquals(squaresByGuess(planFor(array), magnitude, array, sumMemory(planFor(array))), 0);
    }
  }
});
