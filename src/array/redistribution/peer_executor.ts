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
import type { DeviceChannels, LinkStreams } from "../../memory/device_channels.ts";
import type { Mark } from "../../gpu/kernels/meeting_kernel.ts";
import { type DeviceArray, type DeviceCopy, prepareDeviceCopy } from "../device_elements.ts";
import { type Order, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { SymmetricArray } from "../symmetric_array.ts";
import type { Laid } from "./gpu_executor.ts";
import type { Making } from "./making_executor.ts";
import { type Packed, partsAlong, piecesOf } from "./pieces.ts";
import type { RedistributionPlan, Transfer } from "./plan.ts";

/** A block goes in so many pieces, unless they would be smaller than a link takes to come to speed, or larger than a slot. */
const PIECES = 6;
const LEAST_BYTES = 2 ** 22;

/** Parts of fewer bytes are moved on one stream: 128^3 complex64 on two H200s takes a fifth less time so. */
const SMALL_BYTES = 2 ** 24;

/** The streams that an exchange uses. */
type Ways = LinkStreams;

/** One stream for everything. No rank waits there for what another one has queued behind a wait for the first. */
function allOn(stream: Stream): Ways {
  return { copies: stream, arrivals: stream, credits: stream, notices: stream };
}

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

/** What stays, by the part of the source. */
type Stays = readonly DeviceCopy[];

/** Moves elements between GPUs of one machine. It keeps its index lists, and what it prepared last. */
export class PeerExecutor {
  readonly #plan: RedistributionPlan;
  readonly #stream: Stream;
  readonly #leastBytes: number;
  readonly #pieces = new Map<string, readonly (readonly [part: number, Transfer])[]>();
  readonly #parts = new Map<string, readonly Transfer[]>();
  readonly #tables = new Set<DeviceBuffer>();
  #last: Prepared | null = null;

  /** Everything is put on the stream, and on that of the channels. No piece is cut to less than `leastBytes`. */
  constructor(plan: RedistributionPlan, stream: Stream, leastBytes: number = LEAST_BYTES) {
    this.#plan = plan;
    this.#stream = stream;
    this.#leastBytes = leastBytes;
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
    const exchange = isDirect ? exchangeDirectly : exchangeThroughSlots;
    const main = this.#stream;
    const isInOnePiece = making === null && [...sends, ...receives].every((lane) => lane.copies.length <= 1);
    const ways = isInOnePiece && this.#isSmall(source) ? allOn(main) : channels.streams;
    const move = inOrder(main, ways, streams, () => exchange(channels, ways, main, sends, receives, stays, making));
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
    return this.#plan.largestPart * dtypeInfo(dtype).itemSize < SMALL_BYTES;
  }

  #copy(source: DeviceArray, target: DeviceArray, { runs }: Transfer, peer: number | null = null): DeviceCopy {
    return prepareDeviceCopy(source, target, runs, this.#stream, peer);
  }

  /** The next rank first, so that not all of them send to the same one. */
  #inTurn(transfers: readonly Transfer[]): Transfer[] {
    const { rank, from } = this.#plan;
    const size = from.size!;
    return transfers.toSorted((a, b) => (a.peer - rank + size) % size - (b.peer - rank + size) % size);
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
      this.#inTurn(sends).map((transfer) => {
        const slots = channels.slotsOf(rank, transfer.peer);
        return lane(transfer, "target", (piece) => this.#copy(source, slotsIn(slots, piece), piece, transfer.peer));
      }),
      this.#inTurn(receives).map((transfer) => {
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
    const most = Math.min(channels.slotBytes, Math.max(this.#leastBytes, Math.ceil(bytes / PIECES)));
    const pieces = this.#partsOf(transfer, making, packed).flatMap((each, part) =>
      piecesOf(each, Math.floor(most / itemSize), order, packed).map((piece) => [part, piece] as const)
    );
    this.#pieces.set(key, pieces);
    return pieces;
  }

  /** What goes straight into the other ranks' parts. */
  #direct(source: LocalArray, target: SymmetricArray, making: Making | null): [Lane[], Lane[]] {
    return [
      this.#inTurn(this.#plan.directSends).map((transfer): Lane => {
        const parts = this.#partsOf(transfer, making, null);
        const place = target.peer(transfer.peer);
        return {
          peer: transfer.peer,
          copies: parts.map((part) => this.#copy(source, place, part, transfer.peer)),
          parts: [...parts.keys()],
        };
      }),
      this.#inTurn(this.#plan.receives).map(({ peer }): Lane => ({ peer, copies: [], parts: [] })),
    ];
  }
}

