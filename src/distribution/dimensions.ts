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

/** Whether every rank that holds anything holds a dimension as a whole. */
export function isWhole(distribution: Distribution, dimension: number): boolean {
  const extent = distribution.globalShape![dimension];
  for (let rank = 0; rank < distribution.size!; rank++) {
    const sets = distribution.indexSets(rank);
    if (sets[dimension].count !== extent && sets.every((set) => set.count > 0)) return false;
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
  const isKept = (count: number, dimension: number) => count === 1 || sources.includes(dimension);
  if (source.grid?.shape.every(isKept)) {
    const blocks = onGrid(source, shape, sources);
    if (blocks !== null) return blocks.bind(shape, size);
  }
  // What one rank holds alone, all hold.
  if (size === 1) return Replicated.bind(shape, size);
  return new Box(boxesOf(source, shape, sources)).bind(shape, size);
}

/** Blocks on the same processes, with grid dimensions of one process where dimensions are new. */
function onGrid(
  source: Distribution,
  shape: readonly number[],
  sources: readonly (number | null)[],
): Distribution | null {
  if (!(source instanceof BlockCyclic || source instanceof BlockNonCyclic)) return null;
  const pick = (values: readonly number[], other: (dimension: number) => number) =>
    sources.map((from, dimension) => from === null ? other(dimension) : values[from]);
  const { layout, processes } = source.grid;
  const kept = sources.filter((from) => from !== null);
  // A grid's ranks are numbered in the order of its dimensions: those that stay must stay in it.
  if (kept.some((from, i) => i > 0 && from < kept[i - 1])) return null;
  const grid = new ProcessGrid({
    shape: pick(source.grid.shape, () => 1),
    layout,
    ...processes === null ? {} : { processes: [...processes] },
  });
  const options = { firstProcess: pick(source.firstProcess, () => 0) };
  if (source instanceof BlockNonCyclic) return new BlockNonCyclic(grid, options);
  return new BlockCyclic(grid, pick(source.blockSizes, (dimension) => Math.max(1, shape[dimension])), options);
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
