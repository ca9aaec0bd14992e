/**
 * Sums of rows or columns of a distributed matrix: what one rank adds up is completed over the ranks.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { Distribution, IndexSet } from "../../../distribution/mod.ts";
import type { Communicator } from "../../../mpi/communicator.ts";
import { type EpilogBlock, newVector, type RealVector, rowSums } from "../../matmul/epilog.ts";

/** A local matrix of real numbers as an epilog sees it: in the user's coordinates. */
export function asBlock(local: LocalArray, isTransposed: boolean): EpilogBlock {
  const [rows, columns] = isTransposed ? [1, 0] : [0, 1];
  // A stride of 0 is allowed where there is one row, and would end a loop over it before it begins.
  const stride = (dimension: number) => local.shape[dimension] === 1 ? 1 : local.strides[dimension];
  return {
    data: (local.data as RealVector).subarray(local.offset),
    rows: local.shape[rows],
    columns: local.shape[columns],
    rowStride: stride(rows),
    columnStride: stride(columns),
  };
}

/** Whether every rank holds all of a dimension for the indices of the other one that it has, if any. */
function isWhole(distribution: Distribution, dimension: 0 | 1): boolean {
  const extent = distribution.globalShape![dimension];
  const other = dimension === 0 ? 1 : 0;
  for (let rank = 0; rank < distribution.size!; rank++) {
    const counts = distribution.localShape(rank);
    if (counts[other] > 0 && counts[dimension] !== extent) return false;
  }
  return true;
}

/** Copy between local and global positions of an index set. */
function scatter(local: RealVector, set: IndexSet, into: RealVector): void {
  let position = 0;
  for (const [start, end] of set.ranges()) {
    into.set(local.subarray(position, position + end - start), start);
    position += end - start;
  }
}

/** The elements of a global vector that an index set names. */
function take(global: RealVector, set: IndexSet, into: RealVector): void {
  let position = 0;
  for (const [start, end] of set.ranges()) {
    into.set(global.subarray(start, end), position);
    position += end - start;
  }
}

/**
 * What completes this rank's sums of a matrix over one dimension of what it holds to sums over all of it, for all indices
 * of the other dimension `along`: collective. The memory for it is there when this returns.
 */
function prepareSums(
  communicator: Communicator,
  distribution: Distribution,
  along: 0 | 1,
  local: RealVector,
): () => RealVector {
  if (distribution.isReplicated) return () => local;
  const global = newVector(local, distribution.globalShape![along]);
  const sets = distribution.indexSets(communicator.rank);
  const hasElements = sets.every(({ count }) => count > 0);
  return () => {
    if (hasElements) scatter(local, sets[along], global);
    return communicator.size === 1 ? global : communicator.allReduce(global, { into: global });
  };
}

/**
 * What gives the sums over the dimension other than `along` of a distributed matrix, for all indices or those of a set.
 * Collective.
 */
export function prepareGlobalSums(
  communicator: Communicator,
  local: LocalArray,
  distribution: Distribution,
  along: 0 | 1,
  set: IndexSet | null,
): { readonly sums: RealVector; readonly run: () => void } {
  const block = asBlock(local, along === 1);
  const own = newVector(block.data, block.rows);
  const complete = prepareSums(communicator, distribution, along, own);
  const sums = newVector(own, set?.count ?? distribution.globalShape![along]);
  return {
    sums,
    run() {
      rowSums(block, own);
      const all = complete();
      if (set) take(all, set, sums);
      else sums.set(all);
    },
  };
}

/**
 * What completes this rank's sums over a part of D to sums over all of D, in place, for the indices that the rank holds.
 * Collective.
 */
export function prepareLocalSums(
  communicator: Communicator,
  distribution: Distribution,
  along: 0 | 1,
  local: RealVector,
): () => void {
  if (isWhole(distribution, along === 0 ? 1 : 0)) return () => {};
  const complete = prepareSums(communicator, distribution, along, local);
  const set = distribution.indexSets(communicator.rank)[along];
  return () => take(complete(), set, local);
}
