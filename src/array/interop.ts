/**
 * Arrays of other libraries, by their form: nothing is imported, and nothing is copied.
 *
 * @module
 */
import { type DType, dtypeInfo, dtypeOf, dtypes, type TypedArray } from "../dtype/dtype.ts";
import type { DataOf } from "../dtype/element_types.ts";
import { DTypeError, ShapeError } from "../errors.ts";
import { describe, isObject } from "../options.ts";
import { checkShape, stridesOf } from "./layout.ts";
import { LocalArray } from "./local_array.ts";

/**
 * A strided array in memory, as many libraries have them: stdlib's and scijs' ndarray, numpy-ts. Strides and offset count
 * elements.
 */
export interface Ndarray {
  /** The memory; for complex numbers also an object with a buffer of pairs. */
  readonly data: TypedArray | {
    readonly buffer: ArrayBufferLike;
    readonly byteOffset: number;
    readonly length: number;
  };
  /** The extents. */
  readonly shape: ArrayLike<number>;
  /** The distance of neighbours along each dimension; those of `order` if left out. */
  readonly strides?: ArrayLike<number>;
  /** As `strides`, by another name. */
  readonly stride?: ArrayLike<number>;
  /** The element at index (0, 0, …); 0 if left out. */
  readonly offset?: number;
  /** "C" or "row-major" (the default), "F" or "column-major". */
  readonly order?: string;
  /** The type of the elements; the usual one of the typed array if left out. */
  readonly dtype?: unknown;
}

/**
 * Another library's strided array as a {@linkcode LocalArray}, of the same memory. Its dtype is what `dtype` says, if that is
 * the name of one here, else the usual one of the typed array.
 *
 * @throws {TypeError} if it has not the form of a strided array.
 * @throws {DTypeError} if its memory holds none of the dtypes here.
 * @throws {ShapeError} if strides do not fit the shape or are negative, or the memory is too short.
 *
 * @example
 * ```ts
 * import { fromNdarray } from "@distmath/distmath";
 *
 * const foreign = { data: Float64Array.of(1, 2, 3, 4, 5, 6), shape: [3, 2], stride: [1, 3], offset: 0 };
 * console.log(fromNdarray(foreign).toNumbers()); // 1, 4, 2, 5, 3, 6
 * ```
 */
export function fromNdarray(array: Ndarray): LocalArray {
  if (!isObject(array) || !("data" in array) || !("shape" in array)) {
    throw new TypeError(`fromNdarray takes { data, shape, strides, offset }, not ${describe(array)}.`);
  }
  const { offset = 0, order = "C" } = array;
  const shape = checkShape(Array.from(array.shape));
  const given = array.strides ?? array.stride;
  const isFortran = order === "F" || order === "column-major";
  const strides = given === undefined ? stridesOf(shape, isFortran ? "F" : "C") : Array.from(given);
  if (strides.some((stride) => stride < 0)) {
    throw new ShapeError(`Strides [${strides}] run backwards. Copy the array in its own library before.`);
  }
  const dtype = dtypeOfNdarray(array);
  return new LocalArray({ data: dataOf(array, dtype), dtype, shape, strides, offset });
}

function dtypeOfNdarray({ data, dtype }: Ndarray): DType {
  // NumPy's objects for types have the name as their text.
  const name = String(dtype ?? "");
  const named = dtypes.find((known) => known === name);
  const found = named ?? dtypeOf(data);
  if (found !== null) return found;
  throw new DTypeError(`${describe(data)} of dtype ${describe(dtype)} holds none of: ${dtypes.join(", ")}.`);
}

/** The typed array that holds the dtype, on the same memory. */
function dataOf({ data }: Ndarray, dtype: DType): TypedArray {
  const { array, parts } = dtypeInfo(dtype);
  if (data instanceof array || ArrayBuffer.isView(data)) return data as TypedArray;
  const { buffer, byteOffset, length } = data;
  return new array(buffer as ArrayBuffer, byteOffset, length * parts);
}

/**
 * A {@linkcode LocalArray} in host memory in the form that other libraries take, of the same memory.
 *
 * @throws {StateError} if it is in the memory of a GPU.
 *
 * @example
 * ```ts
 * import { LocalArray, toNdarray } from "@distmath/distmath";
 *
 * const local = new LocalArray({ data: Float32Array.of(1, 2, 3, 4), dtype: "float32", shape: [2, 2] });
 * const { data, shape, strides, offset } = toNdarray(local);
 * console.log(data, shape, strides, offset); // e.g. new ndarray(data, shape, strides, offset)
 * ```
 */
export function toNdarray<D extends DType>(local: LocalArray<D>): {
  data: DataOf<D>;
  shape: number[];
  strides: number[];
  stride: number[];
  offset: number;
  order: "row-major" | "column-major";
  dtype: D;
} {
  const { data, shape, strides, offset, dtype } = local;
  const order = local.isDense("F") && !local.isDense("C") ? "column-major" : "row-major";
  return { data, shape: [...shape], strides: [...strides], stride: [...strides], offset, order, dtype };
}
