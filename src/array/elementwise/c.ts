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
  wrap: (code, dtype) => {
    const { isInteger, isComplex } = dtypeInfo(dtype);
    return isInteger ? `(i64)(${TYPES_IN_C[dtype]})(${code})` : isComplex ? withTerms(code) : code;
  },
};

/**
 * The terms of a sum or difference kept apart: gcc from version 12 on makes one instruction of products, a difference in one
 * part and a sum in the other, without rounding the products, whatever it is told of contraction.
 */
function withTerms(code: string): string {
  const terms = code.split(/ ([-+]) /);
  return terms.length === 1 ? code : terms.map((term, i) => i % 2 === 0 ? `TERM(${term})` : term).join(" ");
}

const TERM = `
#if __GNUC__ >= 12
#define TERM(x) __builtin_assoc_barrier(x)
#else
#define TERM(x) (x)
#endif`;

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
    "H_erf H_erfc H_atan2",
  ],
];

/**
 * e^x = 2^k e^r, |r| <= ln(2) / 2, to less than a unit in the last place: what glibc has for vectors takes twice as long. The
 * power of two is multiplied in two steps, since results may lie below the normal range.
 */
const exponential = () => `
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

/** A polynomial by Horner's rule; the coefficient of the highest power comes first. */
function polynomial(name: string, x: string, coefficients: string, type: "double" | "float" = "double"): string {
  const suffix = type === "float" ? "f" : "";
  const [first, ...others] = coefficients.split(" ").map((coefficient) => coefficient + suffix);
  return [
    `${type} ${name} = ${first};`,
    ...others.map((coefficient) => `${name} = __builtin_fma${suffix}(${name}, ${x}, ${coefficient});`),
  ].join("\n  ");
}

/** What x^y is by IEEE 754 where an operand or the sign is not ordinary; `size` is the power of |x|. */
function special(name: string, type: "double" | "float", suffix: "" | "f"): string {
  return `static inline ${type} ${name}(${type} x, ${type} y, ${type} size) {
  const ${type} whole = __builtin_floor${suffix}(y), half = __builtin_floor${suffix}(whole / 2);
  const ${type} infinity = __builtin_inf${suffix}();
  const int isWhole = whole == y, isOdd = isWhole & (y - 2 * half == 1);
  ${type} value = isOdd ? __builtin_copysign${suffix}(size, x) : size;
  value = x < 0 && !isWhole && x > -infinity || x != x || y != y ? __builtin_nan${suffix}("") : value;
  value = x == -1 && isWhole ? (isOdd ? -1 : 1) : value;
  return y == 0 || x == 1 ? 1 : value;
}`;
}

/**
 * Polynomials of least error: of log2((1 + t) / (1 - t)) / t in t^2, of which the first two terms are taken off (of float32
 * 2 / ln(2) + 0.96875 t^2), and of (2^r - 1) / r. Those of float32 have coefficients that float32 holds.
 */
const POLYNOMIALS = {
  logarithm:
    "0x1.5a648a9e663b1p-3 0x1.59e02989cb581p-3 0x1.89fed603ca687p-3 0x1.c68f2ef135884p-3 0x1.0c9a84bf646cdp-2 0x1.484b13d79c24ep-2 0x1.a61762a7adfa8p-2 0x1.2776c50ef9bfep-1",
  shortLogarithm: "0x1.5c62e6p-2 0x1.a59662p-2 0x1.277768p-1 -0x1.c7b16p-8",
  power:
    "0x1.e9d3fe3952179p-32 0x1.e6063f7217bc6p-28 0x1.b524fae627834p-24 0x1.62bfd47773353p-20 0x1.ffcbfc670dcd4p-17 0x1.430913096fd9fp-13 0x1.5d87fe78a5276p-10 0x1.3b2ab6fba1ddap-7 0x1.c6b08d704a0c2p-5 0x1.ebfbdff82c598p-3 0x1.62e42fefa39efp-1",
  shortPower: "0x1.fcc5fp-17 0x1.44728ap-13 0x1.5d8c14p-10 0x1.3b2a02p-7 0x1.c6b084p-5 0x1.ebfbep-3 0x1.62e43p-1",
};

/**
 * x^y = 2^(y log2 x), less than a unit in the last place from the exact value: by millions of random pairs against powl, 0.99
 * units of float64 and 0.96 of float32 at most. The logarithm has two parts, |x| = 2^e m, t = (m - 1) / (m + 1), so that
 * float32 is computed with as it is, in as many lanes as there are. What glibc has for vectors takes two to three times as
 * long. The quick form tells by `hard` that an operand or a result is none of the ordinary ones, which are positive, finite
 * and normal; where it does not, both forms give the same bits.
 */
const power = () => `
typedef union { double real; i64 bits; } Word;
typedef struct { double high, low; } Pair;
static inline Pair logarithm(double x, double less) {
  const Word a = { x };
  // e + 1023, made a double without a conversion, which AVX2 has not.
  const unsigned long long e = (unsigned long long)(a.bits + 0x95f619980c433) >> 52;
  const Word whole = { .bits = e | 0x4330000000000000 }, m = { .bits = a.bits - ((i64)(e - 1023) << 52) };
  const double n = m.real - 1, d = m.real + 1, d1 = m.real - (d - 1), over = 1 / d;
  const double k = whole.real - (0x1p52 + 1023 + less);
  const double t = n * over, t1 = over * __builtin_fma(-t, d1, __builtin_fma(-t, d, n));
  const double s = t * t, s1 = __builtin_fma(t + t, t1, __builtin_fma(t, t, -s));
  ${polynomial("q", "s", POLYNOMIALS.logarithm)}
  const double c = q * s, u = 0x1.ec709dc3a03fdp-1 + c, u1 = (0x1.ec709dc3a03fdp-1 - u) + c + 0x1.d27f05548af0cp-55;
  const double v = s * u, v1 = __builtin_fma(s1, u, __builtin_fma(s, u1, __builtin_fma(s, u, -v)));
  const double p = 0x1.71547652b82fep1 + v, p1 = (0x1.71547652b82fep1 - p) + v + (v1 + 0x1.777d0ffda0d24p-55);
  const double l = t * p, l1 = __builtin_fma(t1, p, __builtin_fma(t, p1, __builtin_fma(t, p, -l)));
  const double z = k + l;
  return (Pair){ z, (k - z) + l + l1 };
}
static inline double ofTwo(double w, double w1, double* scale) {
  const double turned = w + 0x1.8p52, r = (w - (turned - 0x1.8p52)) + w1;
  ${polynomial("g", "r", POLYNOMIALS.power)}
  *scale = turned;
  return __builtin_fma(g, r, 1);
}
${special("special", "double", "")}
${special("specialOfFloat", "float", "f")}
static inline double powerOfDouble(double x, double y) {
  const double size = __builtin_fabs(x), infinity = __builtin_inf();
  const int isTiny = size < 0x1p-1022;
  const Pair z = logarithm(isTiny ? size * 0x1p54 : size, isTiny ? 54 : 0);
  const double log = size == 0 ? -infinity : size == infinity ? infinity : z.high;
  const double w = y * log, c = w < -1100 ? -1100 : w > 1100 ? 1100 : w;
  const double w1 = c == w ? __builtin_fma(y, z.low, __builtin_fma(y, z.high, -w)) : 0;
  double turned;
  const double f = ofTwo(c, w1, &turned);
  const Word n = { turned };
  const i64 scale = n.bits - 0x4338000000000000;
  const Word low = { .bits = ((scale >> 1) + 1023) << 52 }, high = { .bits = (scale - (scale >> 1) + 1023) << 52 };
  return special(x, y, f * low.real * high.real);
}
static inline double quickOfDouble(double x, double y, int* hard) {
  const Pair z = logarithm(x, 0);
  const double w = y * z.high;
  double turned;
  Word f = { ofTwo(w, __builtin_fma(y, z.low, __builtin_fma(y, z.high, -w)), &turned) };
  const Word a = { x }, n = { turned };
  f.bits += n.bits << 52;
  *hard |= ((unsigned long long)a.bits - 0x10000000000000 >= 0x7fe0000000000000) | !(__builtin_fabs(w) < 1000);
  return f.real;
}
typedef union { float real; int bits; } WordOfFloat;
typedef struct { float high, low; } PairOfFloats;
static inline PairOfFloats logarithmOfFloat(float x, float less) {
  const WordOfFloat a = { x };
  const int e = (a.bits - 0x3f3504f3) >> 23;
  const WordOfFloat m = { .bits = a.bits - (e << 23) };
  const float n = m.real - 1, over = 1 / (m.real + 1), k = (float)e - less;
  const float t = n * over, t1 = over * __builtin_fmaf(-t, n, __builtin_fmaf(-2, t, n));
  const float s = t * t, s1 = __builtin_fmaf(t + t, t1, __builtin_fmaf(t, t, -s));
  ${polynomial("q", "s", POLYNOMIALS.shortLogarithm, "float")}
  const float p = __builtin_fmaf(s, 0.96875f, 0x1.715476p+1f), p0 = __builtin_fmaf(s, 0.96875f, 0x1.715476p+1f - p);
  const float p1 = __builtin_fmaf(s, q, p0 + (s1 + 0x1.4ae0cp-25f));
  const float l = t * p, l1 = __builtin_fmaf(t1, p, __builtin_fmaf(t, p1, __builtin_fmaf(t, p, -l)));
  const float z = k + l;
  return (PairOfFloats){ z, (k - z) + l + l1 };
}
static inline float ofTwoFloat(float w, float w1, int* scale) {
  const WordOfFloat turned = { w + 0x1.8p23f }, shift = { 0x1.8p23f };
  const float r = (w - (turned.real - shift.real)) + w1;
  ${polynomial("g", "r", POLYNOMIALS.shortPower, "float")}
  *scale = turned.bits - shift.bits;
  return __builtin_fmaf(g, r, 1);
}
static inline float powerOfFloat(float x, float y) {
  const float size = __builtin_fabsf(x), infinity = __builtin_inff();
  const int isTiny = size < 0x1p-126f;
  const PairOfFloats z = logarithmOfFloat(isTiny ? size * 0x1p24f : size, isTiny ? 24 : 0);
  const float log = size == 0 ? -infinity : size == infinity ? infinity : z.high;
  const float w = y * log, c = w < -200 ? -200 : w > 200 ? 200 : w;
  const float w1 = c == w ? __builtin_fmaf(y, z.low, __builtin_fmaf(y, z.high, -w)) : 0;
  int n;
  const float f = ofTwoFloat(c, w1, &n);
  const WordOfFloat low = { .bits = ((n >> 1) + 127) << 23 }, high = { .bits = (n - (n >> 1) + 127) << 23 };
  return specialOfFloat(x, y, f * low.real * high.real);
}
static inline float quickOfFloat(float x, float y, int* hard) {
  const PairOfFloats z = logarithmOfFloat(x, 0);
  const float w = y * z.high;
  int n;
  WordOfFloat f = { ofTwoFloat(w, __builtin_fmaf(y, z.low, __builtin_fmaf(y, z.high, -w)), &n) };
  const WordOfFloat a = { x };
  f.bits += n << 23;
  *hard |= ((unsigned)a.bits - 0x800000u >= 0x7f000000u) | !(__builtin_fabsf(w) < 125);
  return f.real;
}
#define H_power(x, y) ((y) == 2 ? (x) * (x) : _Generic((x), float: powerOfFloat, default: powerOfDouble)(x, y))
#define QUICK_POWER(x, y) \\
  ((y) == 2 ? (x) * (x) : _Generic((x), float: quickOfFloat, default: quickOfDouble)(x, y, &hard))`;

/** The parts of complex sinh and cosh as in complex_functions.ts, but without branches, so that vectors are computed with. */
const HYPERBOLIC = `
static inline double coshTimes(double x, double f) {
  const int isLarge = __builtin_fabs(x) > 709;
  const double root = Math_cosh(isLarge ? x / 2 : x), product = root * f;
  return isLarge ? 2 * product * root : product;
}
static inline double sinhTimes(double x, double f) {
  const int isLarge = __builtin_fabs(x) > 709;
  const double root = Math_sinh(isLarge ? x / 2 : x), product = root * f;
  return isLarge ? 2 * product * __builtin_fabs(root) : product;
}
static inline double H_coshCos(double x, double y) {
  const double f = Math_cos(y), infinity = __builtin_inf(), product = coshTimes(x, f);
  return (f != f) & (__builtin_fabs(x) == infinity) ? infinity : product;
}
static inline double H_coshSin(double x, double y) {
  const double f = Math_sin(y), product = coshTimes(x, f);
  return f == 0 ? f : product;
}
static inline double H_sinhCos(double x, double y) {
  const double f = Math_cos(y), product = sinhTimes(x, f);
  return (f != f) & ((x == 0) | (__builtin_fabs(x) == __builtin_inf())) ? x : product;
}
static inline double H_sinhSin(double x, double y) {
  const double f = Math_sin(y), product = sinhTimes(x, f), zero = x < 0 ? -f : f;
  const double value = (f == 0) & !(__builtin_fabs(x) <= 709) ? zero : product;
  return (f != f) & (x == 0) ? x : value;
}`;

/** C's name of a function. */
function nameInC(name: string): string {
  return name === "H_power" ? "pow" : name.slice(name.indexOf("_") + 1);
}

const call = (name: string, operands: string) => `_Generic((x), float: ${name}f, default: ${name})(${operands})`;

/** The definitions of functions of vectors, in terms of C's. */
function ofVectors(names: readonly string[]): [name: string, definition: string][] {
  return names.map((name) => {
    const ofC = nameInC(name);
    const operands = ["H_power", "H_atan2"].includes(name) ? "x, y" : "x";
    const prototypes = ["double", "float"].map((type) => {
      const own = `${ofC}${type === "float" ? "f" : ""}`;
      return `__attribute__((simd("notinbranch"))) ${type} ${own}(${operands.replace(/\w/g, type)});`;
    });
    const value = name === "H_power" ? `((y) == 2 ? (x) * (x) : ${call(ofC, operands)})` : call(ofC, operands);
    const quick = name === "H_power" ? "\n#define QUICK_POWER(x, y) H_power(x, y)" : "";
    return [name, `${prototypes.join("\n")}\n#define ${name}(${operands}) ${value}${quick}`];
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
  if (functions.has("Math_exp") && macros.has("__FMA__")) {
    functions.set("Math_exp", exponential());
    functions.set("H_power", power());
  }
  for (const name of ["H_coshCos", "H_coshSin", "H_sinhCos", "H_sinhSin"]) functions.set(name, HYPERBOLIC);
  return functions;
}

/**
 * What a program in C begins with: the definitions of the functions that it calls; null if there is none of one of them.
 * `isExact` allows only those that give the same everywhere.
 */
export function prelude(code: string, compiler: Compiler, isExact: boolean): string | null {
  const known = isExact ? EXACT : new Map([...EXACT, ...vectorsOf(compiler)]);
  const isHyperbolic = namesIn(code).some((name) => known.get(name) === HYPERBOLIC);
  const names = namesIn(isHyperbolic ? code + HYPERBOLIC : code);
  if (!names.every((name) => known.has(name))) return null;
  const definitions = names.map((name) => known.get(name)).filter((definition) => definition !== HYPERBOLIC);
  // The last one is made of others.
  if (isHyperbolic) definitions.push(HYPERBOLIC);
  return ["typedef long long i64; typedef unsigned char u8;", TERM, ...definitions].join("\n");
}

/** The names of functions in a piece of C. */
function namesIn(code: string): string[] {
  return [...new Set(code.match(/\b(?:Math|H|BigInt)_\w+/g))];
}