/** In the order of other streams: these go on when everything has moved. */
function inOrder(
  main: Stream,
  { copies, arrivals }: Ways,
  others: readonly Stream[],
  exchange: () => void,
): () => void {
  return () => {
    for (const stream of others) main.wait(stream);
    for (const stream of [copies, arrivals]) stream.wait(main);
    exchange();
    for (const stream of [copies, arrivals]) main.wait(stream);
    for (const stream of others) stream.wait(main);
  };
}

/** Put a copy to another rank on the streams: once a mark says that its place is free, and tell that it has arrived. */
function send(
  channels: DeviceChannels,
  { copies, credits, notices }: Ways,
  peer: number,
  free: Mark | null,
  copy: (stream: Stream) => void,
  arrived: Mark | null,
): void {
  if (free !== null) {
    channels.meet(credits, null, free, peer);
    copies.wait(credits);
  }
  copy(copies);
  if (arrived === null) return;
  notices.wait(copies);
  channels.meet(notices, arrived, null, peer);
}

/**
 * Pieces go into slots, and on a stream of their own from slots into place. A round's pieces leave before those of the round
 * before are taken, so that nobody waits for what has not been queued, in whatever order streams run.
 */
function exchangeThroughSlots(
  channels: DeviceChannels,
  ways: Ways,
  main: Stream,
  sends: readonly Lane[],
  receives: readonly Lane[],
  stays: Stays,
  making: Making | null,
): void {
  const { slots, slotBytes } = channels;
  const { arrivals, copies: away } = ways;
  const shiftOf = (piece: number) => BigInt((piece - 1) % slots * slotBytes);
  const rounds = Math.max(0, ...[...sends, ...receives].map(({ copies }) => copies.length));
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
    for (const { peer, copies, parts } of sends) {
      if (round >= copies.length) continue;
      makeUpTo(parts[round]);
      const piece = channels.next("passed", peer);
      const free = piece > slots ? channels.from("taken", peer, piece - slots) : null;
      const copy = (stream: Stream) => copies[round].put(stream, 0n, shiftOf(piece));
      send(channels, ways, peer, free, copy, channels.own("passed", peer, piece));
    }
  };
  // What is taken is told along with the next wait.
  let taken: readonly [Mark, number] | null = null;
  const tell = () => {
    if (taken) channels.meet(arrivals, taken[0], null, taken[1]);
  };
  sendAll(0);
  if (making === null) stays[0].put(main);
  for (let round = 0; round < rounds; round++) {
    sendAll(round + 1);
    for (const { peer, copies } of receives) {
      if (round >= copies.length) continue;
      const piece = channels.next("taken", peer);
      channels.meet(arrivals, taken?.[0] ?? null, channels.from("passed", peer, piece), peer);
      copies[round].put(arrivals, shiftOf(piece), 0n);
      taken = [channels.own("taken", peer, piece), peer];
    }
  }
  tell();
  if (making !== null) makeUpTo(making.parts - 1);
}

/**
 * Everything goes straight into place, once that is ready to be written. What stays is copied while the next part of a source
 * is made.
 */
function exchangeDirectly(
  channels: DeviceChannels,
  ways: Ways,
  main: Stream,
  sends: readonly Lane[],
  receives: readonly Lane[],
  stays: Stays,
  making: Making | null,
): void {
  const { copies: away, arrivals: beside } = ways;
  const arrivals = receives.map(({ peer }) => ({ peer, value: channels.next("ready", peer) }));
  for (const { peer, value } of arrivals) channels.meet(main, channels.own("ready", peer, value), null, peer);
  const lanes = sends.map((lane) => ({ ...lane, value: channels.next("written", lane.peer) }));
  const parts = making?.parts ?? 1;
  for (let part = 0; part < parts; part++) {
    making?.make(part);
    for (const stream of [away, beside]) stream.wait(main);
    for (const { peer, copies, value } of lanes) {
      const ready = part === 0 ? channels.from("ready", peer, value) : null;
      const written = part === parts - 1 ? channels.own("written", peer, value) : null;
      send(channels, ways, peer, ready, (stream) => copies[part]?.put(stream), written);
    }
    stays[part]?.put(beside);
  }
  for (const { peer, value } of arrivals) channels.meet(main, null, channels.from("written", peer, value), peer);
}

/** Memory that somebody else looks after. */
function memoryAt(address: bigint, byteLength: number, stream: Stream): DeviceMemory {
  return { address, byteLength, stream };
}

/** Where an array lies, and how. */
function placeOf({ address, dtype, shape, strides }: LocalArray): string {
  return `${address}/${dtype}/${shape}/${strides}`;
}
