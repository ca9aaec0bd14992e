/**
 * What elements of each dtype are to TypeScript, and which dtype results have.
 *
 * @module
 */
import type { DType, TypedArray } from "./dtype.ts";

/** The dtypes of complex numbers. */
export type ComplexDType = "complex32" | "complex64" | "complex128";

/** The dtypes of integers. */
export type IntegerDType = "int8" | "uint8" | "int32" | "int64";

/** The dtypes of real floats. */
export type FloatDType = Exclude<DType, ComplexDType | IntegerDType>;

/**
 * An element of a dtype as JavaScript sees it: a bigint for int64, a pair for complex numbers, else a number.
 *
 * @example
 * ```ts
 * import type { ElementOf } from "@distmath/distmath";
 *
 * const one: ElementOf<"float32"> = 1;
 * const i: ElementOf<"complex64"> = [0, one];
 * console.log(i);
 * ```
 */
export type ElementOf<D extends DType> = D extends "int64" ? bigint
  : D extends ComplexDType ? readonly [re: number, im: number]
  : number;

/** The typed array that holds elements of a dtype. */
export type DataOf<D extends DType> = D extends "float64" | "complex128" ? Float64Array<ArrayBuffer>
  : D extends "float32" | "complex64" ? Float32Array<ArrayBuffer>
  : D extends "float16" | "complex32" ? Float16Array<ArrayBuffer>
  : D extends "bfloat16" ? Uint16Array<ArrayBuffer>
  : D extends "int8" ? Int8Array<ArrayBuffer>
  : D extends "int32" ? Int32Array<ArrayBuffer>
  : D extends "int64" ? BigInt64Array<ArrayBuffer>
  : Uint8Array<ArrayBuffer>;

/** The dtype that a typed array holds when nothing else is said. */
export type DTypeOfData<T extends TypedArray> = T extends Float64Array ? "float64"
  : T extends Float32Array ? "float32"
  : T extends Float16Array ? "float16"
  : T extends Int32Array ? "int32"
  : T extends Int8Array ? "int8"
  : T extends BigInt64Array ? "int64"
  : T extends Uint8Array ? "uint8"
  : DType;

/** The dtype of magnitudes and parts. */
export type RealOf<D extends DType> = D extends "complex32" ? "float16"
  : D extends "complex64" ? "float32"
  : D extends "complex128" ? "float64"
  : D;

/** The dtype of complex numbers whose parts are as these. */
export type ComplexOf<D extends DType> = D extends ComplexDType ? D
  : D extends "float64" ? "complex128"
  : D extends "float16" ? "complex32"
  : "complex64";

/** The dtype of results of analysis: integers make float64. */
export type FloatOf<D extends DType> = D extends IntegerDType ? "float64" : D;

/** The dtype of sums and products along dimensions: integers make int64. */
export type SumOf<D extends DType> = D extends IntegerDType ? "int64" : D;

/** What two dtypes make together; several where it takes the whole table to say which, all of the same kind of element. */
export type Promoted<A extends DType, B extends DType> = A extends unknown ? B extends unknown ? PromotedOne<A, B>
  : never
  : never;

/** As {@linkcode Promoted}, of single dtypes. */
export type PromotedOne<A extends DType, B extends DType> = [A] extends [B] ? A
  : A extends ComplexDType ? ComplexDType
  : B extends ComplexDType ? ComplexDType
  : A extends FloatDType ? FloatDType
  : B extends FloatDType ? FloatDType
  : A extends "int64" ? A
  : B extends "int64" ? B
  : "int32";

/** What a dtype and a number of the script make: a fraction makes float64 of integers, a pair complex numbers. */
export type PromotedByNumber<D extends DType, S> = S extends readonly unknown[] ? ComplexDType
  : S extends bigint ? D
  : D extends Exclude<IntegerDType, "int64"> ? D | "float64"
  : D;

/** The dtype of an array, or its element beside a number. */
export type PromotedWith<D extends DType, O> = O extends { readonly dtype: infer E extends DType } ? Promoted<D, E>
  : PromotedByNumber<D, O>;

/** The dtype that two operands make, one of which is an array. */
export type PromotedOperands<A, B> = A extends { readonly dtype: infer D extends DType } ? PromotedWith<D, B>
  : B extends { readonly dtype: infer E extends DType } ? PromotedByNumber<E, A>
  : DType;

/** An element of an operand: of an array, or the number itself. */
export type ValueOf<O> = O extends { readonly dtype: infer D extends DType } ? ElementOf<D> : O;

/** The dtype of a part in memory: that of an array, or the usual one of a typed array. */
export type DTypeOfPart<P> = P extends { readonly dtype: infer D extends DType } ? D
  : P extends TypedArray ? DTypeOfData<P>
  : DType;
