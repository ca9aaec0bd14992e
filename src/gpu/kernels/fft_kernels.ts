/**
 * Kernels of transforms, beside those of cuFFT: scaling, and roots of unity between the halves of a long transform.
 *
 * @module
 */
import { elementAccess, MOST_AXES } from "./array_kernels.ts";
import { Program } from "./program.ts";

/** Axes of numbers: those of arrays, and one for the two parts of complex elements. */
export const MOST_NUMBER_AXES = MOST_AXES + 1;

const SOURCE = `${elementAccess}
struct Axis { i64 extent, stride; };

// The axes of numbers, the innermost first.
struct Scaling { i64 data, type, count, axes; Axis axis[${MOST_NUMBER_AXES}]; double factor; };

extern "C" __global__ void scale(const Scaling p) {
  i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
    i64 rest = i, at = 0;
    #pragma unroll 1
    for (int d = 0; d < p.axes; d++) {
      i64 extent = p.axis[d].extent;
      at += (extent == p.count ? rest : rest % extent) * p.axis[d].stride;
      rest /= extent;
    }
    store(p.data, (int)p.type, at, load(p.data, (int)p.type, at) * p.factor);
  }
}

struct Roots { i64 data, type, rows, columns, first, length, sign; };

// Element (row, column) times exp(sign 2 pi i row (first + column) / length), of which the exponent is exact.
extern "C" __global__ void multiply_by_roots(const Roots p) {
  i64 count = p.rows * p.columns, step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    i64 power = i / p.columns * (p.first + i % p.columns) % p.length;
    double sine, cosine;
    sincospi(2.0 * (double)power / (double)p.length, &sine, &cosine);
    if (p.sign < 0) sine = -sine;
    double re = load(p.data, (int)p.type, 2 * i), im = load(p.data, (int)p.type, 2 * i + 1);
    store(p.data, (int)p.type, 2 * i, re * cosine - im * sine);
    store(p.data, (int)p.type, 2 * i + 1, re * sine + im * cosine);
  }
}
`;

/** Kernels `scale` and `multiply_by_roots`. */
export const fftKernels: Program = new Program("transforms", SOURCE);

/** The source, for tests that compile it without a GPU. */
export const fftKernelSource: string = SOURCE;
