/**
 * Executing a redistribution between the GPUs of one machine, which address each other's memory: elements go straight into
 * the target where that is symmetric memory, else through slots, from which they are brought into place while the next piece
 * is on its way.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { RunOrder } from "../../gpu/run_order.ts";
import type { Stream } from "../../gpu/stream.ts";
import type { DeviceBuffer, DeviceMemory } from "../../memory/device_buffer.ts";
import type { DeviceChannels } from "../../memory/device_channels.ts";
import { type DeviceCopy, prepareDeviceCopy } from "../on_device/copies.ts";
import type { DeviceArray } from "../on_device/device_array.ts";
import { type Order, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { SymmetricArray } from "../symmetric_array.ts";
import { type Block, MOST_RANKS_AT_ONCE, preparePassing, prepareWriting, type Ready } from "./at_once.ts";
import { type Exchange, type Lane, passBeside, type Piece, writeBeside } from "./by_pieces.ts";
import type { Laid } from "./gpu_executor.ts";
import type { Making, Using } from "./making_executor.ts";
import { halvesOf, type Packed, partsAlong, piecesOf } from "./pieces.ts";
import type { RedistributionPlan, Transfer } from "./plan.ts";

/**
 * What a rank sends goes in so many pieces, none larger than a slot. More of them, or smaller ones, would have links wait for
 * the host: 8 took 1 to 3 % longer for parts of 512 MiB on two H200s, 12 took 2 to 6 %.
 */
const PIECES = 4;
const LEAST_BYTES = 2 ** 24;

/**
 * Parts of fewer bytes, if they fit a slot, are moved at once, by kernels that wait for other ranks themselves: on two H200s
 * from slabs to slabs of a 4096^2 matrix of float32 in 85 us in place of 190 to 250, of 5792^2 in 150 in place of 160 to 270.
 */
