/**
 * Sums that do not depend on the number of ranks or the order of the elements.
 *
 * Each value is cut into slices at places that follow from the largest magnitude and the number of values. The slices of all
 * values at one place add up without any rounding, in whatever order; only the few sums of slices are rounded, in the end. With
 * three slices that is far more accurate than adding in float64. (Demmel and Hida's, Rump's and others' error-free extraction.)
 *
 * @module
 */
import type { Accumulation, Part } from "../elementwise/loops.ts";
import { accumulate } from "../elementwise/execution.ts";
import { apply, cast, type Expression, operand } from "../elementwise/expression.ts";
import { sizeOfShape } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { elementsOf, inStep, ownPart, type ReductionPlan, together } from "./plan.ts";

/** Bits of a float64's significand. */
const BITS = 53;

/** Above this bound values are scaled, so that adding to their number of slices does not overflow. */
const LARGE = 2 ** 900;
const SCALE = 2 ** -128;

const number = new Float64Array(1);
const words = new Uint32Array(number.buffer);

/** The smallest power of two that is not below a positive number. */
export function powerAbove(x: number): number {
  if (x < 2 ** -1022) return 2 ** Math.ceil(Math.log2(x));
  // The exponent alone: logarithms take a hundred times as long.
  number[0] = x;
  words[0] = 0;
  words[1] &= 0x7ff00000;
  return number[0] < x ? number[0] * 2 : number[0];
}

/** The memory of one sum: for the slices, and for what all ranks have of them. */
export interface SumMemory {
  readonly own: readonly Float64Array<ArrayBuffer>[];
  readonly whole: readonly Float64Array<ArrayBuffer>[];
}

const none = new Float64Array(0);

/** Memory for a sum. */
export function sumMemory({ size, isLocal, all }: ReductionPlan): SumMemory {
  const make = (length: number) => Array.from({ length: 4 }, () => length === 0 ? none : new Float64Array(length));
  return { own: make(size), whole: make(isLocal ? 0 : all.size) };
}

/** Keeps the better of two values; NaN stays. */
export function better(op: "max" | "min"): Accumulation {
  const take = ([value]: readonly string[]) =>
    `if (!(${value} ${op === "max" ? "<=" : ">="} a0)) a0 = a0 !== a0 ? a0 : ${value};`;
  return { start: [op === "max" ? -Infinity : Infinity], take, merge: take, isAnyOrder: true, isChoice: true };
}

/** Take the extreme of an expression's values on this rank; NaN if any is. Local, but for {@linkcode inStep}. */
export function extremes(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  op: "max" | "min",
  into: Float64Array<ArrayBuffer>,
): void {
  inStep(plan, () => accumulate(expression, parts, [elementsOf(plan, into)], shape, better(op)));
}

/** The largest magnitude of a part's elements; NaN if one is. Local. */
export function largest(local: LocalArray): number {
  const most = new Float64Array(1);
  const target = { storage: most, dtype: "float64", offset: 0, strides: local.shape.map(() => 0) } as const;
  accumulate(apply("abs", operand(0)), [local], [target], local.shape, better("max"));
  return Math.max(0, most[0]);
}

/**
 * What all ranks have of extremes. Collective, unless each rank has all.
 *
 * MPI does not promise that a NaN gets through a comparison of floats: their bits are compared, as integers in the same order.
 */
export function extremesOfAll(
  plan: ReductionPlan,
  op: "max" | "min",
  own: Float64Array<ArrayBuffer>,
  whole: Float64Array<ArrayBuffer>,
): Float64Array<ArrayBuffer> {
  whole.fill(op === "max" ? -Infinity : Infinity);
  return together(plan, own, whole, (all) => {
    const integers = new BigInt64Array(all.buffer, all.byteOffset, all.length);
    const halves = new Int32Array(all.buffer, all.byteOffset, 2 * all.length);
    for (let i = 0; i < all.length; i++) {
      if (all[i] === all[i]) continue;
      halves[2 * i] = 0;
      halves[2 * i + 1] = op === "max" ? POSITIVE_NAN : NEGATIVE_NAN;
    }
    turnNegative(halves);
    plan.runtime.communicator.allReduce(integers, { op, into: integers });
    turnNegative(halves);
  });
}

