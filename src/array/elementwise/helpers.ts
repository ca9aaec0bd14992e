/**
 * Functions of numbers that JavaScript does not have; the formulas of operations.ts call them.
 *
 * @module
 */
import {
  coshCos,
  coshSin,
  expIm,
  expRe,
  hypotenuse,
  logRe,
  sinhCos,
  sinhSin,
  sqrtIm,
  sqrtRe,
  tanhIm,
  tanhRe,
} from "./complex_functions.ts";
import { erf, erfc } from "./error_function.ts";
import { roundedSum } from "./rounded_sum.ts";

/** Refuse a negative power of integers. */
export function refuseNegative(exponent: number | bigint): never {
  throw new RangeError(
    `power: integers have no negative powers, and an exponent is ${exponent}. Convert to floats: to({ dtype: "float64" }).`,
  );
}

/** As C and IEEE 754 have it: 1 to any power is 1, and so is -1 to an infinite one. */
function power(a: number, b: number): number {
  if (b === 2) return a * a;
  return a === 1 || a === -1 && (b === Infinity || b === -Infinity) ? 1 : a ** b;
}

/** As C has it: V8 15 loses the sign of an angle below the smallest number. */
function atan2(y: number, x: number): number {
  const angle = Math.atan2(y, x);
  return angle === 0 ? 0 * y : angle;
}

function integerPower(a: number, b: number): number {
  if (b < 0) refuseNegative(b);
  let result = 1;
  for (let square = a; b > 0; b >>= 1, square = Math.imul(square, square)) {
    if (b & 1) result = Math.imul(result, square);
  }
  return result;
}

function bigPower(a: bigint, b: bigint): bigint {
  if (b < 0n) refuseNegative(b);
  let result = 1n;
  for (let square = a; b > 0n; b >>= 1n, square = BigInt.asIntN(64, square * square)) {
    if (b & 1n) result = BigInt.asIntN(64, result * square);
  }
  return result;
}

/** To the nearest whole number, ties to the even one. */
function roundToEven(a: number): number {
  const rounded = Math.round(a);
  return Math.abs(a % 1) === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

// Quotients by Smith's method, which neither overflows nor underflows between. Zero has no sign, and each part is divided.

function divideRe(ar: number, ai: number, br: number, bi: number): number {
  if (br === 0 && bi === 0) return ar / 0;
  if (Math.abs(br) >= Math.abs(bi)) {
    const ratio = bi / br;
    return (ar + ai * ratio) / (br + bi * ratio);
  }
  const ratio = br / bi;
  return (ar * ratio + ai) / (br * ratio + bi);
}

function divideIm(ar: number, ai: number, br: number, bi: number): number {
  if (br === 0 && bi === 0) return ai / 0;
  if (Math.abs(br) >= Math.abs(bi)) {
    const ratio = bi / br;
    return (ai - ar * ratio) / (br + bi * ratio);
  }
  const ratio = br / bi;
  return (ai * ratio - ar) / (br * ratio + bi);
}

/** A part of z / |z|; beside one infinite part the other counts as nothing. */
function signPart(part: number, re: number, im: number): number {
  const [across, up] = [Math.abs(re), Math.abs(im)];
  if (across === Infinity || up === Infinity) {
    return across === up ? NaN : Math.abs(part) === Infinity ? Math.sign(part) : 0;
  }
  const size = Math.max(across, up);
  // The length of large ones may be no number.
  const scale = size > 2 ** 1000 ? 2 ** -100 : 1;
  const length = hypotenuse(re * scale, im * scale);
  return length === 0 ? 0 : part * scale / length;
}

function signRe(re: number, im: number): number {
  return signPart(re, re, im);
}

function signIm(re: number, im: number): number {
  return signPart(im, re, im);
}

/** A part of a^b = exp(b log a); 0 to the power of 0 is 1. */
function powerPart(ar: number, ai: number, br: number, bi: number, part: typeof expRe): number {
  if (ar === 0 && ai === 0) return (br === 0 && bi === 0 ? 1 : br > 0 ? 0 : NaN) * part(0, 0);
  const [logarithm, angle] = [logRe(ar, ai), atan2(ai, ar)];
  return part(br * logarithm - bi * angle, bi * logarithm + br * angle);
}

// The exponents 0, 1 and 2 are exact, also of what is infinite or no number.

function powerRe(ar: number, ai: number, br: number, bi: number): number {
  if (bi === 0 && (br === 0 || br === 1)) return br === 0 ? 1 : ar;
  return br === 2 && bi === 0 ? ar * ar - ai * ai : powerPart(ar, ai, br, bi, expRe);
}

function powerIm(ar: number, ai: number, br: number, bi: number): number {
  if (bi === 0 && (br === 0 || br === 1)) return br === 0 ? 0 : ai;
  return br === 2 && bi === 0 ? ar * ai + ai * ar : powerPart(ar, ai, br, bi, expIm);
}

/** What formulas know as `H`. */
export const helpers = {
  erf,
  erfc,
  power,
  atan2,
  integerPower,
  bigPower,
  roundToEven,
  hypotenuse,
  divideRe,
  divideIm,
  signRe,
  signIm,
  sqrtRe,
  sqrtIm,
  logRe,
  expRe,
  expIm,
  coshCos,
  coshSin,
  sinhCos,
  sinhSin,
  tanhRe,
  tanhIm,
  powerRe,
  powerIm,
  roundedSum,
} as const;
