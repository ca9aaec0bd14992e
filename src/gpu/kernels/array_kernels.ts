/**
 * Kernels on the elements of arrays: conversions, random numbers, closed forms, differences. They give the same bits as the
 * loops on the CPU.
 *
 * @module
 */
import { MOST_AXES } from "./copy_kernels.ts";
import { Program } from "./program.ts";

/** The number of a real element type in the kernels. */
export const ELEMENT_TYPES = {
  float16: 0n,
  bfloat16: 1n,
  float32: 2n,
  float64: 3n,
  float8_e4m3: 4n,
  float8_e5m2: 5n,
  int8: 6n,
  uint8: 7n,
  int32: 8n,
  int64: 9n,
} as const;

/** The blocks of a reduction: each leaves two partial results. */
export const REDUCTION_BLOCKS = 512;

/** Types, and loading and storing an element of a type that is known at run time, as a double. */
export const elementAccess = `
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define INFINITE __longlong_as_double(0x7ff0000000000000LL)
#define NOT_A_NUMBER __longlong_as_double(0x7ff8000000000000LL)

enum Type { FLOAT16, BFLOAT16, FLOAT32, FLOAT64, E4M3, E5M2, INT8, UINT8, INT32, INT64 };

__device__ double powerOfTwo(int exponent) {
  return __longlong_as_double((i64)(exponent + 1023) << 52);
}

// Codes above the largest finite one are NaN, but for that of infinity.
struct Format { int signBit, mantissaBits, bias, largest, infinity, overflow, nan; };

__device__ Format formatOf(int type) {
  if (type == E4M3) return { 0x80, 3, 7, 0x7e, -1, 0x7e, 0x7f };
  if (type == E5M2) return { 0x80, 2, 15, 0x7b, 0x7c, 0x7b, 0x7e };
  if (type == BFLOAT16) return { 0x8000, 7, 127, 0x7f7f, 0x7f80, 0x7f80, 0x7fc0 };
  return { 0x8000, 10, 15, 0x7bff, 0x7c00, 0x7c00, 0x7e00 };
}

__device__ double decode(int code, Format f) {
  int magnitude = code & (f.signBit - 1);
  double sign = code & f.signBit ? -1.0 : 1.0;
  if (magnitude > f.largest) {
    return magnitude == f.infinity ? sign * INFINITE : NOT_A_NUMBER;
  }
  int exponent = magnitude >> f.mantissaBits;
  int mantissa = magnitude & ((1 << f.mantissaBits) - 1);
  return exponent == 0
    ? sign * (double)mantissa * powerOfTwo(1 - f.bias - f.mantissaBits)
    : sign * (double)(mantissa + (1 << f.mantissaBits)) * powerOfTwo(exponent - f.bias - f.mantissaBits);
}

// To nearest, ties to even. A mantissa that rounds up to the next power of two carries into the exponent by itself.
__device__ int encode(double value, Format f) {
  i64 bits = __double_as_longlong(value);
  int sign = bits < 0 ? f.signBit : 0;
  if (isnan(value)) return f.signBit == 0x8000 ? sign | f.nan : f.nan;
  if (isinf(value)) return sign | (f.infinity < 0 ? f.overflow : f.infinity);
  int exponent = (int)((bits >> 52) & 0x7ff) - 1023;
  if (exponent < 1 - f.bias) exponent = 1 - f.bias;
  int steps = (int)rint(fabs(value) * powerOfTwo(f.mantissaBits - exponent));
  int code = ((exponent + f.bias - 1) << f.mantissaBits) + steps;
  return sign | (code > f.largest ? f.overflow : code);
}

__device__ double load(i64 address, int type, i64 i) {
  switch (type) {
    case FLOAT16: return decode(((const u16*)address)[i], formatOf(FLOAT16));
    case BFLOAT16: return (double)__uint_as_float((u32)((const u16*)address)[i] << 16);
    case FLOAT32: return (double)((const float*)address)[i];
    case FLOAT64: return ((const double*)address)[i];
    case E4M3: case E5M2: return decode(((const u8*)address)[i], formatOf(type));
    case INT8: return (double)((const signed char*)address)[i];
    case UINT8: return (double)((const u8*)address)[i];
    case INT32: return (double)((const int*)address)[i];
    default: return (double)((const i64*)address)[i];
  }
}

// An integer of more than 53 bits loses the last eleven, and the next one is set if any of these was ("round to odd"): so
// it is rounded as if it had all bits by what rounds it to a type narrower than double.
__device__ double loadInt64ToOdd(i64 address, i64 i) {
  i64 value = ((const i64*)address)[i];
  bool isExact = (value & 0x7ff) == 0 || (value >= -(1LL << 53) && value < (1LL << 53));
  return (double)(isExact ? value : (value & ~0x7ffLL) | 0x800);
}

// Cut toward zero, and kept inside the range; NaN becomes 0.
__device__ double clamp(double value, double low, double high) {
  return isnan(value) ? 0.0 : value < low ? low : value > high ? high : value;
}

__device__ i64 toInt64(double value) {
  if (isnan(value)) return 0;
  if (value >= 9223372036854775808.0) return 0x7fffffffffffffffLL;
  if (value < -9223372036854775808.0) return (i64)0x8000000000000000ULL;
  return (i64)value;
}

__device__ void store(i64 address, int type, i64 i, double value) {
  switch (type) {
    case FLOAT16: case BFLOAT16: ((u16*)address)[i] = (u16)encode(value, formatOf(type)); break;
    case FLOAT32: ((float*)address)[i] = (float)value; break;
    case FLOAT64: ((double*)address)[i] = value; break;
    case E4M3: case E5M2: ((u8*)address)[i] = (u8)encode(value, formatOf(type)); break;
    case INT8: ((signed char*)address)[i] = (signed char)clamp(value, -128.0, 127.0); break;
    case UINT8: ((u8*)address)[i] = (u8)clamp(value, 0.0, 255.0); break;
    case INT32: ((int*)address)[i] = (int)clamp(value, -2147483648.0, 2147483647.0); break;
    default: ((i64*)address)[i] = toInt64(value);
  }
}
`;

