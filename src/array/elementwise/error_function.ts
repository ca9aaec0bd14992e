/**
 * The error function and its complement in float64, which JavaScript does not have.
 *
 * Near 0 erf(x) / x, farther out (x + 1/2) exp(x^2) erfc(x) are polynomials of a variable that runs from -1 to 1: expansions
 * in Chebyshev's, cut where terms fall below 1e-18, computed with 60 digits. Relative errors are at most 2^-50 where results
 * are not subnormal.
 *
 * @module
 */

/** Below this size of x, erf(x) = x P(8 x^2 - 1). */
const SMALL = 0.5;

/** P's coefficients, the constant one first. */
const NEAR = [
  1.0830752376761712,
  -0.04364205888669792,
  0.0016130716680617073,
  -4.762336934468488e-05,
  1.15160377952332e-06,
  -2.3472291635348667e-08,
  4.1270251519374495e-10,
  -6.374417501929377e-12,
  8.777607488642354e-14,
  -1.089374832139376e-15,
];

/** Beyond, erfc(x) = exp(-x^2) Q(t) / (x + 1/2) with t = (x - 7/2) / (x + 5/2). */
const FAR = [
  0.6211746224355772,
  -0.06000393434469404,
  -0.012449556620261027,
  0.02837327483434168,
  -0.018313995218864784,
  0.006293723259528365,
  -0.0005982884604727878,
  -0.0004424430479736689,
  0.00014523241208241704,
  3.2006405225017216e-05,
  -2.0583532016279602e-05,
  -3.5359460212178906e-06,
  2.891444444078499e-06,
  6.50176223480517e-07,
  -4.0394287287172226e-07,
  -1.5018928154597312e-07,
  4.857701507722989e-08,
  3.4491230177326686e-08,
  -2.641607439998579e-09,
  -6.9250109058827755e-09,
  -8.484814545989737e-10,
  1.0517866928207923e-09,
  3.029425479778197e-10,
  -8.793883023743055e-11,
  -3.714358596915742e-11,
];

function polynomial(coefficients: readonly number[], x: number): number {
  let sum = 0;
  for (let i = coefficients.length - 1; i >= 0; i--) sum = sum * x + coefficients[i];
  return sum;
}

/** erfc(x) for x >= 1/2. */
function tail(x: number): number {
  if (x > 28) return 0;
  // The square of a number of 24 bits is exact, and what is left of x^2 is small: else its error would grow with x^2.
  const head = Math.fround(x);
  const power = Math.exp(-head * head) * Math.exp((head - x) * (head + x));
  return power * polynomial(FAR, (x - 3.5) / (x + 2.5)) / (x + 0.5);
}

/** 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x. */
export function erf(x: number): number {
  if (!(Math.abs(x) >= SMALL)) return x * polynomial(NEAR, 8 * x * x - 1);
  return x > 0 ? 1 - tail(x) : tail(-x) - 1;
}

/** 1 - erf(x), exact where that is small too. */
export function erfc(x: number): number {
  if (!(Math.abs(x) >= SMALL)) return 1 - erf(x);
  return x > 0 ? tail(x) : 2 - tail(-x);
}
