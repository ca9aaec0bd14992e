/**
 * The base of every error that distmath throws, and the kinds that the native layer itself needs.
 *
 * @module
 */

/** Options of {@linkcode DistmathError}. */
export interface DistmathErrorOptions extends ErrorOptions {
  /** The ranks that the error concerns; empty when it concerns no rank in particular. */
  ranks?: readonly number[];
}

/**
 * The base class of all errors of distmath. A message says what was given, what is allowed and what to do.
 *
 * @example
 * ```ts
 * import { DistmathError } from "@distmath/distmath";
 * const error = new DistmathError("rank 1 is late", { ranks: [1] });
 * console.assert(error.ranks[0] === 1);
 * ```
 */
export class DistmathError extends Error {
  /** The ranks that the error concerns. */
  readonly ranks: readonly number[];

  /** Make an error; `options.ranks` names the ranks concerned. */
  constructor(message: string, options: DistmathErrorOptions = {}) {
    super(message, options);
    this.name = new.target.name;
    this.ranks = options.ranks ?? [];
  }
}

/** Something outside the program has to be installed, set or started in another way. */
export class ConfigurationError extends DistmathError {}

/** The ranks of a collective call disagree. */
export class CollectiveError extends DistmathError {}

/** What a {@linkcode NativeError} tells about a failed native call. */
export interface NativeFailure {
  /** The C function that was called. */
  functionName: string;
  /** The code it returned. */
  code: number;
  /** The code's symbolic name, such as `MPI_ERR_TRUNCATE`. */
  symbol: string;
  /** The library's own words for the code. */
  text: string;
  /** What to do about it, if that is known. */
  hint?: string | undefined;
}

/** The base of one error class per native library (`MpiError`, …). */
export abstract class NativeError extends DistmathError {
  /** What the library said. */
  readonly failure: NativeFailure;

  /** Make an error out of what a native call returned. */
  constructor(failure: NativeFailure, options: DistmathErrorOptions = {}) {
    const hint = failure.hint ? ` ${failure.hint}` : "";
    super(`${failure.functionName} failed with ${failure.symbol} (${failure.code}): ${failure.text}.${hint}`, options);
    this.failure = failure;
  }

  /** The code that the C function returned. */
  get code(): number {
    return this.failure.code;
  }

  /** The symbolic name of the code. */
  get symbol(): string {
    return this.failure.symbol;
  }
}
