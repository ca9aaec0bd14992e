/**
 * The thread of the watchdog: it looks at the shared state from time to time.
 *
 * @module
 */
import { endAtOnce, type LastWords } from "../../ffi/mpi/last_words.ts";
import type { LAST_WORDS } from "../../ffi/process.ts";

/** The exit code of `timeout(1)`. */
export const TIMED_OUT = 124;

/** What the watched thread and the watching one share. */
export interface WatchedState {
  /** The calls begun and ended so far, odd during one; the length of `text`; the limit in ms; whether the thread is there. */
  counters: Int32Array<SharedArrayBuffer>;
  /** What is going on, in UTF-8. */
  text: Uint8Array<SharedArrayBuffer>;
  rank: number;
  /** The exit code of a rank that has waited for too long. */
  code: number;
  /** What is told beside the line for people. */
  lastWords: LastWords;
}

/**
 * The lowest rank that waits too long ends the job, before others do: of jobs whose ranks all end at the same time, Open
 * MPI 5's launcher hangs in about one of 200. Runs in a thread of its own, where it sees nothing of this module.
 */
export function watchForEver(
  { counters, text, rank, code, lastWords }: WatchedState,
  libc: Deno.DynamicLibrary<typeof LAST_WORDS>["symbols"],
): never {
  /** How many ranks end one after the other, two looks apart. */
  const staggeredRanks = 10;
  const never = new Int32Array(new SharedArrayBuffer(4));
  Atomics.store(counters, 3, 1);
  Atomics.notify(counters, 3);
  let [seen, since] = [Atomics.load(counters, 0), performance.now()];
  while (true) {
    const limit = Atomics.load(counters, 2);
    const pause = Math.min(500, limit / 10);
    Atomics.wait(never, 0, 0, pause);
    const count = Atomics.load(counters, 0);
    if (count !== seen || count % 2 === 0) [seen, since] = [count, performance.now()];
    if (performance.now() - since < limit + 2 * pause * Math.min(rank, staggeredRanks)) continue;
    const operation = new TextDecoder().decode(text.slice(0, Atomics.load(counters, 1)));
    const line =
      `distmath: rank ${rank} has waited for more than ${limit / 1000} s (timeoutSeconds) in ${operation}; ` +
      `other ranks did not get there. The job ends with exit code ${code}.`;
    endAtOnce(code, line, lastWords, libc);
  }
}
