import { assertEquals, assertMatch } from "@std/assert";
import { mpichAbi } from "../../../ffi/mpi/mpich.ts";
import type { Mpi } from "../../../ffi/mpi/mod.ts";
import type { Presence } from "../../../ffi/mpi/presence.ts";
import { PRESENT, type PresentRank } from "../../../ffi/mpi/presence_page.ts";
import { namesOfFunctions, publishWaits } from "../../../ffi/mpi/waits.ts";
import { leaveAfterSending, waitForOthers, waitWhileFailing } from "../../../src/mpi/departure.ts";

const names = namesOfFunctions();
// From then on this rank knows functions by what stands for them.
publishWaits(
  { firstRank: 0 } as unknown as Presence,
  { handle: 1, rank: 1 },
  { ...mpichAbi.constants, self: 0 },
  () => 1,
);
const hashOf = (name: string) => [...names.keys()].find((hash) => names.get(hash) === name)!;

const mpi = { constants: {}, symbols: { MPI_Iprobe: () => 0 } } as unknown as Mpi;

/** A rank that works, in no call. */
const working: PresentRank = {
  messagesAhead: 0,
  rank: 0,
  state: PRESENT.HERE,
  calls: 4,
  operation: "",
  line: "",
  functionHash: 0,
  scope: 0,
  turn: 0,
  peers: [],
  isBeside: false,
};

/**
 * What rank 1 says at its end, when rank 0 works until it has, or for 100 looks; and how often it may speak. Or rank 0 waits,
 * beside ranks of programs that tell nothing of themselves.
 */
function notesOf(
  mayNote: boolean,
  { other = working, isComplete = true } = {},
): { notes: string[]; ending: string | null } {
  const notes: string[] = [];
  let looks = 0;
  const presence = {
    isWhole: true,
    isComplete,
    setState: () => {},
    others: () => ++looks > 100 || notes.length > 0 ? [] : [other],
    claimNote: () => mayNote,
    claimTelling: () => true,
  } as unknown as Presence;
  const ending = waitForOthers(mpi, 1, presence, (line) => notes.push(line), []);
  return { notes, ending };
}

Deno.test("a rank that has ended tells once for whom it waits, and leaves them alone", () => {
  const before = Deno.env.get("DISTMATH_PATIENCE_SECONDS");
  Deno.env.set("DISTMATH_PATIENCE_SECONDS", "0.01");
  try {
    const { notes, ending } = notesOf(true);
    assertEquals([notes.length, ending], [1, null]);
    assertMatch(
      notes[0],
      /^distmath: rank 1 has ended, and has waited for more than 0.01 s for the others of this machine to end: rank 0, which is in no call that waits\. The job goes on\.$/,
    );
    // Another rank of the machine has told it.
    assertEquals(notesOf(false), { notes: [], ending: null });
    // It may wait for somebody who tells nothing.
    const receives = { ...working, calls: 5, functionHash: hashOf("MPI_Recv") };
    assertEquals(notesOf(true, { other: receives, isComplete: false }).ending, null);
    assertMatch(
      notesOf(true, { other: receives, isComplete: false }).notes[0],
      /rank 0, which is in MPI_Recv\. The job/,
    );
    assertMatch(
      notesOf(true, { other: receives }).ending!,
      /^distmath: rank 0 has waited for more than 0.01 s in MPI_Recv for/,
    );
    // What a script awaits may come from elsewhere, or not at all.
    const awaits = { ...receives, functionHash: hashOf("MPI_Irecv"), isBeside: true };
    assertEquals(notesOf(true, { other: awaits }).ending, null);
    assertMatch(notesOf(true, { other: awaits }).notes[0], /rank 0, which is in MPI_Irecv\. The job goes on\.$/);
  } finally {
    if (before === undefined) Deno.env.delete("DISTMATH_PATIENCE_SECONDS");
    else Deno.env.set("DISTMATH_PATIENCE_SECONDS", before);
  }
});

