/**
 * Telling of ranks that wait for long where no command looks on, as under plain `mpirun`: a thread of one rank of each
 * machine looks at the memory that they share.
 *
 * It is started at the first wait of a script, by the rank that gets there first; before that if ranks may come late to MPI,
 * or to `initialize()`, as those of other machines, and where GPUs are joined, which takes longer than to start it. Else, for
 * what happens in `initialize()` and at the end, there is none: it would take most of the time of a script that does nothing
 * else.
 *
 * @module
 */
import type { Presence } from "../../ffi/mpi/presence.ts";
import { describeLine, describePlace } from "../../ffi/mpi/presence_page.ts";
import { startThread } from "../../ffi/thread.ts";
import { patienceSeconds } from "../mpi/departure.ts";
import { atNextWait, beforeMpiEnds, presenceHere } from "../mpi/init_finalize.ts";
import { describeFor, isOfAll, isWaiting, LongWaits, pageReading, placesOf } from "./long_waits.ts";
import { lookOn, READ_MEMORY } from "./onlooking_thread.ts";
import { describeElsewhere, describeRanks } from "./watchdog_thread.ts";

/** What ends the thread that this rank has started. */
let end: Int32Array<SharedArrayBuffer> | null = null;
let isJoining = false;

function lookFrom(presence: Presence, wait: "late" | "call"): void {
  if (isJoining && wait === "call") return;
  // Who looks on already may end before this rank does, or get a time limit of its own.
  if (!presence.claimLooking()) return;
  presence.atNextWait = null;
  start(presence);
}

atNextWait(lookFrom);

/** From now on waits of what joins count, too. */
export function joinSlowly(): void {
  isJoining = false;
}

/** Run something whose waits are not those of the script. */
export function joining<T>(join: () => T): T {
  isJoining = true;
  try {
    return join();
  } finally {
    isJoining = false;
  }
}

/** Tell of nothing any more. */
export function endOnlooking(): void {
  const presence = presenceHere();
  if (presence !== null) presence.atNextWait = null;
  if (end === null) return;
  Atomics.store(end, 0, 1);
  Atomics.notify(end, 0);
  end = null;
  presence?.stopLooking();
}

/** Tell of what is waited for from the next wait on, if no other rank does and no command looks on. */
export function resumeOnlooking(): void {
  const presence = presenceHere();
  if (presence !== null && !presence.isSeen && end === null) presence.atNextWait = () => lookFrom(presence, "call");
}

beforeMpiEnds(endOnlooking);

function start({ memory: { address, byteLength, size } }: Presence): void {
  end = new Int32Array(new SharedArrayBuffer(4));
  const state = { address, byteLength, size, end, patienceSeconds: patienceSeconds(), reading: pageReading() };
  const functions = [
    placesOf,
    isWaiting,
    isOfAll,
    describeFor,
    describeRanks,
    describeElsewhere,
    describePlace,
    describeLine,
  ];
  startThread(lookOn, [LongWaits, ...functions], state, READ_MEMORY);
}
