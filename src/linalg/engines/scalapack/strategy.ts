/**
 * How a product is computed on several ranks: which algorithm, and how its matrices must be distributed for it.
 *
 * Every algorithm that can run is a candidate, with the operands moved where they do not fit. One that takes all
 * matrices where they are comes before those that move some, and `pgemm`, whose traffic can only be estimated, after
 * the others of its kind; then the fewest bytes between ranks count, then the fewest matrices moved, then the order
 * below. All of it is a pure function of the problem, so that all ranks choose alike.
 *
 * - `local_gemm`: every rank has what it needs: one rank, replicated factors, or nothing to add up.
 * - `all_gather_gemm`: one factor and D are divided alike, along m or n; the blocks of the other factor travel.
 * - `gemm_reduce_scatter`: both factors are divided alike along k; the partial products are summed into D's parts.
 * - `gemm_all_reduce`: the same with D on every rank.
 * - `pgemm`: ScaLAPACK's p?gemm, with all matrices in blocks on one grid of processes.
 *
 * @module
 */
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { BlockCyclic, type ProcessGrid, type Range } from "../../../distribution/mod.ts";
import { kept, type MatmulProblem, type Matrix, matrixName, summed } from "../../matmul/problem.ts";
import {
  asBlocks,
  blockSizeOf,
  divided,
  gridsToTry,
  isOneDimensional,
  sameRanges,
  slab,
  splitAlong,
} from "../../partition.ts";
import { isCheaper } from "../cost.ts";
import { type Candidate, placeOf, type Strategy, withMoves } from "../host/strategy.ts";

/** The algorithms of the CPU engine, in order of preference. */
export const SCALAPACK_ALGORITHMS = [
  "local_gemm",
  "all_gather_gemm",
  "gemm_reduce_scatter",
  "gemm_all_reduce",
  "pgemm",
] as const;

/** The name of an algorithm of the CPU engine. */
export type ScalapackAlgorithm = typeof SCALAPACK_ALGORITHMS[number];

/** What is chosen among. */
type ScalapackCandidate = Candidate<ScalapackAlgorithm>;

/** A strategy of the CPU engine. */
export type ScalapackStrategy = Strategy<ScalapackAlgorithm>;

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

function bytesOf({ rows, columns }: Matrix, problem: MatmulProblem): number {
  return rows * columns * dtypeInfo(problem.accumulator).itemSize;
}

