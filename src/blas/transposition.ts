/**
 * What is done to a factor before it is multiplied: transposition and conjugation.
 *
 * @module
 */

/** What is done to a stored matrix before it is multiplied. */
export interface Operation {
  /** Exchange rows and columns. */
  readonly transpose: boolean;
  /** Take complex conjugates. */
  readonly conjugate: boolean;
}
