/** Collective calls that do not match are found by the rank that comes last, and no others are. */
import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { Meetings } from "../../../ffi/mpi/meetings.ts";
import { WORDS_OF_RANK } from "../../../ffi/mpi/presence_page.ts";

const [BARRIER, REDUCE, BROADCAST] = [11, 12, 13];

function ranksOf(count: number): Meetings[] {
  const words = new Int32Array(new SharedArrayBuffer(4 * (count + 1) * WORDS_OF_RANK));
  return Array.from({ length: count }, (_, place) => new Meetings(words, place, count));
}

Deno.test("a rank finds who has made its collective call by another function, also when that one has gone on", () => {
  const [first, second] = ranksOf(2);
  assertEquals(first.enter(7, 1, BROADCAST, BROADCAST, 0, true), null);
  assertEquals(first.enter(7, 2, BARRIER, BARRIER, 0, true), null);
  assertEquals(second.enter(7, 1, BARRIER, BARRIER, 0, true), { place: 0, callHash: BROADCAST, count: 0 });
  // Of another communicator, and of a call that nobody else has made.
  assertEquals(second.enter(8, 1, BARRIER, BARRIER, 0, true), null);
  assertEquals(second.enter(7, 3, REDUCE, REDUCE, 0, true), null);
});

Deno.test("a rank finds who has made its call with another root, unless it is in a loop that is not looked at", () => {
  const [first, second] = ranksOf(2);
  assertEquals(first.enter(7, 1, BROADCAST, 20, 0, true), null);
  assertEquals(second.enter(7, 1, BROADCAST, 21, 0, true), { place: 0, callHash: 20, count: 0 });
  for (const [turn, isLooked] of [[2, false], [3, true]] as const) {
    assertEquals(first.enter(7, turn, BROADCAST, 20, 0, isLooked), null);
    assertEquals(second.enter(7, turn, BROADCAST, 20, 0, isLooked), null);
  }
  assertEquals(first.enter(7, 4, BROADCAST, 20, 0, false), null);
  assertEquals(second.enter(7, 4, BROADCAST, 21, 0, false), null);
});

Deno.test("a rank finds who has made its call of more or fewer entries, and takes a call back that it has not made", () => {
  const [first, second] = ranksOf(2);
  assertEquals(first.enter(7, 1, REDUCE, REDUCE, 5, true), null);
  assertEquals(second.enter(7, 1, REDUCE, REDUCE, 3, true), { place: 0, callHash: REDUCE, count: 5 });
  // Others have not to match what was refused.
  second.takeBack(1);
  assertEquals(first.enter(7, 1, REDUCE, REDUCE, 5, true), null);
  assertEquals(second.enter(7, 1, REDUCE, REDUCE, 5, true), null);
});

Deno.test("a rank that makes the same call again and again looks when another one makes another call", () => {
  const [first, second] = ranksOf(2);
  for (let turn = 1; turn < 100; turn++) {
    assertEquals([first, second].map((rank) => rank.enter(7, turn, REDUCE, REDUCE, 0, false)), [null, null]);
  }
  assertEquals(second.enter(7, 100, BARRIER, BARRIER, 0, false), null);
  assertEquals(first.enter(7, 100, REDUCE, REDUCE, 0, false), { place: 1, callHash: BARRIER, count: 0 });
});

Deno.test("of ranks whose calls do not match, however many, one at least finds that", () => {
  const problem = fc.integer({ min: 2, max: 24 }).chain((count) =>
    fc.record({
      order: fc.shuffledSubarray(Array.from({ length: count }, (_, place) => place), { minLength: count }),
      functions: fc.array(fc.constantFrom(BARRIER, REDUCE), { minLength: count, maxLength: count }),
      turns: fc.integer({ min: 0, max: 20 }),
    })
  );
  fc.assert(
    fc.property(problem, ({ order, functions, turns }) => {
      const ranks = ranksOf(order.length);
      for (let turn = 1; turn <= turns; turn++) {
        for (const place of order) assertEquals(ranks[place].enter(7, turn, REDUCE, REDUCE, 0, false), null);
      }
      const found = order.map((place) =>
        ranks[place].enter(7, turns + 1, functions[place], functions[place], 0, false)
      );
      assertEquals(found.some((mismatch) => mismatch !== null), new Set(functions).size > 1);
      for (const [i, mismatch] of found.entries()) {
        if (mismatch === null) continue;
        assertEquals(mismatch.callHash, functions[mismatch.place]);
        assertEquals(mismatch.callHash === functions[order[i]], false);
      }
    }),
    { numRuns: 20 },
  );
});
