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
import { BlockCyclic, type Distribution, type ProcessGrid, type Range } from "../../../distribution/mod.ts";
import type { MatmulProblem, Matrix } from "../../matmul/problem.ts";
import {
  asBlocks,
  blockSizeOf,
  divided,
  elementsMoved,
  gridsToTry,
  isOneDimensional,
  isWindow,
  kept,
  sameRanges,
  slab,
  splitAlong,
  summed,
} from "../division.ts";

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

/** An algorithm, and the distributions that it multiplies. */
export interface Candidate {
  /** The algorithm; `none` where there is nothing to multiply. */
  readonly algorithm: ScalapackAlgorithm | "none";
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

/** A candidate and what it costs. */
export interface Strategy extends Candidate {
  /** Bytes that leave ranks to move A, B and C where they are multiplied, and D to where it is wanted. */
  readonly moved: number;
  /** How many matrices are moved. */
  readonly moves: number;
}

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
function* gatherCandidates(problem: MatmulProblem, gathered: "a" | "b"): Generator<Candidate> {
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
function* reduceCandidates(problem: MatmulProblem): Generator<Candidate> {
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
function* gridCandidates(problem: MatmulProblem): Generator<Candidate> {
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

function* candidates(problem: MatmulProblem): Generator<Candidate> {
  const [a, b, d] = [problem.a.distribution, problem.b.distribution, problem.d.distribution];
  if (d.size === 1 || (a.isReplicated && b.isReplicated && d.isReplicated)) {
    yield { algorithm: "local_gemm", a, b, d, traffic: 0 };
  }
  yield* gatherCandidates(problem, "b");
  yield* gatherCandidates(problem, "a");
  yield* reduceCandidates(problem);
  yield* gridCandidates(problem);
}

function cost(problem: MatmulProblem, candidate: Candidate): Strategy {
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

/** The most elements that one MPI message, or one BLAS extent, can have. */
const LARGEST_COUNT = 2 ** 31 - 1;

/** Whether every message of a candidate can be counted in 32 bits. */
function isCountable(problem: MatmulProblem, { algorithm, gathered, a, b }: Candidate): boolean {
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
const chosen = new WeakMap<MatmulProblem, Map<ScalapackAlgorithm | undefined, Strategy | null>>();

/** The way of a product without elements to multiply: all matrices stay, but C is brought to D. */
export function emptyStrategy(problem: MatmulProblem): Strategy {
  const { a, b, d } = problem;
  const places = { a: a.distribution, b: b.distribution, d: d.distribution };
  return cost(problem, { algorithm: "none", ...places, traffic: 0 });
}

/** The cheapest way to compute a product that is not empty, or null if there is none; by the given algorithm, if one is given. */
export function chooseStrategy(problem: MatmulProblem, algorithm?: ScalapackAlgorithm): Strategy | null {
  let ofProblem = chosen.get(problem);
  if (!ofProblem) chosen.set(problem, ofProblem = new Map());
  let strategy = ofProblem.get(algorithm);
  if (strategy === undefined) ofProblem.set(algorithm, strategy = cheapest(problem, algorithm));
  return strategy;
}

function cheapest(problem: MatmulProblem, algorithm: ScalapackAlgorithm | undefined): Strategy | null {
  let best: Strategy | null = null;
  for (const candidate of candidates(problem)) {
    if (algorithm && candidate.algorithm !== algorithm) continue;
    if (!isCountable(problem, candidate)) continue;
    const strategy = cost(problem, candidate);
    if (best === null || isCheaper(strategy, best)) best = strategy;
    if (strategy.algorithm === "local_gemm" && strategy.moves === 0) break;
  }
  return best;
}

/** Nothing is moved and the traffic is known; nothing is moved; something is. */
function classOf({ moves, algorithm }: Strategy): number {
  return moves > 0 ? 2 : algorithm === "pgemm" ? 1 : 0;
}

function isCheaper(a: Strategy, b: Strategy): boolean {
  const [classA, classB] = [classOf(a), classOf(b)];
  if (classA !== classB) return classA < classB;
  const difference = a.moved + a.traffic - b.moved - b.traffic;
  if (difference !== 0) return difference < 0;
  if (a.moves !== b.moves) return a.moves < b.moves;
  const rank = ({ algorithm }: Strategy) => SCALAPACK_ALGORITHMS.findIndex((name) => name === algorithm);
  return rank(a) < rank(b);
}
