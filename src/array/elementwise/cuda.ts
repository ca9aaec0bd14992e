/**
 * Formulas in CUDA C++: what JavaScript's names mean there.
 *
 * All floats are computed with as doubles, as on the CPU, so that both give the same bits but for what the two libraries of
 * functions round differently; integers of at most 32 bits as 64-bit ones, int64 as `Big`.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { elementAccess } from "../../gpu/kernels/array_kernels.ts";
import type { Language } from "./expression.ts";

/** In which C++ type a real dtype is computed with. */
export function typeInCuda(dtype: DType): "double" | "i64" | "Big" {
  return dtype === "int64" ? "Big" : dtypeInfo(dtype).isInteger ? "i64" : "double";
}

/** The C++ types of integers in memory. */
export const INTEGERS_IN_CUDA = { int8: "signed char", uint8: "u8", int32: "int", int64: "i64" } as const;

/** A choice without a branch, as operations.ts writes it. */
const SELECT = /\(W\[0\] = (.+), W\[1\] = (.+), W\[(.+)\]\)/;

/** JavaScript's operators as C has them. */
export function withOperatorsOfC(code: string): string {
  return code.replace(SELECT, "(($3) ? ($2) : ($1))").replaceAll("===", "==").replaceAll("!==", "!=");
}

/** What runs on GPUs. */
export const CUDA: Language = {
  translate: (code) =>
    withOperatorsOfC(code)
      .replace(/\b(\d+)n\b/g, "Big{$1}")
      .replace(/\bconst\b/g, "const auto"),
  cast: (code, from, to) => {
    const [one, other] = [typeInCuda(from), typeInCuda(to)];
    if (one === other) return code;
    return other === "Big" ? `Big{${code}}` : `(double)(${code})${one === "Big" ? ".value" : ""}`;
  },
  wrap: (code, dtype) => {
    if (dtype === "int64") return code;
    const { isInteger } = dtypeInfo(dtype);
    return isInteger
      ? `(i64)(${INTEGERS_IN_CUDA[dtype as keyof typeof INTEGERS_IN_CUDA]})(${code})`
      : `(double)(${code})`;
  },
};

const unary = [
  "sqrt exp expm1 log log1p log2 log10 sin cos tan asin acos atan sinh cosh tanh floor ceil trunc",
].join().split(" ").map((name) => `  __device__ double ${name}(double x) { return ::${name}(x); }`).join("\n");

