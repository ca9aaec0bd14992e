/**
 * Functions of complex numbers, by the two parts of their results. Special values are those of C99, annex G; where that leaves
 * a sign open it is any.
 *
 * @module
 */
import { roundedSum } from "./rounded_sum.ts";

/** Whether a sum of squares has neither overflowed nor lost digits below the smallest numbers. */
function isOrdinary(squares: number): boolean {
  return squares > 1e-280 && squares < Infinity;
}

/** The length of a vector, without overflow between. */
export function hypotenuse(x: number, y: number): number {
  const squares = x * x + y * y;
  return isOrdinary(squares) ? Math.sqrt(squares) : Math.hypot(x, y);
}

/** What brings numbers to where lengths neither overflow nor lose digits: a power of 4, whose root is exact. */
function scaleOf(re: number, im: number): number {
  const [x, y] = [Math.abs(re), Math.abs(im)];
  const larger = x > y ? x : y;
  return larger > 2 ** 1000 ? 2 ** -60 : larger < 2 ** -900 ? 2 ** 60 : 1;
}

// ---- roots and logarithms ---------------------------------------------------------------------------------------------

/** The larger part of a root, without its sign, in which nothing cancels. */
function largerOfRoot(re: number, im: number): number {
  const squares = re * re + im * im;
  // Then the scale would be 1, and it takes a quarter of the time.
  if (isOrdinary(squares)) return Math.sqrt((Math.sqrt(squares) + Math.abs(re)) / 2);
  const scale = scaleOf(re, im);
  const x = Math.abs(re) * scale;
  return Math.sqrt((hypotenuse(x, im * scale) + x) / 2) / Math.sqrt(scale);
}

/** The real part of the root that is not negative. */
export function sqrtRe(re: number, im: number): number {
  if (Math.abs(im) === Infinity) return Infinity;
  const larger = largerOfRoot(re, im);
  return re >= 0 || larger === 0 ? larger : Math.abs(im) / (2 * larger);
}

/** Its imaginary part, which has the sign of that of the number. */
export function sqrtIm(re: number, im: number): number {
  if (Math.abs(im) === Infinity) return im;
  const larger = largerOfRoot(re, im);
  const size = re < 0 || larger === 0 ? larger : Math.abs(im) / (2 * larger);
  return im < 0 || Object.is(im, -0) ? -size : size;
}

/** The logarithm of the length, exact to the last digits near length 1 too, where it is small. */
export function logRe(re: number, im: number): number {
  const squares = re * re + im * im;
  if (squares > 0.5 && squares < 2) return Math.log1p(squaresBeyondOne(Math.abs(re), Math.abs(im))) / 2;
  const scale = scaleOf(re, im);
  return Math.log(hypotenuse(re * scale, im * scale)) - Math.log(scale);
}

/** x^2 + y^2 - 1, where most digits may cancel. */
function squaresBeyondOne(x: number, y: number): number {
  const [xx, xRest] = squareAndRest(x > y ? x : y);
  const [yy, yRest] = squareAndRest(x > y ? y : x);
  // Of two squares that are about as large each loses a half, and nothing is rounded.
  const half = yy < 0.25 ? 0 : 0.5;
  return roundedSum(xx - (1 - half), yy - half, xRest, yRest);
}

/** A square, and what rounding has left of it: that is found by halves of the digits (Dekker's). */
function squareAndRest(x: number): [square: number, rest: number] {
  const square = x * x;
  const spread = x * (2 ** 27 + 1);
  const high = spread - (spread - x);
  const low = x - high;
  return [square, high * high - square + 2 * high * low + low * low];
}

// ---- exponentials -----------------------------------------------------------------------------------------------------

/** Beyond this size of x exponentials and hyperbolic functions may overflow: they are squares of those of x / 2. */
const LARGE = 709;

/** e^x f, which overflows only if the product does; 0 if f is 0. */
export function expTimes(x: number, f: number): number {
  if (f === 0) return f;
  if (!(x > LARGE)) return Math.exp(x) * f;
  const root = Math.exp(x / 2);
  return root * f * root;
}

/** e^re cos(im). */
export function expRe(re: number, im: number): number {
  const f = Math.cos(im);
  return f !== f && Math.abs(re) === Infinity ? Math.exp(re) : expTimes(re, f);
}

/** e^re sin(im). */
export function expIm(re: number, im: number): number {
  const f = Math.sin(im);
  return f !== f && re === -Infinity ? 0 : expTimes(re, f);
}

/** cosh(x) f, which overflows only if the product does. */
function coshTimes(x: number, f: number): number {
  if (!(Math.abs(x) > LARGE)) return Math.cosh(x) * f;
  const root = Math.cosh(x / 2);
  return 2 * (root * f) * root;
}

/** sinh(x) f, which overflows only if the product does. */
function sinhTimes(x: number, f: number): number {
  if (!(Math.abs(x) > LARGE)) return Math.sinh(x) * f;
  const root = Math.sinh(x / 2);
  return 2 * (root * f) * Math.abs(root);
}

// The parts of sinh and cosh, and with the operands' parts exchanged of sin and cos. What is infinite stays so beside an angle
// that is not finite, and 0 stays 0.

/** cosh(x) cos(y). */
export function coshCos(x: number, y: number): number {
  const f = Math.cos(y);
  return f !== f && Math.abs(x) === Infinity ? Infinity : coshTimes(x, f);
}

/** cosh(x) sin(y). */
export function coshSin(x: number, y: number): number {
  const f = Math.sin(y);
  return f === 0 ? f : coshTimes(x, f);
}

/** sinh(x) cos(y). */
export function sinhCos(x: number, y: number): number {
  const f = Math.cos(y);
  return f !== f && (x === 0 || Math.abs(x) === Infinity) ? x : sinhTimes(x, f);
}

/** sinh(x) sin(y). */
export function sinhSin(x: number, y: number): number {
  const f = Math.sin(y);
  if (f !== f && x === 0) return x;
  return f === 0 && !(Math.abs(x) <= LARGE) ? (x < 0 ? -f : f) : sinhTimes(x, f);
}

/** Above this argument tanh is 1 in float64. */
const STEEP = 20;

/** sinh(re) cosh(re) / (sinh(re)^2 + cos(im)^2). */
export function tanhRe(re: number, im: number): number {
  const [s, c] = [Math.sinh(re), Math.cos(im)];
  if (c !== c && (re === 0 || Math.abs(re) === Infinity)) return re === 0 ? re : Math.sign(re);
  if (Math.abs(re) > STEEP) return c !== c ? c : Math.sign(re);
  return s * Math.cosh(re) / (s * s + c * c);
}

/** sin(im) cos(im) / (sinh(re)^2 + cos(im)^2). */
export function tanhIm(re: number, im: number): number {
  const [s, c] = [Math.sin(im), Math.cos(im)];
  if (s === 0 || s !== s && Math.abs(re) === Infinity) return im === 0 ? im : 0;
  if (Math.abs(re) > STEEP) return 4 * s * c * Math.exp(-2 * Math.abs(re));
  const other = Math.sinh(re);
  return s * c / (other * other + c * c);
}
