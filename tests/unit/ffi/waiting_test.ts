/** Functions that wait for other ranks, whichever library they are from. */
import { assertEquals } from "@std/assert";
import { noteWaiting, surroundWaiting } from "../../../ffi/waiting.ts";

Deno.test("what surrounds functions that wait surrounds those that are told of later, too", () => {
  const before = { a: (value: number) => value + 1, b: () => "b" };
  const after = { psgemm: () => "s", lacking: null };
  const calls: string[] = [];
  noteWaiting(before, ["a"]);
  surroundWaiting((name, call) => (...values) => {
    calls.push(name);
    return call(...values);
  });
  noteWaiting(after, { psgemm: "psgemm_", lacking: "lacking_" });
  assertEquals([before.a(1), before.b(), after.psgemm(), after.lacking], [2, "b", "s", null]);
  assertEquals(calls, ["a", "psgemm_"]);
});