/** What every generated kernel begins with. */
export const PRELUDE = `${elementAccess}
// Integers of 64 bits that wrap around.
struct Big { i64 value; };
__device__ Big operator+(Big a, Big b) { return Big{(i64)((u64)a.value + (u64)b.value)}; }
__device__ Big operator-(Big a, Big b) { return Big{(i64)((u64)a.value - (u64)b.value)}; }
__device__ Big operator*(Big a, Big b) { return Big{(i64)((u64)a.value * (u64)b.value)}; }
__device__ Big operator-(Big a) { return Big{(i64)(0 - (u64)a.value)}; }
__device__ bool operator==(Big a, Big b) { return a.value == b.value; }
__device__ bool operator!=(Big a, Big b) { return a.value != b.value; }
__device__ bool operator<(Big a, Big b) { return a.value < b.value; }
__device__ bool operator<=(Big a, Big b) { return a.value <= b.value; }
__device__ bool operator>(Big a, Big b) { return a.value > b.value; }
__device__ bool operator>=(Big a, Big b) { return a.value >= b.value; }

struct BigIntObject {
  __device__ Big asIntN(int, Big x) { return x; }
};

struct MathObject {
${unary}
  __device__ double abs(double x) { return ::fabs(x); }
  __device__ i64 abs(i64 x) { return x < 0 ? -x : x; }
  __device__ i64 imul(i64 a, i64 b) { return (i64)(int)((u32)a * (u32)b); }
};

// As in helpers.ts.
struct Helpers {
  i64* refused;

  __device__ double power(double a, double b) { return b == 2 ? a * a : ::pow(a, b); }
  __device__ double atan2(double y, double x) { return ::atan2(y, x); }
  __device__ i64 integerPower(i64 a, i64 b) {
    if (b < 0) *refused = b;
    u32 result = 1;
    for (u32 square = (u32)a; b > 0; b >>= 1, square *= square) if (b & 1) result *= square;
    return (i64)(int)result;
  }
  __device__ Big bigPower(Big a, Big b) {
    if (b.value < 0) *refused = b.value;
    u64 result = 1;
    i64 n = b.value;
    for (u64 square = (u64)a.value; n > 0; n >>= 1, square *= square) if (n & 1) result *= square;
    return Big{(i64)result};
  }
  __device__ double roundToEven(double a) { return ::rint(a); }
  __device__ double erf(double a) { return ::erf(a); }
  __device__ double erfc(double a) { return ::erfc(a); }
  __device__ double hypotenuse(double x, double y) {
    double squares = x * x + y * y;
    return squares > 1e-280 && squares < INFINITE ? ::sqrt(squares) : ::hypot(x, y);
  }
  __device__ double divideRe(double ar, double ai, double br, double bi) {
    if (br == 0 && bi == 0) return ar / 0.0;
    if (::fabs(br) >= ::fabs(bi)) {
      double ratio = bi / br;
      return (ar + ai * ratio) / (br + bi * ratio);
    }
    double ratio = br / bi;
    return (ar * ratio + ai) / (br * ratio + bi);
  }
  __device__ double divideIm(double ar, double ai, double br, double bi) {
    if (br == 0 && bi == 0) return ai / 0.0;
    if (::fabs(br) >= ::fabs(bi)) {
      double ratio = bi / br;
      return (ai - ar * ratio) / (br + bi * ratio);
    }
    double ratio = br / bi;
    return (ai * ratio - ar) / (br * ratio + bi);
  }
  __device__ double signPart(double part, double re, double im) {
    double a = ::fabs(re), b = ::fabs(im), size = a > b ? a : b;
    if (a == INFINITE || b == INFINITE) {
      return a == b ? NOT_A_NUMBER : ::fabs(part) != INFINITE ? 0 : part > 0 ? 1 : -1;
    }
    double scale = size > 0x1p1000 ? 0x1p-100 : 1, length = hypotenuse(re * scale, im * scale);
    return length == 0 ? 0 : part * scale / length;
  }
  __device__ double signRe(double re, double im) { return signPart(re, re, im); }
  __device__ double signIm(double re, double im) { return signPart(im, re, im); }
  __device__ double sumAndRest(double a, double b, double* rest) {
    double sum = a + b, other = sum - a;
    *rest = (a - (sum - other)) + (b - other);
    return sum;
  }
  __device__ double roundedSum(double a, double b, double c, double d) {
    double part[5], third, second, first;
    part[0] = sumAndRest(a, sumAndRest(b, sumAndRest(c, d, &third), &second), &first);
    if (second == 0 && third == 0) return part[0];
    double rest = first + (second + third);
    double doubt = 0x1p-50 * (::fabs(first) + ::fabs(second) + ::fabs(third));
    double sum = part[0] + (rest - doubt), before;
    if (sum == part[0] + (rest + doubt)) return sum;
    int count = 1;
    for (int k = 0; k < 3; k++) {
      double value = k == 0 ? first : k == 1 ? second : third;
      int kept = 0;
      for (int i = 0; i < count; i++) {
        value = sumAndRest(value, part[i], &rest);
        if (rest != 0) part[kept++] = rest;
      }
      part[kept++] = value;
      count = kept;
    }
    for (sum = part[--count]; count > 0;) {
      before = sum;
      sum = before + part[--count];
      rest = part[count] - (sum - before);
      if (rest == 0) continue;
      double next = count > 0 ? part[count - 1] : 0, further = sum + 2 * rest;
      if (((rest > 0 && next > 0) || (rest < 0 && next < 0)) && 2 * rest == further - sum) sum = further;
      break;
    }
    return sum;
  }
  // The smallest power of two that is not below a bound, times a factor; 0 if there is nothing to cut.
  __device__ double cutOf(double bound, double factor) {
    if (!(bound >= 0x1p-1000 && bound <= 0x1p900)) return 0;
    double power = __longlong_as_double(__double_as_longlong(bound) & 0x7ff0000000000000);
    return (power < bound ? power * 2 : power) * factor;
  }

  // As in complex_functions.ts.
  __device__ double scaleOf(double re, double im) {
    double x = ::fabs(re), y = ::fabs(im), larger = x > y ? x : y;
    return larger > 0x1p1000 ? 0x1p-60 : larger < 0x1p-900 ? 0x1p60 : 1;
  }
  __device__ double largerOfRoot(double re, double im) {
    double scale = scaleOf(re, im), x = ::fabs(re) * scale;
    return ::sqrt((hypotenuse(x, im * scale) + x) / 2) / ::sqrt(scale);
  }
  __device__ double sqrtRe(double re, double im) {
    if (::fabs(im) == INFINITE) return INFINITE;
    double larger = largerOfRoot(re, im);
    return re >= 0 || larger == 0 ? larger : ::fabs(im) / (2 * larger);
  }
  __device__ double sqrtIm(double re, double im) {
    if (::fabs(im) == INFINITE) return im;
    double larger = largerOfRoot(re, im), size = re < 0 || larger == 0 ? larger : ::fabs(im) / (2 * larger);
    return __double_as_longlong(im) < 0 ? -size : size;
  }
  __device__ double squaresBeyondOne(double x, double y) {
    double larger = x > y ? x : y, smaller = x > y ? y : x, xx = larger * larger, yy = smaller * smaller;
    double half = yy < 0.25 ? 0 : 0.5;
    return roundedSum(xx - (1 - half), yy - half, ::fma(larger, larger, -xx), ::fma(smaller, smaller, -yy));
  }
  // Not inlined, which would take seconds to compile.
  __device__ __noinline__ double logRe(double re, double im) {
    double squares = re * re + im * im;
    if (squares > 0.5 && squares < 2) return ::log1p(squaresBeyondOne(::fabs(re), ::fabs(im))) / 2;
    double scale = scaleOf(re, im);
    return ::log(hypotenuse(re * scale, im * scale)) - ::log(scale);
  }
  __device__ double expTimes(double x, double f) {
    if (f == 0) return f;
    if (!(x > 709)) return ::exp(x) * f;
    double root = ::exp(x / 2);
    return root * f * root;
  }
  __device__ double expRe(double re, double im) {
    double f = ::cos(im);
    return f != f && ::fabs(re) == INFINITE ? ::exp(re) : expTimes(re, f);
  }
  __device__ double expIm(double re, double im) {
    double f = ::sin(im);
    return f != f && re == -INFINITE ? 0 : expTimes(re, f);
  }
  __device__ double coshTimes(double x, double f) {
    if (!(::fabs(x) > 709)) return ::cosh(x) * f;
    double root = ::cosh(x / 2);
    return 2 * (root * f) * root;
  }
  __device__ double sinhTimes(double x, double f) {
    if (!(::fabs(x) > 709)) return ::sinh(x) * f;
    double root = ::sinh(x / 2);
    return 2 * (root * f) * ::fabs(root);
  }
  __device__ double coshCos(double x, double y) {
    double f = ::cos(y);
    return f != f && ::fabs(x) == INFINITE ? INFINITE : coshTimes(x, f);
  }
  __device__ double coshSin(double x, double y) {
    double f = ::sin(y);
    return f == 0 ? f : coshTimes(x, f);
  }
  __device__ double sinhCos(double x, double y) {
    double f = ::cos(y);
    return f != f && (x == 0 || ::fabs(x) == INFINITE) ? x : sinhTimes(x, f);
  }
  __device__ double sinhSin(double x, double y) {
    double f = ::sin(y);
    if (f != f && x == 0) return x;
    return f == 0 && !(::fabs(x) <= 709) ? (x < 0 ? -f : f) : sinhTimes(x, f);
  }
  __device__ double tanhRe(double re, double im) {
    double s = ::sinh(re), c = ::cos(im), sign = re < 0 ? -1 : 1;
    if (c != c && (re == 0 || ::fabs(re) == INFINITE)) return re == 0 ? re : sign;
    if (::fabs(re) > 20) return c != c ? c : sign;
    return s * ::cosh(re) / (s * s + c * c);
  }
  __device__ double tanhIm(double re, double im) {
    double s = ::sin(im), c = ::cos(im), other = ::sinh(re);
    if (s == 0 || (s != s && ::fabs(re) == INFINITE)) return im == 0 ? im : 0;
    if (::fabs(re) > 20) return 4 * s * c * ::exp(-2 * ::fabs(re));
    return s * c / (other * other + c * c);
  }
  __device__ double powerPart(double ar, double ai, double br, double bi, bool isReal) {
    if (ar == 0 && ai == 0) return (br == 0 && bi == 0 ? 1 : br > 0 ? 0 : NOT_A_NUMBER) * (isReal ? 1 : 0);
    double logarithm = logRe(ar, ai), turn = ::atan2(ai, ar), angle = bi * logarithm + br * turn;
    double real = br * logarithm - bi * turn;
    return isReal ? expRe(real, angle) : expIm(real, angle);
  }
  __device__ double powerRe(double ar, double ai, double br, double bi) {
    if (bi == 0 && (br == 0 || br == 1)) return br == 0 ? 1 : ar;
    return br == 2 && bi == 0 ? ar * ar - ai * ai : powerPart(ar, ai, br, bi, true);
  }
  __device__ double powerIm(double ar, double ai, double br, double bi) {
    if (bi == 0 && (br == 0 || br == 1)) return br == 0 ? 0 : ai;
    return br == 2 && bi == 0 ? ar * ai + ai * ar : powerPart(ar, ai, br, bi, false);
  }
};
`;
