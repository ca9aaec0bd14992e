/**
 * Slabs: one dimension divided among all ranks.
 *
 * @module
 */
import { DistributionError } from "../errors.ts";
import { noteOwnClass } from "../options.ts";
import { BlockNonCyclic } from "./block_cyclic.ts";
import { Box } from "./box.ts";
import { checkInteger, list } from "./check.ts";
import { checkBinding, conversionError, Distribution, unboundConversionError } from "./distribution.ts";
import { gridOwnership } from "./grid_ownership.ts";
import { evenly, type Range, whole } from "./index_map.ts";
import { ProcessGrid } from "./process_grid.ts";

/**
 * One dimension divided among all ranks in order, as evenly as possible: the first `extent % size` ranks hold one more.
 * The other dimensions are whole.
 *
 * @example
 * ```ts
 * import { Slab } from "@distmath/distmath";
 * const columns = Slab.Y.bind([4, 5], 2);
 * console.assert(columns.localShape(0).join() === "4,3");
 * console.assert(String(columns) === "Slab.Y");
 * ```
 */
export class Slab extends Distribution {
  static {
    noteOwnClass(this);
  }

  /** Dimension 0 divided: rows of a matrix. */
  static readonly X: Slab = new Slab(0);
  /** Dimension 1 divided: columns of a matrix. */
  static readonly Y: Slab = new Slab(1);
  /** Dimension 2 divided. */
  static readonly Z: Slab = new Slab(2);

  /** The dimension that is divided, from 0. */
  readonly partitionDimension: number;
  /** It fits arrays of any number of dimensions that has the divided one. */
  override readonly dimensions: null = null;
  #grid: ProcessGrid | null = null;

  /**
   * The slab along a dimension; `Slab.X` is `new Slab(0)`.
   *
   * @throws {RangeError} when the dimension is not an integer of at least 0
   */
  constructor(partitionDimension: number) {
    super();
    this.partitionDimension = checkInteger("the dimension of a slab", partitionDimension, 0);
  }

  /** All ranks in a line along the divided dimension; null before `bind`. */
  override get grid(): ProcessGrid | null {
    return this.#grid;
  }

  /**
   * The slab of a shape on `size` ranks.
   *
   * @throws {DistributionError} when the shape does not have that dimension
   */
  override bind(globalShape: readonly number[], size: number): Slab {
    const slab = new Slab(this.partitionDimension);
    const shape = checkBinding(slab, globalShape, size);
    if (shape.length <= this.partitionDimension) {
      throw new DistributionError(
        `${this} divides dimension ${this.partitionDimension}, but the shape ${list(shape)} has ${shape.length} ` +
          `dimensions; take a slab along one of 0..${shape.length - 1}`,
      );
    }
    const isDivided = (dimension: number) => dimension === this.partitionDimension;
    slab.#grid = new ProcessGrid({ shape: shape.map((_, dimension) => isDivided(dimension) ? size : 1) });
    const maps = shape.map((extent, dimension) => isDivided(dimension) ? evenly(extent, size) : whole(extent));
    return slab.attach(shape, size, gridOwnership(slab.#grid, maps));
  }

  /** `Slab.X`, `Slab.Y`, `Slab.Z`, and `Slab(3)` and so on for later dimensions. */
  override toString(): string {
    const name = "XYZ"[this.partitionDimension];
    return name ? `Slab.${name}` : `Slab(${this.partitionDimension})`;
  }

  /**
   * The slab with the same ownership: of a bound distribution that is one, or of a `BlockNonCyclic` on a grid with
   * all processes in a line, in rank order (its blocks and a slab's are the same when they divide the extent evenly).
   *
   * @throws {DistributionError} when there is none
   */
  static from(source: Distribution): Slab {
    if (source instanceof Slab) return source;
    const { globalShape, size } = source;
    if (globalShape === null || size === null) return unboundSlab(source);
    for (let dimension = 0; dimension < globalShape.length; dimension++) {
      const slab = new Slab(dimension).bind(globalShape, size);
      if (slab.coincidesWith(source)) return slab;
    }
    throw conversionError(
      source,
      "Slab",
      "a slab divides one dimension among all ranks in order, where the first (extent % ranks) ranks hold one more",
    );
  }

  /** See {@linkcode Distribution.equals}. */
  protected override hasParametersOf(other: this): boolean {
    return this.partitionDimension === other.partitionDimension;
  }

  /** See {@linkcode Distribution.transpose}. */
  protected override permuted(axes: readonly number[]): Slab {
    const dimension = axes.indexOf(this.partitionDimension);
    if (dimension >= 0) return new Slab(dimension);
    throw new DistributionError(
      `${this} divides dimension ${this.partitionDimension}, which is none of the ${axes.length} dimensions to ` +
        `transpose; bind it first or give all axes`,
    );
  }

  /** See {@linkcode Distribution.slice}. */
  protected override sliced(ranges: readonly Range[]): Distribution {
    const [start, end] = ranges[this.partitionDimension];
    const isCut = start !== 0 || end !== this.globalShape![this.partitionDimension];
    return isCut ? Box.ofSlice(this, ranges)! : this.bind(ranges.map(([from, to]) => to - from), this.size!);
  }
}

function unboundSlab(source: Distribution): Slab {
  if (!(source instanceof BlockNonCyclic)) throw unboundConversionError(source, "Slab");
  const { grid, firstProcess } = source;
  if (grid.line !== null && grid.withoutProcesses() && firstProcess.every((process) => process === 0)) {
    return new Slab(grid.line);
  }
  throw conversionError(source, "Slab", "its processes do not lie in a line along one dimension in rank order");
}
