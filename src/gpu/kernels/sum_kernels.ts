/**
 * Sums of blocks that arrived from other GPUs: added in higher precision, and rounded once.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import type { Stream } from "../stream.ts";
import { blocksFor, Program } from "./program.ts";

/** The most blocks that are added at a time. */
const MOST_TERMS = 7;

/** How an element becomes a number, and a number an element; complex ones are two real numbers each. */
const NUMBERS: Partial<Record<DType, readonly [type: string, number: string, load: string, store: string]>> = {
  float32: ["float", "float", "x", "x"],
  float64: ["double", "double", "x", "x"],
  bfloat16: ["u16", "float", "__uint_as_float((u32)x << 16)", "narrow_bfloat16(x)"],
  float16: ["u16", "float", "wide_float16(x)", "narrow_float16(x)"],
};

/** The source for a dtype, for tests that compile it without a GPU. */
export function sumSource(dtype: DType): string {
  const [type, number, load, store] = NUMBERS[dtypeInfo(dtype).real]!;
  return `
typedef long long i64;
typedef unsigned int u32;
typedef unsigned short u16;

#ifdef __CUDA_ARCH__
__device__ float wide_float16(u16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x)); return y; }
__device__ u16 narrow_float16(float x) { u16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
__device__ u16 narrow_bfloat16(float x) { u16 y; asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x)); return y; }
#else
static float wide_float16(u16 x) { return half_to_float(x); }
static u16 narrow_float16(float x) { return float_to_half(x); }
static u16 narrow_bfloat16(float x) { return float_to_bfloat16(x); }
#endif

struct Sum { i64 to, leading, rows, columns, width, count, from[${MOST_TERMS}]; };

__device__ ${number} load(${type} x) { return ${load}; }
__device__ ${type} store(${number} x) { return ${store}; }

// So many elements at a time as 16 bytes hold.
template <int WIDTH> struct alignas(WIDTH * sizeof(${type})) Pack { ${type} x[WIDTH]; };

template <int WIDTH> __device__ void add(const Sum& p) {
  i64 groups = p.rows / WIDTH, step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < groups * p.columns; i += step) {
    auto* to = (Pack<WIDTH>*)((${type}*)p.to + i / groups * p.leading) + i % groups;
    Pack<WIDTH> pack = *to;
    ${number} sum[WIDTH];
    #pragma unroll
    for (int j = 0; j < WIDTH; j++) sum[j] = load(pack.x[j]);
    for (int term = 0; term < p.count; term++) {
      pack = ((const Pack<WIDTH>*)p.from[term])[i];
      #pragma unroll
      for (int j = 0; j < WIDTH; j++) sum[j] += load(pack.x[j]);
    }
    #pragma unroll
    for (int j = 0; j < WIDTH; j++) pack.x[j] = store(sum[j]);
    *to = pack;
  }
}

extern "C" __global__ void add_blocks(const Sum p) {
  if (p.width == 1) add<1>(p);
  else add<16 / sizeof(${type})>(p);
}
`;
}

const programs = new Map<DType, Program>();

function programOf(dtype: DType): Program {
  const { real } = dtypeInfo(dtype);
  const found = programs.get(real) ?? new Program("sums", sumSource(real));
  programs.set(real, found);
  return found;
}

/** Whether there are sums of a dtype. */
export function canSum(dtype: DType): boolean {
  return NUMBERS[dtypeInfo(dtype).real] !== undefined;
}

/** Compile and load the kernel, where one rank may fail alone. */
export function prepareSum(dtype: DType, stream: Stream): void {
  programOf(dtype).function("add_blocks", stream.device);
}

/** A matrix that lies column by column. */
export interface SummedMatrix {
  readonly address: bigint;
  /** Elements from one column to the next. */
  readonly leadingDimension: number;
}

/** Add blocks without gaps to a matrix of so many rows and columns. */
export function addBlocks(
  dtype: DType,
  to: SummedMatrix,
  from: readonly bigint[],
  [rows, columns]: readonly [number, number],
  stream: Stream,
): void {
  const { parts, itemSize } = dtypeInfo(dtype);
  const [numbers, leading] = [rows * parts, to.leadingDimension * parts];
  const pack = 16 * parts / itemSize;
  const isAligned = [to.address, ...from].every((address) => address % 16n === 0n) && numbers % pack === 0 &&
    leading % pack === 0;
  const width = isAligned ? pack : 1;
  const all = Array.from({ length: MOST_TERMS }, (_, i) => from[i] ?? 0n);
  const words = [leading, numbers, columns, width, from.length].map(BigInt);
  programOf(dtype).launch("add_blocks", stream, blocksFor(numbers / width * columns), [to.address, ...words, ...all]);
}
