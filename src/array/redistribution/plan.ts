/**
 * How elements get from one distribution to another: which of its elements a rank sends to whom, and where it puts what
 * it receives. The plan is a pure function of the two distributions; only its execution communicates.
 *
 * @module
 */
import { DistributionError, DTypeError, ShapeError } from "../../errors.ts";
import type { Range } from "../../distribution/mod.ts";
import { allocate, dtypeInfo } from "../../dtype/dtype.ts";
import { copyRuns, isDense, lengthOf, type Order, type Run, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { countOf } from "../traverse.ts";

/** What a plan has to know of a distribution; every bound `Distribution` says it. */
export interface Parts {
  /** The shape of the whole array. */
  readonly globalShape: readonly number[] | null;
  /** The number of ranks. */
  readonly size: number | null;
  /** Whether every rank holds everything. */
  readonly isReplicated: boolean;
  /** What a rank holds, a list of ranges a dimension; the rank's elements are their product. */
  ranges(rank: number): Range[][];
  /** For messages. */
  toString(): string;
}

/** All elements on one rank, none on the others. */
export function onRoot(globalShape: readonly number[], size: number, root: number): Parts {
  return {
    globalShape,
    size,
    isReplicated: false,
    ranges: (rank) => globalShape.map((extent): Range[] => rank === root && extent > 0 ? [[0, extent]] : []),
    toString: () => `all on rank ${root}`,
  };
}

/** What moves between this rank and another one: a dense block, and where its elements are in the local array. */
export interface Transfer {
  /** The other rank. */
  readonly peer: number;
  /** The extents of the block as it is sent. */
  readonly shape: readonly number[];
  /** The indices that move, a list of runs for each dimension. */
  readonly runs: readonly (readonly Run[])[];
}

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
const MAXIMUM_BYTES = 2 ** 34 - 2 ** 20;

/**
 * Plan how one rank takes part in moving an array from one distribution to another. Pure: no communication.
 *
 * @throws {DistributionError} if the distributions are not bound to the same shape and number of ranks.
 */
export function planRedistribution(from: Parts, to: Parts, rank: number): RedistributionPlan {
  return new RedistributionPlan(from, to, rank);
}

/** One rank's part in a redistribution; made by {@linkcode planRedistribution}. It keeps its buffers for the next time. */
export class RedistributionPlan {
  /** Where the elements come from. */
  readonly from: Parts;
  /** Where they go. */
  readonly to: Parts;
  /** Whose part this is. */
  readonly rank: number;
  /** The elements that stay on this rank: from the source to the target. */
  readonly stays: Transfer;
  /** What this rank sends: from the source to the packed block; nothing to itself. */
  readonly sends: readonly Transfer[];
  /** What it receives: from the packed block to the target. */
  readonly receives: readonly Transfer[];
  /** Elements that leave a rank, over all ranks. */
  readonly elementsMoved: number;
  readonly #largest: number;
  #sendBuffer: BigInt64Array<ArrayBuffer> = new BigInt64Array(0);
  #receiveBuffer: BigInt64Array<ArrayBuffer> = new BigInt64Array(0);

  /** Plan the part of `rank`. */
  constructor(from: Parts, to: Parts, rank: number) {
    const [shape, size] = checkParts(from, to);
    this.from = from;
    this.to = to;
    this.rank = rank;
    const [mine, wanted] = [from.ranges(rank), to.ranges(rank)];
    const [sends, receives]: [Transfer[], Transfer[]] = [[], []];
    let moved = 0;
    for (let peer = 0; peer < size; peer++) {
      const [theirs, theirWish] = [from.ranges(peer), to.ranges(peer)];
      moved += countOfProduct(theirWish) - sizeOfShape(transfer(peer, theirs, theirWish, "both").shape);
      if (peer === rank || from.isReplicated) continue;
      // What a rank has already, which only a replicated source makes possible, nobody sends to it.
      const send = transfer(peer, mine, theirWish, "pack");
      if (!isEmpty(send)) sends.push(send);
      const receive = transfer(peer, theirs, wanted, "unpack");
      if (!isEmpty(receive)) receives.push(receive);
    }
    this.stays = transfer(rank, mine, wanted, "both");
    this.sends = sends;
    this.receives = receives;
    this.elementsMoved = moved;
    this.#largest = largestPart(from, to, shape, size);
  }

  /** Bytes that leave a rank, over all ranks, for elements of this size. */
  bytesMoved(itemSize: number): number {
    return this.elementsMoved * itemSize;
  }

  /** Bytes of the buffers that the last execution left for the next. */
  get workspaceBytes(): number {
    return this.#sendBuffer.byteLength + this.#receiveBuffer.byteLength;
  }

  /** Let go of the buffers. */
  release(): void {
    this.#sendBuffer = new BigInt64Array(0);
    this.#receiveBuffer = new BigInt64Array(0);
  }

  /**
   * Move the elements: `source` is this rank's part before, `target` after. Collective, with one `MPI_Alltoallv`, or
   * none if nothing leaves a rank. Memory orders may differ. `order`, the same on all ranks, is the order of the
   * elements in messages: the source's is the fastest.
   *
   * @throws {DTypeError} if the dtypes differ.
   * @throws {ShapeError} if a part has not the shape that the plan says, or one part is larger than 16 GiB.
   */
  execute(communicator: Exchanging, source: LocalArray, target: LocalArray, order: Order = "C"): void {
    this.prepare(source, target, order)(communicator);
  }

  /**
   * Check the parts and allocate the buffers that moving them needs: all that one rank can fail at alone. Returns what
   * moves the elements, which is collective. Throws as {@linkcode execute} does, and RangeError without memory.
   */
  prepare(source: LocalArray, target: LocalArray, order: Order = "C"): (communicator: Exchanging) => void {
    const { itemSize, parts } = this.check(source, target);
    const size = this.from.size!;
    if (this.elementsMoved === 0) return () => copyRuns(source, target, this.stays.runs, parts);

    const words = (transfer: Transfer): number => Math.ceil(sizeOfShape(transfer.shape) * itemSize / WORD);
    // To a replicated target everybody gets the same block: it is packed once.
    const sends = packingOf(this.sends, size, words, this.to.isReplicated);
    const receives = packingOf(this.receives, size, words, false);
    // Blocks that lie in one piece in the array need no packing.
    const sent = wholeBlocks(source, this.sends, "source", order, sends);
    const received = wholeBlocks(target, this.receives, "target", order, receives);
    if (sent === null) this.#sendBuffer = ensure(this.#sendBuffer, sends.total);
    if (received === null) this.#receiveBuffer = ensure(this.#receiveBuffer, receives.total);
    return (communicator) => {
      copyRuns(source, target, this.stays.runs, parts);
      if (sent === null) this.#pack(source, sends, order, parts);
      communicator.allToAllV(sent ?? this.#sendBuffer, {
        sendCounts: sends.counts,
        sendDisplacements: sends.displacements,
        receiveCounts: receives.counts,
        receiveDisplacements: receives.displacements,
        into: received ?? this.#receiveBuffer,
      });
      if (received === null) this.#unpack(target, receives, order, parts);
    };
  }

  #pack(source: LocalArray, { displacements }: Packing, order: Order, parts: 1 | 2): void {
    for (const transfer of this.to.isReplicated ? this.sends.slice(0, 1) : this.sends) {
      const block = blockIn(this.#sendBuffer, displacements[transfer.peer], source, transfer, order);
      copyRuns(source, block, transfer.runs, parts);
    }
  }

  #unpack(target: LocalArray, { displacements }: Packing, order: Order, parts: 1 | 2): void {
    for (const transfer of this.receives) {
      const block = blockIn(this.#receiveBuffer, displacements[transfer.peer], target, transfer, order);
      copyRuns(block, target, transfer.runs, parts);
    }
  }

  /** Refuse parts that are not what was planned for; returns what elements consist of. */
  check(source: LocalArray, target: LocalArray): { itemSize: number; parts: 1 | 2 } {
    if (source.dtype !== target.dtype) {
      throw new DTypeError(`A redistribution moves elements as they are, not from ${source.dtype} to ${target.dtype}.`);
    }
    const { from, to, rank } = this;
    for (const [array, parts, what] of [[source, from, "source"], [target, to, "target"]] as const) {
      const shape = parts.ranges(rank).map(countOf);
      if (array.shape.join() !== shape.join() && !(array.shape.includes(0) && shape.includes(0))) {
        throw new ShapeError(`The ${what} has shape [${array.shape}], but ${parts} gives rank ${rank} [${shape}].`);
      }
    }
    const info = dtypeInfo(source.dtype);
    if (this.#largest * info.itemSize > MAXIMUM_BYTES) {
      throw new ShapeError(
        `A part of ${this.#largest} elements of ${source.dtype} is too large to move: a rank moves at most 16 GiB at ` +
          `once. Use more ranks.`,
      );
    }
    return info;
  }
}

