/**
 * Executing a redistribution between hosts: packed blocks travel by `MPI_Alltoallv`.
 *
 * @module
 */
import { allocate, dtypeInfo } from "../../dtype/dtype.ts";
import { recorder } from "../../runtime/recorder.ts";
import { type Order, prepareCopy, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { roundsOf } from "./pieces.ts";
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
  /** `MPI_Allreduce`. */
  allReduce(send: Int32Array<ArrayBuffer>, options: { op: "max" }): Int32Array;
}

/** Blocks travel as 8-byte words, so that counts of MPI reach further, and every element is aligned. */
const WORD = 8;

/** A rank sends at most this much at once: less than 2^31 bytes, which some MPIs do not send to one rank. */
const MOST_BYTES = 2 ** 30;

/** Moves elements in the memory of hosts. It keeps its buffers for the next time. */
export class PackedExecutor {
  readonly #plan: RedistributionPlan;
  readonly #communicator: Exchanging;
  readonly #mostBytes: number;
  #sent: BigInt64Array<ArrayBuffer> = new BigInt64Array(0);
  #received: BigInt64Array<ArrayBuffer> = new BigInt64Array(0);
  /** How many messages the largest part of any rank takes, by size and order of elements: all ranks ask at the same time. */
  readonly #rounds = new Map<string, number>();

  /** Buffers are allocated when they are needed. What is larger than `mostBytes` travels in several messages. */
  constructor(plan: RedistributionPlan, communicator: Exchanging, mostBytes: number = MOST_BYTES) {
    this.#plan = plan;
    this.#communicator = communicator;
    this.#mostBytes = mostBytes;
  }

  /** Bytes of the buffers that it keeps. */
  get byteLength(): number {
    return this.#sent.byteLength + this.#received.byteLength;
  }

