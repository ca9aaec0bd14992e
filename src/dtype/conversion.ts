/**
 * Elements of any type as those of another.
 *
 * @module
 */
import { DTypeError } from "../errors.ts";
import { allocate, type DType, dtypeInfo, isNarrowFloat, type TypedArray } from "./dtype.ts";
import { decode, encode, roundToOdd } from "./narrow_floats.ts";

const CHUNK = 4096;
const chunk = new Float64Array(CHUNK);
const narrowChunk = new Float32Array(CHUNK);

/** The numbers of a typed array as float64, exact for all types but int64; complex ones as two numbers each. */
export function toFloat64(dtype: DType, source: TypedArray, target: Float64Array<ArrayBuffer>): void {
  if (dtype === "int64") {
    const halves = halvesOf(source as BigInt64Array<ArrayBuffer>);
    for (let i = 0; i < source.length; i++) target[i] = halves[2 * i + 1] * 2 ** 32 + (halves[2 * i] >>> 0);
  } else if (isNarrowFloat(dtype)) {
    for (let start = 0; start < source.length; start += CHUNK) {
      const end = Math.min(start + CHUNK, source.length);
      target.set(decode(dtype, source.subarray(start, end), narrowChunk).subarray(0, end - start), start);
    }
  } else {
    target.set(source as Float64Array);
  }
}

/** The lower and upper halves of 64-bit integers, without a bigint for each. */
function halvesOf(integers: BigInt64Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  return new Int32Array(integers.buffer, integers.byteOffset, integers.length * 2);
}

/**
 * Integers as float64, to be rounded to a narrower type: whole numbers from 2^53 on lose their last eleven bits, and the
 * next one is set if any of these was ("round to odd"). So what follows rounds as if it had all bits.
 */
function int64ToOdd(source: BigInt64Array<ArrayBuffer>, target: Float64Array<ArrayBuffer>): void {
  const halves = halvesOf(source);
  for (let i = 0; i < source.length; i++) {
    const [lower, upper] = [halves[2 * i], halves[2 * i + 1]];
    const isExact = (lower & 0x7ff) === 0 || upper >= -(2 ** 21) && upper < 2 ** 21;
    target[i] = upper * 2 ** 32 + ((isExact ? lower : lower & ~0x7ff | 0x800) >>> 0);
  }
}

/**
 * Store float64 numbers as elements: rounded to nearest; for integers cut toward zero, kept inside the type's range, NaN
 * as 0.
 */
export function fromFloat64(dtype: DType, source: Float64Array<ArrayBuffer>, target: TypedArray): void {
  if (dtype === "int64") {
    storeInt64(source, target as BigInt64Array<ArrayBuffer>);
  } else if (dtypeInfo(dtype).isInteger) {
    const [low, high] = integerRange(dtype);
    const integers = target as Int32Array;
    for (let i = 0; i < source.length; i++) {
      const value = source[i];
      integers[i] = value < low ? low : value > high ? high : value;
    }
  } else if (isNarrowFloat(dtype) && dtype !== "float16") {
    for (let start = 0; start < source.length; start += CHUNK) {
      const part = source.subarray(start, Math.min(start + CHUNK, source.length));
      const rounded = roundToOdd(part, narrowChunk.subarray(0, part.length));
      encode(dtype, rounded, target.subarray(start, start + part.length));
    }
  } else {
    (target as Float64Array).set(source);
  }
}

/** The smallest and largest value of an integer type that a number can hold. */
export function integerRange(dtype: DType): readonly [number, number] {
  switch (dtype) {
    case "int8":
      return [-128, 127];
    case "uint8":
      return [0, 255];
    case "int32":
      return [-(2 ** 31), 2 ** 31 - 1];
    default:
      return [-(2 ** 63), 2 ** 63];
  }
}

/** Without a bigint for each element: by its two halves. */
function storeInt64(source: Float64Array, target: BigInt64Array<ArrayBuffer>): void {
  const halves = halvesOf(target);
  for (let i = 0; i < source.length; i++) {
    const value = Math.trunc(source[i]);
    if (value >= 2 ** 63) target[i] = 2n ** 63n - 1n;
    else if (value < -(2 ** 63)) target[i] = -(2n ** 63n);
    else {
      halves[2 * i] = value;
      halves[2 * i + 1] = Math.floor(value / 2 ** 32);
    }
  }
}

/**
 * Convert elements from one type to another; the arrays are flat and hold equally many elements.
 *
 * To floating-point types values are rounded once, to nearest, ties to even. To integers they are cut toward zero and kept
 * inside the type's range, NaN becomes 0. Real becomes complex with a zero imaginary part.
 *
 * @throws {DTypeError} from complex to real, which would drop the imaginary parts.
 */
export function convert(from: DType, source: TypedArray, to: DType, target: TypedArray): void {
  const [fromInfo, toInfo] = [dtypeInfo(from), dtypeInfo(to)];
  checkConvertible(from, to);
  if (from === to) {
    (target as Float64Array).set(source as Float64Array);
  } else if (fromInfo.parts < toInfo.parts) {
    const real = allocate(toInfo.real, source.length);
    convert(from, source, toInfo.real, real);
    spread(real as Float64Array, target as Float64Array);
  } else if (to === "float32" && isNarrowFloat(from)) {
    decode(from, source, target as Float32Array<ArrayBuffer>);
  } else if (from === "float32" && isNarrowFloat(to)) {
    encode(to, source as Float32Array<ArrayBuffer>, target);
  } else {
    for (let start = 0; start < source.length; start += CHUNK) {
      const part = source.subarray(start, Math.min(start + CHUNK, source.length));
      const values = chunk.subarray(0, part.length);
      if (from === "int64" && to !== "float64") int64ToOdd(part as BigInt64Array<ArrayBuffer>, values);
      else toFloat64(fromInfo.real, part, values);
      fromFloat64(toInfo.real, values, target.subarray(start, start + part.length));
    }
  }
}

/**
 * Refuse conversions that would drop imaginary parts.
 *
 * @throws {DTypeError} from complex to real.
 */
export function checkConvertible(from: DType, to: DType): void {
  if (dtypeInfo(from).isComplex && !dtypeInfo(to).isComplex) {
    throw new DTypeError(
      `${from} does not convert to ${to}: imaginary parts would be lost. Convert to complex64 or complex128.`,
    );
  }
}

function spread(real: Float64Array, complex: Float64Array): void {
  complex.fill(0);
  for (let i = 0; i < real.length; i++) complex[2 * i] = real[i];
}
