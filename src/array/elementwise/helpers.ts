/**
 * Functions of numbers that JavaScript does not have; the formulas of operations.ts call them.
 *
 * @module
 */
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

/** The length of a vector, without overflow between. */
function hypotenuse(x: number, y: number): number {
  const squares = x * x + y * y;
  return squares > 1e-280 && squares < Infinity ? Math.sqrt(squares) : Math.hypot(x, y);
}

// Quotients by Smith's method, which neither overflows nor underflows between.

function divideRe(ar: number, ai: number, br: number, bi: number): number {
  if (Math.abs(br) >= Math.abs(bi)) {
    const ratio = br === 0 ? 0 : bi / br;
    return (ar + ai * ratio) / (br + bi * ratio);
  }
  const ratio = br / bi;
  return (ar * ratio + ai) / (br * ratio + bi);
}

function divideIm(ar: number, ai: number, br: number, bi: number): number {
  if (Math.abs(br) >= Math.abs(bi)) {
    const ratio = br === 0 ? 0 : bi / br;
    return (ai - ar * ratio) / (br + bi * ratio);
  }
  const ratio = br / bi;
  return (ai * ratio - ar) / (br * ratio + bi);
}

function signRe(re: number, im: number): number {
  const length = hypotenuse(re, im);
  return length === 0 ? 0 : re / length;
}

function signIm(re: number, im: number): number {
  const length = hypotenuse(re, im);
  return length === 0 ? 0 : im / length;
}

function sqrtRe(re: number, im: number): number {
  const length = hypotenuse(re, im);
  // The smaller part from the larger one, so that nothing cancels.
  return re >= 0 ? Math.sqrt((length + re) / 2) : length === 0 ? 0 : Math.abs(im) / 2 / Math.sqrt((length - re) / 2);
}

function sqrtIm(re: number, im: number): number {
  const length = hypotenuse(re, im);
  const size = re < 0
    ? Math.sqrt((length - re) / 2)
    : length === 0
    ? 0
    : Math.abs(im) / 2 / Math.sqrt((length + re) / 2);
  return im < 0 || Object.is(im, -0) ? -size : size;
}

function expRe(re: number, im: number): number {
  return im === 0 ? Math.exp(re) : Math.exp(re) * Math.cos(im);
}

function expIm(re: number, im: number): number {
  return im === 0 ? im : Math.exp(re) * Math.sin(im);
}

/** Above this argument tanh is 1 in float64, and cosh would overflow soon. */
const STEEP = 20;

function tanhRe(re: number, im: number): number {
  if (Math.abs(re) > STEEP) return Math.sign(re);
  return Math.sinh(2 * re) / (Math.cosh(2 * re) + Math.cos(2 * im));
}

function tanhIm(re: number, im: number): number {
  if (Math.abs(re) > STEEP) return 2 * Math.sin(2 * im) * Math.exp(-2 * Math.abs(re));
  return Math.sin(2 * im) / (Math.cosh(2 * re) + Math.cos(2 * im));
}

/** a^b = exp(b log a), by the polar form; 0 to the power of 0 is 1. */
function powerParts(ar: number, ai: number, br: number, bi: number): readonly [length: number, angle: number] {
  const length = hypotenuse(ar, ai);
  if (length === 0) return br === 0 && bi === 0 ? [1, 0] : br > 0 ? [0, 0] : [NaN, 0];
  const [logarithm, angle] = [Math.log(length), atan2(ai, ar)];
  return [Math.exp(br * logarithm - bi * angle), bi * logarithm + br * angle];
}

function powerRe(ar: number, ai: number, br: number, bi: number): number {
  if (br === 2 && bi === 0) return ar * ar - ai * ai;
  const [length, angle] = powerParts(ar, ai, br, bi);
  return length * Math.cos(angle);
}

function powerIm(ar: number, ai: number, br: number, bi: number): number {
  if (br === 2 && bi === 0) return 2 * ar * ai;
  const [length, angle] = powerParts(ar, ai, br, bi);
  return length * Math.sin(angle);
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
  expRe,
  expIm,
  tanhRe,
  tanhIm,
  powerRe,
  powerIm,
  roundedSum,
} as const;
