/**
 * Single elements as JavaScript's values.
 *
 * @module
 */
import { DTypeError } from "../errors.ts";
import { integerRange } from "./conversion.ts";
import { allocate, type DType, dtypeInfo, isNarrowFloat, type Scalar, type TypedArray } from "./dtype.ts";
import { fromFloat32, toFloat32 } from "./narrow_floats.ts";

/**
 * Store one value at element `index` of a typed array; one outside an integer type's range as the nearest inside.
 *
 * @throws {DTypeError} if the value is not of a kind that the dtype takes: a complex one for a real type, a fraction for
 * int64.
 */
export function storeScalar(dtype: DType, array: TypedArray, index: number, value: Scalar): void {
  const { isComplex } = dtypeInfo(dtype);
  if (isComplex) {
    const [re, im] = complexParts(dtype, value);
    array[2 * index] = re;
    array[2 * index + 1] = im;
  } else if (dtype === "int64") {
    array[index] = insideInt64(toBigInt(value));
  } else {
    const real = realNumber(dtype, value);
    array[index] = isNarrowFloat(dtype) && dtype !== "float16" ? fromFloat32(dtype, real) : real;
  }
}

/** The value of element `index` of a typed array. */
export function loadScalar(dtype: DType, array: TypedArray, index: number): Scalar {
  if (dtypeInfo(dtype).isComplex) return [Number(array[2 * index]), Number(array[2 * index + 1])];
  const stored = array[index];
  return isNarrowFloat(dtype) && dtype !== "float16" ? toFloat32(dtype, Number(stored)) : stored;
}

/** A value as an element of a dtype holds it. */
export function roundedTo(dtype: DType, value: Scalar): Scalar {
  const one = allocate(dtype, 1);
  storeScalar(dtype, one, 0, value);
  return loadScalar(dtype, one, 0);
}

/** Whether a value is a complex number, `[re, im]`. */
export function isPair(value: unknown): value is readonly [re: number, im: number] {
  return Array.isArray(value) && value.length === 2 && value.every((part) => typeof part === "number");
}

/** The parts of a value for a complex type; a real one has imaginary part 0. */
export function complexParts(dtype: DType, value: Scalar): readonly [re: number, im: number] {
  if (typeof value === "number") return [value, 0];
  if (isPair(value)) return value;
  throw new DTypeError(`${dtype} takes a number or [re, im], not ${describeValue(value)}.`);
}

/** A value for a real type other than int64; for integers inside the type's range. */
function realNumber(dtype: DType, value: Scalar): number {
  const { isInteger } = dtypeInfo(dtype);
  if (typeof value === "number" || typeof value === "bigint" && isInteger) {
    if (!isInteger) return value as number;
    const [low, high] = integerRange(dtype);
    return Math.min(Math.max(Number(value), low), high);
  }
  throw new DTypeError(`${dtype} takes a number, not ${describeValue(value)}.`);
}

/** The nearest value that int64 holds. */
function insideInt64(value: bigint): bigint {
  return value < -(2n ** 63n) ? -(2n ** 63n) : value >= 2n ** 63n ? 2n ** 63n - 1n : value;
}

/** A value for int64, perhaps outside its range. */
export function toBigInt(value: Scalar): bigint {
  if (typeof value === "bigint") return value;
  if (Number.isInteger(value)) return BigInt(value as number);
  throw new DTypeError(`int64 takes a bigint or a whole number, not ${describeValue(value)}.`);
}

/**
 * Refuse a value that would change when it is stored in an integer type; other types round.
 *
 * @throws {DTypeError} if it is a fraction or NaN.
 * @throws {RangeError} if it lies outside the type's range.
 */
export function checkExact(dtype: DType, value: Scalar): void {
  const { isInteger, itemSize } = dtypeInfo(dtype);
  if (!isInteger || typeof value === "object") return;
  const half = 2n ** BigInt(8 * itemSize - 1);
  const [low, high] = dtype === "uint8" ? [0n, 2n * half - 1n] : [-half, half - 1n];
  const message = `${dtype} takes whole numbers from ${low} to ${high}, not ${String(value)}.`;
  if (typeof value !== "number" && typeof value !== "bigint") throw new DTypeError(message);
  if (value < low || value > high) throw new RangeError(message);
  if (typeof value === "number" && !Number.isInteger(value)) throw new DTypeError(message);
}

function describeValue(value: unknown): string {
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "number" || typeof value === "bigint") return `the ${typeof value} ${value}`;
  return value === null || value === undefined ? String(value) : `a ${typeof value}`;
}
