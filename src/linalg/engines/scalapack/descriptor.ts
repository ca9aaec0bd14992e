/**
 * ScaLAPACK's array descriptors.
 *
 * @module
 */
import type { Distribution } from "../../../distribution/mod.ts";
import { asBlocks } from "../../matrix_division.ts";

/** DTYPE_: a dense matrix in blocks. */
const BLOCK_CYCLIC_2D = 1;

/** Where LLD_ stands in a descriptor. */
export const LEADING_DIMENSION = 8;

/** The descriptor of a matrix in blocks: DTYPE_, CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_. */
export function arrayDescriptor(distribution: Distribution, context: number, leadingDimension: number): number[] {
  const { blockSizes, firstProcess } = asBlocks(distribution)!;
  const extents = distribution.globalShape!;
  // A block that covers the matrix may be larger than a 32-bit integer; a smaller one that covers it is the same.
  const fitting = blockSizes.map((size) => Math.min(size, Math.max(1, ...extents)));
  return [BLOCK_CYCLIC_2D, context, ...extents, ...fitting, ...firstProcess, leadingDimension];
}
