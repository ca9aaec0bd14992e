/**
 * One long transform on several ranks: as a matrix of rows x columns, it becomes transforms of columns, a multiplication
 * by roots of unity, and transforms of rows (Bailey's four-step algorithm).
 *
 * With j = j1 columns + j2 and k = k1 + rows k2, the exponent j k / n is j1 k1 / rows + j2 k1 / n + j2 k2 / columns.
 *
 * @module
 */
import { Slab } from "../distribution/mod.ts";
import type { Range } from "../distribution/mod.ts";
import { evenly } from "../distribution/index_map.ts";
import type { Parts } from "../array/redistribution/plan.ts";
import type { FFTProblem } from "./problem.ts";
import type { Route } from "./steps.ts";

/** The factors of a number that are closest to each other, the smaller one first. */
export function squarestFactors(n: number): readonly [number, number] {
  let factor = Math.floor(Math.sqrt(n));
  while (n % factor > 0) factor--;
  return [factor, n / factor];
}

/** Of a vector that is a matrix row by row, each rank has as many columns as of a matrix in `Slab.Y`. */
export function columnsOf(rows: number, columns: number, size: number): Parts {
  const map = evenly(columns, size);
  return {
    globalShape: [rows * columns],
    size,
    isReplicated: false,
    ranges(rank) {
      const [range] = map.part(rank).ranges();
      if (range === undefined) return [[]];
      if (range[1] - range[0] === columns) return [[[0, rows * columns]]];
      return [Array.from({ length: rows }, (_, row): Range => [row * columns + range[0], row * columns + range[1]])];
    },
    toString: () => `columns of ${rows} x ${columns}`,
  };
}

/** The four steps for a vector of complex numbers; null for anything else, one rank, and lengths without two factors. */
export function fourStepRoute(problem: FFTProblem, latency: number): Route | null {
  const { type, operand, from, to, precision } = problem;
  const size = from.size!;
  if (type !== "c2c" || operand.length !== 1 || size === 1) return null;
  const [n] = operand;
  const [rows, columns] = squarestFactors(n);
  if (rows === 1) return null;
  const matrix = [rows, columns];
  const [byColumns, byRows] = [Slab.Y.bind(matrix, size), Slab.X.bind(matrix, size)];
  const bytes = (precision === "float32" ? 8 : 16) *
    Math.max(rows * Math.ceil(columns / size), columns * Math.ceil(rows / size));
  return {
    algorithm: "four_step",
    variant: `${rows} x ${columns}: columns, roots of unity, rows`,
    steps: [
      { kind: "move", from, to: columnsOf(rows, columns, size), isReal: false },
      { kind: "transform", type, axes: [0], from: byColumns, to: byColumns },
      { kind: "twiddle", from: byColumns, to: byColumns, length: n },
      { kind: "move", from: byColumns, to: byRows, isReal: false },
      { kind: "transform", type, axes: [1], from: byRows, to: byRows, isTransposed: true },
      { kind: "move", from: columnsOf(columns, rows, size), to, isReal: false },
    ],
    // Three moves of short pieces, in which nearly everything leaves the ranks, two transforms, and the roots of unity,
    // which take as long as five passes: measured on 2 and 4 ranks.
    cost: 3 * (latency + 4 * bytes) + 7 * bytes,
  };
}
