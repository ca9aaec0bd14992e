/**
 * Distributions: which rank holds which elements of an array.
 *
 * All of it is plain arithmetic; only {@linkcode Box.fromLocal} communicates.
 *
 * @example
 * ```ts
 * import { BlockCyclic, ProcessGrid, Slab } from "@distmath/distmath";
 * const grid = new ProcessGrid({ shape: [2, 2], layout: "column-major" });
 * const blocks = new BlockCyclic(grid, [32, 32]).bind([100, 80], 4);
 * console.log(blocks.toText());
 * console.log(Slab.X.bind([100, 80], 4).localShape(0)); // [25, 80]
 * ```
 *
 * @module
 */
export { BlockCyclic, type BlockDistribution, BlockNonCyclic, type BlockOptions } from "./block_cyclic.ts";
export { Box, type Corners } from "./box.ts";
export { CommunicationMatrix, type CommunicationPictureOptions } from "./communication.ts";
export { Distribution } from "./distribution.ts";
export { type IndexSet, numroc, type Range } from "./index_map.ts";
export type { PictureOptions } from "./picture.ts";
export { type GridLayout, ProcessGrid, type ProcessGridOptions } from "./process_grid.ts";
export { Replicated, ReplicatedDistribution } from "./replicated.ts";
export { Slab } from "./slab.ts";
export { Sliced } from "./sliced.ts";
