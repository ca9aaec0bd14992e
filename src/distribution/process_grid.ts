/**
 * Processes arranged in a grid of any number of dimensions.
 *
 * @module
 */
import { DistributionError, ShapeError } from "../errors.ts";
import { checkKeys, describe, keysOf, noteOwnClass } from "../options.ts";
import { checkAxes, checkInteger, checkIntegers, list, permute } from "./check.ts";
import { nearlySquareFactors } from "./nearly_square.ts";

/** The order in which ranks fill a grid: `row-major` counts the last coordinate fastest, `column-major` the first. */
export type GridLayout = "row-major" | "column-major";

/** What a {@linkcode ProcessGrid} is made of. */
export interface ProcessGridOptions {
  /** The number of processes along each dimension. */
  shape: readonly number[];
  /** The order in which ranks, or `processes`, fill the grid; `"row-major"` when left out. */
  layout?: GridLayout;
  /** The ranks of the grid in the order of `layout`; `0..size-1` when left out. */
  processes?: readonly number[] | null;
}

const GRID_KEYS = keysOf<ProcessGridOptions>({ shape: true, layout: true, processes: true });

/**
 * A grid of processes. It may have fewer processes than the job: the other ranks then own nothing.
 *
 * @example
 * ```ts
 * import { ProcessGrid } from "@distmath/distmath";
 * const grid = new ProcessGrid({ shape: [2, 3], layout: "column-major" });
 * console.assert(grid.rank([1, 0]) === 1);
 * console.assert(grid.coordinates(2)?.join() === "0,1");
 * ```
 */
export class ProcessGrid {
  static {
    noteOwnClass(this);
  }

  /** The number of processes along each dimension. */
  readonly shape: readonly number[];
  /** The order in which ranks, or `processes`, fill the grid. */
  readonly layout: GridLayout;
  /** The ranks in the order of `layout`; null when they are `0..size-1`. */
  readonly processes: readonly number[] | null;
  /** The number of processes of the grid. */
  readonly size: number;
  readonly #strides: readonly number[];
  readonly #positions: ReadonlyMap<number, number> | null;

  /**
   * Make a grid.
   *
   * @throws {TypeError} when an option is not known, or of the wrong type
   * @throws {RangeError} when a number is not a positive integer, or a process is negative
   * @throws {ShapeError} when the shape is empty
   * @throws {DistributionError} when `processes` has another length than the grid, or names a rank twice
   */
  constructor(options: ProcessGridOptions) {
    checkKeys("the options of ProcessGrid", options ?? null, GRID_KEYS);
    const { shape, layout = "row-major", processes = null } = options;
    this.shape = checkIntegers("a process grid's shape", shape, 1);
    if (this.shape.length === 0) {
      throw new ShapeError("the shape of a process grid is empty; give one number of processes a dimension");
    }
    if (layout !== "row-major" && layout !== "column-major") {
      throw new TypeError(
        `the layout of a process grid must be "row-major" or "column-major", got ${describe(layout)}`,
      );
    }
    this.layout = layout;
    this.size = this.shape.reduce((product, extent) => product * extent, 1);
    this.#strides = stridesOf(this.shape, layout);
    this.processes = processes === null ? null : checkProcesses(processes, this.shape);
    this.#positions = this.processes && new Map(this.processes.map((rank, position) => [rank, position]));
  }

  /**
   * The most nearly square grid of this many processes, with at most as many rows as columns.
   *
   * @throws {RangeError | TypeError} when it is no positive integer, or there is no such layout
   *
   * @example
   * ```ts
   * import { ProcessGrid } from "@distmath/distmath";
   * console.assert(ProcessGrid.nearlySquare(6).shape.join() === "2,3");
   * ```
   */
  static nearlySquare(size: number, layout: GridLayout = "row-major"): ProcessGrid {
    return new ProcessGrid({ shape: nearlySquareFactors(checkInteger("the number of processes", size, 1)), layout });
  }

