/**
 * Element types: their table, and the typed arrays that hold them.
 *
 * Complex numbers are interleaved (re, im). bfloat16 and float8 have no typed array in JavaScript: their bits live in
 * `Uint16Array` and `Uint8Array`.
 *
 * @module
 */
import { BLAS_TYPES } from "../../ffi/blas/blas.ts";
import { NcclDataType } from "../../ffi/cuda/nccl.ts";
import { CudaDataType } from "../../ffi/cuda/runtime.ts";
import { preferHugePages } from "../../ffi/memory.ts";
import { DTypeError } from "../errors.ts";
import { describe } from "../options.ts";

/** The names of the element types. Taken out of an object, so that compilers list the names, and do not say "DType". */
export type DType = {
  name:
    | "float16"
    | "bfloat16"
    | "float32"
    | "float64"
    | "complex32"
    | "complex64"
    | "complex128"
    | "float8_e4m3"
    | "float8_e5m2"
    | "int8"
    | "uint8"
    | "int32"
    | "int64";
}["name"];

/** The dtype in which products are summed; alpha, beta and the epilog are computed in it too. */
export type AccumulatorDType = "float32" | "float64" | "complex64" | "complex128";

/** The types that are computed with in float32. */
export type NarrowFloat = "float16" | "bfloat16" | "float8_e4m3" | "float8_e5m2";

/** The typed arrays that hold elements. */
export type TypedArray =
  | Float16Array<ArrayBuffer>
  | Float32Array<ArrayBuffer>
  | Float64Array<ArrayBuffer>
  | Uint16Array<ArrayBuffer>
  | Uint8Array<ArrayBuffer>
  | Int8Array<ArrayBuffer>
  | Int32Array<ArrayBuffer>
  | BigInt64Array<ArrayBuffer>;

/** What makes a {@linkcode TypedArray}. */
export interface TypedArrayConstructor {
  /** Make one of `length` zeros. */
  new (length: number): TypedArray;
  /** Make a view of `length` numbers on a buffer, starting at a byte. */
  new (buffer: ArrayBuffer, byteOffset?: number, length?: number): TypedArray;
  /** Bytes of one number. */
  readonly BYTES_PER_ELEMENT: number;
  /** The class's name. */
  readonly name: string;
}

/** One element as JavaScript sees it: a number, a bigint (int64), or a complex number as `[re, im]`. */
export type Scalar = number | bigint | readonly [re: number, im: number];

/** What there is to know about an element type. */
export interface DTypeInfo {
  /** The name. */
  readonly name: DType;
  /** Bytes of one element. */
  readonly itemSize: number;
  /** Whether an element is a pair (re, im). */
  readonly isComplex: boolean;
  /** Whether elements are integers. */
  readonly isInteger: boolean;
  /** Numbers in the typed array for one element: 2 for complex types, else 1. */
  readonly parts: 1 | 2;
  /** The typed array that holds elements. */
  readonly array: TypedArrayConstructor;
  /** The element type of the parts: itself, or the real type of a complex one. */
  readonly real: DType;
  /** The element type of a part in messages, `null` for bits that MPI has no type for: move them as bytes. */
  readonly mpi: string | null;
  /** `cudaDataType` (library_types.h). */
  readonly cuda: number;
  /** `ncclDataType_t` of a part (nccl.h). */
  readonly nccl: number;
  /** ScaLAPACK's letter for the type. */
  readonly scalapack: "s" | "d" | "c" | "z" | null;
  /** The `descr` of NumPy's file format; `null` if NumPy has no such type. */
  readonly npy: string | null;
}

type Row = readonly [
  array: unknown,
  cuda: CudaDataType,
  nccl: NcclDataType,
  npy: string | null,
  real?: DType,
];

// deno-fmt-ignore
const rows: Record<DType, Row> = {
  float16:     [Float16Array,  CudaDataType.R_16F,     NcclDataType.Float16,    "<f2"],
  bfloat16:    [Uint16Array,   CudaDataType.R_16BF,    NcclDataType.Bfloat16,   null],
  float32:     [Float32Array,  CudaDataType.R_32F,     NcclDataType.Float32,    "<f4"],
  float64:     [Float64Array,  CudaDataType.R_64F,     NcclDataType.Float64,    "<f8"],
  complex32:   [Float16Array,  CudaDataType.C_16F,     NcclDataType.Float16,    null,   "float16"],
  complex64:   [Float32Array,  CudaDataType.C_32F,     NcclDataType.Float32,    "<c8",  "float32"],
  complex128:  [Float64Array,  CudaDataType.C_64F,     NcclDataType.Float64,    "<c16", "float64"],
  float8_e4m3: [Uint8Array,    CudaDataType.R_8F_E4M3, NcclDataType.Float8e4m3, null],
  float8_e5m2: [Uint8Array,    CudaDataType.R_8F_E5M2, NcclDataType.Float8e5m2, null],
  int8:        [Int8Array,     CudaDataType.R_8I,      NcclDataType.Int8,       "|i1"],
  uint8:       [Uint8Array,    CudaDataType.R_8U,      NcclDataType.Uint8,      "|u1"],
  int32:       [Int32Array,    CudaDataType.R_32I,     NcclDataType.Int32,      "<i4"],
  int64:       [BigInt64Array, CudaDataType.R_64I,     NcclDataType.Int64,      "<i8"],
};

