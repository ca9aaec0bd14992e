/**
 * Element types: sizes, typed arrays, the names other libraries use for them, and exact conversions.
 *
 * Complex numbers are interleaved (re, im). bfloat16 and float8 have no typed array in JavaScript: their bits live in
 * `Uint16Array` and `Uint8Array`.
 *
 * @module
 */
import { preferHugePages } from "../../ffi/memory.ts";
import { DTypeError } from "../errors.ts";
import { describe } from "../options.ts";

/** The names of the element types. */
export type DType =
  | "float16"
  | "bfloat16"
  | "float32"
  | "float64"
  | "complex64"
  | "complex128"
  | "float8_e4m3"
  | "float8_e5m2"
  | "int8"
  | "uint8"
  | "int32"
  | "int64";

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
  parts: 1 | 2,
  real: DType,
  isInteger: boolean,
  mpi: string | null,
  cuda: number,
  nccl: number,
  scalapack: DTypeInfo["scalapack"],
  npy: string | null,
];

// deno-fmt-ignore
const rows: Record<DType, Row> = {
  //            array          parts real           integer mpi            cuda nccl scalapack npy
  float16:     [Float16Array,  1,    "float16",     false,  null,          2,   6,   null,     "<f2"],
  bfloat16:    [Uint16Array,   1,    "bfloat16",    false,  null,          14,  9,   null,     null],
  float32:     [Float32Array,  1,    "float32",     false,  "float32",     0,   7,   "s",      "<f4"],
  float64:     [Float64Array,  1,    "float64",     false,  "float64",     1,   8,   "d",      "<f8"],
  complex64:   [Float32Array,  2,    "float32",     false,  "float32",     4,   7,   "c",      "<c8"],
  complex128:  [Float64Array,  2,    "float64",     false,  "float64",     5,   8,   "z",      "<c16"],
  float8_e4m3: [Uint8Array,    1,    "float8_e4m3", false,  null,          28,  10,  null,     null],
  float8_e5m2: [Uint8Array,    1,    "float8_e5m2", false,  null,          29,  11,  null,     null],
  int8:        [Int8Array,     1,    "int8",        true,   "int8",        3,   0,   null,     "|i1"],
  uint8:       [Uint8Array,    1,    "uint8",       true,   "uint8",       8,   1,   null,     "|u1"],
  int32:       [Int32Array,    1,    "int32",       true,   "int32",       10,  2,   null,     "<i4"],
  int64:       [BigInt64Array, 1,    "int64",       true,   "int64",       24,  4,   null,     "<i8"],
};

const table = new Map<DType, DTypeInfo>(
  Object.entries(rows).map(([key, [constructor, parts, real, isInteger, mpi, cuda, nccl, scalapack, npy]]) => {
    const name = key as DType;
    const array = constructor as TypedArrayConstructor;
    const itemSize = array.BYTES_PER_ELEMENT * parts;
    return [name, {
      name,
      itemSize,
      isComplex: parts === 2,
      isInteger,
      parts,
      array,
      real,
      mpi,
      cuda,
      nccl,
      scalapack,
      npy,
    }];
  }),
);

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

/** The most numbers that one typed array may hold here. */
const MAXIMUM_LENGTH = 2 ** 32;

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
 * import { allocate } from "@distmath/distmath";
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
 * import { dtypeOf } from "@distmath/distmath";
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

// ---- float16, bfloat16 and float8 to float32 and back ---------------------------------------------------------------

/** The types that are computed with in float32. */
export type NarrowFloat = "float16" | "bfloat16" | "float8_e4m3" | "float8_e5m2";

/**
 * Whether a type is one that is computed with in float32.
 *
 * @example
 * ```ts
 * import { isNarrowFloat } from "@distmath/distmath";
 * console.assert(isNarrowFloat("bfloat16") && !isNarrowFloat("float32"));
 * ```
 */
export function isNarrowFloat(dtype: DType): dtype is NarrowFloat {
  return dtype === "float16" || dtype === "bfloat16" || dtype === "float8_e4m3" || dtype === "float8_e5m2";
}

interface Float8Format {
  readonly mantissaBits: number;
  readonly bias: number;
  /** The code of the largest finite value: what too large values become. */
  readonly largest: number;
  readonly nan: number;
  /** Codes above `largest` are NaN, except this one. */
  readonly infinity: number | null;
}

/** OCP 8-bit floating point specification, section 5: E4M3 has no infinity; E5M2 is a shortened float16. */
const float8Formats = {
  float8_e4m3: { mantissaBits: 3, bias: 7, largest: 0x7e, nan: 0x7f, infinity: null },
  float8_e5m2: { mantissaBits: 2, bias: 15, largest: 0x7b, nan: 0x7e, infinity: 0x7c },
} satisfies Record<string, Float8Format>;

