/**
 * The spectrum of n real numbers is known twice: X[n - k] is the conjugate of X[k]. What four steps of real numbers give is
 * one half of it, the first rows of a matrix; what is asked for is another one, the first half of a vector.
 *
 * With k = row + rows * column, the conjugate of element (row, column) is (rows - row, columns - 1 - column), of row 0
 * (0, columns - column). A rank that has rows of the matrix also has the conjugates of the rows that mirror them: no element
 * has to travel between the halves.
 *
 * @module
 */
import type { Parts } from "../array/redistribution/plan.ts";
import { evenly } from "../distribution/index_map.ts";
import type { Range } from "../distribution/mod.ts";
import { halfOf } from "./problem.ts";

/** What a rank has of the spectrum: rows of the matrix, and those that mirror them. Both ends are exclusive. */
export interface Rows {
  /** Rows of the first half. */
  readonly own: Range;
  /** Rows of the second half, whose elements are conjugates of those of the own ones, the last one's first. */
  readonly mirrored: Range;
}

/** Two halves of the spectrum of `rows` x `columns` real numbers, on so many ranks. */
export interface HalfSpectra {
  readonly rows: number;
  readonly columns: number;
  readonly size: number;
}

/** The rows of a rank; null if it has none. */
export function rowsOf({ rows, size }: HalfSpectra, rank: number): Rows | null {
  const own = evenly(halfOf(rows), size).part(rank).ranges()[0];
  if (own === undefined) return null;
  // Row 0, and of an even number the one in the middle, mirror themselves.
  const [first, end] = [Math.max(own[0], 1), Math.min(own[1], Math.ceil(rows / 2))];
  return { own, mirrored: first < end ? [rows - end + 1, rows - first + 1] : [rows, rows] };
}

/** The first half of the vector, where each rank has what its rows of the matrix and those that mirror them have of it. */
export function firstHalf(halves: HalfSpectra): Parts {
  const { rows, columns, size } = halves;
  const extent = halfOf(rows * columns);
  return {
    globalShape: [extent],
    size,
    isReplicated: false,
    ranges(rank) {
      const mine = rowsOf(halves, rank);
      const ranges: [number, number][] = [];
      for (let start = 0; mine !== null && start < extent; start += rows) {
        for (const [first, end] of [mine.own, mine.mirrored]) {
          const range: [number, number] = [start + first, Math.min(start + end, extent)];
          if (range[0] >= range[1]) continue;
          const last = ranges.at(-1);
          if (last?.[1] === range[0]) last[1] = range[1];
          else ranges.push(range);
        }
      }
      return [ranges];
    },
    toString: () => `the first half of ${rows} x ${columns}, by columns`,
  };
}
