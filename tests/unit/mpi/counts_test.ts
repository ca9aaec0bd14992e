/** Counts and displacements. */
import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { entryCounts, entryDisplacements, extent, sumOf } from "../../../src/mpi/counts.ts";

Deno.test("counts are copied, each read once: what they become later does not matter", () => {
  const counts = Int32Array.of(1, 2);
  const copy = entryCounts("m", "counts", counts, 2);
  counts[0] = -1;
  assertEquals(copy, Int32Array.of(1, 2));
  let reads = 0;
  const changing = [1, 2];
  Object.defineProperty(changing, 0, { get: () => reads++ === 0 ? 1 : -1 });
  assertEquals(entryCounts("m", "counts", changing, 2), Int32Array.of(1, 2));
  assertEquals(reads, 1);
  const longer = Object.defineProperty(Int32Array.of(1), "length", { value: 2 });
  assertThrows(() => entryCounts("m", "counts", longer, 2), RangeError, "counts[1] is undefined");
});

Deno.test("displacements that are left out put one part after the other", () => {
  fc.assert(fc.property(fc.array(fc.nat(1000), { minLength: 1, maxLength: 9 }), (list) => {
    const counts = entryCounts("m", "counts", list, list.length);
    const starts = entryDisplacements("m", "displacements", undefined, counts);
    assertEquals([...starts], list.map((_, i) => list.slice(0, i).reduce((a, b) => a + b, 0)));
    const total = list.reduce((a, b) => a + b, 0);
    assertEquals([extent("m", counts, starts), sumOf(counts)], [total, total]);
  }));
});

Deno.test("the extent ends with the last part that has entries", () => {
  assertEquals(extent("m", Int32Array.of(2, 0, 3), Int32Array.of(10, 99, 0)), 12);
});

Deno.test("what C's int cannot hold is refused", () => {
  for (const value of [-1, 0.5, NaN, 2 ** 31, "1", null]) {
    assertThrows(() => entryCounts("m", "counts", [value as number], 1), RangeError, "m: counts[0] is ");
  }
  assertThrows(() => entryCounts("m", "counts", undefined, 1), TypeError, "m: counts is missing");
  assertThrows(() => entryCounts("m", "counts", [1], 2), RangeError, "it needs one for each of the 2 ranks");
  assertThrows(() => entryCounts("m", "counts", "1" as never, 1), TypeError, "must be an array");
  const large = Int32Array.of(2 ** 31 - 1, 1);
  assertThrows(() => extent("m", large, entryDisplacements("m", "d", undefined, large)), RangeError, "2^31 - 1");
  const larger = Int32Array.of(2 ** 31 - 1, 1, 1);
  assertThrows(() => entryDisplacements("m", "d", undefined, larger), RangeError, "2^31 - 1");
});
