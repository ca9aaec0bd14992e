/**
 * Executing a redistribution between the GPUs of one machine, which address each other's memory: elements go straight into
 * the target where that is symmetric memory, else through slots, from which they are brought into place while the next piece
 * is on its way.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import type { Stream } from "../../gpu/stream.ts";
import type { DeviceBuffer, DeviceMemory } from "../../memory/device_buffer.ts";
import type { Mark } from "../../gpu/kernels/meeting_kernel.ts";
import type { DeviceChannels } from "../../memory/device_channels.ts";
import { type DeviceArray, type DeviceCopy, prepareDeviceCopy } from "../device_elements.ts";
import { type Order, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { SymmetricArray } from "../symmetric_array.ts";
import type { Laid } from "./gpu_executor.ts";
import type { Making } from "./making_executor.ts";
import { type Packed, partsAlong, piecesOf } from "./pieces.ts";
import type { RedistributionPlan, Transfer } from "./plan.ts";

/** What a rank sends goes in so many pieces, none larger than a slot, or smaller than a link takes to come to speed. */
const PIECES = 6;
const LEAST_BYTES = 2 ** 22;

/** Parts of fewer bytes are moved on one stream: 128^3 complex64 on two H200s takes a fifth less time so. */
const SMALL_BYTES = 2 ** 24;

/** What was prepared for arrays in some places. */
interface Prepared {
  readonly key: string;
  /** The target's memory if others write into it: they may have other addresses for another one that lies in the same place. */
  readonly direct: DeviceMemory | null;
  readonly streams: readonly Stream[];
  readonly tables: readonly DeviceBuffer[];
  readonly move: () => void;
}

/** The pieces that go one way between this rank and another, and the part of the source that each belongs to. */
interface Lane {
  readonly peer: number;
  readonly copies: readonly DeviceCopy[];
  readonly parts: readonly number[];
}

/** What is put on streams. */
interface Exchange {
  readonly channels: DeviceChannels;
  /** The stream in whose order the exchange is. */
  readonly main: Stream;
  /** The next rank first, so that not all of them send to the same one. */
  readonly sends: readonly Lane[];
  /** The rank before first, as they send to this one. */
  readonly receives: readonly Lane[];
  /** What stays, by the part of the source. */
  readonly stays: readonly DeviceCopy[];
  readonly making: Making | null;
}

/** Moves elements between GPUs of one machine. It keeps its index lists, and what it prepared last. */
export class PeerExecutor {
  readonly #plan: RedistributionPlan;
  readonly #stream: Stream;
  readonly #sizes: { readonly leastBytes: number; readonly smallBytes: number };
  readonly #pieces = new Map<string, readonly (readonly [part: number, Transfer])[]>();
  readonly #parts = new Map<string, readonly Transfer[]>();
  readonly #tables = new Set<DeviceBuffer>();
  #last: Prepared | null = null;

  /**
   * Everything is put on the stream, and on those of the channels unless parts have fewer than `smallBytes`. No piece is cut to
   * less than `leastBytes`.
   */
  constructor(
    plan: RedistributionPlan,
    stream: Stream,
    { leastBytes = LEAST_BYTES, smallBytes = SMALL_BYTES }: { leastBytes?: number; smallBytes?: number } = {},
  ) {
    this.#plan = plan;
    this.#stream = stream;
    this.#sizes = { leastBytes, smallBytes };
  }