/** One factor stays, the other one travels; nothing travels if it is replicated. */
function* gatherCandidates(problem: MatmulProblem, gathered: "a" | "b"): Generator<ScalapackCandidate> {
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
function* reduceCandidates(problem: MatmulProblem): Generator<ScalapackCandidate> {
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

/** All matrices in blocks on one grid. */
function* gridCandidates(problem: MatmulProblem): Generator<ScalapackCandidate> {
  const size = problem.d.distribution.size!;
  const blocks = {
    a: asBlocks(problem.a.distribution),
    b: asBlocks(problem.b.distribution),
    d: asBlocks(problem.d.distribution),
  };
  for (const grid of gridsToTry([blocks.d?.grid, blocks.a?.grid, blocks.b?.grid], size)) {
    const on = (name: "a" | "b" | "d") => blocks[name]?.grid.equals(grid) ? blocks[name] : null;
    const [ma, ka, kb, nb] = [kept("a", problem), summed("a", problem), summed("b", problem), kept("b", problem)];
    const m = blockSizeOf(problem.m, grid, on("d")?.blockSizes[0], on("a")?.blockSizes[ma]);
    const n = blockSizeOf(problem.n, grid, on("d")?.blockSizes[1], on("b")?.blockSizes[nb]);
    const k = blockSizeOf(problem.k, grid, on("a")?.blockSizes[ka], on("b")?.blockSizes[kb]);
    const place = (name: "a" | "b" | "d", sizes: readonly [number, number]) => {
      const { rows, columns, distribution } = problem[name];
      return on(name) ? distribution : new BlockCyclic(grid, sizes).bind([rows, columns], size);
    };
    yield {
      algorithm: "pgemm",
      grid,
      a: place("a", ma === 0 ? [m, k] : [k, m]),
      b: place("b", kb === 0 ? [k, n] : [n, k]),
      d: place("d", [m, n]),
      traffic: panelTraffic(problem, grid),
    };
  }
}

/**
 * About what p?gemm sends: one matrix stays, the others go along the rows or columns of the grid. A factor whose k lies
 * across the grid's other direction than that of the one that stays is turned first.
 */
function panelTraffic(problem: MatmulProblem, { shape: [rows, columns] }: ProcessGrid): number {
  const [a, b, d] = [problem.a, problem.b, problem.d].map((matrix) => bytesOf(matrix, problem));
  const dStays = (columns - 1) * a + (rows - 1) * b;
  const aStays = rows * b + (columns - 1) * d;
  const bStays = columns * a + (rows - 1) * d;
  return Math.min(dStays, aStays, bStays);
}

function* candidates(problem: MatmulProblem): Generator<ScalapackCandidate> {
  const [a, b, d] = [problem.a.distribution, problem.b.distribution, problem.d.distribution];
  if (d.size === 1 || (a.isReplicated && b.isReplicated && d.isReplicated)) {
    yield { algorithm: "local_gemm", a, b, d, traffic: 0 };
  }
  yield* gatherCandidates(problem, "b");
  yield* gatherCandidates(problem, "a");
  yield* reduceCandidates(problem);
  yield* gridCandidates(problem);
}

/** The most elements that one MPI message, or one BLAS extent, can have. */
const LARGEST_COUNT = 2 ** 31 - 1;

/** Whether every message of a candidate can be counted in 32 bits. */
function isCountable(problem: MatmulProblem, { algorithm, gathered, a, b }: ScalapackCandidate): boolean {
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

/** What was chosen for a problem, by the algorithm that was asked for. */
const chosen = new WeakMap<MatmulProblem, Map<ScalapackAlgorithm | undefined, ScalapackStrategy | null>>();

/** The cheapest way to compute a product that is not empty, or null if there is none; by the given algorithm, if one is given. */
export function chooseStrategy(problem: MatmulProblem, algorithm?: ScalapackAlgorithm): ScalapackStrategy | null {
  let ofProblem = chosen.get(problem);
  if (!ofProblem) chosen.set(problem, ofProblem = new Map());
  let strategy = ofProblem.get(algorithm);
  if (strategy === undefined) ofProblem.set(algorithm, strategy = cheapest(problem, algorithm));
  return strategy;
}

function cheapest(problem: MatmulProblem, algorithm: ScalapackAlgorithm | undefined): ScalapackStrategy | null {
  let best: ScalapackStrategy | null = null;
  for (const candidate of candidates(problem)) {
    if (algorithm && candidate.algorithm !== algorithm) continue;
    if (!isCountable(problem, candidate)) continue;
    const strategy = withMoves(problem, candidate);
    if (best === null || isCheaper(costOf(strategy), costOf(best))) best = strategy;
    if (strategy.algorithm === "local_gemm" && strategy.moves === 0) break;
  }
  return best;
}

/** Nothing is moved and the traffic is known; nothing is moved; something is. */
function classOf({ moves, algorithm }: ScalapackStrategy): number {
  return moves > 0 ? 2 : algorithm === "pgemm" ? 1 : 0;
}

/** The more important first: its class, bytes between ranks, matrices moved, the order of preference. */
function costOf(strategy: ScalapackStrategy): readonly number[] {
  const { moved, traffic, moves, algorithm } = strategy;
  return [classOf(strategy), moved + traffic, moves, SCALAPACK_ALGORITHMS.indexOf(algorithm)];
}

/** What an algorithm does with the matrices. */
export function describeStrategy(problem: MatmulProblem, strategy: ScalapackStrategy): string {
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
    case "pgemm": {
      const grid = problem.transposed ? strategy.grid!.transpose() : strategy.grid!;
      return `p?gemm on the grid ${grid}: ${called("a")}, ${called("b")}, ${called("d")}`;
    }
  }
}
