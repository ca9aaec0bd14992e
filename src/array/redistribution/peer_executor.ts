/**
 * Executing a redistribution between the GPUs of one machine, which address each other's memory: elements go straight into
 * the target where that is symmetric memory, else through slots, from which they are brought into place while the next piece
 * is on its way.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import { RunOrder } from "../../gpu/run_order.ts";
import type { Stream } from "../../gpu/stream.ts";
import type { DeviceBuffer, DeviceMemory } from "../../memory/device_buffer.ts";
import type { Mark } from "../../gpu/kernels/meeting_kernel.ts";
import type { DeviceChannels, MarkKind } from "../../memory/device_channels.ts";
import { type DeviceCopy, prepareDeviceCopy } from "../on_device/copies.ts";
import type { DeviceArray } from "../on_device/device_array.ts";
import { type Order, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { SymmetricArray } from "../symmetric_array.ts";
import type { Laid } from "./gpu_executor.ts";
import type { Making, Using } from "./making_executor.ts";
import { halvesOf, type Packed, partsAlong, piecesOf } from "./pieces.ts";
import type { RedistributionPlan, Transfer } from "./plan.ts";

/** What a rank sends goes in so many pieces, none larger than a slot, or smaller than a link takes to come to speed. */
const PIECES = 6;
const LEAST_BYTES = 2 ** 22;

/** Parts of fewer bytes are moved on one stream: 128^3 complex64 on two H200s takes a fifth less time so. */
const SMALL_BYTES = 2 ** 24;

/**
 * With more blocks, copies within a GPU's memory take from those between GPUs, which have longer to go: on two H200s 16384^2
 * float32 from slabs to slabs took 2 to 4 % less time so, to a block-cyclic distribution a tenth; with half as many, other
 * redistributions took 3 % longer.
 */
const BLOCKS_BESIDE = 528;

/** What was prepared for arrays in some places. */
interface Prepared {
  readonly key: string;
  /** The target's memory if others write into it: they may have other addresses for another one that lies in the same place. */
  readonly direct: DeviceMemory | null;
  readonly streams: readonly Stream[];
  readonly tables: readonly DeviceBuffer[];
  readonly move: () => void;
}

/** A piece of what travels: of which part of the source it is, and, of the last one, of which part of the target. */
interface Piece {
  readonly part: number;
  readonly use: number;
  readonly transfer: Transfer;
}

/** The pieces that go one way between this rank and another, and what each is of. */
interface Lane {
  readonly peer: number;
  readonly pieces: readonly Omit<Piece, "transfer">[];
  readonly copies: readonly DeviceCopy[];
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
  readonly using: Using | null;
}

/** Moves elements between GPUs of one machine. It keeps its index lists, and what it prepared last. */
export class PeerExecutor {
  readonly #plan: RedistributionPlan;
  readonly #stream: Stream;
  readonly #sizes: { readonly leastBytes: number; readonly smallBytes: number };
  readonly #pieces = new Map<string, readonly Piece[]>();
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
   * target is symmetric memory on every rank; only then it may be used while it arrives.
   */
  prepare(
    channels: DeviceChannels,
    source: LocalArray,
    target: LocalArray,
    order: Order,
    isDirect: boolean,
    making: Making | null = null,
    using: Using | null = null,
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
    const within = this.#within(source, making);
    const stays = this.#partsOf(this.#plan.stays, making, null).map((part) => this.#copy(source, target, part, within));
    const [sends, receives] = isDirect && target instanceof SymmetricArray
      ? this.#direct(source, target, making, using)
      : this.#staged(channels, source, target, order, making);
    const copies = [...sends, ...receives].flatMap((lane) => lane.copies);
    const tables = [...stays, ...copies].flatMap((copy) => copy.tables);
    for (const table of tables) this.#tables.add(table);
    const main = this.#stream;
    const exchange: Exchange = { channels, main, sends, receives, stays, making, using };
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
  #isSmall({ dtype }: Pick<DeviceArray, "dtype">): boolean {
    return this.#plan.largestPart * dtypeInfo(dtype).itemSize < this.#sizes.smallBytes;
  }

