/** Binding, equality, texts, and the examples that the documents promise. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Distribution,
  ProcessGrid,
  Replicated,
  ReplicatedDistribution,
  Slab,
  Sliced,
} from "../../../src/distribution/mod.ts";
import { anyCase } from "./arbitraries.ts";

const square = new ProcessGrid({ shape: [2, 2] });
const unbound: Distribution[] = [
  Slab.X,
  new Slab(1),
  new Box([[[0, 0], [4, 3]], [[0, 3], [4, 6]], [[4, 0], [4, 6]], [[4, 0], [5, 6]]]),
  new BlockCyclic(square, [2, 3], { firstProcess: [1, 0] }),
  new BlockNonCyclic(square),
  Replicated,
];

Deno.test("bind makes a new bound object of the same class and leaves the old one as it was", () => {
  for (const distribution of unbound) {
    const bound = distribution.bind([5, 6], 4);
    assert(bound !== distribution && bound.constructor === distribution.constructor);
    assertEquals([distribution.isBound, distribution.globalShape, distribution.size], [false, null, null]);
    assertEquals([bound.isBound, bound.globalShape, bound.size], [true, [5, 6], 4]);
    assertEquals(String(bound), String(distribution));
  }
});

Deno.test("a bound distribution can be bound again", () => {
  assertEquals(Slab.X.bind([5, 6], 4).bind([8, 3], 2).localShape(1), [4, 3]);
  assertEquals(new BlockNonCyclic(square).bind([5, 6], 4).bind([9, 1], 4).blockSizes, [5, 1]);
  assertEquals(Replicated.bind([5], 2).bind([3, 3], 1).localShape(0), [3, 3]);
});

Deno.test("a later change of what was passed in has no effect", () => {
  const shape = [4, 4];
  const blocks = [1, 1];
  const distribution = new BlockCyclic(square, blocks).bind(shape, 4);
  shape[0] = blocks[0] = 99;
  assertEquals([distribution.globalShape, distribution.blockSizes], [[4, 4], [1, 1]]);
});

Deno.test("texts", () => {
  assertEquals([Slab.X, Slab.Y, Slab.Z, new Slab(3)].map(String), ["Slab.X", "Slab.Y", "Slab.Z", "Slab(3)"]);
  assertEquals(String(Slab.X.bind([4, 4], 2)), "Slab.X");
  assertEquals(String(Replicated.bind([4], 2)), "Replicated");
  assertEquals(String(new BlockNonCyclic(square)), "BlockNonCyclic(2 x 2 row-major)");
  const columns = new ProcessGrid({ shape: [2, 2], layout: "column-major", processes: [3, 1, 0, 2] });
  assertEquals(
    String(new BlockCyclic(columns, [32, 16], { firstProcess: [1, 0] })),
    "BlockCyclic(2 x 2 column-major of ranks 3, 1, 0, 2, blocks 32 x 16, first process [1, 0])",
  );
  assertEquals(String(new Box([[[0, 0], [2, 4]], [[2, 0], [4, 4]]])), "Box([0:2, 0:4], [2:4, 0:4])");
  const sliced = new BlockCyclic(new ProcessGrid({ shape: [2] }), [2]).bind([8], 2).slice([[1, 6]]);
  assertEquals(String(sliced), "BlockCyclic(2, blocks 2)[1:6]");
});

Deno.test("the constants are what they are called", () => {
  assertEquals([Slab.X, Slab.Y, Slab.Z].map((slab) => slab.partitionDimension), [0, 1, 2]);
  assert(
    Replicated instanceof ReplicatedDistribution && Replicated.isReplicated && Replicated.bind([1], 1).isReplicated,
  );
  assertEquals(unbound.filter((distribution) => distribution.isReplicated), [Replicated]);
});

Deno.test("equality is by class and parameters", () => {
  for (const [i, a] of unbound.entries()) {
    for (const [j, b] of unbound.entries()) assertEquals(a.equals(b), i === j, `${a} and ${b}`);
  }
  assert(new Slab(0).equals(Slab.X));
  assert(new BlockCyclic(square, [2, 3]).equals(new BlockCyclic(new ProcessGrid({ shape: [2, 2] }), [2, 3])));
  assert(!new BlockCyclic(square, [2, 3]).equals(new BlockCyclic(square, [3, 3])));
  assert(!new BlockCyclic(square, [2, 3]).equals(new BlockCyclic(square.transpose(), [2, 3])));
  assert(!new BlockCyclic(square, [2, 3]).equals(new BlockCyclic(square, [2, 3], { firstProcess: [0, 1] })));
  assert(!new BlockNonCyclic(square).equals(new BlockNonCyclic(square, { firstProcess: [0, 1] })));
  const [rows, columns] = (["row-major", "column-major"] as const).map((layout) =>
    new ProcessGrid({ shape: [1, 4], layout })
  );
  assert(new BlockNonCyclic(rows).equals(new BlockNonCyclic(columns)));
});

Deno.test("bindings are compared only if both are bound", () => {
  const bound = Slab.X.bind([4, 4], 2);
  assert(bound.equals(Slab.X) && Slab.X.equals(bound) && bound.equals(Slab.X.bind([4, 4], 2)));
  assert(!bound.equals(Slab.X.bind([4, 5], 2)));
  assert(!bound.equals(Slab.X.bind([4, 4], 3)));
  assert(!bound.equals(Slab.Y.bind([4, 4], 2)));
  const part = (end: number) => new BlockCyclic(new ProcessGrid({ shape: [2] }), [2]).bind([8], 2).slice([[1, end]]);
  assert(part(6) instanceof Sliced && part(6).equals(part(6)) && !part(6).equals(part(7)));
});

Deno.test("coincidesWith compares what the ranks hold, whatever the class", () => {
  fc.assert(fc.property(anyCase, anyCase, (a, b) => {
    const held = (d: Distribution) =>
      Array.from({ length: d.size! }, (_, rank) => d.localShape(rank).includes(0) ? [] : d.ranges(rank));
    const isSame = a.size === b.size && a.shape.join() === b.shape.join() &&
      JSON.stringify(held(a.distribution)) === JSON.stringify(held(b.distribution));
    assertEquals(a.distribution.coincidesWith(b.distribution), isSame);
    assert(a.distribution.coincidesWith(a.distribution));
  }));
  const uniform = new BlockNonCyclic(new ProcessGrid({ shape: [2, 1] })).bind([8, 3], 2);
  assert(uniform.coincidesWith(Slab.X.bind([8, 3], 2)));
  assert(!uniform.coincidesWith(Slab.Y.bind([8, 3], 2)));
  const cyclic = (block: number) => new BlockCyclic(new ProcessGrid({ shape: [2] }), [block]).bind([8], 2);
  assert(!cyclic(1).coincidesWith(cyclic(2)) && cyclic(4).coincidesWith(Slab.X.bind([8], 2)));
  const emptyRank = new Box([[[0, 0], [1, 2]], [[0, 0], [0, 0]]]).bind([1, 2], 2);
  assert(emptyRank.coincidesWith(Slab.X.bind([1, 2], 2)), "a rank without elements has local shape [0, 0] or [0, 2]");
  const wide = (block: number) => new BlockCyclic(new ProcessGrid({ shape: [1, 2] }), [block, 1]).bind([8, 4], 2);
  assert(wide(1).coincidesWith(wide(2)) && !wide(1).equals(wide(2)));
});

Deno.test("a grid smaller than the number of ranks leaves the other ranks without elements", () => {
  const blocks = new BlockCyclic(new ProcessGrid({ shape: [2, 1], processes: [3, 1] }), [2, 2]).bind([5, 3], 4);
  assertEquals([0, 1, 2, 3].map((rank) => blocks.localShape(rank)), [[0, 0], [2, 3], [0, 0], [3, 3]]);
  assertEquals(blocks.ranges(0), [[], []]);
});

Deno.test("more ranks than elements leave the last ranks empty", () => {
  const slab = Slab.X.bind([2, 3], 4);
  assertEquals([0, 1, 2, 3].map((rank) => slab.localShape(rank)), [[1, 3], [1, 3], [0, 3], [0, 3]]);
  assertEquals(Slab.X.bind([0, 3], 2).localShape(0), [0, 3]);
  assertEquals(new BlockNonCyclic(square).bind([0, 3], 4).localShape(1), [0, 1]);
});

Deno.test("an empty box may lie anywhere", () => {
  const boxes = new Box([[[9, 9], [9, 9]], [[0, 0], [4, 5]], [[1, 1], [1, 3]]]).bind([4, 5], 3);
  assertEquals([0, 1, 2].map((rank) => boxes.localShape(rank)), [[0, 0], [4, 5], [0, 2]]);
  assertEquals([boxes.ranges(0), boxes.owner([1, 1])], [[[], []], 1]);
});

Deno.test("unbound slabs transpose as those of a matrix", () => {
  assert(Slab.X.transpose().equals(Slab.Y) && Slab.Y.transpose().equals(Slab.X));
  assert(Slab.X.transpose([1, 2, 0]).equals(Slab.Z));
  assert(Slab.X.bind([2, 3, 4], 2).transpose().equals(Slab.Z));
});

Deno.test("numbers that a reader can check by hand", () => {
  const grid = new ProcessGrid({ shape: [2, 3], layout: "column-major" });
  const blocks = new BlockCyclic(grid, [2, 2], { firstProcess: [1, 2] }).bind([7, 9], 6);
  // Rows 0 1 | 2 3 | 4 5 | 6 go to process rows 1 0 1 0, columns 0 1 | 2 3 | 4 5 | 6 7 | 8 to process columns 2 0 1 2 0.
  assertEquals(blocks.owner([0, 0]), grid.rank([1, 2]));
  assertEquals(blocks.owner([6, 8]), grid.rank([0, 0]));
  assertEquals(blocks.ranges(grid.rank([0, 2])), [[[2, 4], [6, 7]], [[0, 2], [6, 8]]]);
  assertEquals(blocks.toLocal([6, 7]), [2, 3]);
});
