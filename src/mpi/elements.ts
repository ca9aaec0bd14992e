/**
 * What a communicator can send: typed arrays, and how MPI sees their elements.
 *
 * @module
 */
import type { ElementType, ReduceOperation } from "../../ffi/mpi/mod.ts";
import { decodeBfloat16, encodeBfloat16 } from "../dtype/narrow_floats.ts";
import { DTypeError } from "../errors.ts";
import { describe } from "../options.ts";

/** A typed array of numbers. */
export type NumericArray =
  | Int8Array
  | Uint8Array
  | Uint8ClampedArray
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array
  | Float16Array
  | Float32Array
  | Float64Array;

/** What the entries of a typed array mean, where its class does not say it: bits, or the parts of complex numbers. */
export type ElementName =
  | ElementType
  | "float16"
  | "bfloat16"
  | "complex32"
  | "complex64"
  | "complex128"
  | "float8_e4m3"
  | "float8_e5m2";

/** How a kind of element travels and reduces. */
export interface Element {
  name: ElementName;
  /** The class of array that holds it. */
  arrayName: string;
  /** The MPI datatype that carries it. */
  type: ElementType;
  /** Who can add it up: MPI; MPI, as pairs; only distmath, in float32; nobody. */
  reduces: "natively" | "as pairs" | "in float32" | "never";
  /** How many entries make a number: complex ones are pairs. */
  parts: 1 | 2;
}

function element(
  name: ElementName,
  arrayName: string,
  type: ElementType = name as ElementType,
  reduces: Element["reduces"] = "natively",
): Element {
  return { name, arrayName, type, reduces, parts: name.startsWith("complex") ? 2 : 1 };
}

const INT8 = element("int8", "Int8Array");
const UINT8 = element("uint8", "Uint8Array");
const INT16 = element("int16", "Int16Array");
const UINT16 = element("uint16", "Uint16Array");
const INT32 = element("int32", "Int32Array");
const UINT32 = element("uint32", "Uint32Array");
const INT64 = element("int64", "BigInt64Array");
const UINT64 = element("uint64", "BigUint64Array");
const FLOAT16 = element("float16", "Float16Array", "uint16", "in float32");
const FLOAT32 = element("float32", "Float32Array");
const FLOAT64 = element("float64", "Float64Array");

const BY_NAME = new Map<string, Element>([
  ...[INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64],
  element("bfloat16", "Uint16Array", "uint16", "in float32"),
  element("complex32", "Float16Array", "uint16", "in float32"),
  element("complex64", "Float32Array", "float32", "as pairs"),
  element("complex128", "Float64Array", "float64", "as pairs"),
  element("float8_e4m3", "Uint8Array", "uint8", "never"),
  element("float8_e5m2", "Uint8Array", "uint8", "never"),
].map((entry) => [entry.name, entry]));

const BY_CLASS = new Map<string, Element>([
  ...[INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64, FLOAT16, FLOAT32, FLOAT64].map((entry) =>
    [entry.arrayName, entry] as const
  ),
  ["Uint8ClampedArray", UINT8],
]);

/** A getter of all typed arrays, past what an object or its class may have put in its place. */
function intrinsic<T>(name: string | symbol): (array: NumericArray) => T {
  const { get } = Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), name)!;
  return Function.prototype.call.bind(get!);
}

/** The class of a typed array; a subclass, such as Node's Buffer, counts as its base. `undefined` for what is none. */
export const arrayClass: (array: NumericArray) => string = intrinsic(Symbol.toStringTag);

/** A class of typed arrays. */
export interface BaseClass {
  new (length: number): NumericArray;
  new (buffer: ArrayBufferLike, start?: number, length?: number): NumericArray;
  readonly prototype: NumericArray;
}

/** The classes by name. */
export const CLASSES: Readonly<Record<string, BaseClass>> = {
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  BigInt64Array,
  BigUint64Array,
  Float16Array,
  Float32Array,
  Float64Array,
};

/** The number of entries that a typed array has room for now. */
export const lengthOf: (array: NumericArray) => number = intrinsic("length");

const { keys } = Object.getPrototypeOf(Uint8Array.prototype);

/** Whether a typed array without entries lies where its buffer has no memory any more; methods of all arrays refuse that. */
export function isCutOff(array: NumericArray): boolean {
  if (lengthOf(array) > 0) return false;
  try {
    keys.call(array);
    return false;
  } catch {
    return true;
  }
}

/**
 * How the entries of a typed array travel.
 *
 * @throws {TypeError} if it is none. @throws {DTypeError} if `dtype` is unknown or lives in another kind of array.
 */
export function elementOf(method: string, what: string, array: NumericArray, dtype?: ElementName): Element {
  if (dtype !== undefined) return namedElement(method, what, array, dtype);
  return BY_CLASS.get(arrayClass(array)) ?? refuseArray(method, what, array);
}

function refuseArray(method: string, what: string, array: unknown): never {
  throw new TypeError(
    `${method}: ${what} must be a typed array of numbers, not ${describe(array)}; ` +
      `other values travel by the methods that end in Object.`,
  );
}

function refuseName(method: string, dtype: ElementName): never {
  throw new DTypeError(
    `${method}: dtype ${JSON.stringify(dtype)} is unknown; known are ${[...BY_NAME.keys()].join(", ")}.`,
  );
}

function namedElement(method: string, what: string, array: NumericArray, dtype: ElementName): Element {
  const held = elementOf(method, what, array);
  const named = BY_NAME.get(dtype) ?? refuseName(method, dtype);
  if (named.arrayName !== held.arrayName) {
    throw new DTypeError(
      `${method}: ${what} holds ${dtype}, which lives in ${named.arrayName}, not in ${held.arrayName}.`,
    );
  }
  return named;
}