  /** Bytes of the index lists. */
  get byteLength(): number {
    return [...this.#tables].reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /**
   * Have what moving the elements needs: all that one rank can fail at alone. Returns what moves them from `source` to
   * `target`; that is collective. `order`, the same on all ranks, is the order of the elements in pieces. With `isDirect` the
   * target is symmetric memory on every rank.
   */
  prepare(
    channels: DeviceChannels,
    source: LocalArray,
    target: LocalArray,
    order: Order,
    isDirect: boolean,
    making: Making | null = null,
  ): () => void {
    channels.check();
    const key = `${placeOf(source)} ${placeOf(target)} ${order} ${isDirect}`;
    const streams = [source.buffer.stream, target.buffer.stream];
    const direct = isDirect ? target.buffer : null;
    const last = this.#last;
    const isKnown = last?.key === key && last.direct === direct &&
      last.streams.every((stream, i) => stream === streams[i]);
    // Ranks that did not agree have freed what they had allocated.
    if (isKnown && making === null && last.tables.every(({ isFreed }) => !isFreed)) return last.move;
    const stays = this.#partsOf(this.#plan.stays, making, null).map((part) => this.#copy(source, target, part));
    const [sends, receives] = isDirect && target instanceof SymmetricArray
      ? this.#direct(source, target, making)
      : this.#staged(channels, source, target, order, making);
    const copies = [...sends, ...receives].flatMap((lane) => lane.copies);
    const tables = [...stays, ...copies].flatMap((copy) => copy.tables);
    for (const table of tables) this.#tables.add(table);
    const main = this.#stream;
    const exchange: Exchange = { channels, main, sends, receives, stays, making };
    const isAtOnce = making === null && this.#isSmall(source) &&
      [...sends, ...receives].every((lane) => lane.copies.length <= 1);
    const [atOnce, beside] = isDirect ? [writeAtOnce, writeBeside] : [passAtOnce, passBeside];
    const move = inOrder(main, streams, () => isAtOnce ? atOnce(exchange) : beside(exchange));
    if (making === null) this.#last = { key, direct, streams, tables, move };
    return move;
  }

  /** Have the index lists for parts that will lie so, and go through slots. Local. */
  reserve(channels: DeviceChannels, source: Laid, target: Laid, order: Order): void {
    const [from, to] = [source, target].map((laid): DeviceArray => (
      { ...laid, shape: [], buffer: memoryAt(0n, 0, this.#stream) }
    ));
    const lanes = this.#staged(channels, from, to, order, null).flat();
    const copies = [this.#copy(from, to, this.#plan.stays), ...lanes.flatMap((lane) => lane.copies)];
    for (const table of copies.flatMap((copy) => copy.tables)) this.#tables.add(table);
  }

  /** Give the index lists back. */
  free(): void {
    this.#last = null;
    for (const table of this.#tables) table.free();
    this.#tables.clear();
  }

  /** Whether streams that wait for each other would take longer than the copies that then go beside each other. */
  #isSmall({ dtype }: LocalArray): boolean {
    return this.#plan.largestPart * dtypeInfo(dtype).itemSize < this.#sizes.smallBytes;
  }

  #copy(source: DeviceArray, target: DeviceArray, { runs }: Transfer, peer: number | null = null): DeviceCopy {
    return prepareDeviceCopy(source, target, runs, this.#stream, peer);
  }

  /** By how many ranks the other one comes after this one (1), or before it (-1). */
  #inTurn(transfers: readonly Transfer[], direction: 1 | -1): Transfer[] {
    const { rank, from } = this.#plan;
    const size = from.size!;
    const distance = ({ peer }: Transfer) => (direction * (peer - rank) + size) % size;
    return transfers.toSorted((a, b) => distance(a) - distance(b));
  }

  /** The pieces that go through slots. */
  #staged(
    channels: DeviceChannels,
    source: DeviceArray,
    target: DeviceArray,
    order: Order,
    making: Making | null,
  ): [Lane[], Lane[]] {
    const { dtype } = source;
    const { rank, sends, receives } = this.#plan;
    const slotsIn = (address: bigint, { shape }: Transfer): DeviceArray => {
      const buffer = memoryAt(address, channels.slots * channels.slotBytes, this.#stream);
      return { buffer, dtype, shape, strides: stridesOf(shape, order), offset: 0 };
    };
    const lane = (transfer: Transfer, packed: "source" | "target", copy: (piece: Transfer) => DeviceCopy): Lane => {
      const pieces = this.#cut(channels, transfer, dtypeInfo(dtype).itemSize, order, packed, making);
      return {
        peer: transfer.peer,
        copies: pieces.map(([, piece]) => copy(piece)),
        parts: pieces.map(([part]) => part),
      };
    };
    return [
      this.#inTurn(sends, 1).map((transfer) => {
        const slots = channels.slotsOf(rank, transfer.peer);
        return lane(transfer, "target", (piece) => this.#copy(source, slotsIn(slots, piece), piece, transfer.peer));
      }),
      this.#inTurn(receives, -1).map((transfer) => {
        const slots = channels.slotsOf(transfer.peer, rank);
        return lane(transfer, "source", (piece) => this.#copy(slotsIn(slots, piece), target, piece));
      }),
    ];
  }

  /** A block by the parts of the source. The same list each time, since index lists on the GPU belong to it. */
  #partsOf(transfer: Transfer, making: Making | null, packed: Packed): readonly Transfer[] {
    if (making === null) return [transfer];
    const key = `${packed}/${transfer.peer}/${making.dimension}/${making.parts}`;
    const known = this.#parts.get(key) ?? partsAlong(transfer, making.dimension, making.parts, packed);
    this.#parts.set(key, known);
    return known;
  }

  /** A transfer in pieces, each with the part of the source that it belongs to; both ends cut alike. The same list each time. */
  #cut(
    channels: DeviceChannels,
    transfer: Transfer,
    itemSize: number,
    order: Order,
    packed: Packed,
    making: Making | null,
  ): readonly (readonly [part: number, Transfer])[] {
    const key = `${packed}/${transfer.peer}/${itemSize}/${order}/${making?.dimension}/${making?.parts}`;
    const known = this.#pieces.get(key);
    if (known !== undefined) return known;
    const bytes = sizeOfShape(transfer.shape) * itemSize;
    const wanted = Math.ceil(PIECES / (channels.size - 1));
    const most = Math.min(channels.slotBytes, Math.max(this.#sizes.leastBytes, Math.ceil(bytes / wanted)));
    const pieces = this.#partsOf(transfer, making, packed).flatMap((each, part) =>
      piecesOf(each, Math.floor(most / itemSize), order, packed).map((piece) => [part, piece] as const)
    );
    this.#pieces.set(key, pieces);
    return pieces;
  }

  /** What goes straight into the other ranks' parts. */
  #direct(source: LocalArray, target: SymmetricArray, making: Making | null): [Lane[], Lane[]] {
    return [
      this.#inTurn(this.#plan.directSends, 1).map((transfer): Lane => {
        const parts = this.#partsOf(transfer, making, null);
        const place = target.peer(transfer.peer);
        return {
          peer: transfer.peer,
          copies: parts.map((part) => this.#copy(source, place, part, transfer.peer)),
          parts: [...parts.keys()],
        };
      }),
      this.#inTurn(this.#plan.receives, -1).map(({ peer }): Lane => ({ peer, copies: [], parts: [] })),
    ];
  }
}

