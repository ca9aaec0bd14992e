/** What machines tell each other of collective calls that do not match. */
import { assertEquals, assertMatch } from "@std/assert";
import { FIELDS, MEETINGS, WORDS_OF_MEETING, WORDS_OF_RANK } from "../../../ffi/mpi/presence_page.ts";
import { rooted } from "../../../ffi/mpi/waits.ts";
import { describeFarMismatch, isMismatch } from "../../../src/mpi/machine_reports.ts";

const REDUCE = 72;
const names = { functions: new Map([[REDUCE, "MPI_Reduce"]]), kinds: [""] };
const meetings = { count: MEETINGS, words: WORDS_OF_MEETING };

/** A rank in the ninth call of a communicator, with this root and of so many entries; or after it. */
function rankIn(rank: number, root: number, count: number, waits = true): Int32Array {
  const words = new Int32Array(WORDS_OF_RANK);
  words.set([rank, waits ? 7 : 8, REDUCE, 70, 9], FIELDS.RANK);
  words.set([70, 9, rooted(REDUCE, root), count], FIELDS.MEETINGS + 9 % MEETINGS * WORDS_OF_MEETING);
  return words;
}

/** What is told of two ranks, from the first number to the second; `null` if their calls match. */
function told(waiting: Int32Array, other: Int32Array): string | null {
  const pair = { waiting, other };
  if (!isMismatch(pair, FIELDS, meetings)) return null;
  return describeFarMismatch(pair, { fields: FIELDS, size: 4 }, meetings, names, 10).split(". ")[0];
}

Deno.test("calls that match are none that do not, and only what differs is told of others", () => {
  assertEquals(told(rankIn(0, 1, 5), rankIn(2, 1, 5)), null);
  assertMatch(
    told(rankIn(0, 1, 5), rankIn(2, 1, 3))!,
    /rank 0 has waited for more than 10 s in MPI_Reduce with root 1 of 5 entries, and rank 2, on another machine, waits in MPI_Reduce with root 1 of 3 entries in its place/,
  );
  assertMatch(
    told(rankIn(0, 1, 5), rankIn(2, 3, 5, false))!,
    /in MPI_Reduce with root 1, and rank 2, on another machine, has called MPI_Reduce with root 3 in its place/,
  );
});