const CONVERT = `
struct Conversion { i64 source, sourceType, target, targetType, count, isSpread; };

// Real to complex spreads: every other number is 0.
extern "C" __global__ void convert(const Conversion p) {
  i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
    double value = p.sourceType == INT64 && p.targetType != FLOAT64
      ? loadInt64ToOdd(p.source, i)
      : load(p.source, (int)p.sourceType, i);
    if (p.isSpread) {
      store(p.target, (int)p.targetType, 2 * i, value);
      store(p.target, (int)p.targetType, 2 * i + 1, 0.0);
    } else {
      store(p.target, (int)p.targetType, i, value);
    }
  }
}
`;

/** Mirrors src/array/random.ts. */
const RANDOM = `
// One dimension of a part, the inner ones first: its indices are start, start + 1, … or stand in a table.
struct Dimension { i64 extent, start, table; };

struct Part { i64 target, type, parts, count, dimensions; Dimension dimension[${MOST_AXES}]; };

__device__ i64 indexOf(const Dimension& d, i64 i) { return d.table ? ((const i64*)d.table)[i] : d.start + i; }

struct Random { Part part; i64 stride[${MOST_AXES}]; i64 seedLow, seedHigh, bits, isInteger; double low, range, least, most; };

__device__ u32 mix(u32 x, u32 before, u32 between) {
  x ^= before;
  x = (x ^ (x >> 17)) * 0xed5ad4bbu;
  x = ((x ^ (x >> 11)) + between) * 0xac4c1b51u;
  x = (x ^ (x >> 15)) * 0x31848babu;
  return x ^ (x >> 14);
}

__device__ u32 keyOf(u32 low, u32 high, u32 upper, u32 n) {
  return mix(mix(mix(low, n * 0x9e3779b9u, 0), high, n), upper, n);
}

extern "C" __global__ void random(const Random p) {
  i64 step = (i64)gridDim.x * blockDim.x;
  i64 numbers = p.part.count * p.part.parts;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < numbers; i += step) {
    i64 rest = i / p.part.parts, counter = 0;
    #pragma unroll 1
    for (int d = 0; d < p.part.dimensions; d++) {
      const Dimension& dimension = p.part.dimension[d];
      counter += indexOf(dimension, rest % dimension.extent) * p.stride[d];
      rest /= dimension.extent;
    }
    counter = counter * p.part.parts + i % p.part.parts;
    u32 lower = (u32)counter, upper = (u32)((u64)counter >> 32);
    u32 first = mix(lower, keyOf((u32)p.seedLow, (u32)p.seedHigh, upper, 1), keyOf((u32)p.seedLow, (u32)p.seedHigh, upper, 2));
    double value;
    if (p.bits > 32) {
      u32 second = mix(lower, keyOf((u32)p.seedLow, (u32)p.seedHigh, upper, 3), keyOf((u32)p.seedLow, (u32)p.seedHigh, upper, 4));
      value = (double)(first + second) * powerOfTwo(-32) + (double)(second >> 11) * powerOfTwo(-53);
    } else {
      value = (double)(first >> (32 - p.bits)) * powerOfTwo(-(int)p.bits);
    }
    if (p.isInteger) value = p.low + floor(value * p.range);
    else if (p.low != 0.0 || p.range != 1.0) {
      value = p.low + value * p.range;
      value = value < p.least ? p.least : value > p.most ? p.most : value;
    }
    store(p.part.target, (int)p.part.type, i, value);
  }
}

struct Linear { Part part; double offset, modulus; double factor[${MOST_AXES}]; };

extern "C" __global__ void linear(const Linear p) {
  i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.part.count; i += step) {
    i64 rest = i;
    double value = p.offset;
    #pragma unroll 1
    for (int d = 0; d < p.part.dimensions; d++) {
      const Dimension& dimension = p.part.dimension[d];
      value += (double)indexOf(dimension, rest % dimension.extent) * p.factor[d];
      rest /= dimension.extent;
    }
    if (p.modulus != 0.0) value -= floor(value / p.modulus) * p.modulus;
    store(p.part.target, (int)p.part.type, i * p.part.parts, value);
    if (p.part.parts == 2) store(p.part.target, (int)p.part.type, i * 2 + 1, 0.0);
  }
}
`;

