/**
 * Threads that copy between host memory and pinned staging memory. One core copies at a fraction of a GPU's link, so that
 * several are needed to keep it busy.
 *
 * Main thread and others share counters. Chunks are numbered through all copies of the process, so that a thread that
 * comes late never mistakes a chunk of the next copy for one of the last.
 *
 * @module
 */
import { libcFunctions } from "../../ffi/memory.ts";
import { launcher } from "../../ffi/mpi/mod.ts";
import { startThread } from "../../ffi/thread.ts";
import {
  COPY_SYMBOLS,
  copyForEver,
  type CopyFunctions,
  copyNextChunk,
  type CrewState,
  type Shared,
} from "./copy_thread.ts";

/** Bytes that are copied at once. */
export const CHUNK_BYTES = 2 ** 21;

/** How many chunks staging memory holds. */
export const SLOTS = 32;

/**
 * How many threads besides the main one copy to and from staging memory, if there are so many cores. With a link of 55 GB/s
 * on each of two ranks, 8 send 49 and 15 send 38; 15 fetch 45 and 8 fetch 35.
 */
const SENDERS = 8;
const FETCHERS = 15;

function sharedNumber(): Shared {
  return new Int32Array(new SharedArrayBuffer(4));
}

/** The threads of this process, the main one included. */
export class CopyCrew {
  readonly #state: CrewState = {
    next: sharedNumber(),
    limit: sharedNumber(),
    ready: sharedNumber(),
    crew: sharedNumber(),
    done: new Int32Array(new SharedArrayBuffer(4 * SLOTS)),
    job: new BigInt64Array(new SharedArrayBuffer(40)),
    chunkBytes: CHUNK_BYTES,
  };
  readonly #libc: CopyFunctions = libcFunctions(COPY_SYMBOLS);
  #hasStarted = false;
  #first = 0;

  /** `first` is the number of the first chunk. */
  constructor(first = 0) {
    for (const number of [this.#state.next, this.#state.limit]) Atomics.store(number, 0, first);
  }

  /** Start the other threads; a second call does nothing. They are there some 100 ms later. */
  start(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    const cores = Math.floor(navigator.hardwareConcurrency / (launcher()?.localSize ?? 1)) - 1;
    for (let member = 0; member < Math.min(FETCHERS, cores); member++) {
      startThread(copyForEver, [copyNextChunk], { state: this.#state, member }, COPY_SYMBOLS);
    }
  }

  /** Begin a copy; the last one must have ended. */
  begin(host: bigint, staging: bigint, bytes: number, isFromHost: boolean): void {
    const { limit, crew, job } = this.#state;
    this.#first = Atomics.load(limit, 0);
    job.set([host, staging, BigInt(bytes), BigInt(this.#first), isFromHost ? 1n : 0n]);
    Atomics.store(crew, 0, isFromHost ? SENDERS : FETCHERS);
    Atomics.notify(crew, 0);
  }

  /** Allow the first `chunks` chunks of this copy to be copied. */
  allow(chunks: number): void {
    const { limit } = this.#state;
    Atomics.store(limit, 0, this.#first + chunks);
    Atomics.notify(limit, 0);
  }

  /** Whether a chunk of this copy was copied. */
  hasCopied(chunk: number): boolean {
    return Atomics.load(this.#state.done, chunk % SLOTS) === (this.#first + chunk + 1 | 0);
  }

  /** End the copy, also one that failed: no chunk is begun any more, and those that were are waited for. */
  end(): void {
    const { next, limit } = this.#state;
    const begun = Atomics.exchange(next, 0, Atomics.load(limit, 0)) - this.#first | 0;
    for (let chunk = Math.max(0, begun - SLOTS); chunk < begun;) if (this.hasCopied(chunk)) chunk++;
  }

  /** Copy a chunk on this thread if there are too few others: this thread has to keep the GPU busy. */
  help(): void {
    if (Atomics.load(this.#state.ready, 0) < 2) copyNextChunk(this.#state, this.#libc);
  }
}