/** Upper halves of NaNs: above Infinity, and below -Infinity. */
const POSITIVE_NAN = 0x7ff80000;
const NEGATIVE_NAN = 0xfff80000 | 0;

/** From the bits of floats to integers in their order, and back: the lower bits of negative ones count the other way. */
function turnNegative(halves: Int32Array): void {
  for (let i = 0; i < halves.length; i += 2) {
    if (halves[i + 1] >= 0) continue;
    halves[i] = ~halves[i];
    halves[i + 1] ^= 0x7fffffff;
  }
}

/**
 * The sums of a real expression of `parts`, the first of which is the array that is reduced. Collective, unless each rank has
 * all elements of its results. `bound` is a magnitude that no value exceeds, if one is known; `isCut` says that the slices are in
 * the memory already. Returns memory of `memory`: this rank's results if they are its own, or all.
 */
export function sumOf(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  memory: SumMemory,
  bound?: number,
  isCut = false,
): Float64Array<ArrayBuffer> {
  const real: Expression = { kind: "cast", dtype: "float64", of: expression };
  const [bounds, ...slices] = memory.own;
  const [wholeBounds, ...wholeSlices] = memory.whole;
  const bits = bitsFor(plan);
  let largest: Float64Array<ArrayBuffer>;
  let guess = 0;
  if (bound === undefined) {
    guess = sumByGuess(plan, real, parts, shape, memory, bits);
    if (guess === 0) extremes(plan, apply("abs", real), parts, shape, "max", bounds);
    largest = extremesOfAll(plan, "max", bounds, wholeBounds);
  } else {
    bounds.fill(bound);
    largest = plan.isLocal ? bounds : wholeBounds.fill(bound);
  }
  // What stands beside an infinite value may be large, too.
  const isLarge = largest.some((value) => value > LARGE);
  const scale = isLarge ? SCALE : 1;
  const cuts = ownPart(plan, largest, bounds);
  for (let i = 0; i < cuts.length; i++) cuts[i] = cutOf(cuts[i] * scale, bits);
  const own = [...parts, elementsOf(plan, cuts)];
  const accumulators = slices.map((slice) => elementsOf(plan, slice));
  const cut = cutting(own.length - 1, 2 ** (bits - BITS), scale);
  const isThere = isCut || guess > 0 && cuts[0] === guess && !isLarge;
  if (!isThere) inStep(plan, () => accumulate(real, own, accumulators, shape, cut));
  const totals = slices.map((slice, i) =>
    together(plan, slice, wholeSlices[i].fill(0), (all) => void plan.runtime.communicator.allReduce(all, { into: all }))
  );
  const [first, second, third] = totals;
  for (let i = 0; i < first.length; i++) {
    // Infinite and undefined values are not cut: all of them is in the first slice.
    const hasSlices = largest[i] > 0 && largest[i] < Infinity;
    first[i] = (hasSlices ? first[i] + second[i] + third[i] : first[i]) / scale;
  }
  return first;
}

/** How many bits as many values as there are may add to a slice. */
function bitsFor({ count }: ReductionPlan): number {
  return Math.ceil(Math.log2(count + 2));
}

/** From a bound to the number whose addition cuts at the right place; 0 if nothing is to be cut. */
function cutOf(bound: number, bits: number): number {
  return bound > 0 && bound < Infinity ? powerAbove(bound) * 2 ** bits : 0;
}

/** Elements that a guess is made from, and how many times as many make it worth its while. */
const SAMPLE = 16384;
const WORTH_A_GUESS = 64;

/** Some indices of an array, as many along the last dimensions as there are. */
function sampleOf(shape: readonly number[]): number[] {
  let left = SAMPLE;
  return shape.toReversed().map((extent) => {
    const taken = Math.min(extent, Math.max(1, left));
    left = Math.floor(left / taken);
    return taken;
  }).toReversed();
}

/** Whether there is one sum of so many values in host memory that a sample is worth it. */
function isWorthAGuess({ stream, size }: ReductionPlan, shape: readonly number[]): boolean {
  return stream === null && size === 1 && sizeOfShape(shape) >= WORTH_A_GUESS * SAMPLE;
}

