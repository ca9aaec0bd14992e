/**
 * The thread of the watchdog: it looks at the shared state from time to time.
 *
 * @module
 */
import { type END_AT_ONCE, endAtOnce, type LastWords } from "../../ffi/mpi/last_words.ts";
import { describeLine, describePlace, type SharedPage } from "../../ffi/mpi/presence_page.ts";
import type { COPY } from "../../ffi/process.ts";

/** The exit code of `timeout(1)`. */
export const TIMED_OUT = 124;

/** What the watched thread and the watching one share. */
export interface WatchedState {
  /**
   * The calls begun and ended so far, odd during one; the length of `text`; the limit in ms; whether the thread is there; the
   * works begun and ended so far, odd during one; the length of `work`; how often what is awaited was asked for, 0 in a
   * call.
   */
  counters: Int32Array<SharedArrayBuffer>;
  /** What is going on, in UTF-8. */
  text: Uint8Array<SharedArrayBuffer>;
  /** What has to come to an end in time, whether it waits or not. */
  work: Uint8Array<SharedArrayBuffer>;
  rank: number;
  /** The exit code of a rank that has waited for too long. */
  code: number;
  /** What is told beside the line for people. */
  lastWords: LastWords;
  /** What the ranks of this machine know of each other, and the names of the functions in it; `null` without MPI. */
  page: SharedPage | null;
  names: ReadonlyMap<number, string>;
}

/**
 * A line for each rank of this machine: where it waits, at which line, in the how manieth collective call; and whether it
 * has not come to the call in which this rank waits, or is in another one, in its place or in another communicator. Runs in
 * a thread, where it sees nothing of this module.
 */
export function describeRanks(
  words: Int32Array,
  page: Omit<SharedPage, "address" | "size">,
  names: ReadonlyMap<number, string>,
): string {
  const { fields, own, ranks } = page;
  const mine = words.subarray(own, own + page.words);
  const isLate = mine[fields.STATE] === 2 || mine[fields.CALLS] % 2 !== 0 ? " has not arrived: it" : "";
  const placeOf = (rank: Int32Array) => describePlace(rank, fields, names);
  const isForGpu = mine[fields.CALLS] % 2 !== 0 && /^(cuda|nccl)/.test(names.get(mine[fields.FUNCTION]) ?? "");
  const [me, counted] = [own / page.words - 1, fields.LOOK - fields.MESSAGES];
  /** What this rank's NCCL waits for, and another one has not put on its GPU. */
  const owed = (rank: Int32Array, i: number) => {
    if (!isForGpu || Math.max(i, me) >= counted) return "";
    const messages = mine[fields.MESSAGES + i] - rank[fields.MESSAGES + me];
    return messages > 0 ? `; NCCL waits for ${messages} of its messages` : "";
  };
  /** What is counted by itself in a communicator: calls in the background, and operations that are no calls of MPI. */
  const sortOf = (rank: Int32Array) => /^(MPI_I?)?/.exec(names.get(rank[fields.FUNCTION]) ?? "")![0];
  const inOther = (rank: Int32Array) => {
    const [theirs, ours] = [rank[fields.SCOPE], mine[fields.SCOPE]];
    const isOther = theirs !== 0 && ours !== 0 && theirs !== ours && sortOf(rank) === sortOf(mine);
    return isOther ? ` in another communicator than rank ${mine[fields.RANK]}` : "";
  };
  const lines = Array.from({ length: ranks }, (_, i) => {
    const rank = words.subarray((i + 1) * page.words, (i + 2) * page.words);
    const [turn, myTurn] = [rank[fields.TURN], mine[fields.TURN]];
    const isSameScope = rank[fields.SCOPE] === mine[fields.SCOPE] && mine[fields.SCOPE] !== 0 && myTurn > 0 && turn > 0;
    const where = placeOf(rank) + describeLine(rank, fields);
    const number = (turn > 0 ? `, collective call ${turn}` : "") + inOther(rank);
    const who = `  rank ${rank[fields.RANK]}`;
    if (rank[fields.STATE] === 0) return "  a rank that has not started MPI, or not by distmath";
    if (rank[fields.STATE] === 2) return `${who} waits in MPI_Init${describeLine(rank, fields)}`;
    if (rank[fields.CALLS] % 2 === 0) {
      const last = rank[fields.CALLS] === 0 ? "" : `; its last one was ${where}${number}`;
      return `${who}${isLate} is in no call that waits${last}${owed(rank, i)}`;
    }
    const place = `${who} waits in ${where}${number}${owed(rank, i)}`;
    if (rank[fields.RANK] === mine[fields.RANK] || !isSameScope) return place;
    if (turn !== myTurn) return `${place}${turn < myTurn ? ": it has not arrived" : ": it is ahead"}`;
    return placeOf(rank) === placeOf(mine) ? place : `${place}: the calls do not match`;
  });
  return lines.join("\n");
}

