import { assert, assertEquals, assertThrows } from "@std/assert";
import { convert } from "../../../src/dtype/conversion.ts";
import {
  allocate,
  type DType,
  dtypeInfo,
  dtypeOf,
  dtypes,
  elementCount,
  type NarrowFloat,
  type TypedArray,
} from "../../../src/dtype/dtype.ts";
import { decode, encode, fromFloat32, toFloat32 } from "../../../src/dtype/narrow_floats.ts";
import { loadScalar, storeScalar } from "../../../src/dtype/scalar.ts";
import { DTypeError } from "../../../src/errors.ts";

/** Sign, exponent and mantissa widths, and what the topmost exponent means: written from the formats' definitions. */
interface Format {
  exponentBits: number;
  mantissaBits: number;
  hasInfinity: boolean;
}

const formats: Record<NarrowFloat, Format> = {
  float16: { exponentBits: 5, mantissaBits: 10, hasInfinity: true },
  bfloat16: { exponentBits: 8, mantissaBits: 7, hasInfinity: true },
  float8_e4m3: { exponentBits: 4, mantissaBits: 3, hasInfinity: false },
  float8_e5m2: { exponentBits: 5, mantissaBits: 2, hasInfinity: true },
};

function oracleValue(code: number, { exponentBits, mantissaBits, hasInfinity }: Format): number {
  const mantissa = code % 2 ** mantissaBits;
  const exponent = Math.floor(code / 2 ** mantissaBits) % 2 ** exponentBits;
  const sign = code >= 2 ** (mantissaBits + exponentBits) ? -1 : 1;
  const bias = 2 ** (exponentBits - 1) - 1;
  const top = 2 ** exponentBits - 1;
  if (exponent === top && hasInfinity) return mantissa === 0 ? sign * Infinity : NaN;
  if (exponent === top && mantissa === 2 ** mantissaBits - 1) return NaN;
  const fraction = mantissa / 2 ** mantissaBits;
  return exponent === 0 ? sign * fraction * 2 ** (1 - bias) : sign * (1 + fraction) * 2 ** (exponent - bias);
}

/** All codes of a format as a typed array. */
function allCodes(dtype: NarrowFloat): TypedArray {
  const { exponentBits, mantissaBits } = formats[dtype];
  const count = 2 ** (1 + exponentBits + mantissaBits);
  const codes = count === 256 ? new Uint8Array(256) : new Uint16Array(count);
  for (let i = 0; i < count; i++) codes[i] = i;
  return dtype === "float16" ? new Float16Array(codes.buffer) : codes;
}

function bitsOf(array: TypedArray): Uint16Array | Uint8Array {
  return array instanceof Float16Array ? new Uint16Array(array.buffer) : array as Uint16Array;
}

const narrow = Object.keys(formats) as NarrowFloat[];

