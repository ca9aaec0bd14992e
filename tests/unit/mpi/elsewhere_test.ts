import { assertEquals } from "@std/assert";
import { FIELDS, NO_PEER, WORDS_OF_RANK } from "../../../ffi/mpi/presence_page.ts";
import { awaitedAmong } from "../../../src/mpi/elsewhere_thread.ts";

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
  assertEquals(awaitedIn({ SCOPE: 70, FIRST_PEER: 4, SECOND_PEER: 2 }), [6]);
  assertEquals(awaitedIn({ SCOPE: 71, FIRST_PEER: 1 }), []);
});
