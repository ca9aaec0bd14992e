/**
 * One long transform on several ranks: as a matrix of rows x columns, it becomes transforms of columns, a multiplication
 * by roots of unity, and transforms of rows (Bailey's four-step algorithm).
 *
 * With j = j1 columns + j2 and k = k1 + rows k2, the exponent j k / n is j1 k1 / rows + j2 k1 / n + j2 k2 / columns.
 *
 * @module
 */
import { type Distribution, type Range, Slab } from "../distribution/mod.ts";
import { evenly } from "../distribution/index_map.ts";
import { nearlySquareFactors } from "../distribution/nearly_square.ts";
import type { Parts } from "../array/redistribution/plan.ts";
import { ROUTE_ALGORITHMS } from "./engines/staged/algorithms.ts";
import { firstHalf } from "./half_spectra.ts";
import { type FFTProblem, halfOf, itemSizeOf } from "./problem.ts";
import type { Route, RouteStep } from "./steps.ts";

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

/**
 * The four steps for a vector, of real numbers too; null for anything else, one rank, and lengths without two factors.
 */
export function fourStepRoute(problem: FFTProblem, latency: number): Route | null {
  const { type, operand, result, from } = problem;
  const size = from.size!;
  if (operand.length !== 1 || size === 1) return null;
  const [n] = type === "c2r" ? result : operand;
  const [rows, columns] = nearlySquareFactors(n);
  if (rows === 1) return null;
  const stepsFor = { c2c: complexSteps, r2c: stepsFromReal, c2r: stepsToReal }[type];
  const half = type === "c2c" ? rows : halfOf(rows);
  const bytes = 2 * itemSizeOf(problem) * Math.max(half * Math.ceil(columns / size), columns * Math.ceil(half / size));
  return {
    algorithm: ROUTE_ALGORITHMS.fourStep,
    variant: `${rows} x ${columns}: columns, roots of unity, rows`,
    steps: stepsFor(problem, rows, columns),
    // Three moves of short pieces, in which nearly everything leaves the ranks, two transforms, the roots of unity, which
    // take as long as five passes, and of real numbers what is reflected: measured on 2 and 4 ranks.
    cost: 3 * (latency + 4 * bytes) + (type === "c2c" ? 7 : 9) * bytes,
  };
}

/** What is told if one rank has to transform a vector alone; null if ranks could share it. */
export function refusalOfFourSteps({ type, operand, result, from }: FFTProblem): string | null {
  if (operand.length !== 1 || from.size === 1) return null;
  const [n] = type === "c2r" ? result : operand;
  const isPrime = nearlySquareFactors(n)[0] === 1;
  return isPrime ? `a vector of ${n} numbers, which is prime, is transformed by one rank` : null;
}

/** A matrix whose ranks have columns, or rows. */
function matrixBy(dimension: "columns" | "rows", shape: readonly [number, number], size: number): Distribution {
  return (dimension === "columns" ? Slab.Y : Slab.X).bind(shape, size);
}

function complexSteps({ type, from, to }: FFTProblem, rows: number, columns: number): RouteStep[] {
  const size = from.size!;
  const byColumns = matrixBy("columns", [rows, columns], size);
  const byRows = matrixBy("rows", [rows, columns], size);
  return [
    { kind: "move", from, to: columnsOf(rows, columns, size), isReal: false },
    { kind: "transform", type, axes: [0], from: byColumns, to: byColumns },
    { kind: "twiddle", from: byColumns, to: byColumns, length: rows * columns },
    { kind: "move", from: byColumns, to: byRows, isReal: false },
    { kind: "transform", type, axes: [1], from: byRows, to: byRows, isTransposed: true },
    { kind: "move", from: columnsOf(columns, rows, size), to, isReal: false },
  ];
}

/** Columns of real numbers have spectra of which the first half is enough; so the matrix has half of its rows from there on. */
function stepsFromReal({ type, from, to }: FFTProblem, rows: number, columns: number): RouteStep[] {
  const size = from.size!;
  const halves = { rows, columns, size };
  const half = halfOf(rows);
  const byColumns = matrixBy("columns", [half, columns], size);
  const byRows = matrixBy("rows", [half, columns], size);
  return [
    { kind: "move", from, to: columnsOf(rows, columns, size), isReal: true },
    { kind: "transform", type, axes: [0], from: matrixBy("columns", [rows, columns], size), to: byColumns },
    { kind: "twiddle", from: byColumns, to: byColumns, length: rows * columns },
    { kind: "move", from: byColumns, to: byRows, isReal: false },
    { kind: "transform", type: "c2c", axes: [1], from: byRows, to: byRows, isTransposed: true },
    {
      kind: "reflect",
      from: matrixBy("columns", [columns, half], size),
      to: firstHalf(halves),
      halves,
      isToVector: true,
    },
    { kind: "move", from: firstHalf(halves), to, isReal: false },
  ];
}

/** The same steps back. */
function stepsToReal({ type, from, to }: FFTProblem, rows: number, columns: number): RouteStep[] {
  const size = from.size!;
  const halves = { rows, columns, size };
  const half = halfOf(rows);
  const byColumns = matrixBy("columns", [half, columns], size);
  const transposed = matrixBy("columns", [columns, half], size);
  return [
    { kind: "move", from, to: firstHalf(halves), isReal: false },
    { kind: "reflect", from: firstHalf(halves), to: transposed, halves, isToVector: false },
    { kind: "transform", type: "c2c", axes: [0], from: transposed, to: transposed, isTransposed: true },
    { kind: "move", from: matrixBy("rows", [half, columns], size), to: byColumns, isReal: false },
    { kind: "twiddle", from: byColumns, to: byColumns, length: rows * columns },
    { kind: "transform", type, axes: [0], from: byColumns, to: matrixBy("columns", [rows, columns], size) },
    { kind: "move", from: columnsOf(rows, columns, size), to, isReal: true },
  ];
}
