/**
 * The worker of the watchdog: it looks at the shared state from time to time.
 *
 * @module
 */
import { workerData } from "node:worker_threads";
import { exitImmediately } from "../../ffi/process.ts";
import type { WatchedState } from "./watchdog.ts";

/** The exit code of `timeout(1)`. */
const TIMED_OUT = 124;

/** How many ranks end one after the other, two looks apart. */
const STAGGERED_RANKS = 10;

/**
 * The lowest rank that waits too long ends the job, before others do: of jobs whose ranks all end at the same time, Open
 * MPI 5's launcher hangs in about one of 200.
 */
function watchForEver({ counters, text, rank }: WatchedState): never {
  const decoder = new TextDecoder();
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
    if (performance.now() - since < limit + 2 * pause * Math.min(rank, STAGGERED_RANKS)) continue;
    const operation = decoder.decode(text.slice(0, Atomics.load(counters, 1)));
    exitImmediately(
      TIMED_OUT,
      `distmath: rank ${rank} has waited for more than ${limit / 1000} s (timeoutSeconds) in ${operation}; ` +
        `other ranks did not get there. The job ends with exit code ${TIMED_OUT}.`,
    );
  }
}

watchForEver(workerData as WatchedState);
