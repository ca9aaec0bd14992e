/**
 * Ownership by a grid of processes: one index map a dimension.
 *
 * @module
 */
import type { Ownership } from "./distribution.ts";
import { type IndexMap, interval } from "./index_map.ts";
import type { ProcessGrid } from "./process_grid.ts";

/** The rank at grid coordinates c holds part c[d] of each dimension d; ranks outside the grid hold nothing. */
export function gridOwnership(grid: ProcessGrid, maps: readonly IndexMap[]): Ownership {
  const nothing = maps.map(() => interval(0, 0));
  return {
    sets: (rank) => grid.coordinates(rank)?.map((part, dimension) => maps[dimension].part(part)) ?? nothing,
    owner: (index) => grid.rank(maps.map((map, dimension) => map.owner(index[dimension]))),
  };
}
