/**
 * Scalars that native routines take by address. Each address is taken once, so that a call passes plain integers.
 *
 * @module
 */
import { addressOf } from "../../ffi/memory.ts";
import type { Scalar, TypedArray } from "../dtype/dtype.ts";
import type { AccumulatorDType } from "../dtype/dtype.ts";

/** Numbers in memory that C reads, and where they are. Whoever passes the address keeps the object. */
export interface NativeArgument<T extends TypedArray> {
  /** The numbers; to be changed before a call. */
  readonly values: T;
  readonly address: bigint;
}

function argument<T extends TypedArray>(values: T): NativeArgument<T> {
  return { values, address: addressOf(values) };
}

/** 32-bit integers. */
export function integers(...values: number[]): NativeArgument<Int32Array<ArrayBuffer>> {
  return argument(Int32Array.from(values));
}

/** How BLAS names what is done to a matrix before it is multiplied: nothing, transpose, conjugate transpose. */
export type TransposeCode = "N" | "T" | "C";

/** A character. */
export function character(code: string): NativeArgument<Uint8Array<ArrayBuffer>> {
  return argument(Uint8Array.of(code.charCodeAt(0)));
}

/** A scalar of the accumulator's type; a real one leaves the imaginary part out. */
export type ScalarArgument = NativeArgument<Float32Array<ArrayBuffer> | Float64Array<ArrayBuffer>>;

/** Room for a scalar, with a value to begin with. */
export function scalar(dtype: AccumulatorDType, value: number): ScalarArgument {
  const isDouble = dtype === "float64" || dtype === "complex128";
  return argument(isDouble ? Float64Array.of(value, 0) : Float32Array.of(value, 0));
}

/** Write a scalar, times a real factor. */
export function setScalar({ values }: ScalarArgument, value: Scalar, factor = 1): void {
  if (typeof value === "object") {
    values[0] = value[0] * factor;
    values[1] = value[1] * factor;
  } else {
    values[0] = Number(value) * factor;
    values[1] = 0;
  }
}

/** Whether a scalar adds nothing. */
export function isNothing({ values }: ScalarArgument): boolean {
  return values[0] === 0 && values[1] === 0;
}

/** Whether a scalar is exactly zero. */
export function isZero(value: Scalar): boolean {
  return typeof value === "object" ? value[0] === 0 && value[1] === 0 : Number(value) === 0;
}

/** Whether a scalar is exactly one. */
export function isOne(value: Scalar): boolean {
  return typeof value === "object" ? value[0] === 1 && value[1] === 0 : Number(value) === 1;
}
