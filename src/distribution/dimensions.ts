/**
 * Distributions of arrays with more, fewer or other dimensions, where each rank keeps the elements that it has.
 *
 * @module
 */
import { DistributionError } from "../errors.ts";
import { BlockCyclic, BlockNonCyclic } from "./block_cyclic.ts";
import { Box, type Corners } from "./box.ts";
import { list } from "./check.ts";
import type { Distribution } from "./distribution.ts";
import { isContiguous } from "./index_map.ts";
import { ProcessGrid } from "./process_grid.ts";
import { Replicated } from "./replicated.ts";
import { Slab } from "./slab.ts";

/** Whether every rank that holds anything, or would if no extent were 0, holds a dimension as a whole. */
export function isWhole(distribution: Distribution, dimension: number): boolean {
  const shape = distribution.globalShape!;
  for (let rank = 0; rank < distribution.size!; rank++) {
    const sets = distribution.indexSets(rank);
    const hasPart = sets.every(({ count }, d) => count > 0 || shape[d] === 0);
    if (hasPart && sets[dimension].count !== shape[dimension]) return false;
  }
  return true;
}

/**
 * The distribution of an array of another shape, whose dimension d is dimension `sources[d]` of this one's array, or a new
 * one, undivided, if that is null. Dimensions that are left out must be undivided. Bound.
 *
 * @throws {DistributionError} if no class describes it.
 */
export function withDimensions(
  source: Distribution,
  shape: readonly number[],
  sources: readonly (number | null)[],
): Distribution {
  const size = source.size!;
  if (source.isReplicated) return Replicated.bind(shape, size);
  if (source instanceof Slab && sources.includes(source.partitionDimension)) {
    return new Slab(sources.indexOf(source.partitionDimension)).bind(shape, size);
  }
  const blocks = onGrid(source, shape, sources);
  if (blocks !== null) return blocks.bind(shape, size);
  // What one rank holds alone, all hold.
  if (size === 1) return Replicated.bind(shape, size);
  return new Box(boxesOf(source, shape, sources)).bind(shape, size);
}

/**
 * Blocks on the processes that hold some, with grid dimensions of one process where dimensions are new; null if what is no
 * block, or several processes share a dimension that is left out.
 */
function onGrid(
  source: Distribution,
  shape: readonly number[],
  sources: readonly (number | null)[],
): Distribution | null {
  if (!(source instanceof BlockCyclic || source instanceof BlockNonCyclic)) return null;
  const kept = sources.filter((from) => from !== null);
  // A grid's ranks are numbered in the order of its dimensions: those that stay must stay in it.
  if (kept.some((from, i) => i > 0 && from < kept[i - 1])) return null;
  const holders = source.grid.shape.map((_, dimension) => kept.includes(dimension) ? [] : holdersOf(source, dimension));
  if (holders.some(({ length }) => length > 1)) return null;
  const pick = (values: readonly number[], other: (dimension: number) => number) =>
    sources.map((from, dimension) => from === null ? other(dimension) : values[from]);
  const { layout } = source.grid;
  const gridShape = pick(source.grid.shape, () => 1);
  const processes = processesAt(source.grid, new ProcessGrid({ shape: gridShape, layout }), sources, holders);
  const grid = new ProcessGrid({ shape: gridShape, layout, processes });
  const options = { firstProcess: pick(source.firstProcess, () => 0) };
  if (source instanceof BlockNonCyclic) return new BlockNonCyclic(grid, options);
  return new BlockCyclic(grid, pick(source.blockSizes, (dimension) => Math.max(1, shape[dimension])), options);
}

/** The coordinates along a dimension of a grid whose processes hold any of it. */
function holdersOf(source: BlockCyclic | BlockNonCyclic, dimension: number): number[] {
  const { grid } = source;
  return Array.from({ length: grid.shape[dimension] }, (_, coordinate) => coordinate).filter((coordinate) => {
    const rank = grid.rank(grid.shape.map((_, d) => d === dimension ? coordinate : 0));
    return source.indexSets(rank)[dimension].count > 0;
  });
}

/** The processes of a grid of some of another's dimensions: those at the holders' coordinates of the others; null for all. */
function processesAt(
  source: ProcessGrid,
  grid: ProcessGrid,
  sources: readonly (number | null)[],
  holders: readonly (readonly number[])[],
): readonly number[] | null {
  if (grid.size === source.size) return source.processes;
  return Array.from({ length: grid.size }, (_, position) => {
    const coordinates = grid.coordinates(position)!;
    return source.rank(source.shape.map((_, dimension) => {
      const at = sources.indexOf(dimension);
      return at >= 0 ? coordinates[at] : holders[dimension][0] ?? 0;
    }));
  });
}

function boxesOf(
  source: Distribution,
  shape: readonly number[],
  sources: readonly (number | null)[],
): Corners[] {
  return Array.from({ length: source.size! }, (_, rank): Corners => {
    const sets = source.indexSets(rank);
    if (!sets.every(isContiguous)) {
      throw new DistributionError(
        `${source} has no counterpart for the shape ${
          list(shape)
        }: rank ${rank} holds several pieces of a dimension. ` +
          `Redistribute the array to a Slab first.`,
      );
    }
    if (sets.some((set) => set.count === 0)) return [shape.map(() => 0), shape.map(() => 0)];
    const lower = sources.map((from) => from === null ? 0 : sets[from].at(0));
    return [lower, lower.map((start, d) => sources[d] === null ? shape[d] : start + sets[sources[d]!].count)];
  });
}