/** What a rank with the usual patience says at its end, by a clock that goes on by so many seconds with each look at others. */
function endingOf(others: readonly PresentRank[], seconds: readonly number[]): string | null {
  const { now } = performance;
  let [looks, time] = [0, 0];
  const presence = {
    isComplete: true,
    setState: () => {},
    others: () => {
      time += 1000 * (seconds[looks] ?? 0);
      return looks++ < seconds.length ? others : [];
    },
    claimNote: () => true,
    claimTelling: () => true,
  } as unknown as Presence;
  performance.now = () => time;
  try {
    return waitForOthers(mpi, 1, presence, () => {}, []);
  } finally {
    performance.now = now;
  }
}

const steadily = (seconds: number) => Array<number>(seconds).fill(1);
const inCall = (name: string, rank = 0, scope = 0) => ({
  ...working,
  rank,
  scope,
  calls: 5,
  functionHash: hashOf(name),
});

Deno.test("ranks of a job that was suspended have not waited meanwhile for one that has left", () => {
  const others = [inCall("MPI_Recv")];
  assertEquals(endingOf(others, [...steadily(5), 60, 1, 60, 1]), null);
  assertMatch(
    endingOf(others, steadily(15))!,
    /^distmath: rank 0 has waited for more than 10 s in MPI_Recv for rank 1/,
  );
});

Deno.test("ranks that may exchange a message, also by requests, are given more time", () => {
  for (const name of ["MPI_Send", "MPI_Recv", "MPI_Wait"]) {
    const others = [inCall(name, 0, name === "MPI_Wait" ? 0 : 5), inCall("MPI_Wait", 2)];
    assertEquals(endingOf(others, steadily(50)), null);
    assertMatch(endingOf(others, steadily(110))!, /in MPI_Wait.* for rank 1/);
  }
  for (const others of [[inCall("MPI_Wait")], [inCall("MPI_Recv"), inCall("MPI_Recv", 2)]]) {
    assertMatch(endingOf(others, steadily(15))!, /for rank 1, which has ended/);
  }
});

Deno.test("ranks that take what one sends that has left are given more time, and again when it has sent it", () => {
  const others = [inCall("MPI_Recv")];
  const endingAfter = (sends: number, seconds: number) => {
    leaveAfterSending(() => sends-- > 0);
    return endingOf(others, steadily(seconds));
  };
  try {
    assertEquals(endingAfter(50, 55), null);
    assertMatch(endingAfter(50, 65)!, /in MPI_Recv for rank 1/);
    assertMatch(endingAfter(Infinity, 110)!, /in MPI_Recv for rank 1/);
  } finally {
    leaveAfterSending(() => false);
  }
});

Deno.test("MPI starts when no other rank is about to end with an error", () => {
  const states = [PRESENT.FAILING, PRESENT.FAILING, PRESENT.STARTING, PRESENT.FAILING];
  let looks = 0;
  waitWhileFailing({ others: () => [working, { ...working, state: states[looks++] }] } as unknown as Presence);
  assertEquals(looks, 3);
});

Deno.test("a rank that is told of those on other machines waits for them, and tells for whom", () => {
  const before = Deno.env.get("DISTMATH_PATIENCE_SECONDS");
  Deno.env.set("DISTMATH_PATIENCE_SECONDS", "0.01");
  try {
    const notes: string[] = [];
    const presence = { setState: () => {}, others: () => [], claimNote: () => true } as unknown as Presence;
    const elsewhere = {
      leave: () => {},
      settle: () => {},
      end: () => {},
      missing: () => notes.length === 0 ? [4, 5] : [],
    };
    assertEquals(waitForOthers(mpi, 1, presence, (line) => notes.push(line), [elsewhere]), null);
    assertEquals(notes, [
      "distmath: rank 1 has ended, and has waited for more than 0.01 s for those of other machines to end: 4, 5. The job goes on.",
    ]);
  } finally {
    if (before === undefined) Deno.env.delete("DISTMATH_PATIENCE_SECONDS");
    else Deno.env.set("DISTMATH_PATIENCE_SECONDS", before);
  }
});