function float8Value(code: number, { mantissaBits, bias, largest, infinity }: Float8Format): number {
  const sign = code & 0x80 ? -1 : 1;
  const magnitude = code & 0x7f;
  if (magnitude > largest) return magnitude === infinity ? sign * Infinity : NaN;
  const exponent = magnitude >> mantissaBits;
  const mantissa = magnitude & ((1 << mantissaBits) - 1);
  return exponent === 0
    ? sign * mantissa * 2 ** (1 - bias - mantissaBits)
    : sign * (mantissa + (1 << mantissaBits)) * 2 ** (exponent - bias - mantissaBits);
}

/** The code nearest to a value, ties to even; too large values, and infinity, become the largest finite one. */
function float8Code(value: number, { mantissaBits, bias, largest, nan }: Float8Format): number {
  if (Number.isNaN(value)) return nan;
  const sign = value < 0 || Object.is(value, -0) ? 0x80 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === Infinity) return sign | largest;
  const exponent = Math.max(exponentOf(magnitude), 1 - bias);
  const steps = roundHalfToEven(magnitude / 2 ** (exponent - mantissaBits));
  // A mantissa that rounds up to the next power of two carries into the exponent by itself.
  return sign | Math.min(((exponent + bias - 1) << mantissaBits) + steps, largest);
}

/** floor(log2(x)) of a float32 above zero; very small ones count as -150. */
function exponentOf(x: number): number {
  let exponent = 0;
  for (; x >= 2; x /= 2) exponent++;
  for (; x < 1 && exponent > -150; x *= 2) exponent--;
  return exponent;
}

function roundHalfToEven(x: number): number {
  const below = Math.floor(x);
  const rest = x - below;
  return rest > 0.5 || rest === 0.5 && below % 2 === 1 ? below + 1 : below;
}

const decodeTables = new Map<NarrowFloat, Float32Array>();
const encodeTables = new Map<NarrowFloat, Uint8Array>();

function decodeTable(dtype: keyof typeof float8Formats): Float32Array {
  let values = decodeTables.get(dtype);
  if (values === undefined) {
    values = Float32Array.from({ length: 256 }, (_, code) => float8Value(code, float8Formats[dtype]));
    decodeTables.set(dtype, values);
  }
  return values;
}

/**
 * The codes of all float32 values whose lower 16 bits are zero, by their upper 16 bits. Any other float32 rounds like
 * the one whose last of these bits is set ("round to odd"): it stands for "something follows", and seven mantissa bits
 * are more than the two that rounding to nearest needs beyond the result's.
 */
function encodeTable(dtype: keyof typeof float8Formats): Uint8Array {
  let codes = encodeTables.get(dtype);
  if (codes === undefined) {
    const bits = new Uint32Array(1);
    const value = new Float32Array(bits.buffer);
    codes = new Uint8Array(65536);
    for (let upper = 0; upper < 65536; upper++) {
      bits[0] = upper << 16;
      codes[upper] = float8Code(value[0], float8Formats[dtype]);
    }
    encodeTables.set(dtype, codes);
  }
  return codes;
}

/** The bits of the values of a Float32Array, without a copy. */
function bitsOf(values: Float32Array): Uint32Array {
  return new Uint32Array(values.buffer, values.byteOffset, values.length);
}

function refuseWide(dtype: DType): never {
  dtypeInfo(dtype);
  throw new DTypeError(`${dtype} has no conversion to float32: only float16, bfloat16, float8_e4m3, float8_e5m2 have.`);
}

function checkLength(dtype: DType, length: number, target: ArrayLike<unknown>): void {
  if (target.length < length) {
    throw new RangeError(`The target holds ${target.length} elements, but ${length} of ${dtype} are to be converted.`);
  }
}

/**
 * The values of float16, bfloat16 or float8 elements, exactly, as float32.
 *
 * @throws {DTypeError} for another dtype.
 * @throws {RangeError} if the target is too short.
 *
 * @example
 * ```ts
 * import { decode } from "@distmath/distmath";
 * console.assert(decode("bfloat16", Uint16Array.of(0x3fc0))[0] === 1.5);
 * ```
 */
export function decode(
  dtype: DType,
  array: TypedArray,
  target: Float32Array<ArrayBuffer> = new Float32Array(array.length),
): Float32Array<ArrayBuffer> {
  const length = elementCount(dtype, array);
  checkLength(dtype, length, target);
  switch (dtype) {
    case "float16":
      decodeFloat16(array as Float16Array, target, length);
      break;
    case "bfloat16":
      decodeBfloat16(array as Uint16Array, bitsOf(target), length);
      break;
    case "float8_e4m3":
    case "float8_e5m2":
      decodeFloat8(array as Uint8Array, target, length, decodeTable(dtype));
      break;
    default:
      refuseWide(dtype);
  }
  return target;
}

function decodeFloat16(source: Float16Array, target: Float32Array, length: number): void {
  for (let i = 0; i < length; i++) target[i] = source[i];
}

function decodeBfloat16(source: Uint16Array, target: Uint32Array, length: number): void {
  for (let i = 0; i < length; i++) target[i] = source[i] << 16;
}

function decodeFloat8(source: Uint8Array, target: Float32Array, length: number, values: Float32Array): void {
  for (let i = 0; i < length; i++) target[i] = values[source[i]];
}

