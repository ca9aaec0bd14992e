import { assertEquals } from "@std/assert";
import { FIELDS, MEETINGS, NO_PEER, WORDS_OF_MEETING, WORDS_OF_RANK } from "../../../ffi/mpi/presence_page.ts";
import {
  awaitedAmong,
  type ElsewhereState,
  findFarMismatch,
  leftByAll,
  takeReports,
  type WATCH_ELSEWHERE,
} from "../../../src/mpi/elsewhere_thread.ts";

const WORDS_OF_NEWS = 8;

/** What ranks of another machine have told: of rank 4 nothing, rank 5 and 6 have left, in two scopes and in one. */
const news = Int32Array.from([
  ...[0, 0, 0, 0, 0, 0, 0, 0],
  ...[3, 5, 70, 12, 1, 71, 3, 0],
  ...[2, 6, 70, 11, 2, 0, 0, 0],
]);

/** For whom one waits that is in this call. */
function awaitedIn(call: Partial<Record<keyof typeof FIELDS, number>>): number[] {
  const rank = new Int32Array(WORDS_OF_RANK);
  const all = { FIRST_PEER: NO_PEER, SECOND_PEER: NO_PEER, ...call };
  for (const [field, value] of Object.entries(all)) rank[FIELDS[field as keyof typeof FIELDS]] = value;
  return awaitedAmong(rank, { fields: FIELDS }, news, WORDS_OF_NEWS);
}

Deno.test("who waits for a rank of another machine that has left waits in vain", () => {
  assertEquals(awaitedIn({ SCOPE: 70, TURN: 11 }), []);
  assertEquals(awaitedIn({ SCOPE: 70, TURN: 12 }), [6]);
  assertEquals(awaitedIn({ SCOPE: 70, TURN: 13 }), [5, 6]);
  // A communicator that they are not in.
  assertEquals(awaitedIn({ SCOPE: 72, TURN: 1 }), []);
  // Messages from them, by their numbers in the communicator.
  assertEquals(awaitedIn({ SCOPE: 70, FIRST_PEER: 1 }), [5]);
  assertEquals(awaitedIn({ SCOPE: 70, FIRST_PEER: 1, SECOND_PEER: 2 }), [5, 6]);
  assertEquals(awaitedIn({ SCOPE: 70, FIRST_PEER: 2, SECOND_PEER: 2 }), [6]);
  // What is sent to one that has left, or comes from it, may have come there before.
  assertEquals(awaitedIn({ SCOPE: 70, FIRST_PEER: 4, SECOND_PEER: 2 }), []);
  assertEquals(awaitedIn({ SCOPE: 70, FIRST_PEER: 2, SECOND_PEER: 4 }), []);
  assertEquals(awaitedIn({ SCOPE: 71, FIRST_PEER: 1 }), []);
});

Deno.test("who waits for anybody waits in vain when all others have left", () => {
  const names = new Map([[7, "MPI_Recv"], [8, "MPI_Send"]]);
  const rankIn = (call: Partial<Record<keyof typeof FIELDS, number>>) => {
    const rank = new Int32Array(WORDS_OF_RANK);
    const all = { STATE: 1, CALLS: 5, FUNCTION: 7, FIRST_PEER: -1, SECOND_PEER: NO_PEER, ...call };
    for (const [field, value] of Object.entries(all)) rank[FIELDS[field as keyof typeof FIELDS]] = value;
    return rank;
  };
  const left = { STATE: 3, CALLS: 8 };
  const leftIn = (size: number, ...calls: Parameters<typeof rankIn>[0][]) =>
    leftByAll(calls.map(rankIn), { fields: FIELDS, size }, news, WORDS_OF_NEWS, names);
  // Of another machine ranks 5 and 6 have left, and there may be more.
  assertEquals(leftIn(4, {}, left), [5, 6]);
  assertEquals(leftIn(4, {}, {}), [5, 6]);
  assertEquals(leftIn(5, {}, left), []);
  // One of this machine works, sends, or receives from a rank.
  for (const other of [{ CALLS: 6 }, { FUNCTION: 8, FIRST_PEER: 0 }, { FIRST_PEER: 0 }, { FIRST_PEER: NO_PEER }]) {
    assertEquals(leftIn(4, {}, other), []);
  }
});

const meetings = { count: MEETINGS, words: WORDS_OF_MEETING };

