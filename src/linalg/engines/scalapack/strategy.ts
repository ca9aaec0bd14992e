/**
 * How a product is computed on several ranks: which algorithm, and how its matrices must be distributed for it.
 *
 * Every algorithm that can run is a candidate, with the operands moved where they do not fit. One that takes all
 * matrices where they are comes before those that move some, and `pgemm`, whose traffic can only be estimated, after
 * the others of its kind; then the fewest bytes between ranks count, then the fewest matrices moved, then the order
 * below. All of it is a pure function of the problem, so that all ranks choose alike.
 *
 * The candidates are those of matrices that are divided along one dimension (`host/one_dimensional.ts`), and `pgemm`:
 * ScaLAPACK's p?gemm, with all matrices in blocks on one grid of processes.
 *
 * @module
 */
import { BlockCyclic, type Distribution, type ProcessGrid } from "../../../distribution/mod.ts";
import { keepingLast, kept, type MatmulProblem, matrixName, summed } from "../../matmul/problem.ts";
import { asBlocks, blockSizeOf, gridsToTry } from "../../matrix_division.ts";
import {
  bytesOf,
  describeOneDimensional,
  isCountable,
  localStrategy,
  ONE_DIMENSIONAL_ALGORITHMS,
  ONE_DIMENSIONAL_NEEDS,
  oneDimensionalStrategies,
} from "../host/one_dimensional.ts";
import { isCheaper } from "../cost.ts";
import { type Candidate, placeOf, type Strategy, withMoves } from "../host/strategy.ts";

/** The algorithms of the CPU engine, in order of preference. */
export const SCALAPACK_ALGORITHMS = [...ONE_DIMENSIONAL_ALGORITHMS, "pgemm"] as const;

/** What each cannot run without. */
export const SCALAPACK_NEEDS: Readonly<Record<ScalapackAlgorithm, string>> = {
  ...ONE_DIMENSIONAL_NEEDS,
  pgemm: "a grid of processes",
};

/** The name of an algorithm of the CPU engine. */
export type ScalapackAlgorithm = typeof SCALAPACK_ALGORITHMS[number];

/** What is chosen among. */
type ScalapackCandidate = Candidate<ScalapackAlgorithm>;

/** A strategy of the CPU engine. */
export type ScalapackStrategy = Strategy<ScalapackAlgorithm>;

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

function* strategies(problem: MatmulProblem): Generator<ScalapackStrategy> {
  const local = localStrategy(problem);
  if (local) yield local;
  yield* oneDimensionalStrategies(problem);
  for (const candidate of gridCandidates(problem)) yield withMoves(problem, candidate);
}

const chosenFor = keepingLast(() => new Map<ScalapackAlgorithm | undefined, ScalapackStrategy | null>());

/** The cheapest way to compute a product that is not empty, or null if there is none; by the given algorithm, if one is given. */
export function chooseStrategy(problem: MatmulProblem, algorithm?: ScalapackAlgorithm): ScalapackStrategy | null {
  const chosen = chosenFor(problem);
  let strategy = chosen.get(algorithm);
  if (strategy === undefined) chosen.set(algorithm, strategy = cheapest(problem, algorithm));
  return strategy;
}

function cheapest(problem: MatmulProblem, algorithm: ScalapackAlgorithm | undefined): ScalapackStrategy | null {
  let best: ScalapackStrategy | null = null;
  for (const strategy of strategies(problem)) {
    if (algorithm && strategy.algorithm !== algorithm) continue;
    if (!isCountable(problem, strategy)) continue;
    if (best === null || isCheaper(costOf(strategy), costOf(best))) best = strategy;
    // Nothing is cheaper.
    if (strategy.traffic === 0 && strategy.moves === 0) break;
  }
  return best;
}

/** Nothing is moved and the traffic is known; nothing is moved; something is. */
function classOf({ moves, grid }: ScalapackStrategy): number {
  return moves > 0 ? 2 : grid ? 1 : 0;
}

/** The more important first: its class, bytes between ranks, matrices moved, the order of preference. */
function costOf(strategy: ScalapackStrategy): readonly number[] {
  const { moved, traffic, moves, algorithm } = strategy;
  return [classOf(strategy), moved + traffic, moves, SCALAPACK_ALGORITHMS.indexOf(algorithm)];
}

/** What an algorithm does with the matrices. */
export function describeStrategy(problem: MatmulProblem, strategy: ScalapackStrategy): string {
  if (!strategy.grid) return describeOneDimensional(problem, strategy);
  const grid = problem.transposed ? strategy.grid.transpose() : strategy.grid;
  const called = (name: "a" | "b" | "d") => `${matrixName(problem, name)} ${placeOf(problem, strategy, name)}`;
  return `p?gemm on the grid ${grid}: ${called("a")}, ${called("b")}, ${called("d")}`;
}

/**
 * What p?gemm sends at least, in bytes; null for another algorithm, and on a grid of one process, which sends nothing. The
 * parts of one matrix stay where they are. Of the others, what several processes of the grid multiply those with, or add to,
 * has to travel to or from all of them but one.
 */
export function leastTraffic(problem: MatmulProblem, strategy: ScalapackStrategy): number | null {
  if (!strategy.grid || strategy.traffic === 0) return null;
  const [a, b, d] = [problem.a, problem.b, problem.d].map((matrix) => bytesOf(matrix, problem));
  const [ofA, ofB, [m, n]] = [strategy.a, strategy.b, strategy.d].map(spreadOf);
  const dStays = (n - 1) * a + (m - 1) * b;
  const aStays = (ofA[kept("a", problem)] - 1) * b + (ofA[summed("a", problem)] - 1) * d;
  const bStays = (ofB[kept("b", problem)] - 1) * a + (ofB[summed("b", problem)] - 1) * d;
  return Math.min(dStays, aStays, bStays);
}

/** Between how many processes of the grid each dimension is divided. */
function spreadOf(distribution: Distribution): number[] {
  const { grid, blockSizes } = asBlocks(distribution)!;
  return distribution.globalShape!.map((extent, d) => Math.min(grid.shape[d], Math.ceil(extent / blockSizes[d])));
}
