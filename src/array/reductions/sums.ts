/**
 * Sums that do not depend on the number of ranks or the order of the elements.
 *
 * Each value is cut into slices at places that follow from the largest magnitude and the number of values. The slices of all
 * values at one place add up without any rounding, in whatever order; only the sum of the few sums of slices is rounded, once.
 * Four slices hold all bits of all values, but of those that are smaller than the largest by thirty orders of magnitude or so.
 * (Demmel and Hida's, Rump's and others' error-free extraction.)
 *
 * @module
 */
import type { Accumulation, Elements, Part } from "../elementwise/loops.ts";
import { accumulate } from "../elementwise/execution.ts";
import { apply, cast, type Expression, operand } from "../elementwise/expression.ts";
import { roundedSum } from "../elementwise/rounded_sum.ts";
import { combineExtremes } from "../extremes.ts";
import { sizeOfShape } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { ANY, cuttingAndMeasuring, reachOf, type Sizes, sizesOf } from "./device_slices.ts";
import { type Extent, SLICES, sumCompiled, type Terms } from "./exact_sums.ts";
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
  const make = (length: number) =>
    Array.from({ length: 1 + SLICES }, () => length === 0 ? none : new Float64Array(length));
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

/** What all ranks have of extremes. Collective, unless each rank has all. */
export function extremesOfAll(
  plan: ReductionPlan,
  op: "max" | "min",
  own: Float64Array<ArrayBuffer>,
  whole: Float64Array<ArrayBuffer>,
): Float64Array<ArrayBuffer> {
  whole.fill(op === "max" ? -Infinity : Infinity);
  return together(plan, own, whole, (all) => combineExtremes(plan.runtime.communicator, op, all));
}

/** What may be known of a sum beforehand. */
export interface Known {
  /** A magnitude that no value exceeds. */
  readonly bound?: number;
  /** Whether the slices are in the memory already. */
  readonly isCut?: boolean;
  /** What of the elements of an array is added, if the expression is that. */
  readonly terms?: Terms;
}

/**
 * The sums of a real expression of `parts`, the first of which is the array that is reduced. Collective, unless each rank has
 * all elements of its results. Returns memory of `memory`: this rank's results if they are its own, or all.
 */
export function sumOf(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  memory: SumMemory,
  { bound, isCut = false, terms }: Known = {},
): Float64Array<ArrayBuffer> {
  const real: Expression = { kind: "cast", dtype: "float64", of: expression };
  const [bounds, ...slices] = memory.own;
  const [wholeBounds, ...wholeSlices] = memory.whole;
  const bits = bitsFor(plan);
  let largest: Float64Array<ArrayBuffer>;
  let guess: Guess | null = null;
  if (bound === undefined) {
    guess = sumByGuess(plan, real, parts, shape, memory, bits, terms);
    if (guess === null) extremes(plan, apply("abs", real), parts, shape, "max", bounds);
    largest = extremesOfAll(plan, "max", bounds, wholeBounds);
  } else {
    bounds.fill(bound);
    largest = plan.isLocal ? bounds : wholeBounds.fill(bound);
  }
  const summed = (scale: number): Float64Array<ArrayBuffer> => {
    const cuts = ownPart(plan, largest, bounds);
    for (let i = 0; i < cuts.length; i++) cuts[i] = cutOf(cuts[i] * scale, bits);
    const own = [...parts, elementsOf(plan, cuts)];
    const accumulators = slices.map((slice) => elementsOf(plan, slice));
    const cut = cutting(own.length - 1, 2 ** (bits - BITS), scale);
    const isThere = isCut || guess !== null && scale === 1 && guess(cuts[0]);
    if (!isThere) inStep(plan, () => accumulate(real, own, accumulators, shape, cut));
    const totals = slices.map((slice, i) =>
      together(
        plan,
        slice,
        wholeSlices[i].fill(0),
        (all) => void plan.runtime.communicator.allReduce(all, { into: all }),
      )
    );
    const [first, second, third, fourth] = totals;
    for (let i = 0; i < first.length; i++) {
      // Infinite and undefined values are not cut: all of them is in the first slice.
      const hasSlices = largest[i] > 0 && largest[i] < Infinity;
      first[i] = (hasSlices ? roundedSum(first[i], second[i], third[i], fourth[i]) : first[i]) / scale;
    }
    return first;
  };
  // What stands beside an infinite value may be large, too.
  const isLarge = (value: number) => value > LARGE;
  if (!largest.some(isLarge)) return summed(1);
  if (largest.every((value) => isLarge(value) || value === 0)) return summed(SCALE);
  // What is small would be lost by the scale of other results.
  const known = largest.slice();
  const large = summed(SCALE).slice();
  largest.set(known);
  const results = summed(1);
  for (let i = 0; i < results.length; i++) if (isLarge(known[i])) results[i] = large[i];
  return results;
}