/**
 * A line on the ranks of other machines, which are not seen here; none if there are none. Also runs in the thread, as
 * above.
 */
export function describeElsewhere(
  words: Int32Array,
  { fields, ranks, size, words: each }: Omit<SharedPage, "address">,
): string {
  if (ranks === size) return "";
  const here = Array.from({ length: ranks }, (_, i) => words.subarray((i + 1) * each, (i + 2) * each));
  const known = new Set(here.map((rank) => rank[fields.RANK]));
  // One that has not come has not told which one it is.
  const isKnown = here.every((rank) => rank[fields.STATE] !== 0);
  const others = Array.from({ length: size }, (_, rank) => rank).filter((rank) => !known.has(rank));
  const are = !isKnown
    ? "others are on other machines and are"
    : others.length === 1
    ? "rank @ is on another machine and is"
    : "ranks @ are on other machines and are";
  return `\n  ${are.replace("@", others.join(", "))} not seen here: of each machine one that waits as long tells, too`;
}

/**
 * The lowest rank that waits too long ends the job, before others do: of jobs whose ranks all end at the same time, Open
 * MPI 5's launcher hangs in about one of 200. On several machines one rank of each tells before. Runs in a thread of its
 * own, where it sees nothing of this module.
 */
export function watchForEver(
  { counters, text, work, rank, code, lastWords, page, names }: WatchedState,
  libc: Deno.DynamicLibrary<typeof END_AT_ONCE & typeof COPY>["symbols"],
): never {
  /** How many ranks end one after the other, two looks apart. */
  const staggeredRanks = 10;
  /** So long after the limit of its work a rank has told of that itself, if it still runs timers. */
  const tellingMilliseconds = 5000;
  const never = new Int32Array(new SharedArrayBuffer(4));
  Atomics.store(counters, 3, 1);
  Atomics.notify(counters, 3);
  // Without the page it is not known who else is on this machine.
  const isWhole = page === null || page.ranks === page.size;
  const turn = Math.min(isWhole ? rank : page.own / page.words - 1, staggeredRanks);
  /** The longest that may lie between two looks of a job that was not suspended. */
  const longestLook = 5000;
  let last = performance.now();
  let [seen, waited] = [Atomics.load(counters, 0), 0];
  let [begun, worked] = [Atomics.load(counters, 4), 0];
  let asked = 0;
  /** What lies between two tests of a request that are further apart is no waiting. */
  const testMilliseconds = 50;
  while (true) {
    const limit = Atomics.load(counters, 2);
    const pause = Math.min(500, limit / 10);
    Atomics.wait(never, 0, 0, pause);
    const count = Atomics.load(counters, 0);
    const passed = Math.min(performance.now() - last, longestLook);
    last = performance.now();
    const tests = Atomics.load(counters, 6);
    const spent = tests === 0 ? passed : Math.min(passed, Math.max(0, tests - asked) * testMilliseconds);
    asked = tests;
    [seen, waited] = [count, count !== seen || count % 2 === 0 ? 0 : waited + spent];
    const works = Atomics.load(counters, 4);
    [begun, worked] = [works, works !== begun || works % 2 === 0 ? 0 : worked + passed];
    if (worked > limit + tellingMilliseconds) {
      const name = new TextDecoder().decode(work.slice(0, Atomics.load(counters, 5)));
      const told = `distmath: rank ${rank} has been in ${name} for more than ${limit / 1000} s (timeoutSeconds)`;
      endAtOnce(code, `${told}, and runs on without a pause. The job ends with exit code ${code}.`, lastWords, libc);
    }
    if (waited < limit + 2 * pause * turn) continue;
    const operation = new TextDecoder().decode(text.slice(0, Atomics.load(counters, 1)));
    const place = `distmath: rank ${rank} has waited for more than ${limit / 1000} s (timeoutSeconds) in ${operation}`;
    const end = (why: string) => `; ${why}. The job ends with exit code ${code}.`;
    const late = "other ranks did not get there";
    if (page === null) endAtOnce(code, place + end(late), lastWords, libc);
    const words = new Int32Array(page.byteLength / 4);
    libc.memcpy(new Uint8Array(words.buffer), page.address, BigInt(page.byteLength));
    const own = words.subarray(page.own, page.own + page.words);
    const isInCall = own[page.fields.CALLS] % 2 !== 0;
    const line = isInCall ? describeLine(own, page.fields) : "";
    const why = isInCall ? late : "it is in no call that waits for others";
    const all = `${place}${line}${end(why)}\n${describeRanks(words, page, names)}${describeElsewhere(words, page)}`;
    if (isWhole) endAtOnce(code, all, lastWords, libc);
    const bytes = new TextEncoder().encode(`${all}\n`);
    libc.write(2, bytes, BigInt(bytes.length));
    Atomics.wait(never, 0, 0, 2 * pause * (1 + Math.min(rank, staggeredRanks)));
    endAtOnce(code, "", lastWords, libc);
  }
}
