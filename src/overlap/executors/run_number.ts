/**
 * The numbers by which ranks tell the runs of a product apart, in flags that they write into each other's memory.
 *
 * @module
 */

/** So many runs have numbers of their own, then they come round: calls that hold a number are repeated by graphs. */
export const NUMBERS = 4;

/**
 * The number of a run. Flags are compared as words that come round, so that a flag of the run before, or of the one before
 * that, has not reached it.
 */
export function numberOf(run: number): number {
  return run % NUMBERS * (2 ** 32 / NUMBERS);
}