const SMALL_BYTES = 2 ** 27;

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
   * Everything is put on the stream, and on those of the channels unless it moves at once, as parts of fewer than `smallBytes`
   * do. No piece is cut to less than `leastBytes`.
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
    const ready = this.#isAtOnce(channels, source, isDirect, making)
      ? this.#atOnce(channels, source, target, order, isDirect)
      : this.#beside(channels, source, target, order, isDirect, making, using);
    for (const table of ready.tables) this.#tables.add(table);
    const move = inOrder(this.#stream, streams, ready.move);
    if (making === null) this.#last = { key, direct, streams, tables: ready.tables, move };
    return move;
  }

  /** Have the index lists for parts that will lie so, and go through slots. Local. */
  reserve(channels: DeviceChannels, source: Laid, target: Laid, order: Order): void {
    const [from, to] = [source, target].map((laid): DeviceArray => (
      { ...laid, shape: [], buffer: memoryAt(0n, 0, this.#stream) }
    ));
    const { tables } = this.#isAtOnce(channels, from, false, null)
      ? this.#atOnce(channels, from, to, order, false)
      : this.#beside(channels, from, to, order, false, null, null);
    for (const table of tables) this.#tables.add(table);
  }

  /** Give the index lists back. */
  free(): void {
    this.#last = null;
    for (const table of this.#tables) table.free();
    this.#tables.clear();
  }

  /** Whether one kernel does all of it at a time: the same on all ranks. */
  #isAtOnce(
    { size, slotBytes }: DeviceChannels,
    { dtype }: DeviceArray,
    isDirect: boolean,
    making: Making | null,
  ): boolean {
    const bytes = this.#plan.largestPart * dtypeInfo(dtype).itemSize;
    const fits = bytes < this.#sizes.smallBytes && (isDirect || bytes <= slotBytes);
    return making === null && fits && size <= MOST_RANKS_AT_ONCE;
  }

  #atOnce(
    channels: DeviceChannels,
    source: DeviceArray,
    target: DeviceArray,
    order: Order,
    isDirect: boolean,
  ): Ready {
    const { rank, stays, sends, directSends, receives } = this.#plan;
    const main = this.#stream;
    const kept: Block = { peer: rank, source, target, runs: stays.runs };
    const writers = this.#inTurn(receives, -1);
    if (isDirect && target instanceof SymmetricArray) {
      const leaving = this.#inTurn(directSends, 1).map(({ peer, runs }): Block => (
        { peer, source, target: target.peer(peer), runs }
      ));
      return prepareWriting(channels, main, [...leaving, kept], writers.map(({ peer }) => peer));
    }
    const { dtype } = source;
    const leaving = this.#inTurn(sends, 1).map((transfer): Block => (
      { ...transfer, source, target: this.#slots(channels, rank, transfer.peer, transfer, dtype, order) }
    ));
    const coming = writers.map((transfer): Block => (
      { ...transfer, source: this.#slots(channels, transfer.peer, rank, transfer, dtype, order), target }
    ));
    return preparePassing(channels, main, [...leaving, kept], coming);
  }

  #beside(
    channels: DeviceChannels,
    source: DeviceArray,
    target: DeviceArray,
    order: Order,
    isDirect: boolean,
    making: Making | null,
    using: Using | null,
  ): Ready {
    const within = this.#within(making);
    const stays = this.#partsOf(this.#plan.stays, making, null).map((part) => this.#copy(source, target, part, within));
    const [sends, receives] = isDirect && target instanceof SymmetricArray
      ? this.#direct(source, target, making, using)
      : this.#staged(channels, source, target, order, making);
    const copies = [...sends, ...receives].flatMap((lane) => lane.copies);
    const exchange: Exchange = { channels, main: this.#stream, sends, receives, stays, making, using };
    return {
      move: () => isDirect ? writeBeside(exchange) : passBeside(exchange),
      tables: [...stays, ...copies].flatMap((copy) => copy.tables),
    };
  }

  /** A piece in the slots from one rank to another. */
  #slots(
    channels: DeviceChannels,
    sender: number,
    receiver: number,
    { shape }: Transfer,
    dtype: DType,
    order: Order,
  ): DeviceArray {
    const bytes = channels.slots * channels.slotBytes;
    const buffer = memoryAt(channels.slotsOf(sender, receiver), bytes, this.#stream);
    return { buffer, dtype, shape, strides: stridesOf(shape, order), offset: 0 };
  }

  /** How copies within this GPU's memory are made: beside those between GPUs, unless these wait for other work. */
  #within(making: Making | null): { mostBlocks?: number } {
    return making !== null ? {} : { mostBlocks: BLOCKS_BESIDE };
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
    const within = this.#within(making);
    const slots = (sender: number, receiver: number, piece: Transfer) =>
      this.#slots(channels, sender, receiver, piece, dtype, order);
    const lane = (transfer: Transfer, packed: "source" | "target", copy: (piece: Transfer) => DeviceCopy): Lane => {
      const pieces = this.#cut(channels, transfer, dtypeInfo(dtype).itemSize, order, packed, making);
      return { peer: transfer.peer, pieces, copies: pieces.map((piece) => copy(piece.transfer)) };
    };
    return [
      this.#inTurn(sends, 1).map((transfer) => {
        const { peer } = transfer;
        return lane(
          transfer,
          "target",
          (piece) => this.#copy(source, slots(rank, peer, piece), piece, { peer, ...within }),
        );
      }),
      this.#inTurn(receives, -1).map((transfer) =>
        lane(transfer, "source", (piece) => this.#copy(slots(transfer.peer, rank, piece), target, piece, within))
      ),
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
    source: DeviceArray,
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

/** Memory that somebody else looks after. */
function memoryAt(address: bigint, byteLength: number, stream: Stream): DeviceMemory {
  return { address, byteLength, stream };
}

/** Where an array lies, and how. */
function placeOf({ address, dtype, shape, strides }: LocalArray): string {
  return `${address}/${dtype}/${shape}/${strides}`;
}