for (const dtype of narrow) {
  const format = formats[dtype];
  /** Finite non-negative values, ascending; their place is their code. */
  const values: number[] = [];
  for (let code = 0; Number.isFinite(oracleValue(code, format)); code++) values.push(oracleValue(code, format));
  const signBit = 2 ** (format.exponentBits + format.mantissaBits);

  /** The code nearest to x by search among all values: ties to the even code, too large ones as the dtype says. */
  const oracleCode = (x: number): number => {
    const sign = x < 0 || Object.is(x, -0) ? signBit : 0;
    const magnitude = Math.abs(x);
    const largest = values[values.length - 1];
    const step = largest - values[values.length - 2];
    if (magnitude >= largest + step / 2) return sign + (dtype.startsWith("float8") ? values.length - 1 : values.length);
    let low = 0;
    let high = values.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (values[middle] <= magnitude) low = middle;
      else high = middle;
    }
    if (magnitude >= largest) return sign + values.length - 1;
    const [below, above] = [magnitude - values[low], values[low + 1] - magnitude];
    return sign + (below < above || below === above && low % 2 === 0 ? low : low + 1);
  };

  Deno.test(`${dtype}: every bit pattern decodes to the value that the format defines`, () => {
    const codes = allCodes(dtype);
    const decoded = decode(dtype, codes);
    const bits = bitsOf(codes);
    for (let code = 0; code < bits.length; code++) {
      const wanted = oracleValue(code, format);
      if (!Object.is(decoded[code], wanted)) assertEquals(decoded[code], wanted, `code ${code}`);
      const single = toFloat32(dtype, code);
      assert(Object.is(single, wanted), `code ${code} alone`);
    }
  });

  Deno.test(`${dtype}: every value encodes to its own bits, NaN to a NaN`, () => {
    const codes = allCodes(dtype);
    const encoded = bitsOf(encode(dtype, decode(dtype, codes)));
    for (const [code, bits] of bitsOf(codes).entries()) {
      const value = oracleValue(bits, format);
      if (Number.isNaN(value)) assert(Number.isNaN(oracleValue(encoded[code], format)));
      else assertEquals(encoded[code], bits);
    }
  });

  Deno.test(`${dtype}: rounds to nearest, ties to even, between all neighbours`, () => {
    const inputs: number[] = [];
    const largest = values[values.length - 1];
    const ends = [...values, 2 * largest - values[values.length - 2]];
    for (let i = 0; i + 1 < ends.length; i++) {
      const middle = (ends[i] + ends[i + 1]) / 2;
      const bits = new Uint32Array(1);
      const float = new Float32Array(bits.buffer);
      float[0] = middle;
      if (float[0] !== middle) continue; // the smallest bfloat16 steps have no float32 in between
      inputs.push(middle, -middle);
      bits[0] += 1;
      inputs.push(float[0]);
      bits[0] -= 2;
      if (bits[0] < 0x80000000) inputs.push(float[0]);
    }
    const source = Float32Array.from(inputs);
    const encoded = bitsOf(encode(dtype, source));
    let wrong = 0;
    for (let i = 0; i < source.length; i++) if (encoded[i] !== oracleCode(source[i])) wrong++;
    assertEquals(wrong, 0);
    assert(inputs.length > values.length);
  });

  Deno.test(`${dtype}: rounds random float32 bit patterns as a search among all values does`, () => {
    const bits = new Uint32Array(50_000);
    let state = 12345;
    for (let i = 0; i < bits.length; i++) bits[i] = state = Math.imul(state, 1664525) + 1013904223 >>> 0;
    const source = new Float32Array(bits.buffer);
    const encoded = bitsOf(encode(dtype, source));
    for (let i = 0; i < source.length; i++) {
      if (Number.isNaN(source[i])) assert(Number.isNaN(oracleValue(encoded[i], format)));
      else if (encoded[i] !== oracleCode(source[i])) assertEquals(encoded[i], oracleCode(source[i]), `${source[i]}`);
      if (i < 2000 && !Number.isNaN(source[i])) assertEquals(fromFloat32(dtype, source[i]), oracleCode(source[i]));
    }
  });
}

Deno.test("float8 and 16-bit types: values that the specifications list", () => {
  assertEquals([0x7e, 0x08, 0x07, 0x01].map((bits) => toFloat32("float8_e4m3", bits)), [
    448,
    2 ** -6,
    0.875 * 2 ** -6,
    2 ** -9,
  ]);
  assertEquals([0x7b, 0x7c, 0x04, 0x03, 0x01].map((bits) => toFloat32("float8_e5m2", bits)), [
    57344,
    Infinity,
    2 ** -14,
    0.75 * 2 ** -14,
    2 ** -16,
  ]);
  assertEquals(toFloat32("float16", 0x7bff), 65504);
  assertEquals(toFloat32("bfloat16", 0x4049), 3.140625);
});

Deno.test("too large values: infinity in 16 bits, the largest finite value in 8, but for an infinity that e5m2 has", () => {
  const large = Float32Array.of(1e30, -1e30, Infinity, -Infinity, 65520, 449, 1e5);
  assertEquals([...encode("float16", large)].slice(0, 5), [Infinity, -Infinity, Infinity, -Infinity, Infinity]);
  assertEquals([...decode("bfloat16", encode("bfloat16", Float32Array.of(3.4e38, -3.4e38)))], [Infinity, -Infinity]);
  assertEquals([...decode("float8_e4m3", encode("float8_e4m3", large))], [448, -448, 448, -448, 448, 448, 448]);
  assertEquals(
    [...decode("float8_e5m2", encode("float8_e5m2", large))],
    [57344, -57344, Infinity, -Infinity, 57344, 448, 57344],
  );
});

