/** What waits for all ranks: freed when all have it, in one order. */
import { assertEquals } from "@std/assert";
import { forgetCollectiveFree, freeQueued, queueCollectiveFree } from "../../../src/mpi/collective_free.ts";

/** A communicator of three ranks, of which the others have queued these keys. */
function withOthers(...others: string[][]): { allGatherObject<T>(value: T): T[] } {
  return { allGatherObject: <T>(value: T) => [value, ...others as T[]] };
}

Deno.test("only what every member has queued is freed, in the order of the lowest rank", () => {
  const freed: string[] = [];
  const queue = (key: string, members: number) => queueCollectiveFree(key, members, () => freed.push(key));
  queue("b", 3);
  queue("a", 3);
  queue("mine", 1);
  queue("late", 3);
  queue("gone", 3);
  forgetCollectiveFree("gone");
  assertEquals(freeQueued(withOthers(["a", "b", "gone"], ["b", "a", "theirs"])), { count: 3, errors: [] });
  assertEquals(freed, ["b", "a", "mine"]);
  assertEquals(freeQueued(withOthers(["late"], ["late"])), { count: 1, errors: [] });
  assertEquals(freeQueued(withOthers([], [])), { count: 0, errors: [] });
});
