/**
 * Where the matrices of a product are multiplied in host memory, and what it takes to bring them there.
 *
 * @module
 */
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { Distribution, ProcessGrid } from "../../../distribution/mod.ts";
import { dimensionNames, type MatmulProblem } from "../../matmul/problem.ts";
import { asBlocks, elementsMoved, isWindow, splitAlong } from "../../partition.ts";

/** An algorithm, and the distributions that it multiplies. */
export interface Candidate<Algorithm extends string = string> {
  /** The algorithm; `none` where there is nothing to multiply. */
  readonly algorithm: Algorithm;
  /** The factor whose blocks travel, for `all_gather_gemm`. */
  readonly gathered?: "a" | "b";
  /** The grid of processes, for `pgemm`. */
  readonly grid?: ProcessGrid;
  /** How A is distributed when it is multiplied. */
  readonly a: Distribution;
  /** How B is distributed when it is multiplied. */
  readonly b: Distribution;
  /** How the product is distributed when it is computed. */
  readonly d: Distribution;
  /** Bytes that leave ranks while multiplying; for `pgemm` an estimate. */
  readonly traffic: number;
}

export interface Strategy<Algorithm extends string = string> extends Candidate<Algorithm> {
  /** Bytes that leave ranks to move A, B and C where they are multiplied, and D to where it is wanted. */
  readonly moved: number;
  /** How many matrices are moved. */
  readonly moves: number;
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
