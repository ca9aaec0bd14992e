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
import type { DeviceChannels, MarkKind } from "../../memory/device_channels.ts";
import type { Mark } from "../../gpu/kernels/meeting_kernel.ts";
import { type DeviceArray, type DeviceCopy, prepareDeviceCopy } from "../device_elements.ts";
import { type Order, sizeOfShape, stridesOf } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { SymmetricArray } from "../symmetric_array.ts";
import { type Packed, piecesOf } from "./pieces.ts";
import type { RedistributionPlan, Transfer } from "./plan.ts";

/** A block goes in so many pieces, unless they would be smaller than a link takes to come to speed, or larger than a slot. */
const PIECES = 4;
const LEAST_BYTES = 2 ** 22;

/** What was prepared for two arrays, which it does not keep alive. */
interface Prepared {
  readonly source: WeakRef<LocalArray>;
  readonly target: WeakRef<LocalArray>;
  readonly order: Order;
  readonly tables: readonly DeviceBuffer[];
  readonly move: () => void;
}

/** The pieces that go one way between this rank and another. */
interface Lane {
  readonly peer: number;
  readonly copies: readonly DeviceCopy[];
}

/** Moves elements between GPUs of one machine. It keeps its index lists, and what it prepared last. */
export class PeerExecutor {
  readonly #plan: RedistributionPlan;
  readonly #stream: Stream;
  readonly #leastBytes: number;
  readonly #pieces = new Map<string, readonly Transfer[]>();
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
  ): () => void {
    channels.check();
    const last = this.#last;
    const isKnown = last?.source.deref() === source && last.target.deref() === target && last.order === order;
    // Ranks that did not agree have freed what they had allocated.
    if (isKnown && last.tables.every(({ isFreed }) => !isFreed)) return last.move;
    const stays = this.#copy(source, target, this.#plan.stays);
    const [sends, receives] = isDirect && target instanceof SymmetricArray
      ? this.#direct(source, target)
      : this.#staged(channels, source, target, order);
    const tables = [stays, ...[...sends, ...receives].flatMap(({ copies }) => copies)].flatMap((copy) => copy.tables);
    for (const table of tables) this.#tables.add(table);
    const exchange = isDirect ? exchangeDirectly : exchangeThroughSlots;
    const move = inOrder(
      this.#stream,
      channels,
      [source.buffer.stream, target.buffer.stream],
      () => exchange(channels, this.#stream, sends, receives, stays),
    );
    this.#last = { source: new WeakRef(source), target: new WeakRef(target), order, tables, move };
    return move;
  }

  /** Give the index lists back. */
  free(): void {
    this.#last = null;
    for (const table of this.#tables) table.free();
    this.#tables.clear();
  }

  #copy(source: DeviceArray, target: DeviceArray, { runs }: Transfer, isRemote = false): DeviceCopy {
    return prepareDeviceCopy(source, target, runs, this.#stream, isRemote);
  }

  /** The next rank first, so that not all of them send to the same one. */
  #inTurn(transfers: readonly Transfer[]): Transfer[] {
    const { rank, from } = this.#plan;
    const size = from.size!;
    return transfers.toSorted((a, b) => (a.peer - rank + size) % size - (b.peer - rank + size) % size);
  }

  /** The pieces that go through slots. */
  #staged(channels: DeviceChannels, source: LocalArray, target: LocalArray, order: Order): [Lane[], Lane[]] {
    const { dtype } = source;
    const { rank, sends, receives } = this.#plan;
    const slotsIn = (address: bigint, { shape }: Transfer): DeviceArray => {
      const buffer = memoryAt(address, channels.slots * channels.slotBytes, this.#stream);
      return { buffer, dtype, shape, strides: stridesOf(shape, order), offset: 0 };
    };
    return [
      this.#inTurn(sends).map((transfer): Lane => {
        const slots = channels.slotsOf(rank, transfer.peer);
        const pieces = this.#cut(channels, transfer, source, order, "target");
        return {
          peer: transfer.peer,
          copies: pieces.map((piece) => this.#copy(source, slotsIn(slots, piece), piece, true)),
        };
      }),
      this.#inTurn(receives).map((transfer): Lane => {
        const slots = channels.slotsOf(transfer.peer, rank);
        const pieces = this.#cut(channels, transfer, source, order, "source");
        return { peer: transfer.peer, copies: pieces.map((piece) => this.#copy(slotsIn(slots, piece), target, piece)) };
      }),
    ];
  }

  /** A transfer in pieces; both ends cut alike. The same list each time, since index lists on the GPU belong to it. */
  #cut(
    channels: DeviceChannels,
    transfer: Transfer,
    { dtype }: LocalArray,
    order: Order,
    packed: Packed,
  ): readonly Transfer[] {
    const { itemSize } = dtypeInfo(dtype);
    const key = `${packed}/${transfer.peer}/${itemSize}/${order}`;
    const known = this.#pieces.get(key);
    if (known !== undefined) return known;
    const bytes = sizeOfShape(transfer.shape) * itemSize;
    const most = Math.min(channels.slotBytes, Math.max(this.#leastBytes, Math.ceil(bytes / PIECES)));
    const pieces = piecesOf(transfer, Math.floor(most / itemSize), order, packed);
    this.#pieces.set(key, pieces);
    return pieces;
  }

  /** What goes straight into the other ranks' parts. */
  #direct(source: LocalArray, target: SymmetricArray): [Lane[], Lane[]] {
    return [
      this.#inTurn(this.#plan.directSends).map((transfer): Lane => (
        { peer: transfer.peer, copies: [this.#copy(source, target.peer(transfer.peer), transfer, true)] }
      )),
      this.#inTurn(this.#plan.receives).map(({ peer }): Lane => ({ peer, copies: [] })),
    ];
  }
}

