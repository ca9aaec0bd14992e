import { assertEquals, assertMatch } from "@std/assert";
import { mpichAbi } from "../../../ffi/mpi/mpich.ts";
import type { Mpi } from "../../../ffi/mpi/mod.ts";
import type { Presence } from "../../../ffi/mpi/presence.ts";
import { PRESENT, type PresentRank } from "../../../ffi/mpi/presence_page.ts";
import { namesOfFunctions, publishWaits } from "../../../ffi/mpi/waits.ts";
import { waitForOthers, waitWhileFailing } from "../../../src/mpi/departure.ts";

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