  /**
   * Have the buffers that moving the elements needs: all that one rank can fail at alone. Returns what moves them from
   * `source`, this rank's part before, to `target`, that after. That is collective, with one `MPI_Alltoallv`, none if
   * nothing leaves a rank, or as many as the largest part of any rank takes. `order`, the same on all ranks, is the order of the elements in messages: the
   * source's is the fastest.
   */
  prepare(source: LocalArray, target: LocalArray, order: Order): () => void {
    const plan = this.#plan;
    const { itemSize, parts } = dtypeInfo(source.dtype);
    const bytes = sizeOfShape(target.shape) * itemSize;
    const stay = prepareCopy(source, target, plan.stays.runs, parts, bytes);
    if (plan.elementsMoved === 0) return stay;
    const isOneRound = plan.largestPart * itemSize <= this.#mostBytes;
    const most = isOneRound ? Infinity : Math.max(1, Math.floor(this.#mostBytes / plan.from.size! / itemSize));
    const sends = roundsOf(plan.sends, most, order, "target");
    const receives = roundsOf(plan.receives, most, order, "source");
    const needed = Math.max(sends.length, receives.length, 1);
    // Blocks that lie in one piece in the array need no packing.
    const wholes = isOneRound ? wholeBlocks(source, sends[0] ?? [], "source", order) : null;
    // Parts of one array in another one's memory: MPI wants what is sent apart from what is received.
    const isApart = wholes?.memory.buffer !== target.data.buffer;
    const wanted = isOneRound && isApart ? wholeBlocks(target, receives[0] ?? [], "target", order) : null;
    const outgoing = wholes ? [] : sends.map((round) => packingOf(round, itemSize, plan.to.isReplicated));
    const incoming = wanted ? [] : receives.map((round) => packingOf(round, itemSize, false));
    this.#sent = ensure(this.#sent, Math.max(0, ...outgoing.map(({ total }) => total)));
    this.#received = ensure(this.#received, Math.max(0, ...incoming.map(({ total }) => total)));
    const [sent, received] = [this.#sent, this.#received];

    const pack = outgoing.map(({ distinct }) =>
      distinct.map(([transfer, at]) =>
        prepareCopy(source, blockIn(sent, at, source, transfer, order), transfer.runs, parts, bytes)
      )
    );
    const unpack = incoming.map(({ distinct }) =>
      distinct.map(([transfer, at]) =>
        prepareCopy(blockIn(received, at, target, transfer, order), target, transfer.runs, parts, bytes)
      )
    );
    const { size } = this.#communicator;
    const messages = Array.from({ length: needed }, (_, round) => ({
      ...countsOf("send", size, wholes ?? outgoing[round]),
      ...countsOf("receive", size, wanted ?? incoming[round]),
      into: wanted?.memory ?? received,
    }));
    const nothing = { ...countsOf("send", size), ...countsOf("receive", size), into: received };
    const key = `${itemSize} ${order}`;
    if (isOneRound) this.#rounds.set(key, 1);
    return () => {
      const span = recorder?.begin("copy", "redistribution");
      const rounds = this.#rounds.get(key) ?? this.#communicator.allReduce(Int32Array.of(needed), { op: "max" })[0];
      this.#rounds.set(key, rounds);
      stay();
      for (let round = 0; round < rounds; round++) {
        for (const copy of pack[round] ?? []) copy();
        this.#communicator.allToAllV(wholes?.memory ?? sent, messages[round] ?? nothing);
        for (const copy of unpack[round] ?? []) copy();
      }
      span?.end();
    };
  }

  /** Let go of the buffers. */
  free(): void {
    this.#sent = new BigInt64Array(0);
    this.#received = new BigInt64Array(0);
  }
}

/** Where the blocks of all ranks lie, in words. */
interface Packing {
  readonly places: readonly { readonly peer: number; readonly count: number; readonly at: number }[];
}

function packingOf(transfers: readonly Transfer[], itemSize: number, isShared: boolean): Packing & {
  readonly total: number;
  /** The blocks that are different from each other, and where they lie. */
  readonly distinct: readonly (readonly [Transfer, at: number])[];
} {
  let total = 0;
  const places = transfers.map(({ peer, shape }) => {
    const count = Math.ceil(sizeOfShape(shape) * itemSize / WORD);
    const at = isShared ? 0 : total;
    total = at + count;
    return { peer, count, at };
  });
  const distinct = transfers.map((transfer, i) => [transfer, places[i].at] as const);
  return { places, total, distinct: isShared ? distinct.slice(0, 1) : distinct };
}

/** The counts and displacements that MPI takes; without a packing, of nothing. */
function countsOf<Side extends "send" | "receive">(
  side: Side,
  size: number,
  { places }: Packing = { places: [] },
): Record<`${Side}Counts` | `${Side}Displacements`, Int32Array> {
  const [counts, displacements] = [new Int32Array(size), new Int32Array(size)];
  for (const { peer, count, at } of places) {
    counts[peer] = count;
    displacements[peer] = at;
  }
  return { [`${side}Counts`]: counts, [`${side}Displacements`]: displacements } as Record<
    `${Side}Counts` | `${Side}Displacements`,
    Int32Array
  >;
}

function ensure(buffer: BigInt64Array<ArrayBuffer>, words: number): BigInt64Array<ArrayBuffer> {
  return buffer.length >= words ? buffer : allocate("int64", words) as BigInt64Array<ArrayBuffer>;
}

/**
 * The memory of an array as words and where the blocks are in it, if each lies there in one piece, in the order of the
 * messages and on whole words. `null` if a block has to be packed.
 */
function wholeBlocks(
  array: LocalArray,
  transfers: readonly Transfer[],
  side: "source" | "target",
  order: Order,
): Packing & { readonly memory: BigInt64Array<ArrayBuffer> } | null {
  const { itemSize } = dtypeInfo(array.dtype);
  const { buffer, byteOffset } = array.data;
  const places = transfers.map((transfer) => {
    const start = startOfBlock(array, transfer, side, order);
    const count = sizeOfShape(transfer.shape) * itemSize / WORD;
    return { peer: transfer.peer, count, at: start === null ? NaN : (byteOffset + itemSize * start) / WORD };
  });
  if (!places.every(({ at, count }) => Number.isInteger(at) && Number.isInteger(count))) return null;
  const [first, end] = places.reduce(([first, end], { at, count }) => [
    Math.min(first, at),
    Math.max(end, at + count),
  ], [Infinity, 0]);
  // MPI counts from the first of them.
  const words = Math.max(0, end - first);
  if (words >= 2 ** 31) return null;
  return {
    places: places.map((place) => ({ ...place, at: place.at - first })),
    memory: words === 0 ? new BigInt64Array(0) : new BigInt64Array(buffer, first * WORD, words),
  };
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
