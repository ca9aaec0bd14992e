/**
 * How elements get from one distribution to another: which of its elements a rank sends to whom, and where it puts what
 * it receives. The plan is a pure function of the two distributions; only its execution communicates.
 *
 * @module
 */
import { DistributionError, DTypeError, ShapeError } from "../../errors.ts";
import type { Range } from "../../distribution/mod.ts";
import { isDense, lengthOf, type Order, type Run, sizeOfShape } from "../layout.ts";
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

/** How many elements go from each rank (first index) to each other one. Pure. */
export function elementsBetween(from: Parts, to: Parts): number[][] {
  const [, size] = checkParts(from, to);
  const wanted = Array.from({ length: size }, (_, rank) => to.ranges(rank));
  return wanted.map((_, rank) => {
    const mine = from.ranges(rank);
    return wanted.map((wish, peer) =>
      // What every rank has nobody sends.
      peer === rank || from.isReplicated ? 0 : sizeOfShape(mine.map((ranges, d) => countInBoth(ranges, wish[d])))
    );
  });
}

/** How many elements the busiest rank copies: those that it sends, and all that it has afterwards. Pure. */
export function elementsCopied(from: Parts, to: Parts): number {
  const copied = elementsBetween(from, to).map((sent, rank) =>
    sent.reduce((sum, count) => sum + count, countOfProduct(to.ranges(rank)))
  );
  return Math.max(...copied);
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

/**
 * Plan how one rank takes part in moving an array from one distribution to another. Pure: no communication.
 *
 * @throws {DistributionError} if the distributions are not bound to the same shape and number of ranks.
 */
export function planRedistribution(from: Parts, to: Parts, rank: number): RedistributionPlan {
  return new RedistributionPlan(from, to, rank);
}

/** One rank's part in a redistribution; made by {@linkcode planRedistribution}. */
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
  #directSends: readonly Transfer[] | null = null;
  #directReceives: readonly Transfer[] | null = null;
  #arrivesWhole: boolean | null = null;
  #exchange: string | null = null;
  /** Elements that leave a rank, over all ranks. */
  readonly elementsMoved: number;
  /** Elements of the largest part that any rank has before or after. */
  readonly largestPart: number;
  readonly #shapes: Readonly<Record<"source" | "target", (readonly number[])[]>> = { source: [], target: [] };

  /** Plan the part of `rank`. */
  constructor(from: Parts, to: Parts, rank: number) {
    const [shape, size] = checkParts(from, to);
    this.from = from;
    this.to = to;
    this.rank = rank;
    const [mine, wanted] = [from.ranges(rank), to.ranges(rank)];
    const [sends, receives]: [Transfer[], Transfer[]] = [[], []];
    let [moved, largest] = [0, 0];
    for (let peer = 0; peer < size; peer++) {
      // Lists of ranges may be long.
      const [theirs, theirWish] = peer === rank ? [mine, wanted] : [from.ranges(peer), to.ranges(peer)];
      const [theirShape, wishedShape] = [theirs, theirWish].map((lists) => lists.map(countOf));
      this.#shapes.source.push(theirShape);
      this.#shapes.target.push(wishedShape);
      largest = Math.max(largest, sizeOfShape(theirShape), sizeOfShape(wishedShape));
      moved += sizeOfShape(wishedShape) - sizeOfShape(theirs.map((ranges, d) => countInBoth(ranges, theirWish[d])));
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
    this.largestPart = from.isReplicated || to.isReplicated ? sizeOfShape(shape) : largest;
  }

  /** Bytes that leave a rank, over all ranks, for elements of this size. */
  bytesMoved(itemSize: number): number {
    return this.elementsMoved * itemSize;
  }

  /** The name of what the ranks exchange, as of a collective call: the same on all of them. */
  get exchange(): string {
    return this.#exchange ??= exchangeBetween(this.from, this.to);
  }

  /** Whether what any rank sends to another makes one block there, without gaps along a dimension: the same on all ranks. */
  get arrivesWhole(): boolean {
    return this.#arrivesWhole ??= arriveWhole(this.from, this.to);
  }

  /** The shape of what a rank has before or after. */
  shapeOf(side: "source" | "target", rank: number): readonly number[] {
    return this.#shapes[side][rank];
  }

  /** What this rank sends, from its source to the targets of the others. */
  get directSends(): readonly Transfer[] {
    const { from, to, rank } = this;
    const mine = from.ranges(rank);
    return this.#directSends ??= this.sends.map(({ peer }) => transfer(peer, mine, to.ranges(peer), "both"));
  }

  /** What this rank receives, from the sources of the others to its target. */
  get directReceives(): readonly Transfer[] {
    const { from, to, rank } = this;
    const wanted = to.ranges(rank);
    return this.#directReceives ??= this.receives.map(({ peer }) => transfer(peer, from.ranges(peer), wanted, "both"));
  }

  /** What this rank sends, but once only what is the same for everybody, as it is to a replicated target. */
  get distinctSends(): readonly Transfer[] {
    return this.to.isReplicated ? this.sends.slice(0, 1) : this.sends;
  }

  /**
   * Refuse parts that are not what was planned for.
   *
   * @throws {DTypeError} if the dtypes differ.
   * @throws {ShapeError} if a part has not the shape that the plan says.
   */
  check(source: LocalArray, target: LocalArray): void {
    if (source.dtype !== target.dtype) {
      throw new DTypeError(`A redistribution moves elements as they are, not from ${source.dtype} to ${target.dtype}.`);
    }
    const { from, to, rank } = this;
    for (const [array, parts, what] of [[source, from, "source"], [target, to, "target"]] as const) {
      const shape = this.shapeOf(what, rank);
      if (array.shape.join() !== shape.join() && !(array.shape.includes(0) && shape.includes(0))) {
        throw new ShapeError(`The ${what} has shape [${array.shape}], but ${parts} gives rank ${rank} [${shape}].`);
      }
    }
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

function countOfProduct(ranges: readonly (readonly Range[])[]): number {
  return sizeOfShape(ranges.map(countOf));
}

function exchangeBetween(from: Parts, to: Parts): string {
  if (to.isReplicated) return isOnOneRank(from) ? "broadcast" : "all-gather";
  return isOnOneRank(from) ? "scatter" : isOnOneRank(to) ? "gather" : "all-to-all";
}

function isOnOneRank(parts: Parts): boolean {
  const counts = Array.from({ length: parts.size! }, (_, rank) => countOfProduct(parts.ranges(rank)));
  return counts.filter((count) => count > 0).length === 1;
}

function arriveWhole(from: Parts, to: Parts): boolean {
  const ranks = Array.from({ length: from.size! }, (_, rank) => rank);
  const [has, wants] = [from, to].map((parts) => ranks.map((rank) => parts.ranges(rank)));
  return ranks.every((sender) =>
    ranks.every((receiver) =>
      sender === receiver ||
      has[sender].every((ranges, dimension) => arrivesInOneRun(ranges, wants[receiver][dimension]))
    )
  );
}

function arrivesInOneRun(has: readonly Range[], wants: readonly Range[]): boolean {
  let [runs, end] = [0, -1];
  forEachInBoth(has, wants, (length, _, received) => {
    if (received !== end) runs++;
    end = received + length;
  });
  return runs <= 1;
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
  const runs: { source: number; target: number; length: number }[] = [];
  // Where the next run begins in the packed block, and where the last one ends.
  let [packed, sourceEnd, targetEnd] = [0, -1, -1];
  forEachInBoth(has, wants, (length, owned, received) => {
    const source = kind === "unpack" ? packed : owned;
    const target = kind === "pack" ? packed : received;
    // What goes on there on both sides lengthens the last run.
    if (source === sourceEnd && target === targetEnd) runs[runs.length - 1].length += length;
    else runs.push({ source, target, length });
    packed += length;
    [sourceEnd, targetEnd] = [source + length, target + length];
  });
  return runs;
}

/** How many indices are in both of two ascending lists of ranges. */
function countInBoth(has: readonly Range[], wants: readonly Range[]): number {
  let count = 0;
  forEachInBoth(has, wants, (length) => count += length);
  return count;
}

/** Visit what is in both of two ascending lists of ranges: how many neighbours, and their positions in the lists. */
function forEachInBoth(
  has: readonly Range[],
  wants: readonly Range[],
  visit: (length: number, owned: number, received: number) => void,
): void {
  let [a, b, owned, received] = [0, 0, 0, 0];
  while (a < has.length && b < wants.length) {
    const [hasStart, hasEnd] = has[a];
    const [wantsStart, wantsEnd] = wants[b];
    const start = Math.max(hasStart, wantsStart);
    const end = Math.min(hasEnd, wantsEnd);
    if (start < end) visit(end - start, owned + start - hasStart, received + start - wantsStart);
    if (hasEnd <= wantsEnd) {
      owned += hasEnd - hasStart;
      a++;
    } else {
      received += wantsEnd - wantsStart;
      b++;
    }
  }
}

/** The element of an array at which a block begins, if it lies there in one piece, in this order; else null. */
export function startOfBlock(
  { strides, offset }: { readonly strides: readonly number[]; readonly offset: number },
  { shape, runs }: Transfer,
  side: "source" | "target",
  order: Order,
): number | null {
  if (runs.some((list) => list.length !== 1) || !isDense(shape, strides, order)) return null;
  return runs.reduce((at, [run], dimension) => at + run[side] * strides[dimension], offset);
}
