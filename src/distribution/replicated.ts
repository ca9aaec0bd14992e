/**
 * Replication: every rank holds the whole array.
 *
 * @module
 */
import { noteOwnClass } from "../options.ts";
import { checkBinding, conversionError, Distribution, unboundConversionError } from "./distribution.ts";
import { interval, type Range } from "./index_map.ts";

/** The class of {@linkcode Replicated}. */
export class ReplicatedDistribution extends Distribution {
  static {
    noteOwnClass(this);
  }

  /** No grid: all ranks are alike. */
  override readonly grid: null = null;
  /** It fits arrays of any number of dimensions. */
  override readonly dimensions: null = null;

  /** True. */
  override get isReplicated(): boolean {
    return true;
  }

  /** All of an array of one shape, on each of `size` ranks. */
  override bind(globalShape: readonly number[], size: number): ReplicatedDistribution {
    const shape = checkBinding(this, globalShape, size);
    const sets = shape.map((extent) => interval(0, extent));
    return new ReplicatedDistribution().attach(shape, size, { sets: () => sets, owner: () => 0 });
  }

  /** `Replicated` */
  override toString(): string {
    return "Replicated";
  }

  /**
   * `Replicated` for a bound distribution on one rank, which holds everything anyway.
   *
   * @throws {DistributionError} when there are more ranks
   */
  static from(source: Distribution): ReplicatedDistribution {
    if (source instanceof ReplicatedDistribution) return source;
    const { globalShape, size } = source;
    if (globalShape === null || size === null) throw unboundConversionError(source, "ReplicatedDistribution");
    const replicated = Replicated.bind(globalShape, size);
    if (replicated.coincidesWith(source)) return replicated;
    throw conversionError(source, "ReplicatedDistribution", "no rank holds all of it");
  }

  /** See {@linkcode Distribution.equals}. */
  protected override hasParametersOf(): boolean {
    return true;
  }

  /** See {@linkcode Distribution.transpose}. */
  protected override permuted(): ReplicatedDistribution {
    return Replicated;
  }

  /** See {@linkcode Distribution.slice}. */
  protected override sliced(ranges: readonly Range[]): ReplicatedDistribution {
    return this.bind(ranges.map(([start, end]) => end - start), this.size!);
  }
}

/**
 * Every rank holds the whole array. What is made of such arrays alone each rank makes for itself: on CPUs with other
 * instructions, or with other numbers of threads, its last bits may be others, so that a script's decision by them needs one
 * rank's, by `Communicator.broadcast`. `solve` and `eigh` give all ranks the same bits.
 *
 * @example
 * ```ts
 * import { Replicated } from "@distmath/distmath";
 * const bound = Replicated.bind([2, 2], 3);
 * console.assert(bound.owners([1, 1]).join() === "0,1,2");
 * ```
 */
export const Replicated: ReplicatedDistribution = new ReplicatedDistribution();
