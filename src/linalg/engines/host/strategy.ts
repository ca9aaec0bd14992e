/**
 * Where the matrices of a product are multiplied in host memory, and what it takes to bring them there.
 *
 * @module
 */
import { sizeOfShape } from "../../../array/layout.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { Distribution, ProcessGrid } from "../../../distribution/mod.ts";
import { dimensionNames, type MatmulProblem } from "../../matmul/problem.ts";
import { asBlocks, elementsMoved, isWindow, splitAlong } from "../../matrix_division.ts";

/** An algorithm, and the distributions that it multiplies. */
export interface Candidate<Algorithm extends string = string> {
  /** The algorithm; `none` where there is nothing to multiply. */
  readonly algorithm: Algorithm;
  /** What travels while it is multiplied: blocks of a factor, or partial sums of D; left out where nothing does, or on a grid. */
  readonly travels?: "a" | "b" | "d";
  /** The grid of processes, if all matrices are in blocks on one. */
  readonly grid?: ProcessGrid;
  /** How A is distributed when it is multiplied. */
  readonly a: Distribution;
  /** How B is distributed when it is multiplied. */
  readonly b: Distribution;
  /** How the product is distributed when it is computed. */
  readonly d: Distribution;
  /** Bytes that leave ranks while multiplying; on a grid an estimate. */
  readonly traffic: number;
}

export interface Strategy<Algorithm extends string = string> extends Candidate<Algorithm> {
  /** Bytes that leave ranks to move A, B and C where they are multiplied, and D to where it is wanted. */
  readonly moved: number;
  /** How many matrices are moved. */
  readonly moves: number;
}

/** What ranks exchange while they multiply, as of a collective call; null if nothing, or on a grid, where a library does it. */
export function exchangeOf({ travels, d }: Candidate): "all-gather" | "reduce-scatter" | "all-reduce" | null {
  if (travels === undefined) return null;
  return travels !== "d" ? "all-gather" : d.isReplicated ? "all-reduce" : "reduce-scatter";
}

/** The part of all multiplications that the busiest rank does. */
export function shareOf({ travels, grid, d }: Candidate): number {
  const size = d.size!;
  if (grid) return 1 / (grid.shape[0] * grid.shape[1]);
  // Partial sums are divided along k.
  if (travels === "d") return 1 / size;
  const parts = Array.from({ length: size }, (_, rank) => sizeOfShape(d.localShape(rank)));
  return Math.max(...parts) / Math.max(1, sizeOfShape(d.globalShape!));
}

/** How often ranks wait for each other while they multiply: on a grid they send parts of A and of B block by block along k. */
export function meetingsOf({ travels, grid, a, traffic }: Candidate, k: number): number {
  if (traffic === 0) return 0;
  if (grid) return 2 * Math.ceil(k / Math.max(...asBlocks(a)!.blockSizes));
  return travels === undefined ? 0 : 1;
}

/** What it takes to multiply by a candidate. */
export function withMoves<Algorithm extends string>(
  problem: MatmulProblem,
  candidate: Candidate<Algorithm>,
): Strategy<Algorithm> {
  let [moved, moves] = [0, 0];
  const add = (from: Distribution, to: Distribution, itemSize: number) => {
    if (from.coincidesWith(to) || isWindow(from, to)) return;
    moves++;
    moved += elementsMoved(from, to) * itemSize;
  };
  const { a, b, c, d, accumulator } = problem;
  add(a.distribution, candidate.a, dtypeInfo(a.dtype).itemSize);
  add(b.distribution, candidate.b, dtypeInfo(b.dtype).itemSize);
  if (c) add(c.distribution, candidate.d, dtypeInfo(c.dtype).itemSize);
  add(candidate.d, d.distribution, dtypeInfo(accumulator).itemSize);
  return { ...candidate, moved, moves };
}

/** Where a matrix is when it is multiplied, such as `divided along k`. */
export function placeOf(problem: MatmulProblem, strategy: Strategy, name: "a" | "b" | "d"): string {
  const distribution = strategy[name];
  const names = dimensionNames(problem, name);
  if (distribution.size === 1) return "on one rank";
  if (distribution.isReplicated) return "on every rank";
  for (const dimension of strategy.grid ? [] : [0, 1] as const) {
    if (splitAlong(distribution, dimension)) return `divided along ${names[dimension]}`;
  }
  const blocks = asBlocks(distribution);
  if (!blocks) return `as ${distribution}`;
  const [rows, columns] = blocks.blockSizes;
  return `in blocks of ${rows} (${names[0]}) x ${columns} (${names[1]})`;
}
