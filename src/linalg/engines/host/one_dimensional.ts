/**
 * Products of matrices that are divided along one dimension: which there are for a problem, whichever engine runs them.
 *
 * - `local_gemm`: nothing travels, since a factor is replicated.
 * - `all_gather_gemm`: one factor and D are divided alike, along m or n; the blocks of the other factor travel.
 * - `gemm_reduce_scatter`: both factors are divided alike along k; the partial products are summed into D's parts.
 * - `gemm_all_reduce`: the same with D on every rank.
 *
 * @module
 */
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { Range } from "../../../distribution/mod.ts";
import { keepingLast, kept, type MatmulProblem, type Matrix, matrixName, summed } from "../../matmul/problem.ts";
import { divided, isOneDimensional, sameRanges, slab, splitAlong } from "../../partition.ts";
import { type Candidate, placeOf, type Strategy, withMoves } from "./strategy.ts";

/** The products of matrices that are divided along one dimension, in order of preference. */
export const ONE_DIMENSIONAL_ALGORITHMS = [
  "local_gemm",
  "all_gather_gemm",
  "gemm_reduce_scatter",
  "gemm_all_reduce",
] as const;

/** The name of one of {@linkcode ONE_DIMENSIONAL_ALGORITHMS}. */
export type OneDimensionalAlgorithm = typeof ONE_DIMENSIONAL_ALGORITHMS[number];

/** A strategy of one of them. */
export type OneDimensionalStrategy = Strategy<OneDimensionalAlgorithm>;

/** All of them, with the operands moved where they do not fit. */
export const oneDimensionalStrategies = keepingLast((problem): readonly OneDimensionalStrategy[] => {
  const candidates = [
    ...gatherCandidates(problem, "b"),
    ...gatherCandidates(problem, "a"),
    ...reduceCandidates(problem),
  ];
  return candidates.map((candidate) => withMoves(problem, candidate));
});

/** The ways to divide a dimension that some matrix has already, and the even one. */
function divisions(matrices: readonly (readonly [Matrix, 0 | 1])[]): Range[][] {
  const found: Range[][] = [];
  const [first, dimension] = matrices[0];
  const all = matrices.map(([matrix, d]) => splitAlong(matrix.distribution, d));
  for (const ranges of [...all, splitAlong(slab(first, dimension), dimension)]) {
    if (ranges && !found.some((other) => sameRanges(other, ranges))) found.push(ranges);
  }
  return found;
}

/** Bytes of a matrix in the type in which products are summed. */
export function bytesOf({ rows, columns }: Matrix, problem: MatmulProblem): number {
  return rows * columns * dtypeInfo(problem.accumulator).itemSize;
}

/** One factor stays, the other one travels; nothing travels if it is replicated. */
function* gatherCandidates(problem: MatmulProblem, gathered: "a" | "b"): Generator<Candidate<OneDimensionalAlgorithm>> {
  const stays = gathered === "a" ? "b" : "a";
  const dimension = kept(stays, problem);
  const dimensionOfD = stays === "a" ? 0 : 1;
  const traveller = problem[gathered];
  const { distribution } = traveller;
  const travels = distribution.isReplicated || isOneDimensional(distribution)
    ? [distribution]
    : [slab(traveller, 0), slab(traveller, 1)];
  for (const ranges of divisions([[problem.d, dimensionOfD], [problem[stays], dimension]])) {
    const staying = divided(problem[stays], dimension, ranges);
    for (const travelling of travels) {
      yield {
        algorithm: distribution.isReplicated ? "local_gemm" : "all_gather_gemm",
        gathered,
        a: gathered === "a" ? travelling : staying,
        b: gathered === "b" ? travelling : staying,
        d: divided(problem.d, dimensionOfD, ranges),
        traffic: distribution.isReplicated ? 0 : (distribution.size! - 1) * bytesOf(traveller, problem),
      };
    }
  }
}

/** Both factors are divided along k. */
function* reduceCandidates(problem: MatmulProblem): Generator<Candidate<OneDimensionalAlgorithm>> {
  const [a, b] = [summed("a", problem), summed("b", problem)];
  const { distribution } = problem.d;
  const bytes = (distribution.size! - 1) * bytesOf(problem.d, problem);
  const results = distribution.isReplicated || isOneDimensional(distribution)
    ? [distribution]
    : [slab(problem.d, 0), slab(problem.d, 1)];
  for (const ranges of divisions([[problem.a, a], [problem.b, b]])) {
    for (const d of results) {
      const factors = { a: divided(problem.a, a, ranges), b: divided(problem.b, b, ranges), d };
      yield d.isReplicated
        ? { algorithm: "gemm_all_reduce", ...factors, traffic: 2 * bytes }
        : { algorithm: "gemm_reduce_scatter", ...factors, traffic: bytes };
    }
  }
}

/** The most elements that one MPI message, or one BLAS extent, can have. */
const LARGEST_COUNT = 2 ** 31 - 1;

/** Whether every message of a candidate can be counted in 32 bits. */
export function isCountable(problem: MatmulProblem, { algorithm, gathered, a, b }: Candidate): boolean {
  const { parts } = dtypeInfo(problem.accumulator);
  if (algorithm === "gemm_reduce_scatter" || algorithm === "gemm_all_reduce") {
    return problem.m * problem.n * parts <= LARGEST_COUNT;
  }
  if (algorithm !== "all_gather_gemm") return true;
  const travelling = gathered === "a" ? a : b;
  for (let rank = 0; rank < travelling.size!; rank++) {
    const [rows, columns] = travelling.localShape(rank);
    if (rows * columns * parts > LARGEST_COUNT) return false;
  }
  return true;
}

/** What one of these does with the matrices. */
export function describeOneDimensional(problem: MatmulProblem, strategy: OneDimensionalStrategy): string {
  const called = (name: "a" | "b" | "d") => `${matrixName(problem, name)} ${placeOf(problem, strategy, name)}`;
  const size = strategy.d.size!;
  switch (strategy.algorithm) {
    case "local_gemm":
      return size === 1 ? "one rank" : `no communication: ${called("a")}, ${called("b")}, ${called("d")}`;
    case "all_gather_gemm": {
      const [travels, stays] = strategy.gathered === "a" ? ["a", "b"] as const : ["b", "a"] as const;
      return `${called(stays)}, ${called("d")}; the blocks of ${called(travels)}, go to all ${size} ranks`;
    }
    case "gemm_reduce_scatter":
      return `${called("a")}, ${called("b")}; the partial products are summed into ${called("d")}`;
    case "gemm_all_reduce":
      return `${called("a")}, ${called("b")}; the partial products are summed on every rank`;
  }
}
