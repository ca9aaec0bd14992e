/**
 * The errors of distmath, by what is wrong. A message says what was given, what is allowed and what to do.
 *
 * @module
 */
import { DistmathError } from "../ffi/errors.ts";

export {
  CollectiveError,
  ConfigurationError,
  DistmathError,
  type DistmathErrorOptions,
  NativeError,
} from "../ffi/errors.ts";

/** A shape does not fit. */
export class ShapeError extends DistmathError {}

/** A distribution does not fit the array, the number of ranks or the operation. */
export class DistributionError extends DistmathError {}

/** A dtype, or a combination of them, is not supported. */
export class DTypeError extends DistmathError {}

/** An object was used in a state that does not allow it: after free, before plan, … */
export class StateError extends DistmathError {}
