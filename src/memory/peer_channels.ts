/**
 * Channels between the ranks of one machine: memory that both ends address, through which one end passes pieces to the
 * other, each written once and read once while it is in the caches.
 *
 * Each rank has a part of one window, with a channel to every other rank: a ring of slots, and how many pieces it has
 * passed to that rank and taken from it. The counts only grow, so that no channel is ever set back.
 *
 * @module
 */
import { libcFunctions, mayViewAddresses, viewOfAddress } from "../../ffi/memory.ts";
import { isWithoutMpi } from "../../ffi/mpi/mod.ts";
import { noteWaiting } from "../../ffi/waiting.ts";
import type { Communicator } from "../mpi/communicator.ts";
import { beforeMpiEnds, startMpi } from "../mpi/init_finalize.ts";
import { hasSpaceFor, MpiWindow } from "./mpi_window.ts";
import { reachableProcesses } from "./process_memory.ts";

/** A rank that has to wait for its core lets the others go on for so many pieces; a power of two. */
const SLOTS = 16;

/**
 * Bytes of all slots of a rank, if there is so much room. Writing again to what another core has just read, and still has in
 * its own caches, takes 4 times as long; after so many bytes it is out of them. Where all cores share a cache, what was
 * written is better read from there: 256^3 complex128 on 2 ranks takes 5 to 15 % less time with 4 MiB than with 16. Ranks that take turns
 * on a core should get all done in a turn: on 4 ranks and 2 cores it takes half the time with 64 MiB.
 */
const MOST_BYTES = 2 ** 24;
const MOST_SHARED_BYTES = 2 ** 22;
const MOST_BYTES_IN_TURNS = 2 ** 26;
const LEAST_BYTES = 2 ** 20;
const LEAST_SLOT_BYTES = 2 ** 12;
const PAGE_BYTES = 2 ** 12;

/** The counts of a channel, in a cache line each: what was passed to that rank, and what was taken from it. */
const PASSED = 0;
const TAKEN = 16;

/**
 * After them, for what a rank offers that one to read and for what it offers it to write: how often it has, where it lies,
 * and how often this rank has used what that one has offered.
 */
const OFFERS = 32;
const WORDS_OF_OFFER = 64;
const PLACE = 16;
const USED = 48;
const WORDS_OF_PEER = OFFERS + 2 * WORDS_OF_OFFER;

/** Dimensions that the place of an array may have. */
export const MOST_OFFERED_DIMENSIONS = (USED - PLACE) / 2 - 3;

/** The part of the window that belongs to one rank, as this rank sees it. */
interface Part {
  readonly memory: ArrayBuffer;
  readonly counts: Int32Array<ArrayBuffer>;
  readonly places: Float64Array<ArrayBuffer>;
}

/** One direction of a channel, on the rank that writes. */
export interface Outgoing {
  /** The memory that has the slots, of which the first begins at this byte. */
  readonly memory: ArrayBuffer;
  readonly start: number;
  /** The slot to write next, or -1 while the other rank has not taken what is in it. */
  free(): number;
  /** Pass on what was written. */
  pass(): void;
}

/** The other direction, on the rank that reads. */
export interface Incoming {
  /** The memory that has the slots, of which the first begins at this byte. */
  readonly memory: ArrayBuffer;
  readonly start: number;
  /** The slot to read next, or -1 while nothing was passed on. */
  filled(): number;
  /** It was read. */
  take(): void;
}

/** Whether the ranks of a channel read what is offered, or write it. */
export type Use = "read" | "write";

/** Where an array lies in the memory of another process; packed, or with these strides. */
export interface RemoteArray {
  readonly address: number;
  /** From there on. */
  readonly bytes: number;
  readonly strides: readonly number[] | null;
}

/** What this rank lets another one use of its memory. */
export interface Offering {
  /** From now on the other one may use this. */
  offer(place: RemoteArray): void;
  /** Whether it has done so. */
  isUsed(): boolean;
}

/** What another rank lets this one use of its memory. */
export interface Offered {
  /** Whether there is something that was not used yet. */
  isThere(): boolean;
  /** What. */
  place(): RemoteArray;
  /** It was used. */
  finish(): void;
}

/** The channels of a rank. */
export class PeerChannels {
  /** The bytes of a piece at most. */
  readonly slotBytes: number;
  /** The slots of a channel. */
  readonly slots = SLOTS;
  readonly #rank: number;
  readonly #parts: readonly Part[];
  /** The processes of all ranks, if they may copy from and to each other's memory. */
  readonly processes: readonly number[] | null;
  readonly #outgoing: Outgoing[] = [];
  readonly #incoming: Incoming[] = [];
  readonly #offering: Record<Use, Offering[]> = { read: [], write: [] };
  readonly #offered: Record<Use, Offered[]> = { read: [], write: [] };

