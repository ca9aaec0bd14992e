/**
 * How matrices are partitioned between ranks: along one dimension, in blocks on a grid, and what has to
 * move from one distribution to another.
 *
 * @module
 */
import {
  BlockCyclic,
  Box,
  type Distribution,
  type IndexSet,
  ProcessGrid,
  type Range,
  Slab,
} from "../distribution/mod.ts";
import { isContiguous } from "../distribution/index_map.ts";
import { DistributionError } from "../errors.ts";
import type { Matrix } from "./matmul/problem.ts";

/**
 * The range of a dimension that each rank holds, if every rank holds one range of it and all of the other dimension;
 * otherwise null. A rank that holds nothing has the range `[0, 0]`.
 */
export function splitAlong(distribution: Distribution, dimension: 0 | 1): Range[] | null {
  const bounds = distribution.isReplicated ? null : distribution.bounds();
  if (!bounds) return null;
  const other = dimension === 0 ? 1 : 0;
  const extent = distribution.globalShape![other];
  const ranges: Range[] = [];
  for (const [lower, upper] of bounds) {
    const isEmpty = lower.some((start, d) => start >= upper[d]);
    if (!isEmpty && (lower[other] !== 0 || upper[other] !== extent)) return null;
    ranges.push(isEmpty ? [0, 0] : [lower[dimension], upper[dimension]]);
  }
  return ranges;
}

/** How much of a dimension that is divided lies on a rank. An empty part may have any shape, so that does not tell. */
export function lengthAlong(distribution: Distribution, dimension: 0 | 1, rank: number): number {
  const [start, end] = splitAlong(distribution, dimension)![rank];
  return end - start;
}

/** Whether every rank holds the same range under both divisions; false if either is none. */
export function sameRanges(a: readonly Range[] | null, b: readonly Range[] | null): boolean {
  return a !== null && b !== null && a.every(([start, end], rank) => start === b[rank][0] && end === b[rank][1]);
}

/** Whether each rank holds one range of either dimension. */
export function isOneDimensional(distribution: Distribution): boolean {
  return splitAlong(distribution, 0) !== null || splitAlong(distribution, 1) !== null;
}

/** A matrix divided evenly along one dimension. */
export function slab(matrix: Matrix, dimension: 0 | 1): Distribution {
  return new Slab(dimension).bind([matrix.rows, matrix.columns], matrix.distribution.size!);
}

/** A matrix divided into these ranges: as it is distributed if it fits, or else the simplest distribution that does. */
export function divided(matrix: Matrix, dimension: 0 | 1, ranges: readonly Range[]): Distribution {
  for (const distribution of [matrix.distribution, slab(matrix, dimension)]) {
    if (sameRanges(splitAlong(distribution, dimension), ranges)) return distribution;
  }
  const shape = [matrix.rows, matrix.columns];
  const boxes = ranges.map(([start, end]) =>
    [
      shape.map((_, d) => d === dimension ? start : 0),
      shape.map((extent, d) => d === dimension ? end : start === end ? 0 : extent),
    ] as const
  );
  return new Box(boxes).bind(shape, ranges.length);
}

/** A distribution as ScaLAPACK describes it, or null if it cannot. */
export function asBlocks(distribution: Distribution): BlockCyclic | null {
  try {
    return distribution.to(BlockCyclic);
  } catch (error) {
    if (error instanceof DistributionError) return null;
    throw error;
  }
}

/** The grids to try, each once: those that are given, and the most nearly square one of all ranks. */
export function gridsToTry(given: readonly (ProcessGrid | undefined)[], size: number): ProcessGrid[] {
  const found: ProcessGrid[] = [];
  for (const grid of [...given, ProcessGrid.nearlySquare(size, "column-major")]) {
    if (grid && !found.some((other) => other.equals(grid))) found.push(grid);
  }
  return found;
}

/** The size of the blocks of a dimension: the first that is known, or one block for each process of the longer side. */
export function blockSizeOf(extent: number, { shape }: ProcessGrid, ...known: (number | undefined)[]): number {
  return known.find((size) => size !== undefined) ?? Math.max(1, Math.ceil(extent / Math.max(...shape)));
}

/** Whether all ranks hold the same under both distributions, empty parts of the same shape included. */
export function isInPlace(from: Distribution, to: Distribution): boolean {
  if (!from.coincidesWith(to)) return false;
  for (let rank = 0; rank < to.size!; rank++) {
    if (from.localShape(rank).join() !== to.localShape(rank).join()) return false;
  }
  return true;
}

/** How many members two sets share. */
function overlap(a: IndexSet, b: IndexSet): number {
  const [one, other] = isContiguous(a) ? [b, a] : [a, b];
  let count = 0;
  for (const [start, end] of other.ranges()) count += one.before(end) - one.before(start);
  return count;
}

/** How many elements come to a rank that does not have them. */
export function elementsMoved(from: Distribution, to: Distribution): number {
  let moved = 0;
  for (let rank = 0; rank < to.size!; rank++) {
    const [source, target] = [from.indexSets(rank), to.indexSets(rank)];
    const needed = target.reduce((product, set) => product * set.count, 1);
    if (needed > 0) moved += needed - target.reduce((product, set, d) => product * overlap(source[d], set), 1);
  }
  return moved;
}

/** Whether a rank's part under `to` is a part of what it has already, in one piece: no copy is needed to get it. */
export function isWindow(from: Distribution, to: Distribution): boolean {
  return from.isReplicated && to.bounds() !== null;
}
