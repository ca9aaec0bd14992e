import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { median, quantile, ratios, slowest, summarize } from "../../../bench/harness/statistics.ts";

Deno.test("bench: quantiles interpolate between the sorted samples", () => {
  assertEquals(median([3, 1, 2]), 2);
  assertEquals(median([4, 1, 3, 2]), 2.5);
  assertAlmostEquals(quantile([10, 20, 30, 40, 50], 0.25), 20);
  assertAlmostEquals(quantile([0, 1], 0.75), 0.75);
  assertEquals(quantile([7], 0.9), 7);
  assertThrows(() => median([]), RangeError, "at least one");
});

Deno.test("bench: a summary has the median and the quartiles", () => {
  assertEquals(summarize([5, 1, 4, 2, 3]), { median: 3, low: 2, high: 4, count: 5 });
});

Deno.test("bench: ratios pair the rounds of two series", () => {
  assertEquals(ratios([2, 9], [1, 3]), [2, 3]);
  assertThrows(() => ratios([1, 2], [1]), RangeError, "2 and 1 rounds");
});

Deno.test("bench: a collective call lasts as long as on its slowest rank", () => {
  assertEquals(slowest([[1, 5, 2], [3, 4, 2]]), [3, 5, 2]);
});
