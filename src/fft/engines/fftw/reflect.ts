/**
 * One half of the spectrum of real numbers from another one, on one rank.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import { type HalfSpectra, rowsOf } from "../../half_spectra.ts";
import { halfOf } from "../../problem.ts";

/** This rank's part of the first half of the vector, from that of the rows of the matrix, which lie column by column. */
export function toFirstHalf(halves: HalfSpectra, rank: number, matrix: LocalArray, vector: LocalArray): void {
  const mine = rowsOf(halves, rank);
  if (mine === null) return;
  const { rows, columns } = halves;
  const { own, mirrored } = mine;
  const [from, to] = [matrix.data as Float64Array, vector.data as Float64Array];
  const extent = halfOf(rows * columns);
  const height = own[1] - own[0];
  let at = 2 * vector.offset;
  for (let column = 0; column * rows < extent; column++) {
    const left = extent - column * rows;
    const count = 2 * (Math.min(own[1], left) - own[0]);
    for (let i = 0, source = 2 * (matrix.offset + column * height); i < count; i++) to[at++] = from[source++];
    const end = Math.min(mirrored[1], left);
    let source = 2 * (matrix.offset + (columns - 1 - column) * height + rows - mirrored[0] - own[0]);
    for (let row = mirrored[0]; row < end; row++, source -= 2) {
      to[at++] = from[source];
      to[at++] = -from[source + 1];
    }
  }
}

/** The opposite: the rows of the matrix, column by column. */
export function fromFirstHalf(halves: HalfSpectra, rank: number, vector: LocalArray, matrix: LocalArray): void {
  const mine = rowsOf(halves, rank);
  if (mine === null) return;
  const { rows, columns } = halves;
  const { own, mirrored } = mine;
  const [from, to] = [vector.data as Float64Array, matrix.data as Float64Array];
  const extent = halfOf(rows * columns);
  const height = own[1] - own[0];
  const width = height + mirrored[1] - mirrored[0];
  /** Where a row of the vector's part begins that this rank has whole, as it has the conjugates. */
  const startOf = (column: number) => 2 * (vector.offset + column * width);
  let at = 2 * matrix.offset;
  for (let column = 0; column < columns; column++) {
    const known = Math.min(own[1], Math.max(own[0], extent - column * rows));
    const count = 2 * (known - own[0]);
    for (let i = 0, source = startOf(column); i < count; i++) to[at++] = from[source++];
    for (let row = known; row < own[1]; row++) {
      const source = row === 0
        ? startOf(columns - column)
        : 2 * row === rows
        ? startOf(columns - 1 - column) + 2 * (row - own[0])
        : startOf(columns - 1 - column) + 2 * (height + rows - row - mirrored[0]);
      to[at++] = from[source];
      to[at++] = -from[source + 1];
    }
  }
}
