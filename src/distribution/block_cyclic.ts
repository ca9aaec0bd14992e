/**
 * Blocks on a grid of processes: ScaLAPACK's block-cyclic distribution, and its special case of one block a process.
 *
 * @module
 */
import { Box } from "./box.ts";
import { checkKeys, describe, keysOf, noteOwnClass } from "../options.ts";
import { checkIntegers, checkLength, list, permute } from "./check.ts";
import { checkBinding, conversionError, Distribution, unboundConversionError } from "./distribution.ts";
import { gridOwnership } from "./grid_ownership.ts";
import { blockCyclic, type Range, singleBlockSize } from "./index_map.ts";
import { ProcessGrid } from "./process_grid.ts";
import { Sliced } from "./sliced.ts";

/** Options of {@linkcode BlockCyclic} and {@linkcode BlockNonCyclic}. */
export interface BlockOptions {
  /** The grid coordinates of the process that holds the first block; zeros when left out. */
  firstProcess?: readonly number[];
}

const BLOCK_KEYS = keysOf<BlockOptions>({ firstProcess: true });

/** The base of both kinds of blocks: a grid and the process that holds the first block. */
export abstract class BlockDistribution extends Distribution {
  /** The grid of processes, one dimension for each of the array's. */
  override readonly grid: ProcessGrid;
  /** The number of dimensions of the grid. */
  override readonly dimensions: number;
  /** The grid coordinates of the process that holds the first block. */
  readonly firstProcess: readonly number[];

  /**
   * Blocks on a grid.
   *
   * @throws {TypeError} when an option is not known
   * @throws {RangeError} when `firstProcess` lies outside the grid
   * @throws {ShapeError} when `firstProcess` does not have one coordinate for each dimension of the grid
   */
  constructor(grid: ProcessGrid, options: BlockOptions = {}) {
    super();
    checkKeys(`the options of ${new.target.name}`, options, BLOCK_KEYS);
    const { firstProcess } = options;
    if (!(grid instanceof ProcessGrid)) {
      throw new TypeError(
        `blocks need a ProcessGrid, such as new ProcessGrid({ shape: [2, 2] }), got ${describe(grid)}`,
      );
    }
    this.grid = grid;
    this.dimensions = grid.shape.length;
    this.firstProcess = checkIntegers("firstProcess", firstProcess ?? grid.shape.map(() => 0), 0);
    checkLength("firstProcess", this.firstProcess, this.dimensions, `the grid ${grid}`);
    if (this.firstProcess.every((coordinate, dimension) => coordinate < grid.shape[dimension])) return;
    throw new RangeError(
      `firstProcess ${list(this.firstProcess)} lies outside the process grid ${grid}; give coordinates below its shape`,
    );
  }

  /** Bind this new object to blocks of these sizes. */
  protected attachBlocks(shape: readonly number[], size: number, blockSizes: readonly number[]): this {
    const maps = shape.map((extent, dimension) =>
      blockCyclic(extent, blockSizes[dimension], this.grid.shape[dimension], this.firstProcess[dimension])
    );
    return this.attach(shape, size, gridOwnership(this.grid, maps));
  }

  /** How `toString` shows a first process that is not the first of the grid. */
  protected get firstProcessText(): string {
    return this.firstProcess.some((coordinate) => coordinate > 0) ? `, first process ${list(this.firstProcess)}` : "";
  }

  /** Whether grid and first process are the same. */
  protected hasGridOf(other: this): boolean {
    return this.grid.equals(other.grid) && this.firstProcess.join() === other.firstProcess.join();
  }
}

/**
 * Blocks dealt to the processes of a grid in turn, in each dimension, as in ScaLAPACK.
 *
 * @example
 * ```ts
 * import { BlockCyclic, ProcessGrid } from "@distmath/distmath";
 * const grid = new ProcessGrid({ shape: [2, 2] });
 * const bound = new BlockCyclic(grid, [2, 3]).bind([5, 7], 4);
 * console.assert(bound.localShape(0).join() === "3,4");
 * console.assert(JSON.stringify(bound.ranges(0)) === "[[[0,2],[4,5]],[[0,3],[6,7]]]");
 * ```
 */
export class BlockCyclic extends BlockDistribution {
  static {
    noteOwnClass(this);
  }

  /** The extents of a block. */
  readonly blockSizes: readonly number[];