/** How many bits as many values as there are may add to a slice. */
export function bitsFor({ count }: ReductionPlan): number {
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

/**
 * Whether there is one sum, of so many values that a sample is worth it. Ranks of GPUs that go on together agree on each step
 * (see inStep), so that none may take a step more than others.
 */
function isWorthAGuess({ stream, size, isLocal }: ReductionPlan, shape: readonly number[]): boolean {
  return size === 1 && (stream === null || isLocal) && sizeOfShape(shape) >= WORTH_A_GUESS * SAMPLE;
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
  const larger = (value: string) => `a${SLICES} = ${value} > a${SLICES} ? ${value} : a${SLICES};`;
  accumulate(
    expression,
    [...parts, elementsOf(plan, Float64Array.of(cut))],
    [...slices, sizes].map((memory) => elementsOf(plan, memory)),
    shape,
    {
      start: [...start, 0],
      take: ([value]) => `${take([value])} const size = ${size(value)}; ${larger("size")}`,
      merge: (others) => `${merge(others.slice(0, SLICES))} ${larger(others[SLICES])}`,
      isAnyOrder: true,
    },
  );
  return Number.isFinite(slices[0][0]);
}

/** Given where values are cut, whether the slices that were made before this was known are right; they are then so cut. */
type Guess = (cut: number) => boolean;

/**
 * Cut and add this rank's values, and take their bound, all in one pass: a sample tells where they are probably to be cut. Null
 * if it was not worth it, or a value is not finite.
 */
function sumByGuess(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  memory: SumMemory,
  bits: number,
  terms: Terms | undefined,
): Guess | null {
  if (!isWorthAGuess(plan, shape)) return null;
  const [bounds, ...slices] = memory.own;
  extremes(plan, apply("abs", expression), parts, sampleOf(shape), "max", bounds);
  if (!(bounds[0] > 0 && bounds[0] <= LARGE)) return null;
  const most = powerAbove(bounds[0]) * MARGIN;
  const cutter = [...parts, elementsOf(plan, Float64Array.of(cutOf(most, bits)))];
  const extent = plan.stream !== null
    ? sumAndMeasure(plan, expression, cutter, shape, memory, sizesOf(parts[0] as Elements, terms), "values")
    : terms === undefined
    ? null
    : sumCompiled(parts[0] as Elements, shape, terms, most, bits, slices);
  if (extent !== null) {
    bounds[0] = extent.largest;
    return (cut) => recut(slices, extent.smallest, 1, cut, bits);
  }
  if (plan.stream !== null) return null;
  // Right if the bound of all leads to the same cut.
  const guess = cutOf(bounds[0], bits);
  const size = (value: string) => `Math.abs(${value})`;
  const isFinite = cutAndMeasure(plan, expression, parts, shape, memory, { cut: guess, bits, size });
  return isFinite ? (cut) => cut === guess : null;
}

/**
 * Add the values of an expression on a GPU into slices whose cut is the last of `parts`. Returns between which sizes they are, of
 * squares the roots; null if the slices may lack bits.
 */
function sumAndMeasure(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  { own: [, ...slices] }: SumMemory,
  sizes: Sizes,
  terms: "values" | "squares",
): Extent | null {
  const bits = bitsFor(plan);
  const [cut] = (parts.at(-1) as Elements).storage as Float64Array;
  const [most, least] = [new Float64Array(1), new Float64Array(1)];
  const targets = [...slices.slice(0, sizes.slices), most, least].map((memory) => elementsOf(plan, memory));
  const measure = cuttingAndMeasuring(parts.length - 1, bits, sizes, (value) => `Math.abs(${value})`);
  slices.forEach((slice) => slice.fill(0));
  inStep(plan, () => accumulate(expression, parts, targets, shape, measure));
  if (!(most[0] <= cut * 2 ** -bits && least[0] >= cut * reachOf(bits, sizes))) return null;
  const [largest, smallest] = [most[0], least[0]];
  return terms === "values" ? { largest, smallest } : { largest: Math.sqrt(largest), smallest: Math.sqrt(smallest) };
}

/** How many times as large as those of a sample values may be. */
export const MARGIN = 8;

/**
 * Cut slices anew, whose sum times `factor`, a power of two, is exact. Whether all terms that they are of have no bits below the
 * last new cut, the smallest being `smallest`.
 */
function recut(
  slices: readonly Float64Array<ArrayBuffer>[],
  smallest: number,
  factor: number,
  cut: number,
  bits: number,
): boolean {
  if (cut === 0) return true;
  const next = 2 ** (bits - BITS);
  if (smallest * factor < cut * next ** (SLICES - 1)) return false;
  const cuts = slices.map((_, i) => cut * next ** i);
  const values = slices.map(([slice]) => slice * factor);
  slices.forEach((slice) => slice[0] = 0);
  for (const value of values) {
    let left = value;
    slices.forEach((slice, i) => {
      const part = (cuts[i] + left) - cuts[i];
      slice[0] += part;
      left -= part;
    });
  }
  return true;
}

/** Magnitudes from this one on are about 1 in their unit; those below, of which there are few numbers, are less. */
export const LEAST_IN_UNITS = 2 ** -1000;

/** The unit in which magnitudes up to this one are squared, as a factor: they neither overflow nor underflow then. */
export function unitOf(largest: number): number {
  // The power above the largest numbers is none of them.
  return largest > 0 && largest < Infinity ? Math.min(0.5 / powerAbove(largest / 2), 1 / LEAST_IN_UNITS) : 1;
}

/** The squares of a part's elements in a unit, operand 1. */
export function squaresOf(magnitude: Expression): Expression {
  return apply("square", apply("multiply", cast("float64", magnitude), operand(1)));
}

/** Magnitudes whose squares, those of all that counts beside them, and sums of these are in the range of float64. */
const SQUARABLE = 2 ** 300;

/**
 * As {@linkcode sumByGuess}, of the squares of floats; the largest magnitude is in the first of the memory. In which unit they
 * are to be is known when the largest of all is: what is returned takes it.
 */
export function squaresByGuess(
  plan: ReductionPlan,
  magnitude: Expression,
  local: LocalArray,
  memory: SumMemory,
): Guess | null {
  const { shape, dtype } = local;
  const { stream } = plan;
  if (!isWorthAGuess(plan, shape) || stream === null && dtype !== "float64" && dtype !== "float32") return null;
  const [bounds, ...slices] = memory.own;
  extremes(plan, magnitude, [local], sampleOf(shape), "max", bounds);
  const bits = bitsFor(plan);
  const unit = unitOf(bounds[0]);
  if (bounds[0] > 1 / SQUARABLE && bounds[0] < SQUARABLE) {
    const most = powerAbove(bounds[0]) * MARGIN;
    const cutter = [local, elementsOf(plan, Float64Array.of(cutOf(most ** 2, bits)))];
    const squares = apply("square", cast("float64", magnitude));
    const extent = stream === null
      ? sumCompiled(local, shape, "squares", most, bits, slices)
      : sumAndMeasure(plan, squares, cutter, shape, memory, ANY, "squares");
    if (extent !== null) {
      const { largest, smallest } = extent;
      bounds[0] = largest;
      const isSafe = smallest > 1 / SQUARABLE;
      return (unit) =>
        isSafe && unit < SQUARABLE && unit > 1 / SQUARABLE &&
        recut(slices, (smallest * unit) ** 2, unit ** 2, cutOf(1, bits), bits);
    }
  }
  if (stream !== null) return null;
  const parts = [local, elementsOf(plan, Float64Array.of(unit))];
  const guess = { cut: cutOf(1, bits), bits, size: () => "Math.abs(x0)" };
  const isFinite = cutAndMeasure(plan, squaresOf(magnitude), parts, shape, memory, guess);
  return isFinite ? (known) => known === unit : null;
}

/** Cuts a value into slices: what adding the cut, operand `at`, leaves of it; then the same of the rest. */
function cutting(at: number, next: number, scale: number): Accumulation {
  const slices = Array.from({ length: SLICES }, (_, i) => `
    ${i === 0 ? "" : `const y${i} = y${i - 1} - q${i - 1}; const c${i} = c${i - 1} * ${next};`}
    const q${i} = (c${i} + y${i}) - c${i}; a${i} += q${i};`);
  return {
    start: slices.map(() => 0),
    take: ([value]) =>
      `const c0 = x${at}; const y0 = ${scale === 1 ? value : `${value} * ${scale}`};${slices.join("")}`,
    merge: (others) => others.map((other, i) => `a${i} += ${other};`).join(" "),
    isAnyOrder: true,
  };
}
