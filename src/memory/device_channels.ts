/**
 * Channels between the GPUs of one machine: memory that all of them address, through which one passes pieces to another.
 *
 * Each rank has a part, with a ring of slots for every other rank, which that rank writes, and marks that say how far both
 * are. The marks only grow, so that nothing is ever set back. Who passes a piece waits until its slot was taken; who takes
 * one waits until it was passed: both on streams, so that the host goes on.
 *
 * @module
 */
import { checkCuda, CudaHostFlags, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { mayViewAddresses, viewOfAddress } from "../../ffi/memory.ts";
import { CollectiveError, ConfigurationError } from "../errors.ts";
import { type Mark, meet, type MeetingLimit } from "../gpu/kernels/meeting_kernel.ts";
import { Stream } from "../gpu/stream.ts";
import { patienceFor } from "../gpu/waiting.ts";
import type { Communicator } from "../mpi/communicator.ts";
import { beforeMpiEnds } from "../mpi/init_finalize.ts";
import { agree, type Agreeing } from "../runtime/agreement.ts";
import { callJointly } from "../runtime/joint_call.ts";
import { recordSpan } from "../runtime/recorder.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { openNcclWindows } from "./nccl_window.ts";
import type { SymmetricBlock } from "./symmetric_heap.ts";

/** A piece is passed while earlier ones are taken. */
const SLOTS = 4;

/** All slots of a rank take this much of its GPU's memory, and at most so many bytes. */
const SHARE_OF_MEMORY = 256;
const MOST_BYTES = 1.5 * 2 ** 28;
const SLOT_ALIGNMENT = 2 ** 12;

/** How long another rank is waited for, about, if the time limit of the runtime is no longer. */
const PATIENCE_SECONDS = 60;

const CYCLES_PER_SECOND = 2e9;

/** The marks that one rank raises in another's memory, in a cache line each. */
const MARK_BYTES = 128;
const MARKS = { passed: 0, taken: 1, ready: 2, written: 3, begun: 4 } as const;
/** After its marks come words in which this rank's kernels count what they do for a peer, or for all together. */
const COUNTERS = { leaving: 0, coming: 8, turns: 16, ended: 24 } as const;
const COUNTERS_LINE = 5;
const LINES_OF_PEER = 6;

/** What the marks say: pieces passed, pieces taken; arrays ready to be written, arrays written; parts that are about to leave. */
export type MarkKind = keyof typeof MARKS;

/**
 * The streams of what leaves a GPU, and of what arrives: copies follow each other without a pause, since what they wait for,
 * and what tells of them, is on streams of its own.
 */
export interface LinkStreams {
  readonly arrivals: Stream;
  readonly copies: Stream;
  readonly credits: Stream;
  readonly notices: Stream;
}

/** The channels of a rank. */
export class DeviceChannels {
  /** The bytes of a piece at most. */
  readonly slotBytes: number;
  /** The slots of a channel. */
  readonly slots = SLOTS;
  /** The streams of what leaves this GPU, and of what arrives. */
  readonly streams: LinkStreams;
  /** This rank. */
  readonly rank: number;
  readonly #parts: readonly bigint[];
  readonly #patience: MeetingLimit;
  readonly #patienceSeconds: number;
  readonly #failure: BigInt64Array<ArrayBuffer>;
  /** How far this rank's side of each mark is, by kind and peer. */
  readonly #counts: Record<MarkKind, number[]>;

  /** On parts of memory that all ranks address; `failure` is a word of pinned memory. */
  constructor(
    rank: number,
    slotBytes: number,
    parts: readonly bigint[],
    streams: LinkStreams,
    failure: bigint,
    patienceSeconds: number,
  ) {
    this.rank = rank;
    this.slotBytes = slotBytes;
    this.streams = streams;
    this.#parts = parts;
    this.#patienceSeconds = patienceSeconds;
    this.#patience = { cycles: BigInt(Math.round(patienceSeconds * CYCLES_PER_SECOND)), failure };
    this.#failure = new BigInt64Array(viewOfAddress(failure, 8));
    this.#failure[0] = 0n;
    const none = () => parts.map(() => 0);
    this.#counts = { passed: none(), taken: none(), ready: none(), written: none(), begun: none() };
  }

  /**
   * Refuse to go on after another rank was waited for in vain: everything since then is wrong.
   *
   * @throws {CollectiveError} then.
   */
  check(): void {
    const [word] = this.#failure;
    if (word === 0n) return;
    const peer = Number(word) - 1;
    throw new CollectiveError(
      `Rank ${this.rank} waited ${this.#patienceSeconds} s for elements from rank ${peer}, in vain. Look whether that rank has ` +
        `failed or is late; start the job again.`,
      { ranks: [peer] },
    );
  }

  /** The number of ranks. */
  get size(): number {
    return this.#parts.length;
  }

  /** Where slot 0 of the channel from one rank to another lies, for this rank. */
  slotsOf(sender: number, receiver: number): bigint {
    const index = (sender - receiver - 1 + this.size) % this.size;
    return this.#parts[receiver] + BigInt(headerBytes(this.size) + index * SLOTS * this.slotBytes);
  }

  /** How far behind slot 0 the slot for the piece of this number begins. */
  slotShift(piece: number): bigint {
    return BigInt((piece - 1) % SLOTS * this.slotBytes);
  }

  /** The next value of one of this rank's marks, or of one that another rank raises here. */
  next(kind: MarkKind, peer: number): number {
    return ++this.#counts[kind][peer];
  }

  /** A mark of this rank, in another's memory. */
  own(kind: MarkKind, peer: number, value: number): Mark {
    return this.#mark(peer, this.rank, kind, value);
  }

  /** A mark of another rank, in this one's memory. */
  from(kind: MarkKind, peer: number, value: number): Mark {
    return this.#mark(this.rank, peer, kind, value);
  }

  /** 8 bytes in which kernels of this rank count, for another one or for itself: 0 between kernels. */
  counter(kind: keyof typeof COUNTERS, peer: number = this.rank): bigint {
    return this.#line(this.rank, peer, COUNTERS_LINE) + BigInt(COUNTERS[kind]);
  }

  /** How long kernels wait for other ranks. */
  get patience(): MeetingLimit {
    return this.#patience;
  }

  /** Put on a stream: raise marks, then wait for others. */
  meet(stream: Stream, raised: readonly Mark[], awaited: readonly Mark[]): void {
    const put = () => meet(stream, raised, awaited, this.#patience);
    if (awaited.length === 0) return put();
    const label = `for rank${awaited.length === 1 ? "" : "s"} ${awaited.map(({ peer }) => peer).join(", ")}`;
    recordSpan(stream, { kind: "wait", label }, put);
  }

  /** Put on a stream: wait until all ranks have come so far, each as often. */
  meetAll(stream: Stream): void {
    const peers = this.#parts.map((_, peer) => peer).filter((peer) => peer !== this.rank);
    const values = peers.map((peer) => ({ peer, value: this.next("begun", peer) }));
    this.meet(
      stream,
      values.map(({ peer, value }) => this.own("begun", peer, value)),
      values.map(({ peer, value }) => this.from("begun", peer, value)),
    );
  }

  #mark(holder: number, raiser: number, kind: MarkKind, value: number): Mark {
    const peer = holder === this.rank ? raiser : holder;
    return { address: this.#line(holder, raiser, MARKS[kind]), value: BigInt(value), peer };
  }

  #line(holder: number, raiser: number, line: number): bigint {
    return this.#parts[holder] + BigInt((raiser * LINES_OF_PEER + line) * MARK_BYTES);
  }
}

function headerBytes(ranks: number): number {
  return Math.ceil(ranks * LINES_OF_PEER * MARK_BYTES / SLOT_ALIGNMENT) * SLOT_ALIGNMENT;
}

const opened = new WeakMap<Communicator, DeviceChannels | null>();

/** The channels of a runtime's GPUs if they were opened, or `null` if there can be none; else `undefined`. Local. */
export function openedDeviceChannels({ communicator }: Runtime): DeviceChannels | null | undefined {
  return opened.get(communicator);
}

/**
 * The channels of a runtime's GPUs, made by the first call; `null` on all ranks where these are on several machines, or
 * cannot address each other's memory. Collective.
 */
export function openDeviceChannels(runtime: Runtime): DeviceChannels | null {
  const known = opened.get(runtime.communicator);
  if (known !== undefined) return known;
  const channels = makeDeviceChannels(runtime, Math.min(MOST_BYTES, runtime.device.memoryBytes / SHARE_OF_MEMORY));
  opened.set(runtime.communicator, channels);
  beforeMpiEnds(() => opened.delete(runtime.communicator));
  return channels;
}

/** New channels, whose slots have about so many bytes together on each rank. Collective, as {@linkcode openDeviceChannels}. */
export function makeDeviceChannels(
  runtime: Runtime,
  bytes: number,
  patienceSeconds = patienceFor(runtime, PATIENCE_SECONDS),
): DeviceChannels | null {
  const { communicator, rank, size, localSize } = runtime;
  if (size === 1) return null;
  const subject: Agreeing = { communicator, checks: "collective" };
  const mayShare = localSize === size && mayViewAddresses();
  const mine = !mayShare ? 0 : Math.floor(bytes / (SLOTS * (size - 1)) / SLOT_ALIGNMENT) * SLOT_ALIGNMENT;
  const [slotBytes] = communicator.allReduce(Int32Array.of(mine), { op: "min" });
  if (slotBytes === 0) return null;
  const block = makeBlock(runtime, subject, headerBytes(size) + (size - 1) * SLOTS * slotBytes);
  if (block === null) return null;
  const addresses = Array.from({ length: size }, (_, peer) => peerAddress(block, peer));
  const [isOpen] = communicator.allReduce(Int32Array.of(addresses.includes(0n) ? 0 : 1), { op: "min" });
  if (isOpen === 0) {
    block.free();
    return null;
  }
  const failure = new BigUint64Array(1);
  let streams!: LinkStreams;
  agree(subject, "redistribute", () => {
    const { symbols } = openCudaRuntime();
    checkCuda(symbols.cudaHostAlloc(failure, 8n, CudaHostFlags.AllocDefault), "cudaHostAlloc");
    // Kernels that meet do nothing, but others wait for them: they go before those that copy.
    const make = (name: string, priority: number) => new Stream(runtime.stream!.device, { priority, name });
    streams = {
      arrivals: make("arrivals", -1),
      copies: make("copies", -2),
      credits: make("credits", -2),
      notices: make("notices", -2),
    };
  });
  beforeMpiEnds(() => {
    block.free();
    for (const stream of Object.values(streams)) stream[Symbol.dispose]();
    openCudaRuntime().symbols.cudaFreeHost(failure[0]);
  });
  return new DeviceChannels(rank, slotBytes, addresses, streams, failure[0], patienceSeconds);
}

/** Memory that all ranks address; null on all of them if there is none. */
function makeBlock(runtime: Runtime, subject: Agreeing, bytes: number): SymmetricBlock | null {
  try {
    const heap = openNcclWindows(runtime, subject);
    let allocate!: () => SymmetricBlock;
    agree(subject, "redistribute", () => void (allocate = heap.prepare(bytes)));
    let block!: SymmetricBlock;
    callJointly(subject, "redistribute", () => void (block = allocate()));
    return block;
  } catch (error) {
    if (error instanceof ConfigurationError) return null;
    throw error;
  }
}

/** 0 if this rank cannot address another one's memory. */
function peerAddress(block: SymmetricBlock, peer: number): bigint {
  try {
    return block.peerAddress(peer);
  } catch (error) {
    if (error instanceof ConfigurationError) return 0n;
    throw error;
  }
}