/** Bytes of an entry of a kind of elements. */
export function namedEntryBytes(method: string, dtype: ElementName): number {
  const named = BY_NAME.get(dtype) ?? refuseName(method, dtype);
  return Number(/\d+/.exec(named.type)![0]) / 8;
}

const INTEGER_ONLY: ReadonlySet<string> = new Set(["land", "lor", "lxor", "band", "bor", "bxor"]);
const ALL_OPERATIONS = ["sum", "prod", "min", "max", ...INTEGER_ONLY];
const OWN_OPERATIONS =
  "; reduce, allReduce, scan, exclusiveScan and reduceScatter take maxloc, minloc and a ReductionOperator too";

/** Refuse a reduction that has no meaning for the elements. */
export function checkOperation(
  method: string,
  entry: Element,
  op: unknown,
  length: number,
): asserts op is ReduceOperation {
  if (typeof op !== "string" || !ALL_OPERATIONS.includes(op)) {
    throw new TypeError(
      `${method}: op ${describe(op)} is unknown; known are ${ALL_OPERATIONS.join(", ")}${OWN_OPERATIONS}.`,
    );
  }
  if (entry.reduces === "never") {
    throw new DTypeError(`${method}: ${entry.name} has no sums of its own; convert to float32, reduce, convert back.`);
  }
  if (INTEGER_ONLY.has(op) && (entry.reduces !== "natively" || entry.type.startsWith("float"))) {
    throw new DTypeError(`${method}: op "${op}" is for integers, not for ${entry.name}.`);
  }
  if (entry.parts === 1) return;
  if (op !== "sum") throw new DTypeError(`${method}: complex numbers can only be summed, op "${op}" is not possible.`);
  if (length % 2 !== 0) {
    throw new RangeError(`${method}: ${entry.name} has two parts a number, but the array holds ${length} entries.`);
  }
}

/** The class of signed integers of as many bits. */
const SIGNED: Readonly<Record<string, new (length: number) => NumericArray>> = {
  Uint8Array: Int8Array,
  Uint16Array: Int16Array,
  Uint32Array: Int32Array,
  BigUint64Array: BigInt64Array,
};

const UNSIGNED: Readonly<Record<string, new (buffer: ArrayBufferLike, start: number, length: number) => NumericArray>> =
  { Uint8Array, Uint16Array, Uint32Array, BigUint64Array };

/** Turn the first bit of each unsigned integer over: as signed ones they are in the same order then. */
function flip(from: NumericArray, into: NumericArray): void {
  if (from instanceof BigUint64Array) {
    for (let i = 0; i < from.length; i++) into[i] = from[i] ^ 2n ** 63n;
    return;
  }
  const first = 2 ** (8 * from.BYTES_PER_ELEMENT - 1);
  for (let i = 0; i < from.length; i++) into[i] = (Number(from[i]) ^ first) >>> 0;
}

/**
 * Entries in a form that MPI combines: of float16 or complex32 (`Float16Array`) or bfloat16 (bits in `Uint16Array`) as
 * float32, exactly; unsigned integers, to be compared, as signed ones.
 */
export function widen(array: NumericArray, entry: Element): NumericArray {
  if (entry.arrayName === "Float16Array") return new Float32Array(array as Float16Array);
  if (entry.reduces === "natively") {
    const signed = new SIGNED[entry.arrayName](array.length);
    flip(array, signed);
    return signed;
  }
  const wide = new Float32Array(array.length);
  decodeBfloat16(array as Uint16Array, wide, wide.length);
  return wide;
}

/** The way back: float32 values rounded to float16, as parts of complex32 too, or bfloat16, to nearest even. */
export function narrow(values: NumericArray, into: NumericArray, entry: Element): void {
  if (entry.reduces === "natively") {
    flip(new UNSIGNED[entry.arrayName](values.buffer, values.byteOffset, values.length), into);
  } else if (entry.arrayName === "Float16Array") (into as Float16Array).set(values as Float32Array);
  else encodeBfloat16(values as Float32Array<ArrayBuffer>, into as Uint16Array);
}

/** The entries in an array of the same class. */
export function copyOf<T extends NumericArray>(array: T, length: number): T {
  const copy = newLike(array, length);
  (copy as Float64Array).set(array as Float64Array);
  return copy;
}

/** A new array of the same class, whose constructor is not called: a subclass's may make something else of a length. */
export function newLike<T extends NumericArray>(array: T, length: number): T {
  const base = CLASSES[arrayClass(array)];
  const made = new base(length);
  const prototype = Object.getPrototypeOf(array);
  return (prototype === base.prototype ? made : Object.setPrototypeOf(made, prototype)) as T;
}

/** The entries from one on, as an array of the base class: `subarray` calls a subclass's constructor. */
export function entriesFrom(array: NumericArray, start: number): NumericArray {
  const { buffer, byteOffset, BYTES_PER_ELEMENT } = array;
  return new CLASSES[arrayClass(array)](buffer, byteOffset + start * BYTES_PER_ELEMENT, lengthOf(array) - start);
}

/** Whether two arrays share a byte. */
export function overlap(a: NumericArray, b: NumericArray): boolean {
  if (a.byteLength === 0 || b.byteLength === 0) return false;
  return a.buffer === b.buffer && a.byteOffset < b.byteOffset + b.byteLength &&
    b.byteOffset < a.byteOffset + a.byteLength;
}
