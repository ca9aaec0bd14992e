/**
 * Kernels of transforms, beside those of cuFFT: scaling, and roots of unity between the halves of a long transform.
 *
 * @module
 */
import { MOST_AXES } from "./array_kernels.ts";
import { Program } from "./program.ts";

/** Axes of numbers: those of arrays, and one for the two parts of complex elements. */
export const MOST_NUMBER_AXES = MOST_AXES + 1;

const SOURCE = `
typedef long long i64;

struct Axis { i64 extent, stride; };

// The axes of numbers, the innermost first.
struct Scaling { i64 data, isDouble, count, axes; Axis axis[${MOST_NUMBER_AXES}]; double factor; };

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
    if (p.isDouble) ((double*)p.data)[at] *= p.factor;
    else ((float*)p.data)[at] = (float)((double)((float*)p.data)[at] * p.factor);
  }
}

struct Roots { i64 data, isDouble, rows, columns, first, length, sign; };

// Element (row, column) times exp(sign 2 pi i row (first + column) / length), of which the exponent is exact.
extern "C" __global__ void multiply_by_roots(const Roots p) {
  i64 count = p.rows * p.columns, step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    i64 power = i / p.columns * (p.first + i % p.columns) % p.length;
    double sine, cosine;
    sincospi(2.0 * (double)power / (double)p.length, &sine, &cosine);
    if (p.sign < 0) sine = -sine;
    if (p.isDouble) {
      double* z = (double*)p.data + 2 * i;
      double re = z[0], im = z[1];
      z[0] = re * cosine - im * sine;
      z[1] = re * sine + im * cosine;
    } else {
      float* z = (float*)p.data + 2 * i;
      double re = z[0], im = z[1];
      z[0] = (float)(re * cosine - im * sine);
      z[1] = (float)(re * sine + im * cosine);
    }
  }
}
`;

/** Kernels `scale` and `multiply_by_roots`. */
export const fftKernels: Program = new Program("transforms", SOURCE);

/** The source, for tests that compile it without a GPU. */
export const fftKernelSource: string = SOURCE;
