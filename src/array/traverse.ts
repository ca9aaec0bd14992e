/**
 * The elements of a rank's part, one after the other as they lie in memory, with their global indices.
 *
 * @module
 */
import { DTypeError } from "../errors.ts";
import { describe } from "../options.ts";
import type { Range } from "../distribution/mod.ts";
import { fromFloat64, integerRange } from "../dtype/conversion.ts";
import { type DType, dtypeInfo, type Scalar, type TypedArray } from "../dtype/dtype.ts";
import { checkExact, complexParts, toBigInt } from "../dtype/scalar.ts";
import type { Order } from "./layout.ts";

/** A value for each element, given its global index. */
export type ElementFunction = (...index: number[]) => Scalar;

/** A closed form of the global index, which a GPU computes by itself: `(offset + factors[0] i + factors[1] j + …) mod modulus`. */
export interface LinearForm {
  /** One factor for each dimension. */
  readonly factors: readonly number[];
  /** The value at index (0, 0, …); 0 when left out. */
  readonly offset?: number;
  /** Values are taken modulo this; not at all when left out. */
  readonly modulus?: number;
}

/**
 * A linear form with nothing left out (a modulus of 0 for none).
 *
 * @throws {TypeError} if it is none.
 * @throws {RangeError} if it has not one factor a dimension, or numbers that are not finite.
 */
export function checkLinearForm(form: LinearForm, dimensions: number): Required<LinearForm> {
  const { factors, offset = 0, modulus = 0 } = form ?? {};
  if (!Array.isArray(factors)) {
    throw new TypeError(
      `Making an array by its indices takes a function (i, j) => value, or { factors: [1, 10], offset, modulus }; got ${
        describe(form)
      }.`,
    );
  }
  const isWrong = factors.length !== dimensions || ![...factors, offset, modulus].every(Number.isFinite) || modulus < 0;
  if (isWrong) {
    const given = (["factors", "offset", "modulus"] as const).filter((name) => form[name] !== undefined);
    const told = given.map((name) => `${name} ${describe(form[name])}`);
    throw new RangeError(
      `A linear form of ${dimensions} dimensions needs ${dimensions} finite factors, a finite offset and a modulus of at ` +
        `least 0 (for none), not ${told.join(", ")}.`,
    );
  }
  return { factors, offset, modulus };
}

/** Whether all values of a linear form are whole numbers in the range of a dtype; of others than integers always. */
export function holdsForm(dtype: DType, form: Required<LinearForm>, shape: readonly number[]): boolean {
  const { isInteger } = dtypeInfo(dtype);
  const { factors, offset, modulus } = form;
  if (!isInteger) return true;
  if (![...factors, offset, modulus].every(Number.isSafeInteger)) return false;
  const spans = factors.map((factor, d) => factor * Math.max(0, shape[d] - 1));
  const ends = [Math.min, Math.max].map((choose) => spans.reduce((sum, span) => sum + choose(0, span), offset));
  const bounds = modulus === 0 ? ends : [0, modulus - 1];
  const [low, high] = integerRange(dtype);
  return ends.every(Number.isSafeInteger) && bounds.every((bound) => low <= bound && bound <= high);
}

/** A linear form as a function; exact for whole numbers below 2^53, and for all of int64. */
export function linearFunction(
  dtype: DType,
  form: Required<LinearForm>,
  shape: readonly number[],
): ElementFunction {
  const { factors, offset, modulus } = form;
  const areWhole = [...factors, offset, modulus].every(Number.isInteger);
  if (dtype === "int64" && areWhole && !holdsForm(dtype, form, shape)) return largeLinearFunction(form);
  return (...index) => {
    const value = index.reduce((sum, i, dimension) => sum + i * factors[dimension], offset);
    return modulus === 0 ? value : value - Math.floor(value / modulus) * modulus;
  };
}

/** The same of whole numbers of any size. */
function largeLinearFunction(form: Required<LinearForm>): ElementFunction {
  const [offset, modulus, ...factors] = [form.offset, form.modulus, ...form.factors].map(BigInt);
  return (...index) => {
    const value = index.reduce((sum, i, dimension) => sum + BigInt(i) * factors[dimension], offset);
    return modulus === 0n ? value : (value % modulus + modulus) % modulus;
  };
}

