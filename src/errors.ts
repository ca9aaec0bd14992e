/**
 * The errors of distmath, by what is wrong. A message says what was given, what is allowed and what to do.
 *
 * @module
 */
import { DistmathError } from "../ffi/errors.ts";

export { ConfigurationError, DistmathError, type DistmathErrorOptions, NativeError } from "../ffi/errors.ts";

/** The ranks of a collective call disagree. */
export class CollectiveError extends DistmathError {
  override name = "CollectiveError";
}

/** A shape does not fit. */
export class ShapeError extends DistmathError {
  override name = "ShapeError";
}

/** A distribution does not fit the array, the number of ranks or the operation. */
export class DistributionError extends DistmathError {
  override name = "DistributionError";
}

/** A dtype, or a combination of them, is not supported. */
export class DTypeError extends DistmathError {
  override name = "DTypeError";
}

/** An object was used in a state that does not allow it: after free, before plan, … */
export class StateError extends DistmathError {
  override name = "StateError";
}
