/**
 * A part of an array that no other class describes.
 *
 * @module
 */
import { DistributionError } from "../errors.ts";
import { list } from "./check.ts";
import { conversionError, Distribution } from "./distribution.ts";
import { everyNth, type Range, sliceSet } from "./index_map.ts";
import type { ProcessGrid } from "./process_grid.ts";

/**
 * The distribution of a part of an array whose distribution is `source`: each rank keeps the elements that it has.
 * Always bound. Made by {@linkcode Distribution.slice} when no simpler class will do.
 *
 * @example
 * ```ts
 * import { BlockCyclic, ProcessGrid, Sliced } from "@distmath/distmath";
 * const whole = new BlockCyclic(new ProcessGrid({ shape: [2] }), [2]).bind([8], 2);
 * const part = whole.slice([[1, 6]]);
 * console.assert(part instanceof Sliced);
 * console.assert(JSON.stringify(part.ranges(0)) === "[[[0,1],[3,5]]]");
 * ```
 */
export class Sliced extends Distribution {
  /** The distribution of the whole array. */
  readonly source: Distribution;
  /** The part, one half-open range of the whole array for each dimension. */
  readonly sourceRanges: readonly Range[];
  /** The distance of neighbours in the whole array, one number for each dimension. */
  readonly steps: readonly number[];
  /** The grid of the whole array. */
  override readonly grid: ProcessGrid | null;
  /** The number of dimensions of the array. */
  override readonly dimensions: number;

  /**
   * The part `sourceRanges` of an array distributed as `source`, which is bound; of each range every element, or those at
   * multiples of a step from its start. `slice` checks the ranges.
   */
  constructor(
    source: Distribution,
    sourceRanges: readonly Range[],
    steps: readonly number[] = sourceRanges.map(() => 1),
  ) {
    super();
    this.source = source;
    this.sourceRanges = sourceRanges.map(([start, end]): Range => [start, end]);
    this.steps = [...steps];
    this.grid = source.grid;
    this.dimensions = sourceRanges.length;
    this.attach(sourceRanges.map(([start, end], d) => Math.ceil((end - start) / steps[d])), source.size!, {
      sets: (rank) =>
        source.indexSets(rank).map((set, d) => everyNth(sliceSet(set, this.sourceRanges[d]), this.steps[d])),
      owner: (index) =>
        source.owner(index.map((coordinate, d) => coordinate * this.steps[d] + this.sourceRanges[d][0])),
    });
  }

  /**
   * The same object, if it is asked for its own shape and number of ranks.
   *
   * @throws {DistributionError} for any other
   */
  override bind(globalShape: readonly number[], size: number): Sliced {
    if (size === this.size && list(globalShape) === list(this.globalShape!)) return this;
    throw new DistributionError(
      `${this} belongs to the shape ${list(this.globalShape!)} on ${this.size} ranks and cannot be bound to ` +
        `${list(globalShape)} on ${size}; take another class, such as ${this.source.constructor.name}`,
    );
  }

  /** The whole array's distribution with the ranges of the part: `BlockCyclic(2, blocks 2)[1:6]`. */
  override toString(): string {
    const show = ([start, end]: Range, d: number) => `${start}:${end}${this.steps[d] === 1 ? "" : `:${this.steps[d]}`}`;
    return `${this.source}[${this.sourceRanges.map(show).join(", ")}]`;
  }

  /**
   * A `Sliced` itself; there is no conversion to it.
   *
   * @throws {DistributionError} for any other class
   */
  static from(source: Distribution): Sliced {
    if (source instanceof Sliced) return source;
    throw conversionError(source, "Sliced", "that is what slice() of an array returns");
  }

  /** See {@linkcode Distribution.equals}. */
  protected override hasParametersOf(other: this): boolean {
    return this.source.equals(other.source) && this.sourceRanges.join() === other.sourceRanges.join() &&
      this.steps.join() === other.steps.join();
  }

  /** See {@linkcode Distribution.transpose}. */
  protected override permuted(axes: readonly number[]): Distribution {
    return new Sliced(
      this.source.transpose(axes),
      axes.map((axis) => this.sourceRanges[axis]),
      axes.map((axis) => this.steps[axis]),
    );
  }

  /** See {@linkcode Distribution.slice}. */
  protected override sliced(ranges: readonly Range[]): Distribution {
    if (this.steps.some((step) => step > 1)) return new Sliced(this, ranges);
    return this.source.slice(ranges.map(([start, end], dimension): Range => {
      const offset = this.sourceRanges[dimension][0];
      return [offset + start, offset + end];
    }));
  }
}