function checkParts(from: Parts, to: Parts): readonly [shape: readonly number[], size: number] {
  const { globalShape, size } = from;
  if (globalShape === null || size === null || to.globalShape === null || to.size === null) {
    throw new DistributionError(`To move an array from ${from} to ${to}, bind both: bind(globalShape, size).`);
  }
  if (globalShape.join() !== to.globalShape.join() || size !== to.size) {
    throw new DistributionError(
      `${from} is bound to [${globalShape}] on ${size} ranks, ${to} to [${to.globalShape}] on ${to.size}: ` +
        `they must be the same.`,
    );
  }
  return [globalShape, size];
}

function largestPart(from: Parts, to: Parts, shape: readonly number[], size: number): number {
  if (from.isReplicated || to.isReplicated) return sizeOfShape(shape);
  let largest = 0;
  for (let rank = 0; rank < size; rank++) {
    largest = Math.max(largest, countOfProduct(from.ranges(rank)), countOfProduct(to.ranges(rank)));
  }
  return largest;
}

function countOfProduct(ranges: readonly (readonly Range[])[]): number {
  return sizeOfShape(ranges.map(countOf));
}

function isEmpty({ shape }: Transfer): boolean {
  return shape.includes(0);
}

/**
 * The elements that one rank has and another wants. Runs lead from the owner's local indices to those of the packed
 * block ("pack"), from the block to the receiver's ("unpack"), or from one to the other directly ("both").
 */
