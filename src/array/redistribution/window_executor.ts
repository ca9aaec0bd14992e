/**
 * Executing a redistribution between ranks of one machine: pieces go through memory that both ends address. Each is
 * written once and read once, and leaves the caches only for its place in the target.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import { type PeerChannels, waitForPeers } from "../../memory/peer_channels.ts";
import { type Copy, type Order, prepareCopy, sizeOfShape, type Strided, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { recorder } from "../../runtime/recorder.ts";
import { piecesOf } from "./pieces.ts";
import type { RedistributionPlan, Transfer } from "./plan.ts";

/** The pieces that go one way between this rank and another. */
interface Lane {
  /** The slot that can be written or read now, or -1. */
  readonly slot: () => number;
  /** Tell the other end that it was. */
  readonly done: () => void;
  /** One copy a piece, given the slot. */
  readonly copies: readonly ((slot: number) => void)[];
}

/**
 * Check nothing, and prepare everything: returns what moves the elements from `source` to `target`. That is collective.
 * `order`, the same on all ranks, is the order of the elements in pieces: the source's is the fastest.
 */
export function prepareThroughWindow(
  plan: RedistributionPlan,
  channels: PeerChannels,
  source: LocalArray,
  target: LocalArray,
  order: Order,
): () => void {
  const { itemSize, parts } = dtypeInfo(source.dtype);
  const bytes = sizeOfShape(target.shape) * itemSize;
  const slotElements = Math.floor(channels.slotBytes / itemSize);
  const size = plan.from.size!;
  /** Begin with the next rank, so that not all of them write to the same one. */
  const inTurn = (transfers: readonly Transfer[]) =>
    transfers.toSorted((a, b) => (a.peer - plan.rank + size) % size - (b.peer - plan.rank + size) % size);

  const slotsIn = ({ memory, start }: { memory: ArrayBuffer; start: number }, { shape }: Transfer): Strided => (
    {
      data: viewLike(source, memory, start, channels.slots * slotElements),
      offset: 0,
      strides: stridesOf(shape, order),
    }
  );
  const lanes: Lane[] = [];
  for (const transfer of inTurn(plan.sends)) {
    const channel = channels.to(transfer.peer);
    const copies = piecesOf(transfer, slotElements, order, "target").map((piece) => {
      const copy: Copy = prepareCopy(source, slotsIn(channel, piece), piece.runs, parts, bytes);
      return (slot: number) => copy(0, slot * slotElements);
    });
    lanes.push({ slot: channel.free, done: channel.pass, copies });
  }
  for (const transfer of inTurn(plan.receives)) {
    const channel = channels.from(transfer.peer);
    const copies = piecesOf(transfer, slotElements, order, "source").map((piece) => {
      const copy: Copy = prepareCopy(slotsIn(channel, piece), target, piece.runs, parts, bytes);
      return (slot: number) => copy(slot * slotElements, 0);
    });
    lanes.push({ slot: channel.filled, done: channel.take, copies });
  }
  const stays = piecesOf(plan.stays, slotElements, order, null)
    .map((piece) => prepareCopy(source, target, piece.runs, parts, bytes));
  return () => exchange(lanes, stays);
}

/**
 * Write and read pieces as slots become free and filled. What stays lies beside what is sent, and is copied between, while its
 * neighbours are in the caches; and while there is no slot. In the end wait.
 */
function exchange(lanes: readonly Lane[], stays: readonly Copy[]): void {
  const span = recorder?.begin("copy", "redistribution");
  const next = new Int32Array(lanes.length);
  const canGoOn = (lane: Lane, i: number) => next[i] < lane.copies.length && lane.slot() >= 0;
  const isReady = () => lanes.some(canGoOn);
  let left = lanes.reduce((sum, { copies }) => sum + copies.length, 0);
  let stayed = 0;
  while (left > 0) {
    let moved = 0;
    for (let i = 0; i < lanes.length; i++) {
      const { slot, done, copies } = lanes[i];
      if (next[i] === copies.length) continue;
      const at = slot();
      if (at < 0) continue;
      copies[next[i]++](at);
      done();
      moved++;
    }
    left -= moved;
    if (stayed < stays.length) stays[stayed++]();
    else if (moved === 0) waitForPeers(isReady);
  }
  while (stayed < stays.length) stays[stayed++]();
  span?.end();
}

/** Memory as numbers of the same kind as an array's. */
function viewLike({ dtype }: LocalArray, memory: ArrayBuffer, start: number, elements: number): LocalArray["data"] {
  const { array, parts } = dtypeInfo(dtype);
  return new array(memory, start, elements * parts);
}
