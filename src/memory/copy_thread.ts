/**
 * A thread of the copy crew, and what it shares with the main one. Its functions see nothing of this module but each other.
 *
 * @module
 */

/** What the threads copy with. Source: libc. */
export const COPY_SYMBOLS = {
  memcpy: { parameters: ["u64", "u64", "usize"], result: "u64" },
} as const satisfies Deno.ForeignLibraryInterface;

/** {@linkcode COPY_SYMBOLS} as functions. */
export type CopyFunctions = Deno.DynamicLibrary<typeof COPY_SYMBOLS>["symbols"];

/** One number that threads share and wait for. */
export type Shared = Int32Array<SharedArrayBuffer>;

/** What the main thread and the others share. */
export interface CrewState {
  /** The next chunk to be copied. */
  next: Shared;
  /** Chunks that may be copied by now. */
  limit: Shared;
  /** Threads that have started. */
  ready: Shared;
  /** Threads that help with the current copy. */
  crew: Shared;
  /** For each slot, one more than the chunk that was copied from or to it last. */
  done: Int32Array<SharedArrayBuffer>;
  /** The current copy: host address, staging address, bytes, first chunk, 1 if it is from the host. */
  job: BigInt64Array<SharedArrayBuffer>;
  /** Bytes that are copied at once. */
  chunkBytes: number;
}

/** What a thread is given. */
export interface CrewMember {
  state: CrewState;
  /** Its number, from 0 on. */
  member: number;
}

/** Copy the next chunk, if there is one; returns whether there was. The numbers of chunks wrap around. */
export function copyNextChunk({ next, limit, done, job, chunkBytes }: CrewState, { memcpy }: CopyFunctions): boolean {
  const chunk = Atomics.load(next, 0);
  if ((Atomics.load(limit, 0) - chunk | 0) <= 0) return false;
  if (Atomics.compareExchange(next, 0, chunk, chunk + 1) !== chunk) return true;
  const [host, staging, bytes, first, isFromHost] = job;
  const index = chunk - Number(first) | 0;
  const start = index * chunkBytes;
  const length = BigInt(Math.min(chunkBytes, Number(bytes) - start));
  const slot = index % done.length;
  const [inHost, inStaging] = [host + BigInt(start), staging + BigInt(slot * chunkBytes)];
  if (isFromHost) memcpy(inStaging, inHost, length);
  else memcpy(inHost, inStaging, length);
  Atomics.store(done, slot, chunk + 1);
  return true;
}

/** What a thread does: copy what is to be copied. */
export function copyForEver({ state, member }: CrewMember, libc: CopyFunctions): never {
  /** Between the chunks of a copy a thread looks again so often before it sleeps, since waking up takes longer. */
  const mostLooks = 2_000;
  Atomics.add(state.ready, 0, 1);
  while (true) {
    const crew = Atomics.load(state.crew, 0);
    if (member >= crew) {
      Atomics.wait(state.crew, 0, crew);
      continue;
    }
    const limit = Atomics.load(state.limit, 0);
    if (copyNextChunk(state, libc)) continue;
    let looks = 0;
    while (looks < mostLooks && Atomics.load(state.limit, 0) === limit) looks++;
    if (looks === mostLooks) Atomics.wait(state.limit, 0, limit);
  }
}