  /**
   * Blocks of `blockSizes` on a grid.
   *
   * @throws {TypeError} when an option is not known, or an argument of the wrong type
   * @throws {RangeError} when a block size is not a positive integer or `firstProcess` lies outside the grid
   * @throws {ShapeError} when `blockSizes` or `firstProcess` does not have one entry for each dimension of the grid
   */
  constructor(grid: ProcessGrid, blockSizes: readonly number[], options: BlockOptions = {}) {
    super(grid, options);
    this.blockSizes = checkIntegers("blockSizes", blockSizes, 1);
    checkLength("blockSizes", this.blockSizes, this.dimensions, `the grid ${grid}`);
  }

  /**
   * The blocks of an array of one shape.
   *
   * @throws {DistributionError} when the grid has another number of dimensions or needs more ranks
   */
  override bind(globalShape: readonly number[], size: number): BlockCyclic {
    const shape = checkBinding(this, globalShape, size);
    const { firstProcess } = this;
    return new BlockCyclic(this.grid, this.blockSizes, { firstProcess }).attachBlocks(shape, size, this.blockSizes);
  }

  /** Such as `BlockCyclic(2 x 2 row-major, blocks 32 x 32)`. */
  override toString(): string {
    return `BlockCyclic(${this.grid}, blocks ${this.blockSizes.join(" x ")}${this.firstProcessText})`;
  }

  /**
   * The block-cyclic distribution with the same ownership: of any bound distribution where each process of a grid holds
   * one block and all blocks but the last of a dimension are equal.
   *
   * @throws {DistributionError} when there is none
   */
  static from(source: Distribution): BlockCyclic {
    if (source instanceof BlockCyclic) return source;
    if (!source.isBound) throw unboundConversionError(source, "BlockCyclic");
    const found = asBlockCyclic(source);
    if (found) return found;
    throw conversionError(
      source,
      "BlockCyclic",
      "its parts are not blocks of one size dealt to a grid of processes in turn",
    );
  }

  /** See {@linkcode Distribution.equals}. */
  protected override hasParametersOf(other: this): boolean {
    return this.hasGridOf(other) && this.blockSizes.join() === other.blockSizes.join();
  }

  /** See {@linkcode Distribution.transpose}. */
  protected override permuted(axes: readonly number[]): BlockCyclic {
    const firstProcess = permute(this.firstProcess, axes);
    return new BlockCyclic(this.grid.transpose(axes), permute(this.blockSizes, axes), { firstProcess });
  }

  /** A part that starts at a block is block-cyclic again, with another first process. */
  protected override sliced(ranges: readonly Range[]): Distribution {
    const { grid, blockSizes } = this;
    const size = this.size!;
    const isAligned = ranges.every(([start], d) => grid.shape[d] === 1 || start % blockSizes[d] === 0);
    if (!isAligned) return Box.ofSlice(this, ranges) ?? new Sliced(this, ranges);
    const firstProcess = ranges.map(([start], d) =>
      grid.shape[d] === 1 ? 0 : (this.firstProcess[d] + start / blockSizes[d]) % grid.shape[d]
    );
    return new BlockCyclic(grid, blockSizes, { firstProcess }).bind(ranges.map(([start, end]) => end - start), size);
  }
}

/**
 * One block for each process of a grid: blocks of `ceil(extent / processes)` in each dimension, so that the last ones
 * may be short or empty.
 *
 * @example
 * ```ts
 * import { BlockNonCyclic, ProcessGrid } from "@distmath/distmath";
 * const bound = new BlockNonCyclic(new ProcessGrid({ shape: [4, 1] })).bind([10, 2], 4);
 * console.assert([0, 1, 2, 3].map((rank) => bound.localShape(rank)[0]).join() === "3,3,3,1");
 * ```
 */
export class BlockNonCyclic extends BlockDistribution {
  static {
    noteOwnClass(this);
  }

  /** The extents of a block, or null before `bind`. */
  get blockSizes(): readonly number[] | null {
    return this.globalShape?.map((extent, dimension) => singleBlockSize(extent, this.grid.shape[dimension])) ?? null;
  }

  /**
   * The blocks of an array of one shape.
   *
   * @throws {DistributionError} when the grid has another number of dimensions or needs more ranks
   */
  override bind(globalShape: readonly number[], size: number): BlockNonCyclic {
    const shape = checkBinding(this, globalShape, size);
    const blockSizes = shape.map((extent, dimension) => singleBlockSize(extent, this.grid.shape[dimension]));
    const { firstProcess } = this;
    return new BlockNonCyclic(this.grid, { firstProcess }).attachBlocks(shape, size, blockSizes);
  }