const REDUCE = `
struct Difference { i64 data, type, count, isComplex, other, otherType, partials; };

__device__ double larger(double a, double b) { return isnan(a) ? a : isnan(b) ? b : a > b ? a : b; }

// The largest magnitude of a difference.
extern "C" __global__ void difference(const Difference p) {
  __shared__ double partial[256];
  i64 step = (i64)gridDim.x * blockDim.x;
  double most = 0.0;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
    if (p.isComplex) {
      double re = load(p.data, (int)p.type, 2 * i) - load(p.other, (int)p.otherType, 2 * i);
      double im = load(p.data, (int)p.type, 2 * i + 1) - load(p.other, (int)p.otherType, 2 * i + 1);
      most = larger(most, isnan(re) || isnan(im) ? re + im : hypot(re, im));
    } else {
      most = larger(most, fabs(load(p.data, (int)p.type, i) - load(p.other, (int)p.otherType, i)));
    }
  }
  partial[threadIdx.x] = most;
  __syncthreads();
  for (int half = blockDim.x / 2; half >= 2; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] = larger(partial[threadIdx.x], partial[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x < 2) ((double*)p.partials)[2 * blockIdx.x + threadIdx.x] = partial[threadIdx.x];
}

struct IntegerReduction { i64 data, count, other, partials; };

// Lower and upper halves are summed apart: neither overflows.
extern "C" __global__ void sum_int64(const IntegerReduction p) {
  __shared__ u64 low[256];
  __shared__ i64 high[256];
  i64 step = (i64)gridDim.x * blockDim.x;
  u64 l = 0;
  i64 h = 0;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
    i64 value = ((const i64*)p.data)[i];
    l += (u64)value & 0xffffffffULL;
    h += value >> 32;
  }
  low[threadIdx.x] = l;
  high[threadIdx.x] = h;
  __syncthreads();
  for (int half = blockDim.x / 2; half >= 1; half /= 2) {
    if (threadIdx.x < half) {
      low[threadIdx.x] += low[threadIdx.x + half];
      high[threadIdx.x] += high[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    ((u64*)p.partials)[2 * blockIdx.x] = low[0];
    ((i64*)p.partials)[2 * blockIdx.x + 1] = high[0];
  }
}

extern "C" __global__ void difference_int64(const IntegerReduction p) {
  __shared__ u64 largest[256];
  i64 step = (i64)gridDim.x * blockDim.x;
  u64 most = 0;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
    i64 a = ((const i64*)p.data)[i], b = ((const i64*)p.other)[i];
    u64 difference = a > b ? (u64)a - (u64)b : (u64)b - (u64)a;
    if (difference > most) most = difference;
  }
  largest[threadIdx.x] = most;
  __syncthreads();
  for (int half = blockDim.x / 2; half >= 1; half /= 2) {
    if (threadIdx.x < half && largest[threadIdx.x + half] > largest[threadIdx.x]) {
      largest[threadIdx.x] = largest[threadIdx.x + half];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    ((u64*)p.partials)[2 * blockIdx.x] = largest[0];
    ((u64*)p.partials)[2 * blockIdx.x + 1] = 0;
  }
}
`;

const elementSource = elementAccess + CONVERT + RANDOM;
const reductionSource = elementAccess + REDUCE;

/** Conversions, random numbers and closed forms: kernels `convert`, `random`, `linear`. */
export const elementKernels: Program = new Program("elements", elementSource);

/** Exact sums and largest differences: kernels `difference`, `sum_int64` and `difference_int64`. */
export const reductionKernels: Program = new Program("reductions", reductionSource);

/** The sources, by name, for tests that compile them without a GPU. */
export const kernelSources: Readonly<Record<string, string>> = {
  elements: elementSource,
  reductions: reductionSource,
};
