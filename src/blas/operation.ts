/**
 * What is done to a factor before it is multiplied.
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
