/** Bytes from rank to rank: of redistributions against a count of single elements, as text, and as a picture. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { CommunicationMatrix, type Distribution, Replicated, Slab } from "../../../mod.ts";
import { elementsBetween, planRedistribution } from "../../../src/array/redistribution/plan.ts";
import { describeShare } from "../../../src/distribution/communication.ts";
import { anyCase, indices } from "./arbitraries.ts";

/** Any distribution, and a slab or a replicated one, in either direction. */
const pairs = fc.record({
  given: anyCase,
  dimension: fc.nat(2),
  isReplicated: fc.boolean(),
  isBackwards: fc.boolean(),
}).map(({ given: { distribution, shape, size }, dimension, isReplicated, isBackwards }) => {
  const other = (isReplicated ? Replicated : new Slab(dimension % shape.length)).bind(shape, size);
  const [from, to] = isBackwards ? [other, distribution] : [distribution, other];
  return { from, to, shape, size };
});

Deno.test("a redistribution's matrix counts each element once, from its owner to whoever wants it", () => {
  fc.assert(fc.property(pairs, ({ from, to, shape, size }) => {
    const counted = Array.from({ length: size }, () => Array<number>(size).fill(0));
    const has = (distribution: Distribution, rank: number, index: readonly number[]) =>
      distribution.ranges(rank).every((ranges, d) =>
        ranges.some(([start, end]) => start <= index[d] && index[d] < end)
      );
    for (const index of indices(shape)) {
      const owner = counted.findIndex((_, rank) => has(from, rank, index));
      counted.forEach((_, rank) => {
        if (has(to, rank, index) && !has(from, rank, index)) counted[owner][rank]++;
      });
    }
    const found = elementsBetween(from, to);
    assertEquals(found, counted);
    assertEquals(new CommunicationMatrix(found).total, planRedistribution(from, to, 0).elementsMoved);
  }));
});

const matrix = new CommunicationMatrix([[0, 1024, 5], [2_500_000, 0, 0], [0, 9_990, 0]], ["without <this>"]);

Deno.test("a matrix has what ranks send and receive, as text and in words", () => {
  assertEquals([0, 1, 2].map((rank) => matrix.sent(rank)), [1029, 2_500_000, 9990]);
  assertEquals([0, 1, 2].map((rank) => matrix.received(rank)), [2_500_000, 11_014, 5]);
  assertEquals(matrix.total, 2_511_019);
  assertEquals(
    matrix.toText(),
    [
      "2511019 bytes between ranks",
      "from \\ to     0     1  2",
      "        0     .  1.0k  5",
      "        1  2.5M     .  0",
      "        2     0   10k  .",
      "without <this>",
    ].join("\n"),
  );
  assertEquals(
    describeShare(matrix, 2),
    "this rank sends 9990 bytes and receives 5; rank 1, the busiest, 2500000 and 11014",
  );
  assertEquals(describeShare(matrix, 1), "this rank sends 2500000 bytes and receives 11014");
});

Deno.test("a picture of a matrix has a cell for each pair of ranks that it shows", () => {
  const picture = matrix.toSVG();
  assertEquals(picture.match(/class="cell"/g)!.length, 9);
  assertStringIncludes(picture, "<title>rank 1 to rank 0: 2500000 bytes</title>");
  assertStringIncludes(picture, "without &lt;this&gt;");
  const part = matrix.toSVG({ maxRanks: 2 });
  assertEquals(part.match(/class="cell"/g)!.length, 4);
  assertStringIncludes(part, "2511019 bytes between ranks, the first 2 of 3 ranks");
  assertStringIncludes(matrix.toText({ maxRanks: 1 }), "the first 1 of 3 ranks");
  assertThrows(() => matrix.toSVG({ maxRanks: 0 }), RangeError, "maxRanks must be an integer of at least 1, got 0");
  assert(new CommunicationMatrix([[0]]).toSVG().includes("0 bytes between ranks"));
});

Deno.test("nobody sends what is replicated", () => {
  const [everywhere, rows] = [Replicated.bind([4, 4], 2), Slab.X.bind([4, 4], 2)];
  assertEquals(elementsBetween(everywhere, rows), [[0, 0], [0, 0]]);
  assertEquals(elementsBetween(rows, everywhere), [[0, 8], [8, 0]]);
});