Deno.test("NaN stays NaN, whatever its payload", () => {
  const source = new Float32Array(Uint32Array.of(0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fc00000).buffer);
  for (const dtype of narrow) {
    assert(decode(dtype, encode(dtype, source)).every(Number.isNaN), dtype);
  }
});

Deno.test("decode and encode write into a given target, and refuse what does not fit", () => {
  const target = new Float32Array(4);
  assertEquals(decode("bfloat16", Uint16Array.of(0x3f80, 0x4000), target), target);
  assertEquals([...target], [1, 2, 0, 0]);
  assertThrows(() => decode("bfloat16", new Uint16Array(5), target), RangeError, "holds 4 elements");
  assertThrows(() => encode("float16", target, new Float16Array(3)), RangeError, "holds 3 elements");
  assertThrows(() => decode("float32", target), DTypeError, "no conversion to float32");
  assertThrows(() => encode("complex64", target), DTypeError, "no conversion to float32");
  assertThrows(() => decode("bfloat16", new Uint8Array(2)), DTypeError, "lives in a Uint16Array, not in a Uint8Array");
});

Deno.test("the table: sizes, parts and names of all dtypes", () => {
  const sizes: Record<DType, number> = {
    float16: 2,
    bfloat16: 2,
    float32: 4,
    float64: 8,
    complex32: 4,
    complex64: 8,
    complex128: 16,
    float8_e4m3: 1,
    float8_e5m2: 1,
    int8: 1,
    uint8: 1,
    int32: 4,
    int64: 8,
  };
  assertEquals(Object.fromEntries(dtypes.map((dtype) => [dtype, dtypeInfo(dtype).itemSize])), sizes);
  for (const dtype of dtypes) {
    const { array, parts, itemSize, npy } = dtypeInfo(dtype);
    assertEquals(allocate(dtype, 3).byteLength, 3 * itemSize);
    assertEquals(array.BYTES_PER_ELEMENT * parts, itemSize);
    if (npy !== null) assertEquals(Number(npy.slice(2)), itemSize);
  }
  const { real, mpi, cuda, nccl, npy, scalapack } = dtypeInfo("complex32");
  // C_16F and ncclFloat16 of library_types.h and nccl.h.
  assertEquals([real, mpi, cuda, nccl, npy, scalapack], ["float16", null, 6, 6, null, null]);
  assertThrows(() => dtypeInfo("float128" as DType), DTypeError, 'no dtype "float128". Use one of: float16');
  assertThrows(() => dtypeInfo(undefined as unknown as DType), DTypeError, "no dtype undefined");
  assertThrows(() => allocate("float64", 2 ** 33), RangeError, "at most 2^32 numbers");
  assertEquals(dtypeOf(new Float32Array(1)), "float32");
  assertEquals(dtypeOf(new Uint16Array(1)), null);
  assertEquals(dtypeOf([1]), null);
  assertEquals(elementCount("complex64", new Float32Array(6)), 3);
  assertEquals(elementCount("complex32", new Float16Array(6)), 3);
  assertThrows(() => elementCount("complex32", new Float32Array(6)), DTypeError, "lives in a Float16Array");
  assertThrows(() => elementCount("complex64", new Float32Array(5)), DTypeError, "two numbers an element");
});

