/**
 * Threads that copy between host memory and pinned staging memory. One core copies at a fraction of a GPU's link, so that
 * several are needed to keep it busy.
 *
 * Main thread and workers share counters. Chunks are numbered through all copies of the process, so that a worker that
 * comes late never mistakes a chunk of the next copy for one of the last.
 *
 * @module
 */
import { copyBetweenAddresses } from "../../ffi/memory.ts";
import { launcher } from "../../ffi/mpi/mod.ts";

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

/** What the main thread and the workers share. */
export interface CrewState {
  /** At the positions NEXT, LIMIT, READY and CREW. */
  counters: Int32Array<SharedArrayBuffer>;
  /** For each slot, one more than the chunk that was copied from or to it last. */
  done: Int32Array<SharedArrayBuffer>;
  /** The current copy: host address, staging address, bytes, first chunk, 1 if it is from the host. */
  job: BigInt64Array<SharedArrayBuffer>;
}

/** What a worker is given. */
export interface CrewMember {
  /** What all share. */
  state: CrewState;
  /** Its number, from 0 on. */
  worker: number;
}

/** The position in {@linkcode CrewState}'s counters of the next chunk to be copied. */
export const NEXT = 0;
/** Chunks that may be copied by now. */
export const LIMIT = 1;
/** Workers that have started. */
export const READY = 2;
/** Workers that help with the current copy. */
export const CREW = 3;

/** Copy the next chunk, if there is one; returns whether there was. */
export function copyNextChunk({ counters, done, job }: CrewState): boolean {
  const chunk = Atomics.load(counters, NEXT);
  if (chunk >= Atomics.load(counters, LIMIT)) return false;
  if (Atomics.compareExchange(counters, NEXT, chunk, chunk + 1) !== chunk) return true;
  const [host, staging, bytes, first, isFromHost] = job;
  const index = chunk - Number(first);
  const start = index * CHUNK_BYTES;
  const length = Math.min(CHUNK_BYTES, Number(bytes) - start);
  const slot = index % SLOTS;
  const [inHost, inStaging] = [host + BigInt(start), staging + BigInt(slot * CHUNK_BYTES)];
  if (isFromHost) copyBetweenAddresses(inStaging, inHost, length);
  else copyBetweenAddresses(inHost, inStaging, length);
  Atomics.store(done, slot, chunk + 1);
  return true;
}

/** The threads of this process, the main one included. */
export class CopyCrew {
  readonly #state: CrewState = {
    counters: new Int32Array(new SharedArrayBuffer(16)),
    done: new Int32Array(new SharedArrayBuffer(4 * SLOTS)),
    job: new BigInt64Array(new SharedArrayBuffer(40)),
  };
  #hasStarted = false;
  #first = 0;

  /** Start the other threads; a second call does nothing. They are there some 100 ms later. */
  start(): void {
    if (this.#hasStarted) return;
    this.#hasStarted = true;
    // Loaded here, as in the watchdog: scripts on CPUs do without.
    const { Worker } = globalThis.process.getBuiltinModule("node:worker_threads");
    const cores = Math.floor(navigator.hardwareConcurrency / (launcher()?.localSize ?? 1)) - 1;
    for (let worker = 0; worker < Math.min(FETCHERS, cores); worker++) {
      const workerData: CrewMember = { state: this.#state, worker };
      new Worker(new URL("./copy_worker.ts", import.meta.url), { workerData }).unref();
    }
  }

  /** Begin a copy; the last one must have ended. */
  begin(host: bigint, staging: bigint, bytes: number, isFromHost: boolean): void {
    const { counters, job } = this.#state;
    this.#first = Atomics.load(counters, LIMIT);
    job.set([host, staging, BigInt(bytes), BigInt(this.#first), isFromHost ? 1n : 0n]);
    Atomics.store(counters, CREW, isFromHost ? SENDERS : FETCHERS);
    Atomics.notify(counters, CREW);
  }

  /** Allow the first `chunks` chunks of this copy to be copied. */
  allow(chunks: number): void {
    const { counters } = this.#state;
    Atomics.store(counters, LIMIT, this.#first + chunks);
    Atomics.notify(counters, LIMIT);
  }

  /** Whether a chunk of this copy was copied. */
  hasCopied(chunk: number): boolean {
    return Atomics.load(this.#state.done, chunk % SLOTS) === this.#first + chunk + 1;
  }

  /** Copy a chunk on this thread if there are too few others: this thread has to keep the GPU busy. */
  help(): void {
    if (Atomics.load(this.#state.counters, READY) < 2) copyNextChunk(this.#state);
  }
}
