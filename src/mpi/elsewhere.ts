/**
 * Ranks of other machines: one that leaves tells a rank on each of them, so that those who wait for it in vain are found;
 * and so are those who wait for a machine that is cut off, or in calls in whose place ranks of another machine make others.
 *
 * A rank that waits in MPI runs no JavaScript, but messages arrive whose receives it has begun. A thread finds them, looks
 * in the memory that the ranks of its machine share (`ffi/mpi/presence.ts`) who waits, and ends the job if one waits for
 * a rank that has left.
 *
 * @module
 */
import { addressOf } from "../../ffi/memory.ts";
import { launcherProcess } from "../../ffi/mpi/ancestors.ts";
import { endAtOnce, lastWords } from "../../ffi/mpi/last_words.ts";
import { launcher } from "../../ffi/mpi/launcher.ts";
import { describeLine, describePlace, MEETINGS, WORDS_OF_MEETING } from "../../ffi/mpi/presence_page.ts";
import { removeMpichNames } from "../../ffi/mpi/mpich_names.ts";
import { callNames, callOf, describeDetails, ownTurns, rooted } from "../../ffi/mpi/waits.ts";
import { ofKind } from "../../ffi/mpi/entry_kinds.ts";
import { startThread } from "../../ffi/thread.ts";
import type { Communicator } from "./communicator.ts";
import { patienceSeconds } from "./departure.ts";
import {
  awaitedAmong,
  endWithLauncher,
  findFarMismatch,
  leftByAll,
  MOST_TURNS,
  takeReports,
  WATCH_ELSEWHERE,
  watchElsewhere,
  WORDS_OF_TURN,
} from "./elsewhere_thread.ts";
import { leaveWith, presenceHere } from "./init_finalize.ts";
import { linkMachines, lostAmong, type MachineLink } from "./machine_links.ts";
import { describeFarMismatch, isInPlace, isMismatch, receiveReport, sendReport } from "./machine_reports.ts";
import type { Request } from "./request.ts";

/** What a rank tells: one more than how many scopes, its number in the job, and how far it has come in each. */
const WORDS_OF_NEWS = 2 + MOST_TURNS * WORDS_OF_TURN;

/** Of each rank the lowest one on its machine, which speaks for it. Collective. */
export function speakersOf(communicator: Communicator): number[] {
  const machine = communicator.splitShared();
  const speaker = communicator.worldRanks.indexOf(machine.worldRanks[0]);
  machine.free();
  return [...communicator.allGather(Int32Array.of(speaker))];
}

/**
 * Have ranks that leave tell those of other machines. Collective over the ranks of `own`, which nobody else communicates by.
 *
 * @param speakers what {@linkcode speakersOf} gives
 */
export function lookElsewhere(own: Communicator, speakers: readonly number[]): void {
  const speaker = speakers[own.rank];
  const others = [...new Set(speakers)].filter((rank) => rank !== speaker);
  const news = new Int32Array(speaker === own.rank ? own.size * WORDS_OF_NEWS : 0);
  const newsOf = (rank: number) => news.subarray(rank * WORDS_OF_NEWS, (rank + 1) * WORDS_OF_NEWS);
  const awaited = speaker !== own.rank ? [] : Array.from(speakers.keys()).filter((rank) => speakers[rank] !== speaker);
  const requests: Request<unknown>[] = awaited.map((rank) => own.ireceive(newsOf(rank), rank));
  const links = linkMachines(own, speaker === own.rank);
  const endWatching = speaker === own.rank ? startWatching(news, links, own.rank === 0) : () => {};
  leaveWith({
    leave() {
      const turns = ownTurns().slice(-MOST_TURNS);
      const words = new Int32Array(WORDS_OF_NEWS);
      words.set([1 + turns.length, own.worldRanks[own.rank], ...turns.flat()]);
      requests.push(...others.map((rank) => own.isend(words, rank)));
    },
    missing: () => awaited.filter((rank) => newsOf(rank)[0] === 0).map((rank) => own.worldRanks[rank]),
    settle: () => requests.forEach((request) => request.wait()),
    // Before that another machine may be lost.
    end: endWatching,
  });
}

/** A thread has at most so long to end: what it is to read then is still there for a moment. */
const LONGEST_END_MILLISECONDS = 1000;

/** Start the thread; what this returns ends it. */
function startWatching(news: Int32Array<ArrayBuffer>, links: readonly MachineLink[], isFirst: boolean): () => void {
  const page = presenceHere()?.memory;
  if (page === undefined) return () => {};
  const end = new Int32Array(new SharedArrayBuffer(8));
  const state = {
    page,
    news: { address: addressOf(news), words: WORDS_OF_NEWS, ranks: news.length / WORDS_OF_NEWS },
    end,
    patienceSeconds: patienceSeconds(),
    lastWords: lastWords(1, "a rank of its machine waited for one of another machine that has left"),
    links,
    lastWordsOfLost: lastWords(1, "another machine cannot be reached any more"),
    isFirst,
    meetings: { count: MEETINGS, words: WORDS_OF_MEETING },
    lastWordsOfMismatch: lastWords(1, "the collective calls of the ranks do not match"),
    // Slurm ends jobs of nodes that fail by itself.
    launcher: launcher()?.kind === "slurm" ? null : launcherProcess(),
    names: callNames(),
  };
  const functions = [
    endAtOnce,
    endWithLauncher,
    removeMpichNames,
    awaitedAmong,
    leftByAll,
    lostAmong,
    sendReport,
    receiveReport,
    takeReports,
    findFarMismatch,
    isMismatch,
    isInPlace,
    describeFarMismatch,
    callOf,
    rooted,
    ofKind,
    describeDetails,
    describePlace,
    describeLine,
  ];
  startThread(watchElsewhere, functions, state, WATCH_ELSEWHERE);
  return () => {
    Atomics.store(end, 0, 1);
    Atomics.notify(end, 0);
    Atomics.wait(end, 1, 0, LONGEST_END_MILLISECONDS);
  };
}