Deno.test("convert: every pair of dtypes agrees with a conversion one by one", () => {
  const samples = [0, 1, -1, 2.5, -3.5, 100.25, 127, 128, -129, 255.9, 300, 1e9, -3e9, 1e10, 0.1, 1e-9];
  for (const from of dtypes) {
    const { isComplex, parts, isInteger } = dtypeInfo(from);
    const source = allocate(from, samples.length);
    samples.forEach((value, i) =>
      storeScalar(from, source, i, isComplex ? [value, -value] : isInteger ? Math.trunc(value) : value)
    );
    for (const to of dtypes) {
      const info = dtypeInfo(to);
      const target = allocate(to, samples.length);
      if (isComplex && !info.isComplex) {
        assertThrows(() => convert(from, source, to, target), DTypeError, "imaginary parts would be lost");
        continue;
      }
      convert(from, source, to, target);
      for (let i = 0; i < samples.length; i++) {
        const stored = loadScalar(from, source, i);
        const [re, im] = Array.isArray(stored) ? stored : [Number(stored), 0];
        const wanted = [re, im].slice(0, info.parts).map((part) => oracleConversion(to, part));
        const got = loadScalar(to, target, i);
        assertEquals(Array.isArray(got) ? got : [Number(got)], wanted, `${from} to ${to}: ${stored} (${parts})`);
      }
    }
  }
});

/** One number in a dtype, by JavaScript's own conversions where it has them. */
function oracleConversion(to: DType, value: number): number {
  const clamp = (low: number, high: number) => Math.min(Math.max(Math.trunc(value), low), high) + 0;
  switch (to) {
    case "float16":
    case "complex32":
      return Math.f16round(value);
    case "float32":
    case "complex64":
      return Math.fround(value);
    case "bfloat16":
    case "float8_e4m3":
    case "float8_e5m2":
      return toFloat32(to, fromFloat32(to, Math.fround(value)));
    case "int8":
      return clamp(-128, 127);
    case "uint8":
      return clamp(0, 255);
    case "int32":
      return clamp(-(2 ** 31), 2 ** 31 - 1);
    case "int64":
      return clamp(-(2 ** 63), 2 ** 63);
    default:
      return value;
  }
}

Deno.test("convert: large int64 values are exact, NaN becomes 0, out of range is kept inside", () => {
  const big = BigInt64Array.of(2n ** 62n, -(2n ** 63n), -1n, -(2n ** 32n) - 5n);
  const copy = allocate("int64", 4);
  convert("int64", big, "int64", copy);
  assertEquals(copy, big);
  const target = allocate("int64", 6) as BigInt64Array<ArrayBuffer>;
  convert("float64", Float64Array.of(NaN, 1e300, -1e300, -1.5, -4294967296.5, 2 ** 53), "int64", target);
  assertEquals([...target], [0n, 2n ** 63n - 1n, -(2n ** 63n), -1n, -4294967296n, 2n ** 53n]);
  const small = allocate("int8", 3);
  convert("float32", Float32Array.of(NaN, Infinity, -Infinity), "int8", small);
  assertEquals([...small], [0, 127, -128]);
});

Deno.test("convert: long arrays, so that blocks join without a gap", () => {
  const source = Float64Array.from({ length: 10_001 }, (_, i) => i - 5000);
  for (const dtype of ["bfloat16", "float16", "int32", "int64", "float32"] as const) {
    const there = allocate(dtype, source.length);
    convert("float64", source, dtype, there);
    const back = new Float64Array(source.length);
    convert(dtype, there, "float64", back);
    for (let i = 0; i < source.length; i++) {
      const wanted = dtype === "bfloat16"
        ? toFloat32("bfloat16", fromFloat32("bfloat16", source[i]))
        : dtype === "float16"
        ? Math.f16round(source[i])
        : source[i];
      assertEquals(back[i], wanted);
    }
  }
});

Deno.test("single values of the wrong kind are refused", () => {
  const store = (dtype: DType, value: unknown) => () => storeScalar(dtype, allocate(dtype, 1), 0, value as number);
  assertThrows(store("float32", [1, 2]), DTypeError, "float32 takes a number, not an array of 2");
  assertThrows(store("float64", 1n), DTypeError, "not the bigint 1");
  assertThrows(store("complex64", [1, 2, 3]), DTypeError, "takes a number or [re, im], not an array of 3");
  assertThrows(store("complex128", "1"), DTypeError, "not a string");
  assertThrows(store("int64", 1.5), DTypeError, "a bigint or a whole number, not the number 1.5");
});
