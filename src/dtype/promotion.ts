/**
 * Which dtype the result of two has: the Array API standard's table, and what NumPy adds where the standard is silent.
 *
 * @module
 */
import { DTypeError } from "../errors.ts";
import { describe } from "../options.ts";
import { type DType, dtypeInfo, isNarrowFloat, type Scalar } from "./dtype.ts";
import { checkExact, isPair } from "./scalar.ts";

/**
 * The dtype of the result of an operation on elements of two: the smallest that holds both, as in the Array API standard.
 *
 * The standard leaves an integer with a float open: here as in NumPy, a float that holds all values of an int8 or uint8
 * stays as it is, and int32 and int64 make float64. There is no int16, so that int8 and uint8 make int32. float16 and
 * bfloat16 make float32; the two kinds of float8 make float16. The parts of complex numbers are promoted likewise: complex32
 * with float16 stays as it is, and makes complex64 with bfloat16.
 *
 * @throws {DTypeError} if there is no such dtype.
 *
 * @example
 * ```ts
 * import { promote } from "@distmath/distmath";
 * console.assert(promote("float32", "complex64") === "complex64");
 * console.assert(promote("int32", "float32") === "float64");
 * ```
 */
export function promote(a: DType, b: DType): DType {
  const [one, other] = [dtypeInfo(a), dtypeInfo(b)];
  if (a === b) return a;
  if (one.isComplex || other.isComplex) return complexOf(promote(one.real, other.real));
  if (one.isInteger && other.isInteger) return widerInteger(a, b);
  if (one.isInteger) return withInteger(b, a);
  if (other.isInteger) return withInteger(a, b);
  return widerFloat(a, b);
}

/** The complex dtype whose parts hold a real one. */
export function complexOf(real: DType): DType {
  if (real === "float16" || isFloat8(real)) return "complex32";
  return real === "float64" || real === "int32" || real === "int64" ? "complex128" : "complex64";
}

const INTEGERS: readonly DType[] = ["int8", "uint8", "int32", "int64"];

function widerInteger(a: DType, b: DType): DType {
  const widest = Math.max(INTEGERS.indexOf(a), INTEGERS.indexOf(b));
  return INTEGERS[Math.max(widest, INTEGERS.indexOf("int32"))];
}

function withInteger(float: DType, integer: DType): DType {
  if (integer === "int32" || integer === "int64") return "float64";
  return isFloat8(float) ? "float16" : float;
}

function widerFloat(a: DType, b: DType): DType {
  for (const wide of ["float64", "float32"] as const) if (a === wide || b === wide) return wide;
  if (isFloat8(a) && isFloat8(b)) return "float16";
  if (isFloat8(a)) return b;
  return isFloat8(b) ? a : "float32";
}

function isFloat8(dtype: DType): boolean {
  return isNarrowFloat(dtype) && dtypeInfo(dtype).itemSize === 1;
}

/** A floating-point dtype, real or complex, for what has none: integers make float64. */
export function floatOf(dtype: DType): DType {
  return dtypeInfo(dtype).isInteger ? "float64" : dtype;
}

/**
 * The dtype in which a number of the script meets elements of a dtype: theirs, as the standard has it, if it can. A fraction
 * with integers makes float64, a complex number complex128 of integers, else the complex dtype of theirs.
 *
 * @throws {DTypeError} if the value is no number, or a bigint outside of 53 bits meets floats.
 * @throws {RangeError} if a whole number lies outside the range of an integer dtype.
 */
export function promoteScalar(dtype: DType, value: Scalar): DType {
  const { isInteger, isComplex, real } = dtypeInfo(dtype);
  if (isPair(value)) return isComplex ? dtype : isInteger ? "complex128" : complexOf(real);
  if (typeof value !== "number" && typeof value !== "bigint") {
    throw new DTypeError(
      `An operand must be a DistributedArray, a number, a bigint or [re, im], not ${describe(value)}.`,
    );
  }
  if (!isInteger) {
    if (typeof value === "number") return dtype;
    const float = Number(value);
    if (Number.isFinite(float) && BigInt(float) === value) return dtype;
    throw new DTypeError(`${value}n is not exact as a float, which it would become beside ${dtype}. Pass Number(…).`);
  }
  if (typeof value === "number" && !Number.isInteger(value)) return "float64";
  checkExact(dtype, value);
  return dtype;
}

/** The dtype of a number of the script among others: what NumPy makes of it. */
export function dtypeOfScalar(value: Scalar): DType {
  if (isPair(value)) return "complex128";
  return typeof value === "bigint" ? "int64" : "float64";
}
