/**
 * Costs that are compared number by number, the more important first.
 *
 * @module
 */

/** Whether costs are lower: the first numbers that differ tell. */
export function isCheaper(one: readonly number[], other: readonly number[]): boolean {
  const difference = one.findIndex((value, i) => value !== other[i]);
  return difference >= 0 && one[difference] < other[difference];
}