  /** How copies within this GPU's memory are made: beside those between GPUs, unless these are short, or wait for other work. */
  #within(source: Pick<DeviceArray, "dtype">, making: Making | null): { mostBlocks?: number } {
    return making !== null || this.#isSmall(source) ? {} : { mostBlocks: BLOCKS_BESIDE };
  }

  #copy(
    source: DeviceArray,
    target: DeviceArray,
    { runs }: Transfer,
    options: { peer?: number; mostBlocks?: number } = {},
  ): DeviceCopy {
    return prepareDeviceCopy(source, target, runs, this.#stream, options);
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
    const within = this.#within(source, making);
    const slotsIn = (address: bigint, { shape }: Transfer): DeviceArray => {
      const buffer = memoryAt(address, channels.slots * channels.slotBytes, this.#stream);
      return { buffer, dtype, shape, strides: stridesOf(shape, order), offset: 0 };
    };
    const lane = (transfer: Transfer, packed: "source" | "target", copy: (piece: Transfer) => DeviceCopy): Lane => {
      const pieces = this.#cut(channels, transfer, dtypeInfo(dtype).itemSize, order, packed, making);
      return { peer: transfer.peer, pieces, copies: pieces.map((piece) => copy(piece.transfer)) };
    };
    return [
      this.#inTurn(sends, 1).map((transfer) => {
        const slots = channels.slotsOf(rank, transfer.peer);
        return lane(
          transfer,
          "target",
          (piece) => this.#copy(source, slotsIn(slots, piece), piece, { peer: transfer.peer, ...within }),
        );
      }),
      this.#inTurn(receives, -1).map((transfer) => {
        const slots = channels.slotsOf(transfer.peer, rank);
        return lane(transfer, "source", (piece) => this.#copy(slotsIn(slots, piece), target, piece, within));
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

  /** A transfer in pieces for slots; both ends cut alike. The same list each time. */
  #cut(
    channels: DeviceChannels,
    transfer: Transfer,
    itemSize: number,
    order: Order,
    packed: Packed,
    making: Making | null,
  ): readonly Piece[] {
    const key = `${packed}/${transfer.peer}/${itemSize}/${order}/${making?.dimension}/${making?.parts}`;
    const known = this.#pieces.get(key);
    if (known !== undefined) return known;
    const bytes = sizeOfShape(transfer.shape) * itemSize;
    const wanted = Math.ceil(PIECES / (channels.size - 1));
    const most = Math.min(channels.slotBytes, Math.max(this.#sizes.leastBytes, Math.ceil(bytes / wanted)));
    const least = Math.floor(this.#sizes.leastBytes / itemSize);
    const parts = this.#partsOf(transfer, making, packed);
    const pieces = parts.flatMap((each, part) => {
      const list = piecesOf(each, Math.floor(most / itemSize), order, packed);
      const last = part === parts.length - 1 ? list.splice(-1) : [];
      return [...list, ...last.flatMap((piece) => halvesOf(piece, least, order, packed))]
        .map((transfer) => ({ part, use: 0, transfer }));
    });
    this.#pieces.set(key, pieces);
    return pieces;
  }

  /** What goes straight into the other ranks' parts. */
  #direct(
    source: LocalArray,
    target: SymmetricArray,
    making: Making | null,
    using: Using | null,
  ): [Lane[], Lane[]] {
    return [
      this.#inTurn(this.#plan.directSends, 1).map((transfer): Lane => {
        const { peer } = transfer;
        const pieces = this.#straight(transfer, making, using);
        const place = target.peer(peer);
        return { peer, pieces, copies: pieces.map((piece) => this.#copy(source, place, piece.transfer, { peer })) };
      }),
      this.#inTurn(this.#plan.receives, -1).map(({ peer }): Lane => ({ peer, pieces: [], copies: [] })),
    ];
  }

  /** A transfer in pieces that go straight into place. The same list each time. */
  #straight(transfer: Transfer, making: Making | null, using: Using | null): readonly Piece[] {
    const key = `${transfer.peer}/${making?.dimension}/${making?.parts}/${using?.dimension}/${using?.parts}`;
    const known = this.#pieces.get(key);
    if (known !== undefined) return known;
    const parts = this.#partsOf(transfer, making, null);
    const pieces = parts.flatMap((each, part) => {
      if (using === null || part < parts.length - 1) return [{ part, use: 0, transfer: each }];
      return partsAlong(each, using.dimension, using.parts, null).map((transfer, use) => ({ part, use, transfer }));
    });
    this.#pieces.set(key, pieces);
    return pieces;
  }
}

/** In the order of other streams: these go on when everything has moved. */
function inOrder(main: Stream, others: readonly Stream[], exchange: () => void): () => void {
  return () => {
    RunOrder.of(main).settle();
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
  for (const stream of [away, arrivals, credits]) stream.wait(main);
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
    for (const { peer, copies, pieces, index, piece } of leaving.flat()) {
      makeUpTo(pieces[index].part);
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

/**
 * The marks of this time: others' that this rank waits for, and its own. Those of arrays that are ready count as often as
 * arrays are written part by part.
 */
function begin({ channels, sends, receives, using }: Exchange) {
  const uses = Array.from({ length: using?.parts ?? 1 }, (_, use) => use);
  const counted = (lanes: readonly Lane[], kind: MarkKind) =>
    lanes.map(({ peer }) => ({ peer, values: uses.map(() => channels.next(kind, peer)) }));
  const [leaving, coming] = [counted(sends, "written"), counted(receives, "ready")];
  return {
    /** That this rank's memory may be written. */
    ready: coming.map(({ peer, values }) => channels.own("ready", peer, values.at(-1)!)),
    /** That the others' may. */
    mayWrite: leaving.map(({ peer, values }) => channels.from("ready", peer, values.at(-1)!)),
    /** That the others' was, by the part that can be used. */
    isWritten: uses.map((use) => leaving.map(({ peer, values }) => channels.own("written", peer, values[use]))),
    /** That this rank's was. */
    written: uses.map((use) => coming.map(({ peer, values }) => channels.from("written", peer, values[use]))),
  };
}

/** Everything goes straight into place, on one stream. */
function writeAtOnce(exchange: Exchange): void {
  const { channels, main, sends, stays } = exchange;
  const { ready, mayWrite, isWritten, written } = begin(exchange);
  channels.meet(main, ready, mayWrite);
  for (const { copies: [copy] } of sends) copy?.put(main);
  stays[0].put(main);
  channels.meet(main, isWritten[0], written[0]);
}

/**
 * Everything goes straight into place, once that is ready to be written: all ranks begin each part at the same time, and so go
 * on, each sending to another one. What stays is copied while the next part of a source is made. The last part travels by what
 * it is of the target, so that this can be used while the rest is on its way.
 */
function writeBeside(exchange: Exchange): void {
  const { channels, main, sends, stays, making, using } = exchange;
  const { copies: away, arrivals: beside } = channels.streams;
  const { ready, mayWrite, isWritten, written } = begin(exchange);
  channels.meet(main, ready, []);
  const last = (making?.parts ?? 1) - 1;
  for (let part = 0; part <= last; part++) {
    making?.make(part);
    for (const stream of [away, beside]) stream.wait(main);
    if (part === 0) channels.meet(away, [], mayWrite);
    else if (channels.size > 2) channels.meetAll(away);
    stays[part]?.put(beside);
    for (const [use, marks] of isWritten.entries()) {
      for (const { pieces, copies } of sends) {
        copies.forEach((copy, i) => {
          if (pieces[i].part === part && pieces[i].use === use) copy.put(away);
        });
      }
      if (part === last) channels.meet(away, marks, []);
    }
  }
  main.wait(beside);
  for (const [use, marks] of written.entries()) {
    channels.meet(main, [], marks);
    using?.use(use);
  }
  main.wait(away);
}

/** Memory that somebody else looks after. */
function memoryAt(address: bigint, byteLength: number, stream: Stream): DeviceMemory {
  return { address, byteLength, stream };
}

/** Where an array lies, and how. */
function placeOf({ address, dtype, shape, strides }: LocalArray): string {
  return `${address}/${dtype}/${shape}/${strides}`;
}
