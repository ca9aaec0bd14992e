/**
 * Kernels of transforms, beside those of cuFFT: scaling, roots of unity between the halves of a long transform, and one half
 * of the spectrum of real numbers from another one.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import { elementAccess } from "./array_kernels.ts";
import { MOST_AXES } from "./copy_kernels.ts";
import { Program } from "./program.ts";

/** Axes of numbers: those of arrays, and one for the two parts of complex elements. */
export const MOST_NUMBER_AXES = MOST_AXES + 1;

/** The C type of numbers, their name where elements are loaded, and one times a factor. */
const NUMBERS = {
  float16: ["u16", "FLOAT16", "encode(decode(x, formatOf(FLOAT16)) * factor, formatOf(FLOAT16))"],
  float32: ["float", "FLOAT32", "x * factor"],
  float64: ["double", "FLOAT64", "x * factor"],
} as const satisfies { readonly [dtype in DType]?: readonly [type: string, name: string, scaled: string] };

/** The dtypes of the numbers that are transformed. */
type Precision = keyof typeof NUMBERS;

const KERNELS = `
struct Axis { i64 extent, stride; };

// The axes of numbers, the innermost first.
struct Scaling { i64 data, count, axes; Axis axis[${MOST_NUMBER_AXES}]; double factor; };

// What is loaded and stored at a time where numbers lie in sequence.
struct alignas(16) Line { T number[16 / sizeof(T)]; };

__device__ T scaled(T x, double factor) { return (T)(SCALED); }

extern "C" __global__ void scale(const Scaling p) {
  i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x, step = (i64)gridDim.x * blockDim.x;
  i64 begin = 0;
  if (p.axes == 1 && p.axis[0].stride == 1 && p.data % sizeof(Line) == 0) {
    const int length = 16 / sizeof(T);
    Line* lines = (Line*)p.data;
    begin = p.count / length * length;
    for (i64 i = first; i < p.count / length; i += step) {
      Line line = lines[i];
      #pragma unroll
      for (int j = 0; j < length; j++) line.number[j] = scaled(line.number[j], p.factor);
      lines[i] = line;
    }
  }
  for (i64 i = begin + first; i < p.count; i += step) {
    i64 rest = i, at = 0;
    #pragma unroll 1
    for (int d = 0; d < p.axes; d++) {
      i64 extent = p.axis[d].extent;
      at += (extent == p.count ? rest : rest % extent) * p.axis[d].stride;
      rest /= extent;
    }
    T* number = (T*)p.data + at;
    *number = scaled(*number, p.factor);
  }
}

struct Roots { i64 data, rows, columns, first, length, sign; };

// Element (row, column) times exp(sign 2 pi i row (first + column) / length), of which the exponent is exact.
extern "C" __global__ void multiply_by_roots(const Roots p) {
  i64 count = p.rows * p.columns, step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
    i64 power = i / p.columns * (p.first + i % p.columns) % p.length;
    double sine, cosine;
    sincospi(2.0 * (double)power / (double)p.length, &sine, &cosine);
    if (p.sign < 0) sine = -sine;
    double re = load(p.data, TYPE, 2 * i), im = load(p.data, TYPE, 2 * i + 1);
    store(p.data, TYPE, 2 * i, re * cosine - im * sine);
    store(p.data, TYPE, 2 * i + 1, re * sine + im * cosine);
  }
}

// A rank's rows of a matrix of spectra, and those that mirror them: see rowsOf(). A column of the vector's part has
// width elements, those of height rows and then of the mirrored ones; of the matrix \`height\`.
struct Halves { i64 source, target, count, rows, columns, first, height, mirrored, width, extent; };

__device__ void copyElement(const Halves& p, i64 to, i64 from, bool isConjugate) {
  double im = load(p.source, TYPE, 2 * from + 1);
  store(p.target, TYPE, 2 * to, load(p.source, TYPE, 2 * from));
  store(p.target, TYPE, 2 * to + 1, isConjugate ? -im : im);
}

// The first half of the vector from the first rows of the matrix.
extern "C" __global__ void to_first_half(const Halves p) {
  i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
    i64 column = i / p.width, at = i % p.width;
    i64 mirror = p.rows - (p.mirrored + at - p.height) - p.first;
    if (at < p.height) copyElement(p, i, column * p.height + at, false);
    else copyElement(p, i, (p.columns - 1 - column) * p.height + mirror, true);
  }
}

// The opposite.
extern "C" __global__ void from_first_half(const Halves p) {
  i64 step = (i64)gridDim.x * blockDim.x;
  for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += step) {
    i64 column = i / p.height, at = i % p.height, row = p.first + at;
    i64 mirrorColumn = p.columns - 1 - column;
    if (column * p.rows + row < p.extent) copyElement(p, i, column * p.width + at, false);
    else if (row == 0) copyElement(p, i, (mirrorColumn + 1) * p.width, true);
    else if (2 * row == p.rows) copyElement(p, i, mirrorColumn * p.width + at, true);
    else copyElement(p, i, mirrorColumn * p.width + p.height + p.rows - row - p.mirrored, true);
  }
}
`;

/** The sources, for tests that compile them without a GPU. */
export const fftKernelSources = Object.fromEntries(
  Object.entries(NUMBERS).map(([precision, [type, name, scaled]]) => [
    precision,
    `${elementAccess}\ntypedef ${type} T;\n#define TYPE ${name}\n#define SCALED ${scaled}\n${KERNELS}`,
  ]),
) as Readonly<Record<Precision, string>>;

/** Kernels `scale`, `multiply_by_roots`, `to_first_half` and `from_first_half`, by what numbers are. */
export const fftKernels = Object.fromEntries(
  Object.entries(fftKernelSources).map((
    [precision, source],
  ) => [precision, new Program(`transforms_${precision}`, source)]),
) as Readonly<Record<Precision, Program>>;
