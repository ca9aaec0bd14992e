import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type Order, type Run, stridesOf } from "../../../src/array/layout.ts";
import { elementsInOnePiece, segmentsOf } from "../../../src/array/redistribution/segments.ts";

/** Runs of one dimension: ascending on both sides, with gaps. */
const dimension = fc.array(
  fc.record({
    gap: fc.integer({ min: 0, max: 2 }),
    other: fc.integer({ min: 0, max: 1 }),
    length: fc.integer({ min: 1, max: 3 }),
  }),
  { minLength: 1, maxLength: 3 },
).map((list) => {
  let [source, target] = [0, 0];
  return list.map(({ gap, other, length }): Run => {
    const run = { source: source + gap, target: target + other, length };
    [source, target] = [run.source + length, run.target + length];
    return run;
  });
});

/** The places of the elements, one by one. */
function places(
  runs: readonly (readonly Run[])[],
  side: "source" | "target",
  strides: readonly number[],
  order: Order,
): number[] {
  const dimensions = runs.map((_, d) => d);
  if (order === "F") dimensions.reverse();
  return dimensions.reduce<number[]>((all, d) => {
    const indices = runs[d].flatMap((run) => Array.from({ length: run.length }, (_, i) => run[side] + i));
    return all.flatMap((at) => indices.map((i) => at + i * strides[d]));
  }, [0]);
}

Deno.test("the bytes of a block come in the order of its elements, and what lies together comes together", () => {
  const blocks = fc.array(dimension, { minLength: 1, maxLength: 4 });
  const orders = fc.constantFrom("C", "F");
  const padding = fc.integer({ min: 0, max: 2 });
  fc.assert(
    fc.property(
      blocks,
      orders,
      orders,
      fc.constantFrom("source", "target"),
      padding,
      (runs, order, lies, side, more) => {
        const extents = runs.map((list) => Math.max(...list.map((run) => run[side] + run.length)) + more);
        const strides = stridesOf(extents, lies);
        const itemSize = 4;
        const { starts, lengths } = segmentsOf({ runs, side, strides }, order, itemSize);
        const bytes = starts.flatMap((start, i) =>
          Array.from({ length: lengths[i] / itemSize }, (_, k) => start / itemSize + k)
        );
        const expected = places(runs, side, strides, order);
        assertEquals(bytes, expected);
        assert(starts.every((start, i) => i === 0 || start !== starts[i - 1] + lengths[i - 1]));
        // An estimate: at most as long as they are, since what follows by chance is not looked for.
        assert(elementsInOnePiece({ runs, side, strides }, order) <= expected.length / starts.length + 1e-9);
      },
    ),
  );
});

Deno.test("rows of blocks that become neighbours are one piece; nothing is none", () => {
  const blocks: Run[] = Array.from({ length: 4 }, (_, i) => ({ source: 16 * i, target: 8 * i, length: 8 }));
  const runs = [[{ source: 0, target: 0, length: 5 }], blocks];
  assertEquals(elementsInOnePiece({ runs, side: "target", strides: [32, 1] }, "C"), 160);
  assertEquals(elementsInOnePiece({ runs, side: "source", strides: [64, 1] }, "C"), 8);
  assertEquals(segmentsOf({ runs, side: "target", strides: [32, 1] }, "C", 8), { starts: [0], lengths: [1280] });
  const none = { runs: [[], blocks], side: "source", strides: [64, 1] } as const;
  assertEquals([elementsInOnePiece(none, "C"), segmentsOf(none, "C", 8)], [0, { starts: [], lengths: [] }]);
});