  /** The coordinates of a rank, or null if it is not in the grid. */
  coordinates(rank: number): number[] | null {
    const position = this.#positions ? this.#positions.get(rank) : rank;
    if (position === undefined || !Number.isInteger(position) || position < 0 || position >= this.size) return null;
    return this.shape.map((extent, dimension) => Math.floor(position / this.#strides[dimension]) % extent);
  }

  /**
   * The rank at the coordinates.
   *
   * @throws {ShapeError} when there is not one coordinate a dimension
   * @throws {RangeError} when a coordinate lies outside
   */
  rank(coordinates: readonly number[]): number {
    if (!Array.isArray(coordinates) && !ArrayBuffer.isView(coordinates)) {
      throw new TypeError(
        `the coordinates in a process grid must be a list of ${this.shape.length} numbers, not ${
          describe(coordinates)
        }`,
      );
    }
    if (coordinates.length !== this.shape.length) {
      throw new ShapeError(
        `coordinates ${list(coordinates)} do not fit a process grid of shape ${list(this.shape)}; ` +
          `give ${this.shape.length} of them`,
      );
    }
    let position = 0;
    for (let dimension = 0; dimension < coordinates.length; dimension++) {
      const coordinate = coordinates[dimension];
      if (!(coordinate >= 0 && coordinate < this.shape[dimension] && Number.isInteger(coordinate))) {
        checkInteger(`coordinate ${dimension} in the grid`, coordinate, 0, this.shape[dimension] - 1);
      }
      position += coordinate * this.#strides[dimension];
    }
    return this.processes ? this.processes[position] : position;
  }

  /** The dimension along which the processes lie if they lie in a line, 0 for a single process, or else null. */
  get line(): number | null {
    const long = this.shape.flatMap((extent, dimension) => extent > 1 ? [dimension] : []);
    return long.length > 1 ? null : long[0] ?? 0;
  }

  /** Whether both have the same shape and the same rank everywhere; the layout of a 1-D grid does not matter. */
  equals(other: ProcessGrid): boolean {
    if (this === other) return true;
    if (this.shape.join() !== other.shape.join()) return false;
    const sameOrder = this.layout === other.layout || this.line !== null;
    if (sameOrder && this.processes === null && other.processes === null) return true;
    return positionsOf(this.shape, "row-major").every((coordinates) =>
      this.rank(coordinates) === other.rank(coordinates)
    );
  }

  /**
   * The same grid with its dimensions in another order, reversed when `axes` is left out: the process at (r, c) is
   * then at (c, r). Ranks stay what they are.
   */
  transpose(axes?: readonly number[]): ProcessGrid {
    const order = checkAxes(axes, this.shape.length);
    const shape = permute(this.shape, order);
    const last = order.length - 1;
    if (order.every((axis, index) => axis === last - index)) {
      const layout = this.layout === "row-major" ? "column-major" : "row-major";
      return new ProcessGrid({ shape, layout, processes: this.processes });
    }
    const processes = positionsOf(shape, this.layout).map((coordinates) => {
      const source: number[] = [];
      order.forEach((axis, index) => source[axis] = coordinates[index]);
      return this.rank(source);
    });
    return new ProcessGrid({ shape, layout: this.layout, processes }).withoutProcesses() ??
      new ProcessGrid({ shape, layout: this.layout, processes });
  }

  /** The same grid told by its layout alone, which is all that `BLACS_GRIDINIT` takes; null if no layout gives it. */
  withoutProcesses(): ProcessGrid | null {
    if (this.processes === null) return this;
    for (const layout of [this.layout, "row-major", "column-major"] as const) {
      const plain = new ProcessGrid({ shape: this.shape, layout });
      if (plain.equals(this)) return plain;
    }
    return null;
  }

  /** Such as `2 x 3 column-major`, followed by the ranks if they were given; the layout is left out for a 1-D grid. */
  toString(): string {
    const layout = this.line === null ? ` ${this.layout}` : "";
    const ranks = this.processes === null ? "" : ` of ranks ${this.processes.join(", ")}`;
    return `${this.shape.join(" x ")}${layout}${ranks}`;
  }
}

function stridesOf(shape: readonly number[], layout: GridLayout): number[] {
  const product = (extents: readonly number[]) => extents.reduce((result, extent) => result * extent, 1);
  return shape.map((_, d) => product(layout === "row-major" ? shape.slice(d + 1) : shape.slice(0, d)));
}

/** The coordinates of every position in the order of the layout. */
function positionsOf(shape: readonly number[], layout: GridLayout): number[][] {
  const grid = new ProcessGrid({ shape, layout });
  return Array.from({ length: grid.size }, (_, position) => grid.coordinates(position)!);
}

function checkProcesses(processes: readonly number[], shape: readonly number[]): readonly number[] {
  const checked = checkIntegers("processes", processes, 0);
  const size = shape.reduce((product, extent) => product * extent, 1);
  if (checked.length !== size) {
    throw new DistributionError(
      `a process grid of shape ${list(shape)} has ${size} processes, but ${checked.length} were given; ` +
        `list each rank of the grid once`,
    );
  }
  if (new Set(checked).size === size) return checked;
  const twice = checked.find((rank, index) => checked.indexOf(rank) !== index);
  throw new DistributionError(`rank ${twice} stands twice in the processes ${list(checked)} of a grid; list it once`, {
    ranks: [twice!],
  });
}
