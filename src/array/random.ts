/**
 * Random numbers that depend only on a seed and the element's place in the global array: the same array on any number
 * of ranks, in any distribution and memory order.
 *
 * Each element's number is a hash of (seed, index): the index, counted in C order, goes through rounds of
 * multiplication and shifted exclusive or (the constants are those of Wellons' `triple32`), with words derived from the
 * seed added before and between the rounds.
 *
 * @module
 */
import { DTypeError } from "../errors.ts";
import { describe, keysOf } from "../options.ts";
import { largestBelow, smallestFrom } from "../dtype/bounds.ts";
import { integerRange } from "../dtype/conversion.ts";
import { type DType, dtypeInfo, type TypedArray } from "../dtype/dtype.ts";
import { type Order, stridesOf } from "./layout.ts";
import { fillRows, type Floats, innerDimension, type Ranges } from "./traverse.ts";

/** What random numbers are drawn from. */
export interface RandomOptions {
  /** Any whole number; by default the number of this call, so that each array of a program differs. */
  seed?: number;
  /** The start of the range; 0 by default. */
  low?: number;
  /** The end of the range, itself excluded; 1 by default, 100 for integers. */
  high?: number;
}

/** The names of {@linkcode RandomOptions}. */
export const RANDOM_KEYS = keysOf<RandomOptions>({ seed: true, low: true, high: true });

/** Checked options of random numbers. */
export interface RandomSource {
  /** The seed. */
  readonly seed: number;
  /** The least value. */
  readonly low: number;
  /** The end of the range. */
  readonly high: number;
  /** The smallest number of the dtype in the range. */
  readonly least: number;
  /** The largest number of the dtype in the range. */
  readonly most: number;
}

/**
 * Check the options of random numbers and fill in what was left out.
 *
 * @throws {TypeError} if a bound is no number.
 * @throws {RangeError} if the seed is no whole number, or the range is empty, not finite, or between two numbers of the dtype.
 * @throws {DTypeError} if the range does not fit an integer dtype.
 */
export function randomSource(dtype: DType, options: RandomOptions, defaultSeed: number): RandomSource {
  const { isInteger } = dtypeInfo(dtype);
  const { seed = defaultSeed, low = 0, high = isInteger ? 100 : 1 } = options;
  if (!Number.isSafeInteger(seed)) {
    throw new RangeError(`The seed must be a whole number below 2^53, not ${describe(seed)}.`);
  }
  for (const [name, bound] of [["low", low], ["high", high]] as const) {
    if (typeof bound !== "number") throw new TypeError(`${name} must be a number, not ${describe(bound)}.`);
  }
  if (!(low < high && Number.isFinite(high - low))) {
    throw new RangeError(
      `Random numbers need low < high, both finite, as well as high - low, but low is ${low} and high is ${high}.`,
    );
  }
  if (isInteger) {
    const [least, most] = dtype === "int64" ? [Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER] : integerRange(dtype);
    if (!Number.isInteger(low) || !Number.isInteger(high) || low < least || high - 1 > most || high - low > 2 ** 53) {
      throw new DTypeError(
        `Random ${dtype} numbers need whole bounds with low from ${least} and high up to ${most} + 1 and at most 2^53 ` +
          `apart, but low is ${low} and high is ${high}.`,
      );
    }
  }
  const { real } = dtypeInfo(dtype);
  const [least, most] = isInteger ? [low, high - 1] : [smallestFrom(real, low), largestBelow(real, high)];
  if (!(least <= most)) {
    throw new RangeError(
      `${dtype} has no number from ${low} up to below ${high}. Take a wider range, or a wider dtype.`,
    );
  }
  return { seed, low, high, least, most };
}

/** How many random bits a number below 1 may have so that the type holds it exactly, and never rounds it up to 1. */
export const significantBits: Readonly<Record<DType, number>> = {
  float16: 11,
  bfloat16: 8,
  complex32: 11,
  float32: 24,
  complex64: 24,
  float8_e4m3: 4,
  float8_e5m2: 3,
  float64: 53,
  complex128: 53,
  int8: 53,
  uint8: 53,
  int32: 53,
  int64: 53,
};

