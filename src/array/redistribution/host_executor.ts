/**
 * Executing a redistribution between hosts: packed blocks travel by one `MPI_Alltoallv`.
 *
 * @module
 */
import { allocate, dtypeInfo } from "../../dtype/dtype.ts";
import { copyRuns, type Order, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { type RedistributionPlan, startOfBlock, type Transfer } from "./plan.ts";

/** What can exchange the packed blocks: a `Communicator`. */
export interface Exchanging {
  /** The number of ranks. */
  readonly size: number;
  /** `MPI_Alltoallv`. */
  allToAllV(
    send: BigInt64Array<ArrayBuffer>,
    options: {
      sendCounts: Int32Array;
      sendDisplacements: Int32Array;
      receiveCounts: Int32Array;
      receiveDisplacements: Int32Array;
      into: BigInt64Array<ArrayBuffer>;
    },
  ): unknown;
}

/** Blocks travel as 8-byte words, so that 2^31 counts of MPI reach as far as the largest buffer does. */
const WORD = 8;

/** Moves elements in the memory of hosts. It keeps its buffers for the next time. */
export class HostExecutor {
  readonly #plan: RedistributionPlan;
  readonly #communicator: Exchanging;
  #sent: BigInt64Array<ArrayBuffer> = new BigInt64Array(0);
  #received: BigInt64Array<ArrayBuffer> = new BigInt64Array(0);

  /** Buffers are allocated when they are needed. */
  constructor(plan: RedistributionPlan, communicator: Exchanging) {
    this.#plan = plan;
    this.#communicator = communicator;
  }

  /** Bytes of the buffers that it keeps. */
  get byteLength(): number {
    return this.#sent.byteLength + this.#received.byteLength;
  }

  /**
   * Check the parts and have the buffers that moving them needs: all that one rank can fail at alone. Returns what moves
   * the elements from `source`, this rank's part before, to `target`, that after. That is collective, with one
   * `MPI_Alltoallv`, or none if nothing leaves a rank. `order`, the same on all ranks, is the order of the elements in
   * messages: the source's is the fastest.
   */
  prepare(source: LocalArray, target: LocalArray, order: Order): () => void {
    const plan = this.#plan;
    const { itemSize, parts } = plan.check(source, target);
    const { stays, distinctSends } = plan;
    if (plan.elementsMoved === 0) return () => copyRuns(source, target, stays.runs, parts);

    const sends = packingOf(plan.sends, plan.from.size!, itemSize, plan.to.isReplicated);
    const receives = packingOf(plan.receives, plan.from.size!, itemSize, false);
    // Blocks that lie in one piece in the array need no packing.
    const whole = wholeBlocks(source, plan.sends, "source", order, sends);
    const wanted = wholeBlocks(target, plan.receives, "target", order, receives);
    if (whole === null) this.#sent = ensure(this.#sent, sends.total);
    if (wanted === null) this.#received = ensure(this.#received, receives.total);
    return () => {
      copyRuns(source, target, stays.runs, parts);
      if (whole === null) {
        for (const transfer of distinctSends) {
          const block = blockIn(this.#sent, sends.displacements[transfer.peer], source, transfer, order);
          copyRuns(source, block, transfer.runs, parts);
        }
      }
      this.#communicator.allToAllV(whole ?? this.#sent, {
        sendCounts: sends.counts,
        sendDisplacements: sends.displacements,
        receiveCounts: receives.counts,
        receiveDisplacements: receives.displacements,
        into: wanted ?? this.#received,
      });
      if (wanted !== null) return;
      for (const transfer of plan.receives) {
        const block = blockIn(this.#received, receives.displacements[transfer.peer], target, transfer, order);
        copyRuns(block, target, transfer.runs, parts);
      }
    };
  }

  /** Let go of the buffers. */
  free(): void {
    this.#sent = new BigInt64Array(0);
    this.#received = new BigInt64Array(0);
  }
}

/** Where the blocks of all ranks lie in a buffer, in words. */
interface Packing {
  readonly counts: Int32Array;
  readonly displacements: Int32Array;
  readonly total: number;
}

function packingOf(transfers: readonly Transfer[], size: number, itemSize: number, isShared: boolean): Packing {
  const [counts, displacements] = [new Int32Array(size), new Int32Array(size)];
  let total = 0;
  for (const { peer, shape } of transfers) {
    counts[peer] = Math.ceil(sizeOfShape(shape) * itemSize / WORD);
    displacements[peer] = isShared ? 0 : total;
    total = isShared ? counts[peer] : total + counts[peer];
  }
  return { counts, displacements, total };
}

function ensure(buffer: BigInt64Array<ArrayBuffer>, words: number): BigInt64Array<ArrayBuffer> {
  return buffer.length >= words ? buffer : allocate("int64", words) as BigInt64Array<ArrayBuffer>;
}

/**
 * The memory of an array as words, if each block lies in it in one piece, in the order of the messages and on whole
 * words; the displacements are set to where the blocks are. `null` if a block has to be packed.
 */
function wholeBlocks(
  array: LocalArray,
  transfers: readonly Transfer[],
  side: "source" | "target",
  order: Order,
  { displacements }: Packing,
): BigInt64Array<ArrayBuffer> | null {
  const { itemSize } = dtypeInfo(array.dtype);
  const { buffer, byteOffset } = array.data;
  const starts = transfers.map((transfer) => {
    const start = startOfBlock(array, transfer, side, order);
    const isWhole = start !== null && sizeOfShape(transfer.shape) * itemSize % WORD === 0;
    return isWhole ? byteOffset + itemSize * start : NaN;
  });
  if (!starts.every((start) => start % WORD === 0)) return null;
  transfers.forEach(({ peer }, i) => displacements[peer] = starts[i] / WORD);
  return new BigInt64Array(buffer, 0, Math.floor(buffer.byteLength / WORD));
}

/** A packed block as an array of the same kind as `like`. */
function blockIn(
  { buffer }: BigInt64Array<ArrayBuffer>,
  displacement: number,
  like: LocalArray,
  { shape }: Transfer,
  order: Order,
): { data: LocalArray["data"]; offset: number; strides: number[] } {
  const { array, parts } = dtypeInfo(like.dtype);
  const data = new array(buffer, displacement * WORD, sizeOfShape(shape) * parts);
  return { data, offset: 0, strides: stridesOf(shape, order) };
}