const scalapack: { readonly [dtype in DType]?: DTypeInfo["scalapack"] } = BLAS_TYPES;

function describeRow(name: DType, [constructor, cuda, nccl, npy, real = name]: Row): DTypeInfo {
  const array = constructor as TypedArrayConstructor;
  const isComplex = real !== name;
  const parts = isComplex ? 2 : 1;
  return {
    name,
    itemSize: array.BYTES_PER_ELEMENT * parts,
    isComplex,
    isInteger: /^u?int/.test(name),
    parts,
    array,
    real,
    mpi: isNarrowFloat(real) ? null : real,
    cuda,
    nccl,
    scalapack: scalapack[name] ?? null,
    npy,
  };
}

const table = new Map(Object.entries(rows).map(([name, row]) => [name as DType, describeRow(name as DType, row)]));

/** All element types. */
export const dtypes: readonly DType[] = [...table.keys()];

/**
 * What there is to know about an element type.
 *
 * @throws {DTypeError} if there is no such type.
 *
 * @example
 * ```ts
 * import { dtypeInfo } from "@distmath/distmath";
 * console.assert(dtypeInfo("complex64").itemSize === 8);
 * ```
 */
export function dtypeInfo(dtype: DType): DTypeInfo {
  const info = table.get(dtype);
  if (info === undefined) {
    throw new DTypeError(`There is no dtype ${describe(dtype)}. Use one of: ${dtypes.join(", ")}.`);
  }
  return info;
}

/**
 * Whether a type is one that is computed with in float32.
 *
 * @example
 * ```ts
 * import { isNarrowFloat } from "@distmath/distmath/internals";
 * console.assert(isNarrowFloat("bfloat16") && !isNarrowFloat("float32"));
 * ```
 */
export function isNarrowFloat(dtype: DType): dtype is NarrowFloat {
  return dtype === "float16" || dtype === "bfloat16" || dtype === "float8_e4m3" || dtype === "float8_e5m2";
}

/** The most numbers that one typed array may hold here. */
export const MAXIMUM_LENGTH = 2 ** 32;

/** From this size on memory gets huge pages: the time of first writes is mostly that of page faults. */
export const HUGE_BYTES = 2 ** 22;

function hintHugePages(data: TypedArray): void {
  try {
    preferHugePages(data);
  } catch {
    // Without --allow-ffi the array is as good, only slower to fill.
  }
}

/**
 * A typed array of zeros for `elements` elements.
 *
 * @throws {RangeError} if it would hold more than 2^32 numbers, or memory is exhausted.
 *
 * @example
 * ```ts
 * import { allocate } from "@distmath/distmath/internals";
 * console.assert(allocate("complex64", 3).length === 6);
 * ```
 */
export function allocate(dtype: DType, elements: number): TypedArray {
  const { array, parts, itemSize } = dtypeInfo(dtype);
  if (elements * parts > MAXIMUM_LENGTH) {
    throw new RangeError(
      `${elements} elements of ${dtype} (${elements * itemSize} bytes) are too many for one rank: a local part holds ` +
        `at most 2^32 numbers. Distribute the array over more ranks.`,
    );
  }
  try {
    const data = new array(elements * parts);
    if (data.byteLength >= HUGE_BYTES) hintHugePages(data);
    return data;
  } catch (error) {
    throw new RangeError(
      `No memory for ${elements} elements of ${dtype} (${elements * itemSize} bytes) on one rank. ` +
        `Distribute the array over more ranks.`,
      { cause: error },
    );
  }
}

/**
 * The element type that a typed array holds when nothing else is said; `null` for bits (`Uint16Array`) and others.
 *
 * @example
 * ```ts
 * import { dtypeOf } from "@distmath/distmath/internals";
 * console.assert(dtypeOf(new Float32Array(2)) === "float32");
 * ```
 */
export function dtypeOf(array: unknown): DType | null {
  if (array instanceof Float64Array) return "float64";
  if (array instanceof Float32Array) return "float32";
  if (array instanceof Float16Array) return "float16";
  if (array instanceof Int32Array) return "int32";
  if (array instanceof Int8Array) return "int8";
  if (array instanceof Uint8Array) return "uint8";
  if (array instanceof BigInt64Array) return "int64";
  return null;
}

/**
 * The number of elements of `dtype` in a typed array.
 *
 * @throws {DTypeError} if it is not the kind of typed array that holds the dtype, or ends in the middle of an element.
 */
export function elementCount(dtype: DType, array: TypedArray): number {
  const { array: kind, parts } = dtypeInfo(dtype);
  if (!(array instanceof kind)) {
    throw new DTypeError(`${dtype} lives in a ${kind.name}, not in a ${describeKind(array)}.`);
  }
  if (array.length % parts !== 0) {
    throw new DTypeError(`${dtype} takes two numbers an element (re, im), but there are ${array.length}.`);
  }
  return array.length / parts;
}

function describeKind(value: unknown): string {
  return typeof value === "object" && value !== null ? value.constructor.name : typeof value;
}
