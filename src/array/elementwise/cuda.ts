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
    if (::fabs(br) >= ::fabs(bi)) {
      double ratio = br == 0 ? 0 : bi / br;
      return (ar + ai * ratio) / (br + bi * ratio);
    }
    double ratio = br / bi;
    return (ar * ratio + ai) / (br * ratio + bi);
  }
  __device__ double divideIm(double ar, double ai, double br, double bi) {
    if (::fabs(br) >= ::fabs(bi)) {
      double ratio = br == 0 ? 0 : bi / br;
      return (ai - ar * ratio) / (br + bi * ratio);
    }
    double ratio = br / bi;
    return (ai * ratio - ar) / (br * ratio + bi);
  }
  __device__ double signRe(double re, double im) {
    double length = hypotenuse(re, im);
    return length == 0 ? 0 : re / length;
  }
  __device__ double signIm(double re, double im) {
    double length = hypotenuse(re, im);
    return length == 0 ? 0 : im / length;
  }
  __device__ double sqrtRe(double re, double im) {
    double length = hypotenuse(re, im);
    return re >= 0 ? ::sqrt((length + re) / 2) : length == 0 ? 0 : ::fabs(im) / 2 / ::sqrt((length - re) / 2);
  }
  __device__ double sqrtIm(double re, double im) {
    double length = hypotenuse(re, im);
    double size = re < 0 ? ::sqrt((length - re) / 2) : length == 0 ? 0 : ::fabs(im) / 2 / ::sqrt((length + re) / 2);
    return __double_as_longlong(im) < 0 ? -size : size;
  }
  __device__ double expRe(double re, double im) { return im == 0 ? ::exp(re) : ::exp(re) * ::cos(im); }
  __device__ double expIm(double re, double im) { return im == 0 ? im : ::exp(re) * ::sin(im); }
  __device__ double tanhRe(double re, double im) {
    if (::fabs(re) > 20) return re < 0 ? -1 : 1;
    return ::sinh(2 * re) / (::cosh(2 * re) + ::cos(2 * im));
  }
  __device__ double tanhIm(double re, double im) {
    if (::fabs(re) > 20) return 2 * ::sin(2 * im) * ::exp(-2 * ::fabs(re));
    return ::sin(2 * im) / (::cosh(2 * re) + ::cos(2 * im));
  }
  __device__ double powerPart(double ar, double ai, double br, double bi, bool isReal) {
    double length = hypotenuse(ar, ai), size = 1, angle = 0;
    if (length == 0) {
      size = br == 0 && bi == 0 ? 1 : br > 0 ? 0 : NOT_A_NUMBER;
    } else {
      double logarithm = ::log(length), turn = ::atan2(ai, ar);
      size = ::exp(br * logarithm - bi * turn);
      angle = bi * logarithm + br * turn;
    }
    return size * (isReal ? ::cos(angle) : ::sin(angle));
  }
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
  __device__ double powerRe(double ar, double ai, double br, double bi) {
    return br == 2 && bi == 0 ? ar * ar - ai * ai : powerPart(ar, ai, br, bi, true);
  }
  __device__ double powerIm(double ar, double ai, double br, double bi) {
    return br == 2 && bi == 0 ? 2 * ar * ai : powerPart(ar, ai, br, bi, false);
  }
};
`;