/** A rank in its call of this number on a communicator, or after it; and what stands for its last calls there. */
function rankIn(rank: number, turn: number, calls: Readonly<Record<number, number>>, waits = true): Int32Array {
  const words = new Int32Array(WORDS_OF_RANK);
  words[FIELDS.RANK] = rank;
  words[FIELDS.CALLS] = waits ? 7 : 8;
  words[FIELDS.SCOPE] = 70;
  words[FIELDS.TURN] = turn;
  for (const [number, call] of Object.entries(calls)) {
    words.set([70, Number(number), call], FIELDS.MEETINGS + Number(number) % MEETINGS * WORDS_OF_MEETING);
  }
  return words;
}

/** The ranks of a mismatch: the one that waits, and the other. */
function mismatchOf(
  reports: readonly Int32Array[],
  ranks: readonly Int32Array[],
  isFirst: boolean,
  look: () => void = () => {},
): number[] | null {
  const byRank = new Map(reports.map((report) => [report[FIELDS.RANK], report]));
  const page = { address: 0n, byteLength: 0, words: WORDS_OF_RANK, fields: FIELDS, ranks: 2, size: 6, own: 0 };
  const found = findFarMismatch(ranks, byRank, { page, isFirst, meetings }, look);
  return found && [found.waiting[FIELDS.RANK], found.other[FIELDS.RANK]];
}

Deno.test("other calls on another machine are found: by the first one, or where a rank has gone on from them", () => {
  const waiting = rankIn(4, 9, { 8: 1, 9: 1 });
  const same = rankIn(0, 9, { 8: 1, 9: 1 });
  assertEquals(mismatchOf([waiting], [same], true), null);
  // Late, or ahead by so much that nothing is known any more, or in another communicator.
  assertEquals(mismatchOf([waiting], [rankIn(0, 8, { 8: 2 })], true), null);
  assertEquals(mismatchOf([waiting], [rankIn(0, 17, { 9: 2, 17: 2 })], true), null);
  assertEquals(
    mismatchOf([waiting], [rankIn(0, 9, { 9: 2 }).with(FIELDS.MEETINGS + WORDS_OF_MEETING, 71)], true),
    null,
  );
  const other = rankIn(1, 9, { 9: 2 });
  assertEquals(mismatchOf([waiting], [same, other], true), [4, 1]);
  // It is told to the first machine, which sees both.
  assertEquals(mismatchOf([waiting], [same, other], false), null);
  assertEquals(mismatchOf([waiting, other], [same], true), [4, 1]);
  const gone = rankIn(1, 11, { 9: 2, 10: 1, 11: 1 });
  assertEquals(mismatchOf([waiting], [same, gone], false), [4, 1]);
  assertEquals(mismatchOf([waiting], [same, rankIn(1, 9, { 9: 2 }, false)], false), [4, 1]);
});

Deno.test("a call that is being written while it is read is no other call", () => {
  const half = rankIn(1, 9, { 9: 2 });
  const look = () => half.set(rankIn(1, 17, { 17: 2 }));
  assertEquals(mismatchOf([rankIn(4, 9, { 9: 1 })], [half], true, look), null);
});

Deno.test("the first machine passes on what one tells to all others, another machine to none", () => {
  const links = [1, 2, 3].map((socket) => ({ socket, machine: `host${socket}` }));
  for (const isFirst of [true, false]) {
    // One whole report has come from the second machine, and a part of the next one.
    let waiting: Int32Array | null = rankIn(4, 9, { 9: 1 });
    const sent: [socket: number, rank: number][] = [];
    const sockets = {
      recv(_socket: number, into: Int32Array, bytes: bigint, flags: number) {
        if (waiting === null) return 100n;
        into.set(waiting);
        const isPeek = (flags & 2) !== 0;
        if (!isPeek) waiting = null;
        return bytes;
      },
      send: (socket: number, report: Int32Array) => void sent.push([socket, report[FIELDS.RANK]]),
    };
    const reports = new Map<number, Int32Array>();
    const state = { page: { words: WORDS_OF_RANK, fields: FIELDS }, links, isFirst } as unknown as ElsewhereState;
    const libc = sockets as unknown as Deno.DynamicLibrary<typeof WATCH_ELSEWHERE>["symbols"];
    takeReports(links[1], state, reports, libc);
    assertEquals([...reports.keys()], [4]);
    assertEquals(sent, isFirst ? [[1, 4], [3, 4]] : []);
  }
});