/** What a rank holds: ranges of global indices, a list for each dimension. */
export type Ranges = readonly (readonly Range[])[];

/** How many indices a list of ranges has. */
export function countOf(ranges: readonly Range[]): number {
  return ranges.reduce((sum, [start, end]) => sum + end - start, 0);
}

/** The dimension whose neighbours are neighbours in memory. */
export function innerDimension(dimensions: number, order: Order): number {
  return order === "C" ? dimensions - 1 : 0;
}

/**
 * Visit the rows of a part in memory order: the combinations of indices of all dimensions but the inner one. The same
 * array is passed each time, with the inner dimension's entry left at 0.
 */
export function forEachRow(ranges: Ranges, order: Order, visit: (index: number[]) => void): void {
  const dimensions = ranges.length;
  const outer = Array.from({ length: dimensions - 1 }, (_, i) => order === "C" ? i : dimensions - 1 - i);
  const index = new Array<number>(dimensions).fill(0);
  const descend = (depth: number): void => {
    if (depth === outer.length) return visit(index);
    for (const [start, end] of ranges[outer[depth]]) {
      for (let i = start; i < end; i++) {
        index[outer[depth]] = i;
        descend(depth + 1);
      }
    }
  };
  if (ranges.every((list) => list.length > 0)) descend(0);
}

/** Where numbers are written: the data itself if it holds floats of such widths, which rounds as they are stored. */
export type Floats = Float64Array | Float32Array;

/** Rows are collected up to this many numbers before they are converted to the dtype. */
const BATCH = 4096;

/**
 * Fill a dense part from rows of float64 numbers: `writeRow` writes the numbers of a row into a buffer from a position
 * on. `store` brings them into the dtype; `fromFloat64` rounds integers and narrow floats.
 */
export function fillRows(
  dtype: DType,
  data: TypedArray,
  ranges: Ranges,
  order: Order,
  writeRow: (index: number[], buffer: Floats, at: number) => void,
  store = fromFloat64,
): void {
  const { parts, real } = dtypeInfo(dtype);
  const row = countOf(ranges[innerDimension(ranges.length, order)]) * parts;
  if (data instanceof Float64Array || data instanceof Float32Array) {
    let at = 0;
    return forEachRow(ranges, order, (index) => {
      writeRow(index, data, at);
      at += row;
    });
  }
  const buffer = new Float64Array(Math.min(Math.max(row, BATCH), data.length));
  let [filled, flushed] = [0, 0];
  const flush = (): void => {
    store(real, buffer.subarray(0, filled), data.subarray(flushed, flushed + filled));
    flushed += filled;
    filled = 0;
  };
  forEachRow(ranges, order, (index) => {
    if (filled + row > buffer.length) flush();
    writeRow(index, buffer, filled);
    filled += row;
  });
  flush();
}

/**
 * Fill a dense part by a function of the global index, called in memory order.
 *
 * @throws {DTypeError} if it returns what the dtype does not take.
 * @throws {RangeError} if it returns a number outside the range of an integer dtype.
 */
export function fillByFunction(
  dtype: DType,
  data: TypedArray,
  ranges: Ranges,
  order: Order,
  value: ElementFunction,
): void {
  const inner = innerDimension(ranges.length, order);
  const runs = ranges[inner];
  const { isComplex, isInteger } = dtypeInfo(dtype);
  if (dtype === "int64") return fillBigInts(data as BigInt64Array, ranges, order, inner, value);
  const isReversed = order === "F";
  fillRows(dtype, data, ranges, order, (index, buffer, at) => {
    if (isComplex) return writeComplex(dtype, buffer, at, runs, index, inner, value);
    switch (index.length) {
      case 1:
        return write1(dtype, buffer, at, runs, value);
      case 2:
        return isReversed
          ? write2Reversed(dtype, buffer, at, runs, index[1], value)
          : write2(dtype, buffer, at, runs, index[0], value);
      case 3:
        return write3(dtype, buffer, at, runs, index[inner === 0 ? 2 : 0], index[1], isReversed, value);
      default:
        return writeAny(dtype, buffer, at, runs, index, inner, value);
    }
  }, isInteger ? storeExactly : fromFloat64);
}