/**
 * Cut this rank's values at a place and add the slices, and take the largest `size`, code of a positive number, in the same pass.
 * Whether the sum is finite.
 */
function cutAndMeasure(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  { own: [sizes, ...slices] }: SumMemory,
  { cut, bits, size }: { cut: number; bits: number; size: (value: string) => string },
): boolean {
  const { start, take, merge } = cutting(parts.length, 2 ** (bits - BITS), 1);
  const larger = (value: string) => `a3 = ${value} > a3 ? ${value} : a3;`;
  accumulate(
    expression,
    [...parts, elementsOf(plan, Float64Array.of(cut))],
    [...slices, sizes].map((memory) => elementsOf(plan, memory)),
    shape,
    {
      start: [...start, 0],
      take: ([value]) => `${take([value])} const size = ${size(value)}; ${larger("size")}`,
      merge: (others) => `${merge(others.slice(0, 3))} ${larger(others[3])}`,
      isAnyOrder: true,
    },
  );
  return Number.isFinite(slices[0][0]);
}

/**
 * Cut and add this rank's values, and take their bound, all in one pass: a sample tells where they are probably to be cut. It is
 * right if the bound of all leads to the same cut. Returns the cut; 0 if it was not worth it, or a value is not finite.
 */
function sumByGuess(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  memory: SumMemory,
  bits: number,
): number {
  if (!isWorthAGuess(plan, shape)) return 0;
  const [bounds] = memory.own;
  extremes(plan, apply("abs", expression), parts, sampleOf(shape), "max", bounds);
  const cut = bounds[0] > LARGE ? 0 : cutOf(bounds[0], bits);
  const size = (value: string) => `Math.abs(${value})`;
  return cut > 0 && cutAndMeasure(plan, expression, parts, shape, memory, { cut, bits, size }) ? cut : 0;
}

/** The unit in which magnitudes up to this one are squared, as a factor: they neither overflow nor underflow then. */
export function unitOf(largest: number): number {
  return largest > 0 && largest < Infinity ? Math.min(1 / powerAbove(largest), 2 ** 1000) : 1;
}

/** The squares of a part's elements in a unit, operand 1. */
export function squaresOf(magnitude: Expression): Expression {
  return apply("square", apply("multiply", cast("float64", magnitude), operand(1)));
}

/**
 * As {@linkcode sumByGuess}, of the squares of floats in a unit that a sample tells; the largest magnitude is in the first of
 * the memory. Returns the unit.
 */
export function squaresByGuess(
  plan: ReductionPlan,
  magnitude: Expression,
  local: LocalArray,
  memory: SumMemory,
): number {
  const { shape, dtype } = local;
  if (!isWorthAGuess(plan, shape) || dtype !== "float64" && dtype !== "float32") return 0;
  extremes(plan, magnitude, [local], sampleOf(shape), "max", memory.own[0]);
  const unit = unitOf(memory.own[0][0]);
  const parts = [local, elementsOf(plan, Float64Array.of(unit))];
  const bits = bitsFor(plan);
  const guess = { cut: cutOf(1, bits), bits, size: () => "Math.abs(x0)" };
  return cutAndMeasure(plan, squaresOf(magnitude), parts, shape, memory, guess) ? unit : 0;
}

/** Cuts a value into three slices: what adding the cut, operand `at`, leaves of it; then the same of the rest. */
function cutting(at: number, next: number, scale: number): Accumulation {
  return {
    start: [0, 0, 0],
    take: ([value]) => `
    const y0 = ${scale === 1 ? value : `${value} * ${scale}`};
    const q0 = (x${at} + y0) - x${at}; a0 += q0;
    const y1 = y0 - q0; const c1 = x${at} * ${next}; const q1 = (c1 + y1) - c1; a1 += q1;
    const y2 = y1 - q1; const c2 = c1 * ${next}; const q2 = (c2 + y2) - c2; a2 += q2;`,
    merge: (others) => others.map((other, i) => `a${i} += ${other};`).join(" "),
    isAnyOrder: true,
  };
}
