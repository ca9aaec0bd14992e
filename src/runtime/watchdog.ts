/**
 * A time limit on waiting for other ranks.
 *
 * A rank that waits in MPI runs no timers, so that a thread watches: before each native call that may wait, the rank
 * writes what it is about to do into shared memory, and counts the beginning and the end. When the end is longer in
 * coming than the limit, the thread says which rank waits where and ends the process with exit code 124, upon which the
 * launcher ends the job.
 *
 * @module
 */
import { awaited, type AwaitingWatcher, endAwaiting, watchAwaiting } from "../../ffi/awaiting.ts";
import { copyFromAddress } from "../../ffi/memory.ts";
import { END_AT_ONCE, endAtOnce, lastWords } from "../../ffi/mpi/last_words.ts";
import { describeLine, describePlace } from "../../ffi/mpi/presence_page.ts";
import { removeMpichNames } from "../../ffi/mpi/mpich_names.ts";
import { namesOfFunctions } from "../../ffi/mpi/waits.ts";
import { COPY } from "../../ffi/process.ts";
import { startThread } from "../../ffi/thread.ts";
import { operation, surroundWaiting } from "../../ffi/waiting.ts";
import { presenceHere } from "../mpi/init_finalize.ts";
import { endOnlooking, resumeOnlooking } from "./onlooking.ts";
import { describeElsewhere, describeRanks, TIMED_OUT, type WatchedState, watchForEver } from "./watchdog_thread.ts";

const LONGEST_START_MILLISECONDS = 30_000;

let state: WatchedState | undefined;
const context: string[] = [];
let told = "";
const encoder = new TextEncoder();

/**
 * Run something that waits for other ranks under the time limit, and under this name; just runs it if there is no limit.
 */
export function watch<T>(name: string, call: () => T): T {
  if (!state) return call();
  if (awaited !== null) endAwaiting();
  context.push(name);
  tell(state);
  const isOutermost = context.length === 1;
  if (isOutermost) Atomics.add(state.counters, 0, 1);
  try {
    return call();
  } finally {
    context.pop();
    if (isOutermost) Atomics.add(state.counters, 0, 1);
    else tell(state);
  }
}

/**
 * Have the job end where this rank's work has not come to its end after the time limit and some seconds: it runs no timers
 * then, and could not tell of that itself. Returns what ends the work.
 */
export function watchWork(name: string): Disposable {
  if (!state) return { [Symbol.dispose]() {} };
  const { counters, work } = state;
  Atomics.store(counters, 5, encoder.encodeInto(name, work).written);
  Atomics.add(counters, 4, 1);
  return { [Symbol.dispose]: () => void Atomics.add(counters, 4, 1) };
}

/** Where this rank is, or its last call: `rank 1 waits in MPI_Barrier at a.ts:3:5`; `null` if nothing is known of that. */
export function placeOfThisRank(): string | null {
  const page = presenceHere()?.memory;
  if (page === undefined) return null;
  const words = new Int32Array(page.byteLength / 4);
  copyFromAddress(words, page.address);
  return describeRanks(words, page, namesOfFunctions()).split("\n")[page.own / page.words - 1].trim();
}

/** Write what is going on, unless it stands there since the last call. */
function tell({ counters, text }: WatchedState): void {
  const now = context.length === 1 ? context[0] : context.join(" > ");
  if (now === told) return;
  told = now;
  Atomics.store(counters, 1, encoder.encodeInto(now, text).written);
}

/** Where a native function waits. */
function placeOf(name: string): string {
  return operation === null || operation === "" ? name : `${operation} > ${name}`;
}

/** So many milliseconds stand for no limit. */
const NO_LIMIT = 2 ** 31 - 1;

/** The limit that this rank is watched by, in seconds; `null` if there is none. */
export function waitingLimit(): number | null {
  const milliseconds = state === undefined ? NO_LIMIT : Atomics.load(state.counters, 2);
  return milliseconds === NO_LIMIT ? null : milliseconds / 1000;
}

/** Watch this rank, if it was watched before, by another limit or by none. */
export function changeWaitingLimit(timeoutSeconds: number | null): void {
  if (!state) return;
  Atomics.store(state.counters, 2, millisecondsOf(timeoutSeconds ?? Infinity));
  // Who has no limit is told of long waits.
  if (timeoutSeconds === null) resumeOnlooking();
  else endOnlooking();
}

const millisecondsOf = (seconds: number) => Math.min(NO_LIMIT, Math.ceil(seconds * 1000));

/** Start to watch this rank; a second call changes the limit. */
export function startWatchdog(rank: number, timeoutSeconds: number): void {
  const milliseconds = millisecondsOf(timeoutSeconds);
  if (state) return changeWaitingLimit(timeoutSeconds);
  endOnlooking();
  const counters = new Int32Array(new SharedArrayBuffer(28));
  const [text, work] = [1, 2].map(() => new Uint8Array(new SharedArrayBuffer(1024)));
  const last = lastWords(TIMED_OUT, "the time limit of timeoutSeconds");
  const page = presenceHere()?.memory ?? null;
  const names = namesOfFunctions();
  const watched: WatchedState = { counters, text, work, rank, code: TIMED_OUT, lastWords: last, page, names };
  counters[2] = milliseconds;
  startThread(
    watchForEver,
    [endAtOnce, removeMpichNames, describeRanks, describeElsewhere, describePlace, describeLine],
    watched,
    {
      ...END_AT_ONCE,
      ...COPY,
    },
  );
  // A thread that is still being started watches nothing.
  Atomics.wait(counters, 3, 0, LONGEST_START_MILLISECONDS);
  state = watched;
  surroundWaiting((name, call) => (...values) => watch(placeOf(name), () => call(...values)));
  watchAwaiting(awaitingOf(watched));
}

/** Counts a collective call that is awaited as one that waits; for messages a script may well wait beside other work. */
function awaitingOf(watched: WatchedState): AwaitingWatcher {
  let isCounted = false;
  const count = (is: boolean) => {
    isCounted = is;
    Atomics.store(watched.counters, 6, is ? 1 : 0);
    Atomics.add(watched.counters, 0, 1);
  };
  return {
    begin({ name, turn }) {
      if (turn === 0 || context.length > 0) return;
      context.push(name);
      tell(watched);
      count(true);
    },
    goOn() {
      if (isCounted) Atomics.add(watched.counters, 6, 1);
    },
    end() {
      if (!isCounted) return;
      context.pop();
      count(false);
    },
  };
}
