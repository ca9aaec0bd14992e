/**
 * Executing a redistribution between ranks of one machine that may copy from and to each other's memory: each element is
 * copied once, from where it is to where it shall be.
 *
 * Of a sender and a receiver one copies, and the other offers it its array: the one in whose array the elements lie in
 * longer pieces, since Linux looks up each piece of the other process by itself. Arrays in which they lie in short ones are
 * packed beforehand, or unpacked afterwards.
 *
 * @module
 */
import { addressOf } from "../../../ffi/memory.ts";
import { allocate, dtypeInfo } from "../../dtype/dtype.ts";
import { StateError } from "../../errors.ts";
import {
  MOST_OFFERED_DIMENSIONS,
  type Offered,
  type Offering,
  type PeerChannels,
  type RemoteArray,
  waitForPeers,
} from "../../memory/peer_channels.ts";
import { prepareProcessCopy } from "../../memory/process_memory.ts";
import { pin } from "../../memory/spare.ts";
import { recorder } from "../../runtime/recorder.ts";
import { type Copy, type Order, prepareCopy, sizeOfShape, type Strided, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { piecesOf } from "./pieces.ts";
import { planRedistribution, type RedistributionPlan, type Transfer } from "./plan.ts";
import { elementsInOnePiece, segmentsOf } from "./segments.ts";

/** An array is copied as it lies if its pieces are at least so long. Measured on AMD EPYC. */
const LEAST_PIECE_BYTES = 1024;

/** This is faster than going through shared memory if a rank has so much to copy, in pieces that are so long. */
const WORTH_BYTES = 2 ** 20;
const WORTH_PIECE_BYTES = 2048;

/** What short pieces are packed into: it stays in the second-level cache. What stays is copied in parts of as much. */
const ROOM_BYTES = 2 ** 18;

type End = "source" | "target";

/** What goes one way between this rank and another. */
interface Link {
  readonly peer: number;
  /** Which end is this rank's, and its array. */
  readonly end: End;
  readonly own: LocalArray;
  /** Between the two arrays, and between this rank's array and a packed block. */
  readonly direct: Transfer;
  readonly packing: Transfer;
}

/** What this rank copies itself. */
interface Active {
  /** Addresses keep nothing alive. */
  readonly held: LocalArray;
  readonly offered: Offered;
  /** What copies a piece each of all that goes this way. */
  copies(place: RemoteArray): readonly (() => void)[];
}

/** An array that another rank copies from or to. */
interface Passive {
  /** Where that array lies, or a packed block. */
  readonly held: LocalArray["data"];
  readonly offering: Offering;
  readonly place: RemoteArray;
  readonly before?: Copy;
  readonly after?: Copy;
}

/** Moves elements between processes. It keeps its buffers for the next time. */
export class ProcessExecutor {
  readonly #plan: RedistributionPlan;
  readonly #shortest: Partial<Record<Order, number>> = {};
  readonly #buffers = new Map<string, LocalArray["data"]>();
  /** The strides that others offered last, where they were unusual. */
  readonly #seen = new Map<string, readonly number[] | null>();

  /** Buffers are allocated when they are needed. */
  constructor(plan: RedistributionPlan) {
    this.#plan = plan;
  }

  /** Bytes of the buffers that it keeps. */
  get byteLength(): number {
    return [...this.#buffers.values()].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /** As `prepareThroughWindow` of window_executor.ts, for channels whose `processes` are known. */
  prepare(channels: PeerChannels, source: LocalArray, target: LocalArray, order: Order): () => void {
    const plan = this.#plan;
    const { itemSize, parts } = dtypeInfo(source.dtype);
    const size = plan.from.size!;
    const links: Link[] = [
      ...plan.sends.map((packing, i): Link => (
        { peer: packing.peer, end: "source", own: source, direct: plan.directSends[i], packing }
      )),
      ...plan.receives.map((packing, i): Link => (
        { peer: packing.peer, end: "target", own: target, direct: plan.directReceives[i], packing }
      )),
    ].toSorted((a, b) => (a.peer - plan.rank + size) % size - (b.peer - plan.rank + size) % size);
    const [active, passive]: [Active[], Passive[]] = [[], []];
    for (const link of links) {
      const use = this.#useOf(link, order);
      const copiesItself = (use === "write") === (link.end === "source");
      if (copiesItself) active.push(this.#active(channels, link, use, order));
      else passive.push(this.#passive(channels, link, use, order));
    }
    const bytes = sizeOfShape(target.shape) * itemSize;
    const stays = piecesOf(plan.stays, ROOM_BYTES / itemSize, order, null)
      .map((piece) => prepareCopy(source, target, piece.runs, parts, bytes));
    return () => exchange(active, passive, stays);
  }

  /**
   * Whether this is the fastest way between ranks of one machine: much moves, and it lies in long pieces at one end at least.
   * Short ones cost Linux more than the second copy costs that going through shared memory takes. The same on all ranks, for
   * rank 0 tells.
   */
  isFastest(order: Order, itemSize: number): boolean {
    const { from, to, rank } = this.#plan;
    if (this.#plan.bytesMoved(itemSize) < WORTH_BYTES * from.size!) return false;
    return (this.#shortest[order] ??= shortestPiece(
          rank === 0 ? this.#plan : planRedistribution(from, to, 0),
          order,
        )) * itemSize >= WORTH_PIECE_BYTES;
  }

  /** Let go of the buffers. */
  free(): void {
    this.#buffers.clear();
  }

  /** Whether a receiver reads from the source, or a sender writes into the target: the same on both. */
  #useOf({ peer, end, direct }: Link, order: Order): "read" | "write" {
    const { source, target } = piecesAtEnds(this.#plan, end, peer, direct, order);
    return source < target ? "write" : "read";
  }

  #active(channels: PeerChannels, link: Link, use: "read" | "write", order: Order): Active {
    const { peer, end, own, direct, packing } = link;
    const { itemSize, parts } = dtypeInfo(own.dtype);
    const process = channels.processes![peer];
    const other: End = end === "source" ? "target" : "source";
    const isLong = arePiecesLong(own, direct, end, order);
    const most = isLong ? Infinity : Math.max(1, Math.floor(ROOM_BYTES / itemSize));
    const pieces = piecesOf(direct, most, order, null);
    const room = isLong ? null : this.#buffer("room", own, Math.min(most, sizeOfShape(direct.shape)));
    // From the array into the room, or the other way.
    const through = room === null ? null : piecesOf(packing, most, order, other)
      .map((piece) => betweenBlock(own, end, { data: room, offset: 0 }, piece, order, parts));
    const ownAddress = addressOfFirst(room === null ? own : { data: room, offset: 0 }, itemSize);
    const prepared = (strides: readonly number[] | null) => {
      let [done, reach] = [0, 0];
      const copies = pieces.map(({ runs, shape }) => {
        const bytes = itemSize * sizeOfShape(shape);
        const inOne = { starts: [0], lengths: [bytes] };
        const here = isLong ? segmentsOf({ runs, side: end, strides: own.strides }, order, itemSize) : inOne;
        const there = strides === null ? inOne : segmentsOf({ runs, side: other, strides }, order, itemSize);
        const start = strides === null ? done : 0;
        done += bytes;
        reach = there.starts.reduce((most, from, i) => Math.max(most, start + from + there.lengths[i]), reach);
        const copy = prepareProcessCopy(use, process, here, there);
        return (address: number) => copy(ownAddress, address + start);
      });
      return { key: String(strides), copies, reach };
    };
    // What other ranks offer as a rule is allocated before all have agreed.
    const key = `${end} ${peer} ${order}`;
    const seen = this.#seen;
    let known = prepared(seen.has(key) ? seen.get(key)! : this.#usualStrides(link, order));
    return {
      held: own,
      offered: channels.offered(peer, use),
      copies({ address, bytes, strides }) {
        if (String(strides) !== known.key) {
          known = prepared(strides);
          seen.set(key, strides);
        }
        const { copies, reach } = known;
        if (reach > bytes) {
          throw new StateError(
            `Rank ${peer} offers ${bytes} bytes of memory, of which this rank was to ${use} the first ${reach}: the ranks ` +
              `are in different redistributions. Call them in the same order on all ranks; checks: "collective" finds out.`,
          );
        }
        return copies.map((copy, i) => () => {
          if (use === "write") through?.[i]();
          copy(address);
          if (use === "read") through?.[i]();
        });
      },
    };
  }

  /** The strides that the other end offers if its array is dense; null if it packs. */
  #usualStrides({ peer, end, own, direct }: Link, order: Order): readonly number[] | null {
    const otherEnd = end === "source" ? "target" : "source";
    const strides = stridesOf(this.#plan.shapeOf(otherEnd, peer), order);
    const isAsItLies = strides.length <= MOST_OFFERED_DIMENSIONS &&
      arePiecesLong({ dtype: own.dtype, strides }, direct, otherEnd, order);
    return isAsItLies ? strides : null;
  }

  #passive(channels: PeerChannels, link: Link, use: "read" | "write", order: Order): Passive {
    const { peer, end, own, direct, packing } = link;
    const { itemSize, parts } = dtypeInfo(own.dtype);
    const offering = channels.offering(peer, use);
    const { strides } = own;
    if (strides.length <= MOST_OFFERED_DIMENSIONS && arePiecesLong(own, direct, end, order)) {
      return { held: own.data, offering, place: placeOf(own, itemSize, strides) };
    }
    const block = { data: this.#buffer(`${end} ${peer}`, own, sizeOfShape(direct.shape)), offset: 0 };
    const copy = betweenBlock(own, end, block, packing, order, parts);
    const place = placeOf(block, itemSize, null);
    return { held: block.data, offering, place, ...end === "source" ? { before: copy } : { after: copy } };
  }

  /** Memory for so many elements like those of an array. */
  #buffer(name: string, { dtype }: LocalArray, elements: number): LocalArray["data"] {
    const key = `${name} ${dtype}`;
    const known = this.#buffers.get(key);
    if (known !== undefined && known.length >= elements * dtypeInfo(dtype).parts) return known;
    const made = allocate(dtype, elements);
    this.#buffers.set(key, made);
    return made;
  }
}

/** How many elements lie in one piece where they go from or to a peer, if arrays are dense. */
function piecesAtEnds(
  plan: RedistributionPlan,
  end: End,
  peer: number,
  { runs }: Transfer,
  order: Order,
): Record<End, number> {
  const [sender, receiver] = end === "source" ? [plan.rank, peer] : [peer, plan.rank];
  const length = (side: End, rank: number) =>
    elementsInOnePiece({ runs, side, strides: stridesOf(plan.shapeOf(side, rank), order) }, order);
  return { source: length("source", sender), target: length("target", receiver) };
}

/**
 * The least that Linux copies at once, of all that one rank sends and receives: of two ends the one with short pieces is
 * packed. 0 if that is nothing.
 */
function shortestPiece(plan: RedistributionPlan, order: Order): number {
  const lengths = (["source", "target"] as const).flatMap((end) =>
    (end === "source" ? plan.directSends : plan.directReceives).map((transfer) =>
      Math.max(...Object.values(piecesAtEnds(plan, end, transfer.peer, transfer, order)))
    )
  );
  return lengths.length === 0 ? 0 : Math.min(...lengths);
}

function addressOfFirst({ data, offset }: Pick<Strided, "data" | "offset">, itemSize: number): number {
  return Number(addressOf(data as BufferSource)) + offset * itemSize;
}

function placeOf(
  array: Pick<Strided, "data" | "offset">,
  itemSize: number,
  strides: readonly number[] | null,
): RemoteArray {
  const bytes = array.data.byteLength - array.offset * itemSize;
  return { address: addressOfFirst(array, itemSize), bytes, strides };
}

function arePiecesLong(
  { dtype, strides }: Pick<LocalArray, "dtype" | "strides">,
  { runs, shape }: Transfer,
  side: End,
  order: Order,
): boolean {
  const { itemSize } = dtypeInfo(dtype);
  const bytes = itemSize * elementsInOnePiece({ runs, side, strides }, order);
  return bytes >= Math.min(LEAST_PIECE_BYTES, itemSize * sizeOfShape(shape));
}

/** Copies from an array into a packed block, or from the block into the array if that is the target. */
function betweenBlock(
  own: LocalArray,
  end: End,
  block: Pick<Strided, "data" | "offset">,
  { shape, runs }: Transfer,
  order: Order,
  parts: 1 | 2,
): Copy {
  const packed = { ...block, strides: stridesOf(shape, order) };
  const bytes = sizeOfShape(own.shape) * dtypeInfo(own.dtype).itemSize;
  return end === "source" ? prepareCopy(own, packed, runs, parts, bytes) : prepareCopy(packed, own, runs, parts, bytes);
}

/**
 * Offer what others copy, copy what others offer as soon as they do, and wait for the others. What goes to several ranks, and
 * what stays, lies side by side: of each a piece is copied in turn, while its neighbours are in the caches.
 *
 * Others touch the memory of this rank between `offer` and `isUsed` only: who returns from here is done with them. What fails
 * here, because another process has ended, leaves them the memory that they may still be copying from and to.
 */
function exchange(active: readonly Active[], passive: readonly Passive[], stays: readonly Copy[]): void {
  const span = recorder?.begin("copy", "redistribution");
  try {
    exchangeAll(active, passive, stays);
  } catch (error) {
    for (const { held } of passive) pin(held.buffer);
    throw error;
  }
  span?.end();
}

function exchangeAll(active: readonly Active[], passive: readonly Passive[], stays: readonly Copy[]): void {
  for (const { offering, place, before } of passive) {
    before?.();
    offering.offer(place);
  }
  const awaited = new Set(active);
  const isThere = ({ offered }: Active) => offered.isThere();
  let begun: { readonly offered: Offered; readonly copies: readonly (() => void)[]; done: number }[] = [];
  let stayed = 0;
  while (awaited.size + begun.length > 0) {
    for (const one of [...awaited].filter(isThere)) {
      begun.push({ offered: one.offered, copies: one.copies(one.offered.place()), done: 0 });
      awaited.delete(one);
    }
    begun = begun.filter((one) => {
      one.copies[one.done++]();
      if (one.done < one.copies.length) return true;
      one.offered.finish();
      return false;
    });
    if (stayed < stays.length) stays[stayed++]();
    else if (begun.length === 0 && awaited.size > 0) waitForPeers(() => [...awaited].some(isThere));
  }
  while (stayed < stays.length) stays[stayed++]();
  for (const { offering, after } of passive) {
    waitForPeers(() => offering.isUsed());
    after?.();
  }
}