/** In the order of other streams: these go on when everything has moved. */
function inOrder(main: Stream, others: readonly Stream[], exchange: () => void): () => void {
  return () => {
    for (const stream of others) main.wait(stream);
    exchange();
    for (const stream of others) stream.wait(main);
  };
}

/** Where a slot begins, for the piece of this number. */
function shiftOf({ slots, slotBytes }: DeviceChannels, piece: number): bigint {
  return BigInt((piece - 1) % slots * slotBytes);
}

/** That the slots are free again which these pieces, the last that go to each rank, need. */
function freeSlots(
  channels: DeviceChannels,
  pieces: readonly { readonly peer: number; readonly piece: number }[],
): Mark[] {
  return pieces.filter(({ piece }) => piece > channels.slots)
    .map(({ peer, piece }) => channels.from("taken", peer, piece - channels.slots));
}

/** A piece for each rank at most, so small that what takes time is to start copies: all on one stream. */
function passAtOnce({ channels, main, sends, receives, stays }: Exchange): void {
  const leaving = sends.map(({ peer, copies }) => ({ peer, copies, piece: channels.next("passed", peer) }));
  const coming = receives.map(({ peer, copies }) => ({ peer, copies, piece: channels.next("taken", peer) }));
  channels.meet(main, [], freeSlots(channels, leaving));
  for (const { copies: [copy], piece } of leaving) copy.put(main, 0n, shiftOf(channels, piece));
  stays[0].put(main);
  channels.meet(
    main,
    leaving.map(({ peer, piece }) => channels.own("passed", peer, piece)),
    coming.map(({ peer, piece }) => channels.from("passed", peer, piece)),
  );
  for (const { copies: [copy], piece } of coming) copy.put(main, shiftOf(channels, piece), 0n);
  channels.meet(main, coming.map(({ peer, piece }) => channels.own("taken", peer, piece)), []);
}

/**
 * Pieces go into slots, and on a stream of their own from slots into place. Those of a round leave before those of the round
 * before are taken, so that nobody waits for what has not been queued, in whatever order streams run. A round has as many for
 * each rank as there are slots for: ranks that take turns piece by piece soon send two at a time to the same one.
 */
