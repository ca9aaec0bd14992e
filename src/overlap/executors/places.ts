/**
 * Where the places of stage schedules lie in matrices that are stored column by column: what the executors share.
 *
 * @module
 */
import { beginningAt, type Extents, type MatrixInMemory } from "../../blas/gemm.ts";
import type { Operation } from "../../blas/transposition.ts";
import { type Axis, lengthOf, lineElements, MATRIX_AXES, type MatrixName, type Part } from "../partition.ts";
import type { Gemm, MemoryLines, Schedule } from "../schedule.ts";

/** This rank's matrices. */
export interface RankMatrices {
  /** A. */
  readonly a: MatrixInMemory;
  /** B. */
  readonly b: MatrixInMemory;
  /** D. */
  readonly d: MatrixInMemory;
  /** All ranks' parts of the factor that travels, if it lies where this rank addresses them. */
  readonly factors?: readonly MatrixInMemory[];
}

/** Finds the places of one rank's schedule. */
export class Places {
  readonly #schedule: Schedule;
  readonly #operationA: Operation;
  readonly #operationB: Operation;

  /** The operations say what is done to A and B as they are stored. */
  constructor(schedule: Schedule, operations: { readonly operationA: Operation; readonly operationB: Operation }) {
    this.#schedule = schedule;
    ({ operationA: this.#operationA, operationB: this.#operationB } = operations);
  }

  /** The extents of a product with a range of the axis. */
  extents(range: Part): Extents {
    const { partition: { extents, axis, fixedAxis, fixedParts }, rank } = this.#schedule;
    return { ...extents, [fixedAxis]: lengthOf(fixedParts[rank]), [axis]: lengthOf(range) };
  }

  /** Which dimension of a stored matrix an axis is; null if it has it not. */
  dimensionOf(matrix: MatrixName, axis: Axis): 0 | 1 | null {
    const axes: readonly Axis[] = MATRIX_AXES[matrix];
    const index = axes.indexOf(axis);
    if (index < 0) return null;
    const isTransposed = matrix === "a"
      ? this.#operationA.transpose
      : matrix === "b"
      ? this.#operationB.transpose
      : false;
    return (isTransposed ? 1 - index : index) as 0 | 1;
  }

  /** The shape of so many lines of the matrix that travels, as it is stored. */
  shape(lines: number): [rows: number, columns: number] {
    const { partition } = this.#schedule;
    const other = lineElements(partition);
    return this.dimensionOf(partition.travels, partition.axis) === 0 ? [lines, other] : [other, lines];
  }

  /** The dimension along which the lines of a place are counted; null for a result that is a single line. */
  lineDimension({ memory }: MemoryLines): 0 | 1 | null {
    const { travels, axis } = this.#schedule.partition;
    return this.dimensionOf(memory === "result" ? "d" : travels, axis);
  }

  /** Elements before a line of a window, where blocks lie column by column without gaps. */
  elementsBefore(at: number): number {
    return at * lineElements(this.#schedule.partition);
  }

  /** A place in memory; `window` tells where an element of a rank's window lies. */
  matrixAt(
    place: MemoryLines,
    matrices: RankMatrices,
    itemSize: number,
    window: (rank: number, element: number) => bigint,
  ): MatrixInMemory {
    const { rank, memory, at, lines } = place;
    if (memory === "window") {
      const [rows] = this.shape(lines);
      return { address: window(rank, this.elementsBefore(at)), leadingDimension: Math.max(1, rows) };
    }
    const matrix = memory === "result"
      ? matrices.d
      : rank === this.#schedule.rank
      ? matrices[this.#schedule.partition.travels]
      : matrices.factors![rank];
    const dimension = this.lineDimension(place);
    return dimension === null ? matrix : beginningAt(matrix, dimension, at, itemSize);
  }

  /** What a rank has of a factor for a product, unless it is what travels. */
  ownSide({ range }: Gemm, name: "a" | "b", matrix: MatrixInMemory, itemSize: number): MatrixInMemory {
    const dimension = this.dimensionOf(name, this.#schedule.partition.axis);
    return dimension === null ? matrix : beginningAt(matrix, dimension, range.start, itemSize);
  }
}
