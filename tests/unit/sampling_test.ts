/** Samples of cases are in step with no loop, and all numbers of ranks together try each case. */
import { assert, assertEquals } from "@std/assert";
import { isSampled } from "../cluster/sampling.ts";

Deno.test("each of so many numbers of ranks tries its share of the cases, and together they try each one once", () => {
  const names = Array.from({ length: 3000 }, (_, i) => `case ${i}`);
  const shares = [2, 3, 4].map((ranks) => names.filter((name) => isSampled(name, ranks, 3)));
  assertEquals(shares.flat().sort(), names.toSorted());
  for (const { length } of shares) assert(length > 900 && length < 1100, `${length}`);
});

Deno.test("whatever the loops of a table, a sample has each value of each of them", () => {
  for (const extents of [[4, 3, 4], [6, 6, 4], [2, 16, 8], [13, 3, 5]]) {
    const [a, b, c] = extents.map((extent) => Array.from({ length: extent }, (_, i) => i));
    const cases = a.flatMap((i) => b.flatMap((j) => c.map((k) => [i, j, k])));
    for (const ranks of [2, 3, 4]) {
      const tried = cases.filter((one) => isSampled(one.join(), ranks, 3));
      for (const d of [0, 1, 2]) assertEquals(new Set(tried.map((one) => one[d])).size, extents[d], `${extents}`);
    }
  }
});