  /** Such as `BlockNonCyclic(2 x 2 row-major)`. */
  override toString(): string {
    return `BlockNonCyclic(${this.grid}${this.firstProcessText})`;
  }

  /**
   * The distribution of one block a process with the same ownership: of any bound distribution where each process of a
   * grid holds one block of `ceil(extent / processes)`.
   *
   * @throws {DistributionError} when there is none
   */
  static from(source: Distribution): BlockNonCyclic {
    if (source instanceof BlockNonCyclic) return source;
    const { globalShape, size } = source;
    if (globalShape === null || size === null) throw unboundConversionError(source, "BlockNonCyclic");
    const candidate = gridOf(source);
    const blocks = candidate && new BlockNonCyclic(candidate.grid, { firstProcess: candidate.firstProcess })
      .bind(globalShape, size);
    if (blocks?.coincidesWith(source)) return blocks;
    throw conversionError(
      source,
      "BlockNonCyclic",
      "not every process of a grid holds one block of ceil(extent / processes) in each dimension",
    );
  }

  /** See {@linkcode Distribution.equals}. */
  protected override hasParametersOf(other: this): boolean {
    return this.hasGridOf(other);
  }

  /** See {@linkcode Distribution.transpose}. */
  protected override permuted(axes: readonly number[]): BlockNonCyclic {
    return new BlockNonCyclic(this.grid.transpose(axes), { firstProcess: permute(this.firstProcess, axes) });
  }

  /** See {@linkcode Distribution.slice}. */
  protected override sliced(ranges: readonly Range[]): Distribution {
    const shape = this.globalShape!;
    const isDivided = (dimension: number) => this.grid.shape[dimension] > 1;
    const isCut = ranges.some(([start, end], d) => isDivided(d) && (start !== 0 || end !== shape[d]));
    return isCut ? Box.ofSlice(this, ranges)! : this.bind(ranges.map(([start, end]) => end - start), this.size!);
  }
}

interface GridCandidate {
  readonly grid: ProcessGrid;
  readonly firstProcess: readonly number[];
}

/** The grid that a bound distribution lies on, if its parts are boxes that form one. */
function gridOf(source: Distribution): GridCandidate | null {
  if (source instanceof BlockDistribution) return source;
  const firstProcess = source.globalShape!.map(() => 0);
  if (source.isReplicated && source.size! > 1) return null;
  if (source.grid) return { grid: source.grid, firstProcess };
  const grid = gridOfBoxes(source);
  return grid && { grid, firstProcess };
}

/** The grid of the ranks that hold something, by where their boxes start. */
function gridOfBoxes(source: Distribution): ProcessGrid | null {
  const boxes = source.bounds();
  if (!boxes) return null;
  const isFilled = (rank: number) => boxes[rank][0].every((start, dimension) => start < boxes[rank][1][dimension]);
  const ranks = boxes.map((_, rank) => rank).filter(isFilled);
  const starts = source.globalShape!.map((_, dimension) =>
    [...new Set(ranks.map((rank) => boxes[rank][0][dimension]))].sort((a, b) => a - b)
  );
  if (ranks.length === 0) return new ProcessGrid({ shape: starts.map(() => 1) });
  const shape = starts.map((values) => values.length);
  const plan = new ProcessGrid({ shape });
  if (plan.size !== ranks.length) return null;
  const processes: number[] = [];
  for (const rank of ranks) {
    processes[plan.rank(boxes[rank][0].map((start, dimension) => starts[dimension].indexOf(start)))] = rank;
  }
  const grid = new ProcessGrid({ shape, processes });
  return grid.withoutProcesses() ?? grid;
}

/** The largest part that any rank holds, in each dimension, and at least 1. */
function largestLocalShape(source: Distribution): number[] {
  const largest = source.globalShape!.map(() => 1);
  for (let rank = 0; rank < source.size!; rank++) {
    source.localShape(rank).forEach((extent, dimension) => largest[dimension] = Math.max(largest[dimension], extent));
  }
  return largest;
}

/** The block-cyclic form of a bound distribution, or null. */
function asBlockCyclic(source: Distribution): BlockCyclic | null {
  if (source instanceof BlockCyclic) return source;
  const candidate = gridOf(source);
  if (!candidate) return null;
  const blockSizes = source instanceof BlockNonCyclic ? source.blockSizes! : largestLocalShape(source);
  const { grid, firstProcess } = candidate;
  const blocks = new BlockCyclic(grid, blockSizes, { firstProcess }).bind(source.globalShape!, source.size!);
  return blocks.coincidesWith(source) ? blocks : null;
}
