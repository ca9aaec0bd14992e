/**
 * Which product of matrices that are divided along one dimension the overlap engine runs in host memory, and what each
 * rank does in it. Pure functions of the problem, so that all ranks choose alike.
 *
 * @module
 */
import { exchangeOf } from "../host/strategy.ts";
import { evenParts, type Part, type Partition, partitionOf } from "../../../overlap/partition.ts";
import type { Variant } from "../../../overlap/schedule.ts";
import type { Range } from "../../../distribution/mod.ts";
import { type MatmulProblem, summed } from "../../matmul/problem.ts";
import { splitAlong } from "../../matrix_division.ts";
import { isCheaper } from "../cost.ts";
import {
  EXCHANGING_ALGORITHMS,
  oneDimensionalStrategies,
  type OneDimensionalStrategy,
} from "../host/one_dimensional.ts";

/** The algorithms of the overlap engine. */
export const OVERLAP_ALGORITHMS = EXCHANGING_ALGORITHMS;

/** The name of an algorithm of the overlap engine. */
export type OverlapAlgorithm = typeof OVERLAP_ALGORITHMS[number];

/** Bytes between ranks, then matrices moved. */
const costOf = ({ moved, traffic, moves }: OneDimensionalStrategy) => [moved + traffic, moves];

/** The strategy that moves the fewest bytes; null if nothing of the kind can be. */
export function hostStrategy(problem: MatmulProblem, algorithm: string): OneDimensionalStrategy | null {
  return cheapest(problem, algorithm, () => true);
}

/**
 * As {@linkcode hostStrategy}, of those that take matrices where they lie, for GPUs; of what a rank has all of, a part would
 * do as well, but is not taken from it here.
 */
export function strategyInPlace(problem: MatmulProblem, algorithm: string): OneDimensionalStrategy | null {
  const { a, b, c, d } = problem;
  return cheapest(problem, algorithm, (strategy) => {
    const isInPlace = a.distribution.coincidesWith(strategy.a) && b.distribution.coincidesWith(strategy.b) &&
      [c, d].every((matrix) => matrix === null || matrix.distribution.coincidesWith(strategy.d));
    return isInPlace && hostPartition(problem, strategy).axis !== "k";
  });
}

/** Why some do not multiply where there is no {@linkcode strategyInPlace}. */
export function notInPlace(who: string): string {
  return `${who} take matrices where they lie, gather factors along m or n, and sum factors that are divided along k; ` +
    "these distributions would have to be changed";
}

function cheapest(
  problem: MatmulProblem,
  algorithm: string,
  isAccepted: (strategy: OneDimensionalStrategy) => boolean,
): OneDimensionalStrategy | null {
  let best: OneDimensionalStrategy | null = null;
  for (const strategy of oneDimensionalStrategies(problem)) {
    if (strategy.travels === undefined) continue;
    if (algorithm !== "default" && strategy.algorithm !== algorithm) continue;
    if (!isAccepted(strategy)) continue;
    if (best === null || isCheaper(costOf(strategy), costOf(best))) best = strategy;
  }
  return best;
}

const partsOf = (ranges: readonly Range[]): Part[] => ranges.map(([start, end]) => ({ start, end }));

/** Where everything is. */
export function hostPartition(problem: MatmulProblem, strategy: OneDimensionalStrategy): Partition {
  const { m, n, k } = problem;
  const { travels, a, d } = strategy;
  const exchange = exchangeOf(strategy);
  const common = { extents: { m, n, k }, size: d.size! };
  if (travels === "a" || travels === "b") {
    const alongK = summed(travels, problem);
    const kept = splitAlong(strategy[travels], alongK === 0 ? 1 : 0);
    const parts = partsOf(kept ?? splitAlong(strategy[travels], alongK)!);
    const axis = kept === null ? "k" : travels === "a" ? "m" : "n";
    const fixedParts = partsOf(splitAlong(d, travels === "a" ? 1 : 0)!);
    return partitionOf({ kind: "gather", ...common, travels, axis, parts, fixedParts });
  }
  const fixedParts = partsOf(splitAlong(a, summed("a", problem))!);
  if (exchange === "all-reduce") {
    // Columns lie in sequence; few of them are no work for all ranks.
    const axis = n >= d.size! || n >= m ? "n" : "m";
    return partitionOf({ kind: "all_reduce", ...common, axis, parts: evenParts({ m, n }[axis], d.size!), fixedParts });
  }
  const rows = splitAlong(d, 0);
  const parts = partsOf(rows ?? splitAlong(d, 1)!);
  return partitionOf({ kind: "reduce", ...common, axis: rows ? "m" : "n", parts, fixedParts });
}

/** How it is done where ranks can use each other's memory as their own: nothing is copied that can be used where it is. */
export function hostVariant({ kind }: Partition, hasAddend: boolean): Variant {
  return { way: kind === "gather" ? "share" : "relay", hasAddend };
}