  /** On memory that all ranks address, with one part a rank. */
  constructor(
    rank: number,
    slotBytes: number,
    memories: readonly ArrayBuffer[],
    processes: readonly number[] | null = null,
  ) {
    this.#rank = rank;
    this.processes = processes;
    this.slotBytes = slotBytes;
    this.#parts = memories.map((memory) => ({
      memory,
      counts: new Int32Array(memory, 0, memories.length * WORDS_OF_PEER),
      places: new Float64Array(memory, 0, memories.length * WORDS_OF_PEER / 2),
    }));
  }

  /** The way to another rank. */
  to(peer: number): Outgoing {
    return this.#outgoing[peer] ??= this.#open(peer);
  }

  /** The way from another rank. */
  from(peer: number): Incoming {
    return this.#incoming[peer] ??= this.#openFrom(peer);
  }

  #open(peer: number): Outgoing {
    const { memory, counts } = this.#parts[this.#rank];
    const taken = this.#parts[peer].counts;
    const [passedAt, takenAt] = [peer * WORDS_OF_PEER + PASSED, this.#rank * WORDS_OF_PEER + TAKEN];
    let count = counts[passedAt];
    return {
      memory,
      start: this.#startOf(peer),
      free: () => (count - Atomics.load(taken, takenAt) | 0) < SLOTS ? count & SLOTS - 1 : -1,
      pass: () => void Atomics.store(counts, passedAt, count = count + 1 | 0),
    };
  }

  #openFrom(peer: number): Incoming {
    const { memory, counts: passed } = this.#parts[peer];
    const { counts } = this.#parts[this.#rank];
    const [passedAt, takenAt] = [this.#rank * WORDS_OF_PEER + PASSED, peer * WORDS_OF_PEER + TAKEN];
    let count = counts[takenAt];
    return {
      memory,
      start: this.#startOf(this.#rank),
      filled: () => Atomics.load(passed, passedAt) !== count ? count & SLOTS - 1 : -1,
      take: () => void Atomics.store(counts, takenAt, count = count + 1 | 0),
    };
  }

  /** What another rank may use of this one's memory. */
  offering(peer: number, use: Use): Offering {
    return this.#offering[use][peer] ??= this.#openOffering(peer, use);
  }

  /** What this rank may use of another one's memory. */
  offered(peer: number, use: Use): Offered {
    return this.#offered[use][peer] ??= this.#openOffered(peer, use);
  }

  #openOffering(peer: number, use: Use): Offering {
    const { counts, places } = this.#parts[this.#rank];
    const used = this.#parts[peer].counts;
    const [at, usedAt] = [offerWord(peer, use), offerWord(this.#rank, use) + USED];
    let count = counts[at];
    return {
      offer({ address, bytes, strides }) {
        places.set([address, bytes, strides?.length ?? -1, ...strides ?? []], (at + PLACE) / 2);
        Atomics.store(counts, at, count = count + 1 | 0);
      },
      isUsed: () => Atomics.load(used, usedAt) === count,
    };
  }

  #openOffered(peer: number, use: Use): Offered {
    const { counts, places } = this.#parts[peer];
    const used = this.#parts[this.#rank].counts;
    const [at, usedAt] = [offerWord(this.#rank, use), offerWord(peer, use) + USED];
    const first = (at + PLACE) / 2;
    let count = used[usedAt];
    return {
      isThere: () => Atomics.load(counts, at) !== count,
      place() {
        const [address, bytes, dimensions] = places.subarray(first, first + 3);
        const strides = dimensions < 0 ? null : [...places.subarray(first + 3, first + 3 + dimensions)];
        return { address, bytes, strides };
      },
      finish: () => void Atomics.store(used, usedAt, count = count + 1 | 0),
    };
  }

  #startOf(peer: number): number {
    return headerBytes(this.#parts.length) + peer * SLOTS * this.slotBytes;
  }
}

function offerWord(peer: number, use: Use): number {
  return peer * WORDS_OF_PEER + OFFERS + (use === "read" ? 0 : WORDS_OF_OFFER);
}

function headerBytes(ranks: number): number {
  return Math.ceil(ranks * WORDS_OF_PEER * 4 / PAGE_BYTES) * PAGE_BYTES;
}

/** The bytes of a slot if all slots of a rank have about so many. */
function slotBytesFor(ranks: number, bytes: number): number {
  const perSlot = bytes / (SLOTS * Math.max(1, ranks - 1));
  return Math.max(LEAST_SLOT_BYTES, Math.floor(perSlot / PAGE_BYTES) * PAGE_BYTES);
}

/** All that a rank needs. Its part of the window need not begin at a page. */
function partBytesFor(ranks: number, slotBytes: number): number {
  return headerBytes(ranks) + ranks * SLOTS * slotBytes + PAGE_BYTES;
}

const CORES_FOLDER = "/sys/devices/system/cpu";

/** Whether all cores of this machine share a third-level cache, if Linux tells, and this process may read it unasked. */
function coresShareCache(): boolean {
  if (Deno.permissions.querySync({ name: "read", path: CORES_FOLDER }).state !== "granted") return false;
  const told = (file: string) => Deno.readTextFileSync(`${CORES_FOLDER}/${file}`);
  try {
    return told("cpu0/cache/index3/shared_cpu_list") === told("online");
  } catch {
    return false;
  }
}

/** How many bytes the slots of a rank have at most. */
function mostBytes(ranks: number): number {
  if (ranks > navigator.hardwareConcurrency) return MOST_BYTES_IN_TURNS;
  return coresShareCache() ? MOST_SHARED_BYTES : MOST_BYTES;
}

/** The bytes of a slot for which there is twice the room that they need; 0 if there is none. */
function roomForSlots(ranks: number): number {
  for (let bytes = mostBytes(ranks); bytes >= LEAST_BYTES; bytes /= 2) {
    const slotBytes = slotBytesFor(ranks, bytes);
    if (hasSpaceFor(ranks, 2 * partBytesFor(ranks, slotBytes))) return slotBytes;
  }
  return 0;
}

const opened = new WeakMap<Communicator, PeerChannels | null>();

/** Whether more ranks than there are cores have channels. */
let isCrowded = false;

/** The channels of a communicator if they were opened, or `null` if there can be none; else `undefined`. Local. */
export function openedChannels(communicator: Communicator): PeerChannels | null | undefined {
  return opened.get(communicator);
}

/**
 * The channels of a communicator, made by the first call; `null` on all ranks where these are on several machines, may not
 * look at each other's memory, have no room for it, or no MPI that would share it. Collective.
 */
export function openChannels(communicator: Communicator): PeerChannels | null {
  const known = opened.get(communicator);
  if (known !== undefined) return known;
  const channels = makeChannels(communicator);
  opened.set(communicator, channels);
  return channels;
}

function makeChannels(communicator: Communicator): PeerChannels | null {
  const { rank, size } = communicator;
  const shared = communicator.splitShared();
  const mayShare = shared.size === size && mayViewAddresses() && !isWithoutMpi();
  shared.free();
  isCrowded ||= size > navigator.hardwareConcurrency;
  const [slotBytes] = communicator.allReduce(Int32Array.of(mayShare ? roomForSlots(size) : 0), { op: "min" });
  if (slotBytes === 0) return null;
  const partBytes = partBytesFor(size, slotBytes);
  const window = new MpiWindow(communicator, partBytes, headerBytes(size) + PAGE_BYTES);
  // Open MPI's parts begin between cache lines: copies to such places take longer.
  const memories = Array.from({ length: size }, (_, peer) => {
    const address = peer === rank ? window.address : window.peerAddress(peer);
    return viewOfAddress(atPage(address), partBytes - PAGE_BYTES);
  });
  beforeMpiEnds(() => {
    for (const memory of memories) memory.transfer();
    window.free();
  });
  return new PeerChannels(rank, slotBytes, memories, reachableProcesses(communicator));
}

function atPage(address: bigint): bigint {
  const page = BigInt(PAGE_BYTES);
  return (address + page - 1n) / page * page;
}

const waits = { forPeers };
noteWaiting(waits, { forPeers: "a redistribution through shared memory" });

/**
 * How often the core is only offered to others; after that this process sleeps between its looks. Where each rank has a core
 * nobody needs it, and who waits for one that sleeps would soon sleep, too, and so on by turns: there it takes a millisecond.
 */
const YIELDS = 100;
const AWAKE_MILLISECONDS = 1;
const SLEEP_MILLISECONDS = 0.1;
const LOOKS_BETWEEN_MESSAGES = 16;
let sched: { sched_yield: () => number } | undefined;
const never = new Int32Array(new SharedArrayBuffer(4));
const nothing = { flag: new Int32Array(1), status: new Int32Array(16) };

/**
 * Let other processes work until another rank has. Where more of them want to work than there are cores, one that sleeps
 * comes back sooner than one that has used up its share by looking. MPI goes on as well: what it still has to send, a peer
 * may wait for.
 */
function forPeers(isReady: () => boolean): void {
  const { sched_yield } = sched ??= libcFunctions({ sched_yield: { parameters: [], result: "i32" } });
  const { symbols, constants: { anySource, anyTag, self } } = startMpi();
  const start = performance.now();
  const mayStay = () => !isCrowded && performance.now() - start < AWAKE_MILLISECONDS;
  for (let looks = 1; !isReady(); looks++) {
    if (looks < YIELDS || mayStay()) sched_yield();
    else Atomics.wait(never, 0, 0, SLEEP_MILLISECONDS);
    if (looks % LOOKS_BETWEEN_MESSAGES === 0) symbols.MPI_Iprobe(anySource, anyTag, self, nothing.flag, nothing.status);
  }
}

/** How often it is looked without giving the core to others. */
const LOOKS = 1_000;

/** Wait until `isReady`. Other ranks make it so. */
export function waitForPeers(isReady: () => boolean): void {
  for (let looks = 0; looks < LOOKS; looks++) if (isReady()) return;
  waits.forPeers(isReady);
}
