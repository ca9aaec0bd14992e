/**
 * Formulas in C, for the machine's own compiler: what JavaScript's names mean there, and which of them it has.
 *
 * Floats are computed with as doubles, as in loops of JavaScript. An operation whose operands and result are all float32 is
 * the exception: of those that IEEE 754 defines the result is the same, and other functions are those of float32.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import type { Compiler } from "../../../ffi/compiler.ts";
import { INTEGERS_IN_CUDA, withOperatorsOfC } from "./cuda.ts";
import type { Language } from "./expression.ts";

/** The C types of elements in memory; those of complex numbers are of a part. */
export const TYPES_IN_C: Partial<Record<DType, string>> = { ...INTEGERS_IN_CUDA, float32: "float", float64: "double" };

/** What runs on the CPU, compiled. */
export const C: Language = {
  translate: (code) =>
    withOperatorsOfC(code)
      .replace(/\b(\d+)n\b/g, "$1")
      .replace(/\bconst\b/g, "const __auto_type")
      .replace(/\b(Math|H|BigInt)\.(\w+)/g, "$1_$2"),
  cast: (code, from, to) => {
    const [one, other] = [from, to].map((dtype) => dtypeInfo(dtype).isInteger);
    return one === other ? code : other ? `(i64)(${code})` : `(double)(${code})`;
  },
  wrap: (code, dtype) => dtypeInfo(dtype).isInteger ? `(i64)(${TYPES_IN_C[dtype]})(${code})` : code,
};

/** Functions that are instructions, or a few of them. */
const INSTRUCTIONS: Readonly<Record<string, string>> = {
  Math_sqrt: "_Generic((x), float: __builtin_sqrtf, default: __builtin_sqrt)(x)",
  Math_floor: "_Generic((x), float: __builtin_floorf, default: __builtin_floor)(x)",
  Math_ceil: "_Generic((x), float: __builtin_ceilf, default: __builtin_ceil)(x)",
  Math_trunc: "_Generic((x), float: __builtin_truncf, default: __builtin_trunc)(x)",
  H_roundToEven: "_Generic((x), float: __builtin_rintf, default: __builtin_rint)(x)",
  Math_abs: "_Generic((x), float: __builtin_fabsf(x), double: __builtin_fabs(x), default: (x) < 0 ? -(x) : (x))",
};

const OF_TWO: Readonly<Record<string, string>> = {
  Math_imul: "(i64)(int)((unsigned)(x) * (unsigned)(y))",
  BigInt_asIntN: "(y)",
};

/** Functions that glibc has for vectors, by the version from which on it has them. */
const OF_VECTORS: readonly (readonly [version: number, names: string])[] = [
  [22, "Math_sin Math_cos Math_exp Math_log H_power"],
  [
    35,
    "Math_expm1 Math_log1p Math_log2 Math_log10 Math_tan Math_asin Math_acos Math_atan Math_sinh Math_cosh Math_tanh " +
    "H_erf H_erfc Math_atan2",
  ],
];

/**
 * e^x = 2^k e^r, |r| <= ln(2) / 2, to less than a unit in the last place: what glibc has for vectors takes twice as long. The
 * power of two is multiplied in two steps, since results may lie below the normal range.
 */
const EXPONENTIAL = `
static inline double exponential(double x) {
  const double c = x < -750 ? -750 : x > 720 ? 720 : x, shift = 0x1.8p52;
  const double turned = __builtin_fma(c, 0x1.71547652b82fep0, shift), k = turned - shift;
  const double r = __builtin_fma(-k, 0x1.abc9e3b39803fp-56, __builtin_fma(-k, 0x1.62e42fefa39efp-1, c));
  double p = 1.0 / 6227020800;
  ${
  [479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2]
    .map((factorial) => `p = __builtin_fma(p, r, 1.0 / ${factorial});`).join("\n  ")
}
  const double e = 1 + __builtin_fma(p * r, r, r);
  union { double real; i64 bits; } t = { turned }, s = { shift }, low, high;
  const i64 n = t.bits - s.bits;
  low.bits = ((n >> 1) + 1023) << 52, high.bits = (n - (n >> 1) + 1023) << 52;
  return x == x ? e * low.real * high.real : x;
}
__attribute__((simd("notinbranch"))) float expf(float);
#define Math_exp(x) _Generic((x), float: expf, default: exponential)(x)`;

/** C's name of a function. */
function nameInC(name: string): string {
  return name === "H_power" ? "pow" : name.slice(name.indexOf("_") + 1);
}

const call = (name: string, operands: string) => `_Generic((x), float: ${name}f, default: ${name})(${operands})`;

/** The definitions of functions of vectors, in terms of C's. */
function ofVectors(names: readonly string[]): [name: string, definition: string][] {
  return names.map((name) => {
    const ofC = nameInC(name);
    const operands = ["H_power", "Math_atan2"].includes(name) ? "x, y" : "x";
    const prototypes = ["double", "float"].map((type) => {
      const own = `${ofC}${type === "float" ? "f" : ""}`;
      return `__attribute__((simd("notinbranch"))) ${type} ${own}(${operands.replace(/\w/g, type)});`;
    });
    const value = name === "H_power" ? `((y) == 2 ? (x) * (x) : ${call(ofC, operands)})` : call(ofC, operands);
    return [name, `${prototypes.join("\n")}\n#define ${name}(${operands}) ${value}`];
  });
}

/** Functions whose results are exact or rounded once, the same wherever they are computed. */
const EXACT = new Map<string, string>([
  ...Object.entries(INSTRUCTIONS).map(([name, value]) => [name, `#define ${name}(x) (${value})`] as const),
  ...Object.entries(OF_TWO).map(([name, value]) => [name, `#define ${name}(x, y) (${value})`] as const),
]);

/** The functions of vectors that a compiler finds. Those of clang and of other CPUs were never tried. */
function vectorsOf({ macros }: Compiler): Map<string, string> {
  const minor = macros.get("__GLIBC__") === "2" ? Number(macros.get("__GLIBC_MINOR__")) : 0;
  const isKnown = macros.has("__x86_64__") && !macros.has("__clang__");
  const names = OF_VECTORS.flatMap(([version, names]) => isKnown && minor >= version ? names.split(" ") : []);
  const functions = new Map(ofVectors(names));
  if (functions.has("Math_exp") && macros.has("__FMA__")) functions.set("Math_exp", EXPONENTIAL);
  return functions;
}

/**
 * What a program in C begins with: the definitions of the functions that it calls; null if there is none of one of them.
 * `isExact` allows only those that give the same everywhere.
 */
export function prelude(code: string, compiler: Compiler, isExact: boolean): string | null {
  const known = isExact ? EXACT : new Map([...EXACT, ...vectorsOf(compiler)]);
  const names = [...new Set(code.match(/\b(?:Math|H|BigInt)_\w+/g))];
  if (!names.every((name) => known.has(name))) return null;
  return ["typedef long long i64; typedef unsigned char u8;", ...names.map((name) => known.get(name))].join("\n");
}