/** As `fromFloat64`, but numbers that an integer type does not hold are refused. */
function storeExactly(dtype: DType, source: Float64Array<ArrayBuffer>, target: TypedArray): void {
  fromFloat64(dtype, source, target);
  for (let i = 0; i < source.length; i++) if (target[i] !== source[i]) checkExact(dtype, source[i]);
}

function refuseValue(dtype: DType, value: unknown): never {
  throw new DTypeError(`The function must return numbers for ${dtype}, but returned ${describe(value)}.`);
}

// Direct calls f(i, j) cost a fraction of f(...index), so one to three dimensions have their own loops, and each loop a
// single call: a choice between f(i, j) and f(j, i) inside it would keep V8 from inlining f (0.9 instead of 3.6 ns).

function write1(dtype: DType, buffer: Floats, at: number, runs: readonly Range[], f: ElementFunction): void {
  for (const [start, end] of runs) {
    for (let i = start; i < end; i++) {
      const value = f(i);
      if (typeof value !== "number") refuseValue(dtype, value);
      buffer[at++] = value;
    }
  }
}

function write2(
  dtype: DType,
  buffer: Floats,
  at: number,
  runs: readonly Range[],
  outer: number,
  f: ElementFunction,
): void {
  for (const [start, end] of runs) {
    for (let i = start; i < end; i++) {
      const value = f(outer, i);
      if (typeof value !== "number") refuseValue(dtype, value);
      buffer[at++] = value;
    }
  }
}

function write2Reversed(
  dtype: DType,
  buffer: Floats,
  at: number,
  runs: readonly Range[],
  outer: number,
  f: ElementFunction,
): void {
  for (const [start, end] of runs) {
    for (let i = start; i < end; i++) {
      const value = f(i, outer);
      if (typeof value !== "number") refuseValue(dtype, value);
      buffer[at++] = value;
    }
  }
}

function write3(
  dtype: DType,
  buffer: Floats,
  at: number,
  runs: readonly Range[],
  outer: number,
  middle: number,
  isReversed: boolean,
  f: ElementFunction,
): void {
  for (const [start, end] of runs) {
    for (let i = start; i < end; i++) {
      const value = isReversed ? f(i, middle, outer) : f(outer, middle, i);
      if (typeof value !== "number") refuseValue(dtype, value);
      buffer[at++] = value;
    }
  }
}

function writeAny(
  dtype: DType,
  buffer: Floats,
  at: number,
  runs: readonly Range[],
  index: number[],
  inner: number,
  f: ElementFunction,
): void {
  for (const [start, end] of runs) {
    for (let i = start; i < end; i++) {
      index[inner] = i;
      const value = f(...index);
      if (typeof value !== "number") refuseValue(dtype, value);
      buffer[at++] = value;
    }
  }
}

function writeComplex(
  dtype: DType,
  buffer: Floats,
  at: number,
  runs: readonly Range[],
  index: number[],
  inner: number,
  f: ElementFunction,
): void {
  for (const [start, end] of runs) {
    for (let i = start; i < end; i++) {
      index[inner] = i;
      const value = f(...index);
      const [re, im] = typeof value === "number" ? [value, 0] : complexParts(dtype, value);
      buffer[at++] = re;
      buffer[at++] = im;
    }
  }
}

function fillBigInts(data: BigInt64Array, ranges: Ranges, order: Order, inner: number, f: ElementFunction): void {
  let at = 0;
  forEachRow(ranges, order, (index) => {
    for (const [start, end] of ranges[inner]) {
      for (let i = start; i < end; i++) {
        index[inner] = i;
        const value = toBigInt(f(...index));
        data[at] = value;
        if (data[at++] !== value) checkExact("int64", value);
      }
    }
  });
}
