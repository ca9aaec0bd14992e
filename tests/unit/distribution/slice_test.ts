/** The distribution of a part of an array. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  ProcessGrid,
  Replicated,
  Slab,
  Sliced,
} from "../../../src/distribution/mod.ts";
import { everyNth, firstOfEven } from "../../../src/distribution/index_map.ts";
import { anyCase, fraction, indices, rangesOf } from "./arbitraries.ts";

const seeds = fc.array(fraction, { minLength: 6, maxLength: 6 });

Deno.test("a part keeps every element on its rank, in the same order", () => {
  fc.assert(fc.property(anyCase, seeds, ({ distribution, shape, size }, seed) => {
    const ranges = rangesOf(shape, seed);
    const part = distribution.slice(ranges);
    assertEquals(part.globalShape, ranges.map(([start, end]) => end - start));
    assertEquals(part.size, size);
    for (const index of indices(part.globalShape!)) {
      const source = index.map((i, d) => i + ranges[d][0]);
      assertEquals(part.owners(index), distribution.owners(source));
      const offsets = distribution.localRanges(distribution.owner(source), ranges);
      assertEquals(part.toLocal(index).map((i, d) => i + offsets[d][0]), distribution.toLocal(source));
    }
    for (let rank = 0; rank < size; rank++) {
      const local = distribution.localRanges(rank, ranges).map(([start, end]) => end - start);
      if (!local.includes(0)) assertEquals(part.localShape(rank), local);
    }
  }));
});

Deno.test("localRanges are the local indices of a part", () => {
  fc.assert(fc.property(anyCase, seeds, ({ distribution, shape, size }, seed) => {
    const ranges = rangesOf(shape, seed);
    for (let rank = 0; rank < size; rank++) {
      const inside = indices(distribution.localShape(rank)).filter((local) =>
        distribution.toGlobal(rank, local).every((i, d) => i >= ranges[d][0] && i < ranges[d][1])
      );
      const local = distribution.localRanges(rank, ranges);
      const expected = indices(local.map(([start, end]) => end - start)).map((at) => at.map((i, d) => i + local[d][0]));
      assertEquals(inside, expected);
    }
  }));
});

Deno.test("a part is of the simplest class that describes it", () => {
  const slab = Slab.X.bind([10, 6], 3);
  assert(slab.slice([[0, 10], [0, 6]]) === slab);
  assert(slab.slice([[0, 10], [2, 5]]).equals(Slab.X.bind([10, 3], 3)));
  assertEquals(String(slab.slice([[3, 8], [1, 6]])), "Box([0:1, 0:5], [1:4, 0:5], [4:5, 0:5])");
  assertEquals(slab.slice([[0, 3], [1, 6]]).localShape(2), [0, 5]);
  assert(Replicated.bind([4, 4], 2).slice([[1, 2], [0, 4]]).equals(Replicated.bind([1, 4], 2)));
  const grid = new ProcessGrid({ shape: [2, 2] });
  const blocks = new BlockNonCyclic(grid).bind([8, 8], 4);
  assert(blocks.slice([[2, 6], [0, 8]]) instanceof Box);
  const cyclic = new BlockCyclic(grid, [2, 3]).bind([12, 12], 4);
  assert(
    cyclic.slice([[2, 11], [6, 12]]).equals(new BlockCyclic(grid, [2, 3], { firstProcess: [1, 0] }).bind([9, 6], 4)),
  );
  assert(cyclic.slice([[3, 5], [4, 7]]) instanceof Box);
  assert(cyclic.slice([[1, 11], [0, 12]]) instanceof Sliced);
  assert(cyclic.slice([[1, 11], [0, 12]]).slice([[1, 8], [0, 3]]).equals(cyclic.slice([[2, 9], [0, 3]])));
});

Deno.test("a Sliced can be bound to its own shape only", () => {
  const part = new BlockCyclic(new ProcessGrid({ shape: [2] }), [2]).bind([8], 2).slice([[1, 6]]);
  assert(part.bind([5], 2) === part && part.to(Sliced) === part);
  assertEquals([part.ranges(0), part.ranges(1)], [[[[0, 1], [3, 5]]], [[[1, 3]]]]);
  assertEquals([0, 1, 2, 3, 4].map((i) => part.owner([i])), [0, 1, 1, 0, 0]);
});

Deno.test("a Sliced can be transposed", () => {
  const cyclic = new BlockCyclic(new ProcessGrid({ shape: [2, 1] }), [2, 2]).bind([8, 3], 2);
  const part = cyclic.slice([[1, 6], [1, 3]]).transpose();
  assert(part instanceof Sliced && part.source.equals(cyclic.transpose()));
  assertEquals([part.globalShape, part.ranges(0)], [[2, 5], [[[0, 2]], [[0, 1], [3, 5]]]]);
  assert(part.transpose().equals(cyclic.slice([[1, 6], [1, 3]])));
});

Deno.test("every so manieth element of a part is where it was, and at equal distances or said not to be", () => {
  fc.assert(fc.property(anyCase, fc.integer({ min: 1, max: 4 }), ({ distribution, shape, size }, step) => {
    const ranges = shape.map((extent): [number, number] => [0, extent]);
    const part = new Sliced(distribution, ranges, shape.map(() => step));
    assertEquals(part.globalShape, shape.map((extent) => Math.ceil(extent / step)));
    for (const index of indices(part.globalShape!)) {
      assertEquals(part.owner(index), distribution.owner(index.map((i) => i * step)));
    }
    for (let rank = 0; rank < size; rank++) {
      distribution.indexSets(rank).forEach((set, d) => {
        const members = Array.from({ length: set.count }, (_, local) => set.at(local));
        const own = members.filter((index) => index % step === 0);
        const nth = everyNth(set, step);
        assertEquals(Array.from({ length: nth.count }, (_, local) => nth.at(local) * step), own);
        assertEquals(nth.ranges().flatMap(([a, b]) => Array.from({ length: b - a }, (_, i) => (a + i) * step)), own);
        for (let i = 0; i <= shape[d]; i++) assertEquals(nth.before(i), own.filter((index) => index < i * step).length);
        const locals = own.map((index) => set.before(index));
        const isEven = locals.every((local, i) => local === locals[0] + i * step);
        assertEquals(firstOfEven(set, step), isEven ? locals[0] ?? 0 : null);
      });
    }
  }));
});