/** Fill a dense part of a global array of `shape` with uniform random numbers in [low, high). */
export function fillRandom(
  dtype: DType,
  data: TypedArray,
  ranges: Ranges,
  order: Order,
  shape: readonly number[],
  { seed, low, high, least, most }: RandomSource,
): void {
  const { parts, isInteger } = dtypeInfo(dtype);
  const inner = innerDimension(shape.length, order);
  const strides = stridesOf(shape, "C");
  const step = strides[inner] * parts;
  const bits = significantBits[dtype];
  const range = high - low;
  fillRows(dtype, data, ranges, order, (index, buffer, at) => {
    const base = index.reduce((sum, i, dimension) => sum + i * strides[dimension], 0) * parts;
    for (const [start, end] of ranges[inner]) {
      for (let part = 0; part < parts; part++) {
        fillUniform(buffer, at + part, parts, seed, base + start * step + part, step, end - start, bits);
      }
      const stop = at + (end - start) * parts;
      if (isInteger) floorScale(buffer, at, stop, low, range);
      else if (low !== 0 || range !== 1) scale(buffer, at, stop, low, range, least, most);
      at = stop;
    }
  });
}

/** What would be rounded out of the range to a number outside of it is the number of the dtype next to that. */
function scale(
  buffer: Floats,
  at: number,
  end: number,
  low: number,
  range: number,
  least: number,
  most: number,
): void {
  for (; at < end; at++) {
    const value = low + buffer[at] * range;
    buffer[at] = value < least ? least : value > most ? most : value;
  }
}

/** A fraction below 1 with 53 bits, times an integer up to 2^53, never rounds up to that integer. */
function floorScale(buffer: Floats, at: number, end: number, low: number, range: number): void {
  for (; at < end; at++) buffer[at] = low + Math.floor(buffer[at] * range);
}

/** The longest loop whose counter is a 32-bit integer. */
const LONGEST = 2 ** 30;

/** Numbers in [0, 1) of `bits` bits for `count` counters from `first` on, `step` apart. */
function fillUniform(
  buffer: Floats,
  at: number,
  distance: number,
  seed: number,
  first: number,
  step: number,
  count: number,
  bits: number,
): void {
  while (count > 0) {
    // The upper half of the counter goes into the keys, so the inner loop runs up to where it changes.
    const upper = Math.floor(first / 2 ** 32);
    const lower = first - upper * 2 ** 32;
    const length = Math.min(count, LONGEST, Math.ceil((2 ** 32 - lower) / step));
    const keys = keysFor(seed, upper);
    if (bits > 32) fillWide(buffer, at, distance, keys, lower, step, length);
    else fillNarrow(buffer, at, distance, keys, lower, step, length, bits);
    at += length * distance;
    first += length * step;
    count -= length;
  }
}

type Keys = readonly [number, number, number, number];

/** Four words out of the seed and the upper half of a counter. */
function keysFor(seed: number, upper: number): Keys {
  const [low, high] = [seed | 0, Math.floor(seed / 2 ** 32) | 0];
  const key = (n: number): number => mix(mix(mix(low, Math.imul(n, 0x9e3779b9), 0), high, n), upper | 0, n);
  return [key(1), key(2), key(3), key(4)];
}

/** A 32-bit permutation, one for each pair of keys. */
function mix(x: number, before: number, between: number): number {
  x ^= before;
  x = Math.imul(x ^ (x >>> 17), 0xed5ad4bb);
  x = Math.imul((x ^ (x >>> 11)) + between | 0, 0xac4c1b51);
  x = Math.imul(x ^ (x >>> 15), 0x31848bab);
  return x ^ (x >>> 14);
}

/** Up to 32 bits: the upper ones of one hash. */
function fillNarrow(
  buffer: Floats,
  at: number,
  distance: number,
  [before, between]: Keys,
  counter: number,
  step: number,
  count: number,
  bits: number,
): void {
  const shift = 32 - bits;
  const unit = 2 ** -bits;
  // As 32-bit integers, the loop stays free of floating-point arithmetic for its counters.
  const [stop, stride] = [count | 0, step | 0];
  let lower = counter | 0;
  for (let i = 0; i < stop; i++, at += distance, lower = lower + stride | 0) {
    buffer[at] = (mix(lower, before, between) >>> shift) * unit;
  }
}

/**
 * 53 bits out of two hashes. The upper word is the sum of both: one alone would be a permutation of the counter, which
 * never repeats a word.
 */
function fillWide(
  buffer: Floats,
  at: number,
  distance: number,
  [before, between, before2, between2]: Keys,
  counter: number,
  step: number,
  count: number,
): void {
  // As 32-bit integers, the loop stays free of floating-point arithmetic for its counters.
  const [stop, stride] = [count | 0, step | 0];
  let lower = counter | 0;
  for (let i = 0; i < stop; i++, at += distance, lower = lower + stride | 0) {
    const second = mix(lower, before2, between2);
    const upper = mix(lower, before, between) + second;
    buffer[at] = (upper >>> 0) * 2 ** -32 + (second >>> 11) * 2 ** -53;
  }
}
