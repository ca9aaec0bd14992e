/**
 * A time limit on waiting for other ranks.
 *
 * A rank that waits in MPI runs no timers, so that a worker watches: before each MPI call that may wait, the rank writes
 * what it is about to do into shared memory, and clears it afterwards. When that takes longer than the limit, the worker
 * says which rank waits where and ends the process with exit code 124, upon which the launcher ends the job.
 *
 * @module
 */
import { Worker } from "node:worker_threads";
import { type MpiFunctionName, openMpi } from "../../ffi/mpi/mod.ts";

/** What the watched thread and the watching worker share. */
export interface WatchedState {
  /** The number of calls begun and ended so far, odd during one; the length of `text`; the limit in milliseconds. */
  counters: Int32Array<SharedArrayBuffer>;
  /** What is going on, in UTF-8. */
  text: Uint8Array<SharedArrayBuffer>;
  /** Who is watched. */
  rank: number;
}

/** MPI's functions that wait for other ranks. */
const WAITING_FUNCTIONS: readonly MpiFunctionName[] = [
  "MPI_Finalize",
  "MPI_Comm_dup",
  "MPI_Comm_split",
  "MPI_Comm_split_type",
  "MPI_Comm_free",
  "MPI_Barrier",
  "MPI_Bcast",
  "MPI_Reduce",
  "MPI_Reduce_in_place",
  "MPI_Allreduce",
  "MPI_Allreduce_in_place",
  "MPI_Scan",
  "MPI_Scan_in_place",
  "MPI_Exscan",
  "MPI_Exscan_in_place",
  "MPI_Reduce_scatter",
  "MPI_Gather",
  "MPI_Gatherv",
  "MPI_Scatter",
  "MPI_Scatterv",
  "MPI_Allgather",
  "MPI_Allgather_in_place",
  "MPI_Allgatherv",
  "MPI_Allgatherv_in_place",
  "MPI_Alltoall",
  "MPI_Alltoall_in_place",
  "MPI_Alltoallv",
  "MPI_Send",
  "MPI_Recv",
  "MPI_Sendrecv",
  "MPI_Probe",
  "MPI_Wait",
];

let state: WatchedState | undefined;
const context: string[] = [];
const encoder = new TextEncoder();

/**
 * Run something that waits for other ranks under the time limit, and under this name; just runs it if there is no limit.
 *
 * @example
 * ```ts
 * import { watch } from "./watchdog.ts";
 * console.assert(watch("an addition", () => 1 + 1) === 2);
 * ```
 */
export function watch<T>(name: string, call: () => T): T {
  if (!state) return call();
  context.push(name);
  const isOutermost = context.length === 1;
  const { written } = encoder.encodeInto(context.join(" > "), state.text);
  Atomics.store(state.counters, 1, written);
  if (isOutermost) Atomics.add(state.counters, 0, 1);
  try {
    return call();
  } finally {
    context.pop();
    if (isOutermost) Atomics.add(state.counters, 0, 1);
    else Atomics.store(state.counters, 1, encoder.encodeInto(context.join(" > "), state.text).written);
  }
}

/** Start to watch this rank; a second call changes the limit. Needs permission to read the worker's file. */
export function startWatchdog(rank: number, timeoutSeconds: number): void {
  const milliseconds = Math.min(2 ** 31 - 1, Math.ceil(timeoutSeconds * 1000));
  if (state) return void Atomics.store(state.counters, 2, milliseconds);
  const counters = new Int32Array(new SharedArrayBuffer(12));
  const text = new Uint8Array(new SharedArrayBuffer(1024));
  const watched: WatchedState = { counters, text, rank };
  counters[2] = milliseconds;
  const worker = new Worker(new URL("./watchdog_worker.ts", import.meta.url), { workerData: watched });
  worker.unref();
  state = watched;
  watchMpi();
}

/** Have all MPI functions that wait run under the limit. */
function watchMpi(): void {
  const symbols = openMpi().symbols as unknown as Record<string, (...values: unknown[]) => number>;
  for (const name of WAITING_FUNCTIONS) {
    const call = symbols[name];
    symbols[name] = (...values) => watch(name.replace(/_in_place$/, ""), () => call(...values));
  }
}