/** In the order of other streams: these go on when everything has moved. */
function inOrder(main: Stream, { link }: DeviceChannels, streams: readonly Stream[], exchange: () => void): () => void {
  return () => {
    for (const stream of streams) main.wait(stream);
    link.wait(main);
    exchange();
    main.wait(link);
    for (const stream of streams) stream.wait(main);
  };
}

/**
 * Pieces go into slots on the one stream, and from slots into place on the other. A round's pieces leave before those of the
 * round before are taken, so that nobody waits for what has not been queued, in whatever order streams run.
 */
function exchangeThroughSlots(
  channels: DeviceChannels,
  main: Stream,
  sends: readonly Lane[],
  receives: readonly Lane[],
  stays: DeviceCopy,
): void {
  const { link, slots, slotBytes } = channels;
  const shiftOf = (piece: number) => BigInt((piece - 1) % slots * slotBytes);
  const [away, here] = [new Marks(channels, link), new Marks(channels, main)];
  const rounds = Math.max(0, ...[...sends, ...receives].map(({ copies }) => copies.length));
  const send = (round: number) => {
    const open = sends.filter(({ copies }) => round < copies.length);
    for (const { peer, copies } of open) {
      const piece = channels.next("passed", peer);
      away.await("taken", peer, piece - slots);
      copies[round].put(link, 0n, shiftOf(piece));
      away.raise("passed", peer, piece);
    }
    if (open.length === 0) away.flush();
  };
  send(0);
  stays.put(main);
  for (let round = 0; round < rounds; round++) {
    send(round + 1);
    for (const { peer, copies } of receives) {
      if (round >= copies.length) continue;
      const piece = channels.next("taken", peer);
      here.await("passed", peer, piece);
      copies[round].put(main, shiftOf(piece), 0n);
      here.raise("taken", peer, piece);
    }
  }
  here.flush();
}

/** Everything goes straight into place, once that is ready to be written. */
function exchangeDirectly(
  channels: DeviceChannels,
  main: Stream,
  sends: readonly Lane[],
  receives: readonly Lane[],
  stays: DeviceCopy,
): void {
  const [away, here] = [new Marks(channels, channels.link), new Marks(channels, main)];
  const arrivals = receives.map(({ peer }) => ({ peer, value: channels.next("ready", peer) }));
  for (const { peer, value } of arrivals) here.raise("ready", peer, value);
  here.flush();
  for (const { peer, copies: [copy] } of sends) {
    const value = channels.next("written", peer);
    away.await("ready", peer, value);
    copy.put(channels.link);
    away.raise("written", peer, value);
  }
  away.flush();
  stays.put(main);
  for (const { peer, value } of arrivals) here.await("written", peer, value);
}

/** Raising and awaiting marks on a stream: what is raised last goes along with what is awaited next. */
class Marks {
  readonly #channels: DeviceChannels;
  readonly #stream: Stream;
  #raised: { mark: Mark; peer: number } | null = null;

  constructor(channels: DeviceChannels, stream: Stream) {
    this.#channels = channels;
    this.#stream = stream;
  }

  raise(kind: MarkKind, peer: number, value: number): void {
    this.flush();
    this.#raised = { mark: this.#channels.own(kind, peer, value), peer };
  }

  await(kind: MarkKind, peer: number, least: number): void {
    const mark = least > 0 ? this.#channels.from(kind, peer, least) : null;
    this.#channels.meet(this.#stream, this.#raised?.mark ?? null, mark, peer);
    this.#raised = null;
  }

  flush(): void {
    if (this.#raised) this.#channels.meet(this.#stream, this.#raised.mark, null, this.#raised.peer);
    this.#raised = null;
  }
}

/** Memory that somebody else looks after. */
function memoryAt(address: bigint, byteLength: number, stream: Stream): DeviceMemory {
  return { address, byteLength, stream };
}
