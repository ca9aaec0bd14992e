/**
 * The thread that looks for ranks of its machine which wait for ranks of others that have left, or that cannot be reached
 * (`elsewhere.ts`), or that have made other collective calls.
 *
 * @module
 */
import { END_AT_ONCE, endAtOnce, type LastWords } from "../../ffi/mpi/last_words.ts";
import { removeMpichNames } from "../../ffi/mpi/mpich_names.ts";
import { describeLine, describePlace, type SharedPage } from "../../ffi/mpi/presence_page.ts";
import type { CallNames } from "../../ffi/mpi/waits.ts";
import { COPY } from "../../ffi/process.ts";
import { LINK_SYMBOLS, lostAmong, type MachineLink } from "./machine_links.ts";
import {
  describeFarMismatch,
  type FarPair,
  isInPlace,
  isMismatch,
  type MeetingLayout,
  receiveReport,
  REPORT_SYMBOLS,
  sendReport,
} from "./machine_reports.ts";

/** What the thread needs of the C library. */
export const WATCH_ELSEWHERE = {
  ...END_AT_ONCE,
  ...COPY,
  ...LINK_SYMBOLS,
  ...REPORT_SYMBOLS,
  kill: { parameters: ["i32", /* pid_t pid */ "i32" /* int sig */], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Of so many scopes, the newest, a rank tells how far it has come. */
export const MOST_TURNS = 250;

/** The words of each: which it is, how many calls this rank has made in it, and its number there. */
export const WORDS_OF_TURN = 3;

/** What the thread is given. */
export interface ElsewhereState {
  /** What the ranks of this machine know of each other. */
  readonly page: SharedPage;
  /** What ranks of other machines have told: where, words of each, and how many there are. */
  readonly news: { readonly address: bigint; readonly words: number; readonly ranks: number };
  /** Whether it is to end, since memory goes with the process; and whether it has. */
  readonly end: Int32Array<SharedArrayBuffer>;
  readonly patienceSeconds: number;
  readonly lastWords: LastWords;
  /** What the other machines are reached by, and what is told if one is not. */
  readonly links: readonly MachineLink[];
  readonly lastWordsOfLost: LastWords;
  /** Whether this machine is the first, which is connected with all others, and passes on what they tell. */
  readonly isFirst: boolean;
  readonly meetings: MeetingLayout;
  readonly lastWordsOfMismatch: LastWords;
  /** The launcher's process on this machine where it would wait for lost ones; `null` elsewhere. */
  readonly launcher: number | null;
  readonly names: CallNames;
}

/**
 * The ranks that have left and that one waits for: by its words in the page, and what those have told. Also runs in the
 * thread, where it sees no constant of this module.
 */
export function awaitedAmong(
  rank: Int32Array,
  { fields }: Pick<SharedPage, "fields">,
  news: Int32Array,
  wordsOfNews: number,
): number[] {
  const [scope, turn] = [rank[fields.SCOPE], rank[fields.TURN]];
  // Of two, to whom it sends and from whom it receives (else NO_PEER is in a place), it is not known for which one it waits.
  const peers = new Set([rank[fields.FIRST_PEER], rank[fields.SECOND_PEER]].filter((peer) => peer !== -1000));
  const left: number[] = [];
  for (let at = 0; at < news.length; at += wordsOfNews) {
    for (let i = 0; i < news[at] - 1; i++) {
      const [id, turns, number] = news.subarray(at + 2 + 3 * i, at + 5 + 3 * i);
      if (id === scope && (turn > 0 ? turns < turn : peers.has(number))) left.push(news[at + 1]);
    }
  }
  return turn > 0 || left.length === peers.size ? left : [];
}

/**
 * The ranks that have left, where those of this machine that are there wait for a message from anybody, and all others have
 * left: nobody can send it. None elsewhere. Also runs in the thread.
 */
export function leftByAll(
  ranks: readonly Int32Array[],
  { fields, size }: Pick<SharedPage, "fields" | "size">,
  news: Int32Array,
  wordsOfNews: number,
  names: ReadonlyMap<number, string>,
): number[] {
  const [noPeer, leaving] = [-1000, 3];
  const left: number[] = [];
  for (let at = 0; at < news.length; at += wordsOfNews) if (news[at] > 0) left.push(news[at + 1]);
  const isForAnybody = (rank: Int32Array) =>
    rank[fields.CALLS] % 2 !== 0 && rank[fields.FIRST_PEER] < 0 && rank[fields.FIRST_PEER] !== noPeer &&
    ["MPI_Recv", "MPI_Probe"].includes(names.get(rank[fields.FUNCTION]) ?? "");
  const areAllThere = ranks.length + left.length === size;
  return areAllThere && ranks.every((rank) => rank[fields.STATE] === leaving || isForAnybody(rank)) ? left : [];
}

/** Runs in a thread, where it sees nothing of this module. */
export function watchElsewhere(
  state: ElsewhereState,
  libc: Deno.DynamicLibrary<typeof WATCH_ELSEWHERE>["symbols"],
): void {
  const { page, news, end, patienceSeconds, lastWords, links, lastWordsOfLost, launcher, names } = state;
  const here = 1;
  const pause = Math.min(500, patienceSeconds * 100);
  /** So long after a machine was lost the job is the launcher's to end, which may know more. */
  const launcherMilliseconds = 2000;
  const words = new Int32Array(page.byteLength / 4);
  const told = new Int32Array(news.ranks * news.words);
  /** News of a rank that has left may be here before its last message, which takes another way. */
  const messageMilliseconds = Math.min(2000, patienceSeconds * 500);
  const unseen = { calls: -1, since: 0, isReported: false, leftAt: Infinity };
  const seen = Array.from({ length: page.ranks }, () => ({ ...unseen }));
  const ranks = seen.map((_, i) => words.subarray((i + 1) * page.words, (i + 2) * page.words));
  const look = () => libc.memcpy(new Uint8Array(words.buffer), page.address, BigInt(words.byteLength));
  const reports = new Map<number, Int32Array>();
  const lost: string[] = [];
  let lostAt = Infinity;
  /** What lies between two looks is more only if the job was suspended; nobody has waited then. */
  const longestLook = 2000;
  let [last, now] = [performance.now(), 0];
  /** Whether a rank has been in one call for long. */
  const isStuck = (rank: Int32Array, i: number) => {
    const calls = rank[page.fields.CALLS];
    if (calls !== seen[i].calls) seen[i] = { ...unseen, calls, since: now };
    return calls % 2 !== 0 && now - seen[i].since >= patienceSeconds * 1000;
  };
  const describeWait = (rank: Int32Array) => {
    const place = describePlace(rank, page.fields, names.functions) + describeLine(rank, page.fields);
    return `distmath: rank ${rank[page.fields.RANK]} has waited for more than ${patienceSeconds} s in ${place}`;
  };
  while (Atomics.wait(end, 0, 0, pause) === "timed-out") {
    const time = performance.now();
    [last, now] = [time, now + Math.min(time - last, longestLook)];
    look();
    libc.memcpy(new Uint8Array(told.buffer), news.address, BigInt(told.byteLength));
    lost.push(...lostAmong(links, libc));
    if (lost.length > 0) lostAt = Math.min(lostAt, now);
    for (const link of links) takeReports(link, state, reports, libc);
    const mismatch = findFarMismatch(ranks, reports, state, look);
    if (mismatch !== null) {
      const line = describeFarMismatch(mismatch, page, state.meetings, names, patienceSeconds);
      endAtOnce(1, line, state.lastWordsOfMismatch, libc);
    }
    for (const [i, rank] of ranks.entries()) {
      const isLong = isStuck(rank, i);
      // One that starts or leaves waits for nobody who could have left.
      const mayWait = rank[page.fields.STATE] === here && rank[page.fields.SCOPE] !== 0;
      const awaited = mayWait ? awaitedAmong(rank, page, told, news.words) : [];
      const left = awaited.length > 0 || !mayWait || rank[page.fields.CALLS] % 2 === 0
        ? awaited
        : leftByAll(ranks, page, told, news.words, names.functions);
      if (left.length > 0) seen[i].leftAt = Math.min(seen[i].leftAt, now);
      if (!isLong) continue;
      if (!seen[i].isReported) links.forEach((link) => sendReport(link, rank, libc));
      seen[i].isReported = true;
      if (now - lostAt > launcherMilliseconds) {
        const line =
          `${describeWait(rank)}, and ${lost.join(", ")} cannot be reached any more. The job ends with exit ` +
          "code 1.";
        if (launcher !== null) endWithLauncher(line, launcher, lastWordsOfLost, libc);
        endAtOnce(1, line, lastWordsOfLost, libc);
      }
      if (left.length === 0 || now - seen[i].leftAt < messageMilliseconds) continue;
      const whom = `${left.length === 1 ? "rank" : "ranks"} ${left.join(", ")} of another machine`;
      const line =
        `${describeWait(rank)} for ${whom}, which ended with exit code 0 or called finalize(). The job ends ` +
        "with exit code 1. Have all ranks make the same collective calls, and receive what was sent.";
      endAtOnce(1, line, lastWords, libc);
    }
  }
  Atomics.store(end, 1, 1);
  Atomics.notify(end, 1);
}

/** Take what another machine tells, and pass it on to those that are not connected with it. Also runs in the thread. */
export function takeReports(
  link: MachineLink,
  { page, links, isFirst }: ElsewhereState,
  reports: Map<number, Int32Array>,
  libc: Deno.DynamicLibrary<typeof WATCH_ELSEWHERE>["symbols"],
): void {
  while (true) {
    const report = receiveReport(link, page.words, libc);
    if (report === null) return;
    reports.set(report[page.fields.RANK], report);
    const others = isFirst ? links.filter((other) => other !== link) : [];
    others.forEach((other) => sendReport(other, report, libc));
  }
}

/**
 * A rank of another machine that waits, and one that has made another call in its place: of this machine, if it does not wait
 * there, of which the first machine is told; on that also others. Also runs in the thread.
 */
export function findFarMismatch(
  ranks: readonly Int32Array[],
  reports: ReadonlyMap<number, Int32Array>,
  { page: { fields }, isFirst, meetings }: Pick<ElsewhereState, "page" | "isFirst" | "meetings">,
  look: () => void,
): FarPair | null {
  /** What a rank writes while it is read is read again after that. */
  const settledMilliseconds = 10;
  const isWrong = (pair: FarPair) => isMismatch(pair, fields, meetings);
  const others = isFirst ? [...ranks, ...reports.values()] : ranks;
  for (const waiting of reports.values()) {
    for (const other of others) {
      const pair = { waiting, other };
      if (!isWrong(pair) || (!isFirst && isInPlace(pair, fields))) continue;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, settledMilliseconds);
      look();
      if (isWrong(pair)) return pair;
    }
  }
  return null;
}

/**
 * Write a line, and end what runs of the job on this machine, with the launcher's process on it: one that is to end the job
 * waits for those of machines that are cut off. Also runs in the thread.
 */
export function endWithLauncher(
  line: string,
  launcher: number,
  { words, others }: LastWords,
  libc: Deno.DynamicLibrary<typeof WATCH_ELSEWHERE>["symbols"],
): never {
  const [standardError, SIGKILL] = [2, 9];
  /** For the launcher to read what was printed, also on a busy machine. */
  const readMilliseconds = 1000;
  /** For it to be gone before it reads what shells print of the others. */
  const goneMilliseconds = 100;
  const pause = (milliseconds: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  const bytes = new TextEncoder().encode(`${line}\n${words}`);
  libc.write(standardError, bytes, BigInt(bytes.length));
  removeMpichNames(libc, others);
  pause(readMilliseconds);
  libc.kill(launcher, SIGKILL);
  pause(goneMilliseconds);
  for (const process of others) libc.kill(process, SIGKILL);
  libc._exit(1);
  throw new Error("unreachable");
}