function passBeside({ channels, main, sends, receives, stays, making }: Exchange): void {
  const { slots, streams: { arrivals, copies: away, credits, notices } } = channels;
  for (const stream of [away, arrivals]) stream.wait(main);
  const most = Math.max(0, ...[...sends, ...receives].map(({ copies }) => copies.length));
  const together = making !== null ? 1 : most <= slots ? slots : slots / 2;
  const inRound = ({ copies }: Lane, round: number) =>
    [...copies.keys()].slice(round * together, (round + 1) * together);
  let made = 0;
  /** Have the source up to a part, and copies wait for it. */
  const makeUpTo = (part: number) => {
    if (making === null || made > part) return;
    for (; made <= part; made++) {
      making.make(made);
      stays[made]?.put(main);
    }
    away.wait(main);
  };
  const sendAll = (round: number) => {
    const leaving = sends.map((lane) =>
      inRound(lane, round).map((index) => ({ ...lane, index, piece: channels.next("passed", lane.peer) }))
    );
    const free = freeSlots(channels, leaving.flatMap((pieces) => pieces.slice(-1)));
    if (free.length > 0) {
      channels.meet(credits, [], free);
      away.wait(credits);
    }
    for (const { peer, copies, parts, index, piece } of leaving.flat()) {
      makeUpTo(parts[index]);
      copies[index].put(away, 0n, shiftOf(channels, piece));
      notices.wait(away);
      channels.meet(notices, [channels.own("passed", peer, piece)], []);
    }
  };
  // What is taken is told along with the next wait, and at the end of a round that others may need all of.
  let taken: Mark[] = [];
  const tell = () => {
    channels.meet(arrivals, taken, []);
    taken = [];
  };
  sendAll(0);
  if (making === null) stays[0].put(main);
  for (let round = 0; round * together < most; round++) {
    sendAll(round + 1);
    for (const lane of receives) {
      for (const index of inRound(lane, round)) {
        const piece = channels.next("taken", lane.peer);
        channels.meet(arrivals, taken, [channels.from("passed", lane.peer, piece)]);
        lane.copies[index].put(arrivals, shiftOf(channels, piece), 0n);
        taken = [channels.own("taken", lane.peer, piece)];
      }
    }
    if (together > 1) tell();
  }
  tell();
  if (making !== null) makeUpTo(making.parts - 1);
  for (const stream of [away, arrivals]) main.wait(stream);
}

/** The marks of this time: others' that this rank waits for, and its own. */
function begin({ channels, sends, receives }: Exchange) {
  const leaving = sends.map(({ peer }) => ({ peer, value: channels.next("written", peer) }));
  const coming = receives.map(({ peer }) => ({ peer, value: channels.next("ready", peer) }));
  return {
    /** That this rank's memory may be written. */
    ready: coming.map(({ peer, value }) => channels.own("ready", peer, value)),
    /** That the others' may. */
    mayWrite: leaving.map(({ peer, value }) => channels.from("ready", peer, value)),
    /** That the others' was. */
    isWritten: leaving.map(({ peer, value }) => channels.own("written", peer, value)),
    /** That this rank's was. */
    written: coming.map(({ peer, value }) => channels.from("written", peer, value)),
  };
}

/** Everything goes straight into place, on one stream. */
function writeAtOnce(exchange: Exchange): void {
  const { channels, main, sends, stays } = exchange;
  const { ready, mayWrite, isWritten, written } = begin(exchange);
  channels.meet(main, ready, mayWrite);
  for (const { copies: [copy] } of sends) copy?.put(main);
  stays[0].put(main);
  channels.meet(main, isWritten, written);
}

/**
 * Everything goes straight into place, once that is ready to be written: all ranks begin at the same time, and so go on, each
 * sending to another one. What stays is copied while the next part of a source is made.
 */
function writeBeside(exchange: Exchange): void {
  const { channels, main, sends, stays, making } = exchange;
  const { copies: away, arrivals: beside } = channels.streams;
  const { ready, mayWrite, isWritten, written } = begin(exchange);
  channels.meet(main, ready, []);
  for (let part = 0; part < (making?.parts ?? 1); part++) {
    making?.make(part);
    for (const stream of [away, beside]) stream.wait(main);
    if (part === 0) channels.meet(away, [], mayWrite);
    stays[part]?.put(beside);
    for (const { copies } of sends) copies[part]?.put(away);
  }
  channels.meet(away, isWritten, []);
  for (const stream of [away, beside]) main.wait(stream);
  channels.meet(main, [], written);
}

/** Memory that somebody else looks after. */
function memoryAt(address: bigint, byteLength: number, stream: Stream): DeviceMemory {
  return { address, byteLength, stream };
}

/** Where an array lies, and how. */
function placeOf({ address, dtype, shape, strides }: LocalArray): string {
  return `${address}/${dtype}/${shape}/${strides}`;
}