/**
 * Round float32 values to float16, bfloat16 or float8: to nearest, ties to even. Too large values become infinity in
 * float16 and bfloat16, the largest finite value in float8; NaN stays NaN.
 *
 * @throws {DTypeError} for another dtype.
 * @throws {RangeError} if the target is too short.
 *
 * @example
 * ```ts
 * import { encode } from "@distmath/distmath";
 * console.assert(encode("float8_e4m3", Float32Array.of(1000))[0] === 0x7e); // 448, the largest
 * ```
 */
export function encode(dtype: DType, from: Float32Array<ArrayBuffer>, target?: TypedArray): TypedArray {
  if (!isNarrowFloat(dtype)) refuseWide(dtype);
  target ??= allocate(dtype, from.length);
  elementCount(dtype, target);
  checkLength(dtype, from.length, target);
  switch (dtype) {
    case "float16":
      (target as Float16Array).set(from);
      break;
    case "bfloat16":
      encodeBfloat16(bitsOf(from), target as Uint16Array);
      break;
    default:
      encodeFloat8(bitsOf(from), target as Uint8Array, encodeTable(dtype));
  }
  return target;
}

function encodeBfloat16(source: Uint32Array, target: Uint16Array): void {
  for (let i = 0; i < source.length; i++) {
    const bits = source[i];
    // Adding just below half of the last place, and its parity, carries exactly when rounding goes up. A NaN must not
    // carry into infinity: it is cut instead, and made quiet.
    target[i] = (bits & 0x7fffffff) > 0x7f800000 ? (bits >>> 16) | 0x40 : (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
  }
}

function encodeFloat8(source: Uint32Array, target: Uint8Array, codes: Uint8Array): void {
  for (let i = 0; i < source.length; i++) {
    const bits = source[i];
    target[i] = codes[(bits >>> 16) | ((bits & 0xffff) === 0 ? 0 : 1)];
  }
}

const oneBits = new Uint16Array(1);
const oneHalf = new Float16Array(oneBits.buffer);
const oneDouble = new Float64Array(1);
const oneSingle = new Float32Array(1);

/**
 * The value of one float16, bfloat16 or float8 element, given its bits.
 *
 * @throws {DTypeError} for another dtype.
 *
 * @example
 * ```ts
 * import { toFloat32 } from "@distmath/distmath";
 * console.assert(toFloat32("bfloat16", 0x3fc0) === 1.5);
 * ```
 */
export function toFloat32(dtype: NarrowFloat, bits: number): number {
  if (dtype === "float16") {
    oneBits[0] = bits;
    return oneHalf[0];
  }
  return decode(dtype, new (dtypeInfo(dtype).array as Uint16ArrayConstructor)([bits]))[0];
}

/**
 * The bits of the float16, bfloat16 or float8 value nearest to a number, rounded as {@linkcode encode} does.
 *
 * @throws {DTypeError} for another dtype.
 *
 * @example
 * ```ts
 * import { fromFloat32 } from "@distmath/distmath";
 * console.assert(fromFloat32("bfloat16", 1.5) === 0x3fc0);
 * ```
 */
export function fromFloat32(dtype: NarrowFloat, value: number): number {
  if (dtype === "float16") {
    oneHalf[0] = value;
    return oneBits[0];
  }
  oneDouble[0] = value;
  return Number(encode(dtype, roundToOdd(oneDouble, oneSingle))[0]);
}

// ---- between any two types ------------------------------------------------------------------------------------------

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
 * Numbers as float32, of the two nearest the one that is odd unless one is exact: it stands for "something follows", so
 * that rounding it to bfloat16 or float8 rounds as if it had all bits.
 */
function roundToOdd(source: Float64Array, target: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  const bits = bitsOf(target);
  for (let i = 0; i < source.length; i++) {
    const value = source[i];
    target[i] = value;
    const rounded = target[i];
    if (rounded === value || Number.isNaN(value)) continue;
    if (Math.abs(rounded) > Math.abs(value)) bits[i]--;
    bits[i] |= 1;
  }
  return target;
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

// ---- single elements ------------------------------------------------------------------------------------------------

/**
 * Store one value at element `index` of a typed array.
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
    array[index] = toBigInt(value);
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

/** A value for int64. */
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
  const message = `${dtype} takes whole numbers from ${low} to ${high}, not ${value}.`;
  if (value < low || value > high) throw new RangeError(message);
  if (typeof value === "number" && !Number.isInteger(value)) throw new DTypeError(message);
}

function describeValue(value: unknown): string {
  if (Array.isArray(value)) return `an array of ${value.length}`;
  if (typeof value === "number" || typeof value === "bigint") return `the ${typeof value} ${value}`;
  return value === null || value === undefined ? String(value) : `a ${typeof value}`;
}

/** The dtype in which products are summed; alpha, beta and the epilog are computed in it too. */
export type AccumulatorDType = "float32" | "float64" | "complex64" | "complex128";
