/**
 * float16, bfloat16 and float8 to float32 and back.
 *
 * @module
 */
import { DTypeError } from "../errors.ts";
import {
  allocate,
  type DType,
  dtypeInfo,
  elementCount,
  isNarrowFloat,
  type NarrowFloat,
  type TypedArray,
} from "./dtype.ts";

interface Float8Format {
  readonly mantissaBits: number;
  readonly bias: number;
  /** The code of the largest finite value: what finite values that are too large become. */
  readonly largest: number;
  readonly nan: number;
  /** Codes above `largest` are NaN, except this one; without one infinity is too large, too. */
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

/** The code nearest to a value, ties to even; too large values become the largest finite one. */
function float8Code(value: number, { mantissaBits, bias, largest, nan, infinity }: Float8Format): number {
  if (Number.isNaN(value)) return nan;
  const sign = value < 0 || Object.is(value, -0) ? 0x80 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === Infinity) return sign | (infinity ?? largest);
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
      decodeBfloat16(array as Uint16Array, target, length);
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

/** The first `length` bfloat16 values, given by their bits, as float32. */
export function decodeBfloat16(source: Uint16Array, target: Float32Array, length: number): void {
  const bits = bitsOf(target);
  for (let i = 0; i < length; i++) bits[i] = source[i] << 16;
}

function decodeFloat8(source: Uint8Array, target: Float32Array, length: number, values: Float32Array): void {
  for (let i = 0; i < length; i++) target[i] = values[source[i]];
}

/**
 * Round float32 values to float16, bfloat16 or float8: to nearest, ties to even. Too large values become infinity in
 * float16 and bfloat16, the largest finite value in float8; NaN stays NaN, and infinity infinity, but for float8_e4m3, which
 * has none: it becomes the largest value.
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
      encodeBfloat16(from, target as Uint16Array);
      break;
    default:
      encodeFloat8(bitsOf(from), target as Uint8Array, encodeTable(dtype));
  }
  return target;
}

/** The bits of float32 values rounded to bfloat16. */
export function encodeBfloat16(source: Float32Array, target: Uint16Array): void {
  const values = bitsOf(source);
  for (let i = 0; i < values.length; i++) {
    const bits = values[i];
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

/**
 * Numbers as float32, of the two nearest the one that is odd unless one is exact: it stands for "something follows", so
 * that rounding it to bfloat16 or float8 rounds as if it had all bits.
 */
export function roundToOdd(source: Float64Array, target: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
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
