/**
 * The memory that all ranks of one machine address while they multiply: flags, and windows that take turns by the parity
 * of the call. Products on the same ranks share it, in any order, as `check.ts` shows: nobody ends a call before all
 * others have begun it.
 *
 * @module
 */
import { libcFunctions } from "../../../../ffi/memory.ts";
import { noteWaiting } from "../../../../ffi/waiting.ts";

/** Memory of all ranks, as a rank sees it: zeros before the first call. */
export interface SharedMemory {
  /** A rank's part, for reading and writing. */
  peerHost(rank: number): ArrayBuffer;
  /** Where it lies. */
  peerAddress(rank: number): bigint;
}

/** Each flag has a line of the caches for itself. */
const FLAG_WORDS = 16;
const PARITIES = 2;

/** How often a flag is looked at before others may have the core. */
const PATIENT_LOOKS = 2000;

/** How many times the core is given away before MPI is asked to go on with what others may need. */
const TURNS_BETWEEN_PROGRESS = 256;

/** Bytes of one rank's part of the memory: the flags, and two windows. */
export function sharedBytes(flags: number, windowBytes: number): number {
  return PARITIES * (flags * FLAG_WORDS * 4 + windowBytes);
}

/** From then on it is given away for longer: whoever is waited for may need it for a while. */
const PATIENT_TURNS = 1_000;
const PAUSE_MICROSECONDS = 50;

const LIBC_SYMBOLS = {
  /** `int sched_yield(void)` */
  sched_yield: { parameters: [], result: "i32" },
  /** `int usleep(useconds_t usec)` */
  usleep: { parameters: ["u32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

let libc: Deno.DynamicLibrary<typeof LIBC_SYMBOLS>["symbols"] | undefined;

function giveCoreAway(looks: number): void {
  libc ??= libcFunctions(LIBC_SYMBOLS);
  if (looks < PATIENT_LOOKS + PATIENT_TURNS) libc.sched_yield();
  else libc.usleep(PAUSE_MICROSECONDS);
}

/** Time limits, and the words on who waits for whom, are put around it as around MPI's functions. */
const waiting = {
  waitForFlag(flags: Int32Array, word: number, call: number, progress: () => void): void {
    for (let looks = 0; (Atomics.load(flags, word) - call | 0) < 0; looks++) {
      if (looks < PATIENT_LOOKS) continue;
      giveCoreAway(looks);
      if (looks % TURNS_BETWEEN_PROGRESS === 0) progress();
    }
  },
};
noteWaiting(waiting, ["waitForFlag"]);

/** Flags and windows of all ranks. */
export class Windows {
  readonly #memory: SharedMemory;
  readonly #rank: number;
  readonly #flagCount: number;
  readonly #windowBytes: number;
  readonly #flags: readonly Int32Array[];
  readonly #progress: () => void;
  #call = 0;

  /** `memory` has {@linkcode sharedBytes} a rank; `progress` is called now and then while others are waited for. */
  constructor(
    memory: SharedMemory,
    { rank, size, flags, windowBytes }: { rank: number; size: number; flags: number; windowBytes: number },
    progress: () => void = () => {},
  ) {
    this.#memory = memory;
    this.#rank = rank;
    this.#flagCount = flags;
    this.#windowBytes = windowBytes;
    this.#progress = progress;
    const words = PARITIES * flags * FLAG_WORDS;
    this.#flags = Array.from({ length: size }, (_, peer) => new Int32Array(memory.peerHost(peer), 0, words));
  }

  /** Begin the next call. All ranks begin the same ones, in the same order. */
  begin(): void {
    this.#call = this.#call + 1 | 0;
  }

  /** Tell a rank. */
  signal(rank: number, flag: number): void {
    // Sequentially consistent: all that was stored before is seen by whoever sees this.
    Atomics.store(this.#flags[rank], this.#word(flag), this.#call);
  }

  /** Wait for a flag of this rank. */
  wait(flag: number): void {
    waiting.waitForFlag(this.#flags[this.#rank], this.#word(flag), this.#call, this.#progress);
  }

  /** Where a byte of a rank's window lies, in this call. */
  address(rank: number, byte: number): bigint {
    return this.#memory.peerAddress(rank) + BigInt(this.#offset(byte));
  }

  /** The memory that a rank's window is in, and where a byte of it is there, in this call. */
  host(rank: number, byte: number): { buffer: ArrayBuffer; offset: number } {
    return { buffer: this.#memory.peerHost(rank), offset: this.#offset(byte) };
  }

  get #parity(): number {
    return this.#call & 1;
  }

  #word(flag: number): number {
    return (this.#parity * this.#flagCount + flag) * FLAG_WORDS;
  }

  #offset(byte: number): number {
    return PARITIES * this.#flagCount * FLAG_WORDS * 4 + this.#parity * this.#windowBytes + byte;
  }
}
