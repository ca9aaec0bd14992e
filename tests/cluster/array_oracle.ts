/** What tests of functions of arrays compare with, and the distributions that they go through. */
import {
  BlockCyclic,
  type DistributedArray,
  type Distribution,
  LocalArray,
  ProcessGrid,
  Replicated,
  Slab,
} from "../../mod.ts";

/** All elements, decoded, in C order. */
export function whole(array: DistributedArray): number[] {
  using ordered = array.to({ order: "C" });
  return new LocalArray({ data: ordered.allGather(), dtype: array.dtype, shape: array.shape }).toNumbers();
}

/** The values of a function of the index, in C order. */
export function table(m: number, n: number, value: (i: number, j: number) => number): number[] {
  return Array.from({ length: m * n }, (_, k) => value(Math.floor(k / n), k % n));
}

/** Slabs, blocks on a grid of all ranks, and replicated. */
export function distributions(
  size: number,
  shape: readonly number[] = [size, 1],
  blocks: readonly number[] = [2, 3],
): Distribution[] {
  const grid = new ProcessGrid({ shape: size === 4 ? [2, 2] : shape });
  return [Slab.X, Slab.Y, new BlockCyclic(grid, blocks), Replicated];
}