function transfer(
  peer: number,
  has: readonly (readonly Range[])[],
  wants: readonly (readonly Range[])[],
  kind: "pack" | "unpack" | "both",
): Transfer {
  const runs = has.map((ranges, dimension) => intersect(ranges, wants[dimension], kind));
  return { peer, shape: runs.map(lengthOf), runs };
}

/** The indices in both of two ascending lists of ranges, as runs between positions in them. */
function intersect(has: readonly Range[], wants: readonly Range[], kind: "pack" | "unpack" | "both"): Run[] {
  const runs: Run[] = [];
  // Positions of the current ranges in the owner's part, in the receiver's, and of the next run in the packed block.
  let [a, b, owned, received, packed] = [0, 0, 0, 0, 0];
  while (a < has.length && b < wants.length) {
    const [start, end] = [Math.max(has[a][0], wants[b][0]), Math.min(has[a][1], wants[b][1])];
    if (start < end) {
      const source = owned + start - has[a][0];
      const target = received + start - wants[b][0];
      append(runs, {
        source: kind === "unpack" ? packed : source,
        target: kind === "pack" ? packed : target,
        length: end - start,
      });
      packed += end - start;
    }
    if (has[a][1] <= wants[b][1]) owned += has[a][1] - has[a++][0];
    else received += wants[b][1] - wants[b++][0];
  }
  return runs;
}

/** Add a run, or lengthen the last one if it goes on there on both sides. */
function append(runs: Run[], run: Run): void {
  const last = runs.at(-1);
  if (last && last.source + last.length === run.source && last.target + last.length === run.target) {
    runs[runs.length - 1] = { ...last, length: last.length + run.length };
  } else {
    runs.push(run);
  }
}

/** Where the blocks of all ranks lie in a buffer, in words. */
interface Packing {
  readonly counts: Int32Array;
  readonly displacements: Int32Array;
  readonly total: number;
}

function packingOf(
  transfers: readonly Transfer[],
  size: number,
  words: (transfer: Transfer) => number,
  isShared: boolean,
): Packing {
  const [counts, displacements] = [new Int32Array(size), new Int32Array(size)];
  let total = 0;
  for (const transfer of transfers) {
    counts[transfer.peer] = words(transfer);
    displacements[transfer.peer] = isShared ? 0 : total;
    total = isShared ? counts[transfer.peer] : total + counts[transfer.peer];
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
  const starts = transfers.map(({ shape, runs }) => {
    const isWhole = runs.every((list) => list.length === 1) && isDense(shape, array.strides, order) &&
      sizeOfShape(shape) * itemSize % WORD === 0;
    return isWhole
      ? byteOffset + itemSize * runs.reduce((at, [run], i) => at + run[side] * array.strides[i], array.offset)
      : NaN;
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
