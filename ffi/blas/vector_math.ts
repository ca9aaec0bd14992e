/**
 * The vector mathematics (VM) of Intel's MKL: functions of all elements of arrays, each a call on memory as it lies.
 *
 * Its most accurate mode is taken, in which results are less than one unit in the last place from the exact ones, by its
 * documentation; numbers below the normal range are kept, and nothing is said of results that are not finite.
 *
 * Source: oneMKL's developer reference, "Vector Mathematical Functions".
 *
 * @module
 */
import { inspectLibrary } from "../elf.ts";
import { LibraryNotFoundError, named, openLibrary, setLibraryVersion } from "../library.ts";
import { addressOf } from "../memory.ts";
import { taskCommand } from "../task_command.ts";
import { openBlas } from "./blas.ts";
import { loadInterface, MKL_INTERFACES, neighbour, versionOf } from "./mkl.ts";

/** Functions of one operand: `void vmd…(MKL_INT n, const double* a, double* y, MKL_INT64 mode)`. */
const ONE = { parameters: ["i32", "u64", "u64", "i64"], result: "void" } as const satisfies Deno.ForeignFunction;

/** Functions of two operands. */
const TWO = { parameters: ["i32", "u64", "u64", "u64", "i64"], result: "void" } as const satisfies Deno.ForeignFunction;

/** `cblas_?asum(n, x, incx)`: the sum of magnitudes, which is NaN only if an element is. */
const asum = <R extends "f32" | "f64">(result: R) => ({ parameters: ["i32", "u64", "i32"], result } as const);

/** MKL's names, after the letter of the type. */
const UNARY = {
  Sqr: ONE,
  Abs: ONE,
  Exp: ONE,
  Expm1: ONE,
  Ln: ONE,
  Log1p: ONE,
  Log2: ONE,
  Log10: ONE,
  Sin: ONE,
  Cos: ONE,
  Tan: ONE,
  Asin: ONE,
  Acos: ONE,
  Atan: ONE,
  Sinh: ONE,
  Cosh: ONE,
  Tanh: ONE,
  Erf: ONE,
  Erfc: ONE,
  Floor: ONE,
  Ceil: ONE,
  Trunc: ONE,
  Rint: ONE,
} as const;

const BINARY = {
  Add: TWO,
  Sub: TWO,
  Mul: TWO,
  Pow: TWO,
  Atan2: TWO,
  Fmin: TWO,
  Fmax: TWO,
} as const;

const FUNCTIONS = { ...UNARY, ...BINARY } as const satisfies Deno.ForeignLibraryInterface;

/** VML_HA | VML_ERRMODE_IGNORE | VML_FTZDAZ_OFF. */
const MODE = 0x140102n;

/** The functions of float64. */
export const VECTOR_SYMBOLS: typeof FUNCTIONS = named(FUNCTIONS, (name) => `vmd${name}`);

/** The functions of float32. */
export const VECTOR_SYMBOLS_SINGLE: typeof FUNCTIONS = named(FUNCTIONS, (name) => `vms${name}`);

/** MKL's name of a function of one operand, or of two. */
export type UnaryName = keyof typeof UNARY;
export type BinaryName = keyof typeof BINARY;

/** The functions of one type, of addresses. */
export interface VectorFunctions {
  /** Compute `n` elements of `y` of those of `a`, which may be `y`. */
  unary(name: UnaryName, n: number, a: bigint, y: bigint): void;
  /** As {@linkcode unary}, of those of `a` and `b`. */
  binary(name: BinaryName, n: number, a: bigint, b: bigint, y: bigint): void;
  /** Whether one of the elements is NaN. */
  hasNaN(n: number, a: bigint): boolean;
}

/** The vector mathematics of both types. */
export interface VectorMath {
  readonly float64: VectorFunctions;
  readonly float32: VectorFunctions;
}

/**
 * The code for each kind of CPU, of which MKL loads one by itself, and ends the process if that is missing: an install that
 * lacks one is not used. The newest kind, AVX10, came with MKL 2026.
 */
const KERNELS = ["def", "cmpt", "mc3", "avx2", "avx512"];

let opened: VectorMath | null | undefined;

/**
 * MKL's vector mathematics, for as many threads; null if there is none, or not all of it. Found and opened at the first call.
 */
export function openVectorMath(threads: number): VectorMath | null {
  return opened ??= opened === null ? null : findVectorMath(threads);
}

function findVectorMath(threads: number): VectorMath | null {
  const name = "vector mathematics";
  try {
    const { path } = openLibrary({
      name,
      files: MKL_INTERFACES,
      install: taskCommand("native install cpu"),
      refuse: (path) => missingKernel(path),
      prepare: (path) => loadInterface(path, threads),
    }, {});
    setLibraryVersion(name, openBlas(path).version);
    const double = Deno.dlopen(path, { ...VECTOR_SYMBOLS, cblas_dasum: asum("f64") }).symbols;
    const single = Deno.dlopen(path, { ...VECTOR_SYMBOLS_SINGLE, cblas_sasum: asum("f32") }).symbols;
    const math = { float64: functionsOf(double, double.cblas_dasum), float32: functionsOf(single, single.cblas_sasum) };
    return choosesSecond(math) ? math : null;
  } catch (error) {
    if (error instanceof LibraryNotFoundError || error instanceof TypeError) return null;
    throw error;
  }
}

/** Why an MKL must not be opened for its vector mathematics; null if it may. */
export function missingKernel(path: string): string | null {
  const kernels = KERNELS.map((kernel) => neighbour(path, `libmkl_vml_${kernel}.so${versionOf(path)}`));
  const missing = kernels.find((kernel) => inspectLibrary(kernel).state !== "whole");
  return missing === undefined ? null : `${missing}, which it may need, is not there`;
}

type Functions = Deno.DynamicLibrary<typeof FUNCTIONS>["symbols"];

function functionsOf(
  functions: Functions,
  asum: (n: number, x: bigint, stride: number) => number,
): VectorFunctions {
  return {
    unary: (name, n, a, y) => functions[name](n, a, y, MODE),
    binary: (name, n, a, b, y) => functions[name](n, a, b, y, MODE),
    hasNaN: (n, a) => Number.isNaN(asum(n, a, 1)),
  };
}

/** Whether of zeros of both signs the second one is taken, as loops do; the reference leaves it open. */
function choosesSecond({ float64 }: VectorMath): boolean {
  const [a, b, y] = [0, -0, NaN].map((value) => new Float64Array(64).fill(value));
  const [first, second, result] = [a, b, y].map(addressOf);
  return (["Fmin", "Fmax"] as const).every((name) => {
    float64.binary(name, y.length, first, second, result);
    const isSecond = y.every((value) => Object.is(value, -0));
    float64.binary(name, y.length, second, first, result);
    return isSecond && y.every((value) => Object.is(value, 0));
  });
}
