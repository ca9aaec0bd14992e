/**
 * The two factors of a number that are closest to each other: the extents of nearly square grids and matrices.
 *
 * @module
 */

/** The factors, the smaller one first. */
export function nearlySquareFactors(n: number): readonly [number, number] {
  let factor = Math.floor(Math.sqrt(n));
  while (n % factor > 0) factor--;
  return [factor, n / factor];
}
