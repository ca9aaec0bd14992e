/**
 * Kernels that copy elements between layouts.
 *
 * @module
 */
import { Program } from "./program.ts";

/** The most dimensions that a kernel takes. */
export const MOST_AXES = 8;

/** A C type of each size that elements have. */
const UNITS: Readonly<Record<number, string>> = {
  1: "unsigned char",
  2: "unsigned short",
  4: "unsigned int",
  8: "unsigned long long",
  16: "ulonglong2",
};

/** How threads go through the elements; the numbers of the ways in the kernels. */
export const COPY_WAYS = { along: 0n, rows: 1n, across: 2n } as const;

/** A copy as kernels are told of it. */
export interface CopyWords {
  /** Where it begins and ends, how many units and axes, and the axes: as many words as there are. */
  readonly words: readonly bigint[];
  /** How threads go through it. */
  readonly way: keyof typeof COPY_WAYS;
  /** The bytes that a thread copies at once. */
  readonly unitBytes: number;
  /** How many blocks of threads it is worth. */
  readonly blocks: number;
}

const COPY = `
// Positions along an axis are 0, 1, … times the strides, or pairs (source, target) in a table times the strides.
struct Axis { i64 extent, source, target, table; };

// Axes come with the innermost of the target first. In copies across, the second is the innermost of the source.
struct Copy { i64 source, target, count, axes; Axis axis[${MOST_AXES}]; };

__device__ void advance(const Axis& axis, i64 i, i64& source, i64& target) {
  if (axis.table) {
    source += ((const i64*)axis.table)[2 * i] * axis.source;
    target += ((const i64*)axis.table)[2 * i + 1] * axis.target;
  } else {
    source += i * axis.source;
    target += i * axis.target;
  }
}

// What one of so many blocks of threads does.
__device__ void along(const Copy& p, i64 block, i64 blocks) {
  for (i64 i = block * blockDim.x + threadIdx.x; i < p.count; i += blocks * blockDim.x) {
    i64 rest = i, source = 0, target = 0;
    #pragma unroll 1
    for (int d = 0; d < p.axes; d++) {
      const Axis& axis = p.axis[d];
      advance(axis, axis.extent == p.count ? rest : rest % axis.extent, source, target);
      rest /= axis.extent;
    }
    ((T*)p.target)[target] = ((const T*)p.source)[source];
  }
}

// Row by row: a block computes where a row lies once, and its threads run along the row.
__device__ void by_rows(const Copy& p, i64 block, i64 blocks) {
  const Axis& inner = p.axis[0];
  i64 rows = p.count / inner.extent;
  for (i64 row = block; row < rows; row += blocks) {
    i64 rest = row, source = 0, target = 0;
    #pragma unroll 1
    for (int d = 1; d < p.axes; d++) {
      advance(p.axis[d], rest % p.axis[d].extent, source, target);
      rest /= p.axis[d].extent;
    }
    const T* from = (const T*)p.source + source;
    T* to = (T*)p.target + target;
    for (i64 i = threadIdx.x; i < inner.extent; i += blockDim.x) {
      i64 s = 0, t = 0;
      advance(inner, i, s, t);
      to[t] = from[s];
    }
  }
}

// Square by square through shared memory, so that both sides are read and written in order.
__device__ void across(const Copy& p, i64 block, i64 blocks) {
  __shared__ T tile[32][33];
  const Axis &inner = p.axis[0], &outer = p.axis[1];
  i64 columns = (inner.extent + 31) / 32, rows = (outer.extent + 31) / 32;
  i64 tiles = p.count / (inner.extent * outer.extent) * columns * rows;
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  for (i64 t = block; t < tiles; t += blocks) {
    i64 left = t % columns * 32, top = t / columns % rows * 32, rest = t / columns / rows;
    i64 source = 0, target = 0;
    #pragma unroll 1
    for (int d = 2; d < p.axes; d++) {
      advance(p.axis[d], rest % p.axis[d].extent, source, target);
      rest /= p.axis[d].extent;
    }
    #pragma unroll 1
    for (int k = y; k < 32; k += 8) {
      i64 s = source, unused = 0;
      if (left + k >= inner.extent || top + x >= outer.extent) continue;
      advance(inner, left + k, s, unused);
      advance(outer, top + x, s, unused);
      tile[k][x] = ((const T*)p.source)[s];
    }
    __syncthreads();
    #pragma unroll 1
    for (int k = y; k < 32; k += 8) {
      i64 d = target, unused = 0;
      if (left + x >= inner.extent || top + k >= outer.extent) continue;
      advance(inner, left + x, unused, d);
      advance(outer, top + k, unused, d);
      ((T*)p.target)[d] = tile[x][k];
    }
    __syncthreads();
  }
}
`;

const KERNELS = `
extern "C" __global__ void copy_along(const Copy p) { along(p, blockIdx.x, gridDim.x); }
extern "C" __global__ void copy_rows(const Copy p) { by_rows(p, blockIdx.x, gridDim.x); }
extern "C" __global__ void copy_across(const Copy p) { across(p, blockIdx.x, gridDim.x); }
`;

/** Types, and functions that copy elements of 1, 2, 4, 8 or 16 bytes, for the kernels that follow. */
export const copyFunctions = (itemSize: number): string =>
  `typedef long long i64;\ntypedef ${UNITS[itemSize]} T;\n${COPY}`;

const sourceOf = (itemSize: number): string => copyFunctions(itemSize) + KERNELS;

const programs = new Map<number, Program>();

/**
 * Copies of elements of 1, 2, 4, 8 or 16 bytes between layouts: kernels `copy_along`, `copy_rows` for long rows, and
 * `copy_across` to transpose.
 */
export function copyKernels(itemSize: number): Program {
  let program = programs.get(itemSize);
  if (program === undefined) programs.set(itemSize, program = new Program(`copies_${itemSize}`, sourceOf(itemSize)));
  return program;
}

/** The sources, by name, for tests that compile them without a GPU. */
export const copyKernelSources: Readonly<Record<string, string>> = Object.fromEntries(
  Object.keys(UNITS).map((size) => [`copies_${size}`, sourceOf(Number(size))]),
);
