/**
 * Products of matrices that are divided along one dimension: which there are for a problem, whichever engine runs them. Their
 * names stand here and nowhere else; what such a product does, its strategy tells.
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
import { divided, isOneDimensional, sameRanges, slab, splitAlong } from "../../matrix_division.ts";
import { type Candidate, exchangeOf, placeOf, type Strategy, withMoves } from "./strategy.ts";

/** Those in which something travels, in order of preference. */
export const EXCHANGING_ALGORITHMS = ["all_gather_gemm", "gemm_reduce_scatter", "gemm_all_reduce"] as const;

/** The products of matrices that are divided along one dimension, in order of preference. */
export const ONE_DIMENSIONAL_ALGORITHMS = ["local_gemm", ...EXCHANGING_ALGORITHMS] as const;

/** The name of one of {@linkcode ONE_DIMENSIONAL_ALGORITHMS}. */
export type OneDimensionalAlgorithm = typeof ONE_DIMENSIONAL_ALGORITHMS[number];

/** What each cannot run without, where other distributions are moved to those that it takes. */
export const ONE_DIMENSIONAL_NEEDS: Readonly<Record<OneDimensionalAlgorithm, string>> = {
  local_gemm: "one rank, or a factor that is Replicated",
  all_gather_gemm: "a factor that is not Replicated, with at most 2^31 - 1 numbers on a rank",
  gemm_reduce_scatter: "a D that is not Replicated, of at most 2^31 - 1 numbers",
  gemm_all_reduce: "a D that is Replicated, of at most 2^31 - 1 numbers",
};

/** A strategy of one of them. */
export type OneDimensionalStrategy = Strategy<OneDimensionalAlgorithm>;

/** The one without a move, on one rank or with all matrices on every rank; null elsewhere. */
export function localStrategy(problem: MatmulProblem): OneDimensionalStrategy | null {
  const [a, b, d] = [problem.a.distribution, problem.b.distribution, problem.d.distribution];
  const isLocal = d.size === 1 || (a.isReplicated && b.isReplicated && d.isReplicated);
  return isLocal ? withMoves(problem, { algorithm: "local_gemm", a, b, d, traffic: 0 }) : null;
}

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
function* gatherCandidates(problem: MatmulProblem, travels: "a" | "b"): Generator<Candidate<OneDimensionalAlgorithm>> {
  const stays = travels === "a" ? "b" : "a";
  const dimension = kept(stays, problem);
  const dimensionOfD = stays === "a" ? 0 : 1;
  const traveller = problem[travels];
  const { distribution } = traveller;
  const named = distribution.isReplicated ? { algorithm: "local_gemm", traffic: 0 } as const : {
    algorithm: "all_gather_gemm",
    travels,
    traffic: (distribution.size! - 1) * bytesOf(traveller, problem),
  } as const;
  const places = distribution.isReplicated || isOneDimensional(distribution)
    ? [distribution]
    : [slab(traveller, 0), slab(traveller, 1)];
  for (const ranges of divisions([[problem.d, dimensionOfD], [problem[stays], dimension]])) {
    const staying = divided(problem[stays], dimension, ranges);
    for (const place of places) {
      yield {
        ...named,
        a: travels === "a" ? place : staying,
        b: travels === "b" ? place : staying,
        d: divided(problem.d, dimensionOfD, ranges),
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
      const matrices = { travels: "d", a: divided(problem.a, a, ranges), b: divided(problem.b, b, ranges), d } as const;
      yield d.isReplicated
        ? { algorithm: "gemm_all_reduce", ...matrices, traffic: 2 * bytes }
        : { algorithm: "gemm_reduce_scatter", ...matrices, traffic: bytes };
    }
  }
}

/** The most elements that one MPI message, or one BLAS extent, can have. */
const LARGEST_COUNT = 2 ** 31 - 1;

/** Whether every message of a candidate can be counted in 32 bits. */
export function isCountable(problem: MatmulProblem, strategy: Candidate): boolean {
  const { travels } = strategy;
  const { parts } = dtypeInfo(problem.accumulator);
  if (travels === undefined) return true;
  if (travels === "d") return problem.m * problem.n * parts <= LARGEST_COUNT;
  const travelling = strategy[travels];
  for (let rank = 0; rank < travelling.size!; rank++) {
    const [rows, columns] = travelling.localShape(rank);
    if (rows * columns * parts > LARGEST_COUNT) return false;
  }
  return true;
}

/** What one of these does with the matrices. */
export function describeOneDimensional(problem: MatmulProblem, strategy: Strategy): string {
  const called = (name: "a" | "b" | "d") => `${matrixName(problem, name)} ${placeOf(problem, strategy, name)}`;
  const size = strategy.d.size!;
  switch (exchangeOf(strategy)) {
    case null:
      return size === 1 ? "one rank" : `no communication: ${called("a")}, ${called("b")}, ${called("d")}`;
    case "all-gather": {
      const [travels, stays] = strategy.travels === "a" ? ["a", "b"] as const : ["b", "a"] as const;
      return `${called(stays)}, ${called("d")}; the blocks of ${called(travels)}, go to all ${size} ranks`;
    }
    case "reduce-scatter":
      return `${called("a")}, ${called("b")}; the partial products are summed into ${called("d")}`;
    case "all-reduce":
      return `${called("a")}, ${called("b")}; the partial products are summed on every rank`;
  }
}
