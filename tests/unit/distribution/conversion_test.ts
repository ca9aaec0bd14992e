/** `to`: the table of conversions, and what ScaLAPACK can describe. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { DistributionError } from "../../../src/errors.ts";
import type { DistributionClass } from "../../../src/distribution/distribution.ts";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Distribution,
  numroc,
  ProcessGrid,
  Replicated,
  ReplicatedDistribution,
  Slab,
  Sliced,
} from "../../../src/distribution/mod.ts";
import { anyCase, blockCyclicCase, blockNonCyclicCase, boxCase, indices, slabCase } from "./arbitraries.ts";

const classes: readonly DistributionClass<Distribution>[] = [
  Slab,
  Box,
  BlockCyclic,
  BlockNonCyclic,
  ReplicatedDistribution,
  Sliced,
];
const column = new ProcessGrid({ shape: [4, 1] });
const square = new ProcessGrid({ shape: [2, 2] });
const slabBoxes = new Box([[[0, 0], [3, 6]], [[3, 0], [6, 6]], [[6, 0], [8, 6]], [[8, 0], [10, 6]]]);
const tiles = new Box([[[0, 0], [3, 2]], [[0, 2], [3, 4]], [[3, 0], [5, 2]], [[3, 2], [5, 4]]]);

/** What it is converted from, to which class, and the text of the result; null when it cannot be. */
const table: [Distribution, DistributionClass<Distribution>, string | null][] = [
  [Slab.X, Slab, "Slab.X"],
  [Slab.X.bind([8, 6], 4), Box, "Box([0:2, 0:6], [2:4, 0:6], [4:6, 0:6], [6:8, 0:6])"],
  [Slab.X.bind([10, 6], 4), Box, "Box([0:3, 0:6], [3:6, 0:6], [6:8, 0:6], [8:10, 0:6])"],
  [Slab.Y.bind([2, 1], 2), Box, "Box([0:2, 0:1], [0:2, 0:0])"],
  [Slab.X.bind([8, 6], 4), BlockNonCyclic, "BlockNonCyclic(4 x 1)"],
  [Slab.Y.bind([6, 8], 4), BlockNonCyclic, "BlockNonCyclic(1 x 4)"],
  [Slab.X.bind([7, 6], 4), BlockNonCyclic, "BlockNonCyclic(4 x 1)"],
  [Slab.X.bind([10, 6], 4), BlockNonCyclic, null],
  [Slab.Z.bind([2, 3, 8], 2), BlockCyclic, "BlockCyclic(1 x 1 x 2, blocks 2 x 3 x 4)"],
  [Slab.X.bind([8, 6], 4), BlockCyclic, "BlockCyclic(4 x 1, blocks 2 x 6)"],
  [Slab.X.bind([10, 6], 4), BlockCyclic, null],
  [Slab.X.bind([3, 6], 4), BlockCyclic, "BlockCyclic(4 x 1, blocks 1 x 6)"],
  [Slab.X.bind([8, 6], 1), ReplicatedDistribution, "Replicated"],
  [Slab.X.bind([8, 6], 2), ReplicatedDistribution, null],
  [Slab.X, Box, null],
  [Slab.X, BlockNonCyclic, null],
  [Slab.X, BlockCyclic, null],
  [new BlockNonCyclic(column), Slab, "Slab.X"],
  [new BlockNonCyclic(new ProcessGrid({ shape: [1, 4], layout: "column-major" })), Slab, "Slab.Y"],
  [new BlockNonCyclic(square), Slab, null],
  [new BlockNonCyclic(column, { firstProcess: [1, 0] }), Slab, null],
  [new BlockNonCyclic(new ProcessGrid({ shape: [2, 1], processes: [1, 0] })), Slab, null],
  [new BlockNonCyclic(column).bind([8, 6], 4), Slab, "Slab.X"],
  [new BlockNonCyclic(column).bind([10, 6], 4), Slab, null],
  [new BlockNonCyclic(column).bind([10, 6], 4), Box, "Box([0:3, 0:6], [3:6, 0:6], [6:9, 0:6], [9:10, 0:6])"],
  [new BlockNonCyclic(square).bind([5, 4], 4), Box, "Box([0:3, 0:2], [0:3, 2:4], [3:5, 0:2], [3:5, 2:4])"],
  [new BlockNonCyclic(square).bind([5, 4], 4), BlockCyclic, "BlockCyclic(2 x 2 row-major, blocks 3 x 2)"],
  [new BlockNonCyclic(square), BlockCyclic, null],
  [new BlockNonCyclic(square).bind([5, 4], 4), Slab, null],
  [new BlockCyclic(column, [2, 6]), Slab, null],
  [new BlockCyclic(column, [2, 6]).bind([8, 6], 4), Slab, "Slab.X"],
  [new BlockCyclic(column, [2, 1]).bind([8, 6], 4), Slab, "Slab.X"],
  [new BlockCyclic(column, [1, 6]).bind([8, 6], 4), Slab, null],
  [new BlockCyclic(column, [2, 6], { firstProcess: [1, 0] }).bind([8, 6], 4), Slab, null],
  [new BlockCyclic(square, [3, 2]).bind([5, 4], 4), BlockNonCyclic, "BlockNonCyclic(2 x 2 row-major)"],
  [new BlockCyclic(square, [1, 2]).bind([5, 4], 4), BlockNonCyclic, null],
  [new BlockCyclic(square, [3, 2]).bind([5, 4], 4), Box, "Box([0:3, 0:2], [0:3, 2:4], [3:5, 0:2], [3:5, 2:4])"],
  [new BlockCyclic(square, [1, 2]).bind([5, 4], 4), Box, null],
  [slabBoxes.bind([10, 6], 4), Slab, "Slab.X"],
  [slabBoxes.bind([10, 6], 4), BlockCyclic, null],
  [slabBoxes, Slab, null],
  [tiles.bind([5, 4], 4), Slab, null],
  [tiles.bind([5, 4], 4), BlockNonCyclic, "BlockNonCyclic(2 x 2 row-major)"],
  [tiles.bind([5, 4], 4), BlockCyclic, "BlockCyclic(2 x 2 row-major, blocks 3 x 2)"],
  [tiles.transpose().bind([4, 5], 4), BlockCyclic, "BlockCyclic(2 x 2 column-major, blocks 2 x 3)"],
  [
    new Box([tiles.boxes[3], ...tiles.boxes.slice(0, 3)]).bind([5, 4], 4),
    BlockNonCyclic,
    "BlockNonCyclic(2 x 2 row-major of ranks 1, 2, 3, 0)",
  ],
  [new Box([[[0, 0], [2, 4]], [[2, 0], [4, 3]], [[2, 3], [4, 4]]]).bind([4, 4], 3), BlockNonCyclic, null],
  [Replicated, Slab, null],
  [Replicated.bind([4, 4], 2), Slab, null],
  [Replicated.bind([4, 4], 2), Box, null],
  [Replicated.bind([4, 4], 2), BlockCyclic, null],
  [Replicated.bind([4, 4], 2), BlockNonCyclic, null],
  [Replicated.bind([4, 4], 1), Slab, "Slab.X"],
  [Replicated.bind([4, 4], 1), Box, "Box([0:4, 0:4])"],
  [Slab.X.bind([4, 4], 2), Sliced, null],
];

Deno.test("the table of conversions", () => {
  for (const [source, target, expected] of table) {
    const what = `${source} of [${source.globalShape}] to ${target.name}`;
    if (expected === null) {
      const error = assertThrows(() => source.to(target), DistributionError, undefined, what);
      assert(/bind it first|cannot be written as a/.test(error.message), `${what}: ${error.message}`);
    } else {
      const result = source.to(target);
      assertEquals(String(result), expected, what);
      assertEquals([result.globalShape, result.size], [source.globalShape, source.size], what);
    }
  }
});

Deno.test("a conversion to its own class returns the object itself", () => {
  for (
    const distribution of [Slab.X, slabBoxes, new BlockCyclic(square, [1, 1]), new BlockNonCyclic(square), Replicated]
  ) {
    assert(distribution.to(distribution.constructor as unknown as DistributionClass<Distribution>) === distribution);
  }
});

Deno.test("a conversion either keeps every element on its rank or is refused", () => {
  fc.assert(fc.property(anyCase, fc.constantFrom(...classes), ({ distribution, shape, size }, target) => {
    let result: Distribution;
    try {
      result = distribution.to(target);
    } catch (error) {
      assert(error instanceof DistributionError);
      return;
    }
    assertEquals([result.globalShape, result.size], [shape, size]);
    for (const index of indices(shape)) {
      assertEquals(result.owners(index), distribution.owners(index));
      assertEquals(result.toLocal(index), distribution.toLocal(index));
    }
  }));
});

Deno.test("a box and back is what it was", () => {
  fc.assert(fc.property(slabCase, ({ distribution, shape, size }) => {
    const box = distribution.to(Box);
    for (let rank = 0; rank < size; rank++) assertEquals(box.localShape(rank), distribution.localShape(rank));
    assert(box.to(Slab).coincidesWith(distribution));
    assertEquals(box.globalShape, shape);
  }));
  fc.assert(fc.property(blockNonCyclicCase, ({ distribution }) => {
    assert(distribution.to(Box).coincidesWith(distribution));
    assert(distribution.to(BlockCyclic).coincidesWith(distribution));
    assert(distribution.to(BlockCyclic).to(BlockNonCyclic).coincidesWith(distribution));
  }));
});

Deno.test("the block-cyclic form deals blocks as ScaLAPACK does", () => {
  /** Straight from the meaning of a descriptor: deal the blocks of each dimension in turn. */
  const check = (distribution: Distribution) => {
    const blocks = blocksOf(distribution);
    if (!blocks) return false;
    const { grid, blockSizes, firstProcess } = blocks;
    for (const index of indices(distribution.globalShape!)) {
      const at = index.map((i, d) => (Math.floor(i / blockSizes[d]) + firstProcess[d]) % grid.shape[d]);
      assertEquals(distribution.owner(index), grid.rank(at));
    }
    for (let rank = 0; rank < distribution.size!; rank++) {
      const at = grid.coordinates(rank);
      const extents = distribution.globalShape!.map((extent, d) =>
        at ? numroc(extent, blockSizes[d], at[d], firstProcess[d], grid.shape[d]) : 0
      );
      assertEquals(blocks.localShape(rank), extents);
    }
    return true;
  };
  fc.assert(fc.property(anyCase, ({ distribution }) => void check(distribution)));
  fc.assert(fc.property(boxCase, ({ distribution }) => void check(distribution)));
  fc.assert(fc.property(blockCyclicCase, ({ distribution }) => assert(check(distribution))));
  fc.assert(fc.property(blockNonCyclicCase, ({ distribution }) => assert(check(distribution))));
  fc.assert(fc.property(slabCase, ({ distribution, shape, size }) => {
    const extent = shape[distribution.partitionDimension];
    const block = Math.max(1, Math.ceil(extent / size));
    const isCeil = Array.from({ length: size }, (_, rank) => Math.max(0, Math.min(block, extent - rank * block)))
      .every((count, rank) => count === distribution.localShape(rank)[distribution.partitionDimension]);
    assertEquals(check(distribution), isCeil || shape.includes(0));
  }));
});

Deno.test("block-cyclic forms by example", () => {
  const form = (distribution: Distribution) => {
    const blocks = blocksOf(distribution);
    return blocks && [String(blocks.grid), blocks.blockSizes.join(), blocks.firstProcess.join()];
  };
  assertEquals(form(Slab.X.bind([8, 6], 4)), ["4 x 1", "2,6", "0,0"]);
  assertEquals(form(Slab.Y.bind([8, 7], 4)), ["1 x 4", "8,2", "0,0"]);
  assertEquals(form(Slab.Y.bind([8, 9], 4)), null);
  assertEquals(form(Slab.X.bind([8], 2)), ["2", "4", "0"]);
  const blocks = new BlockCyclic(square, [3, 4], { firstProcess: [1, 0] });
  assertEquals(form(blocks.bind([10, 10], 6)), ["2 x 2 row-major", "3,4", "1,0"]);
  assertEquals(form(new BlockNonCyclic(square).bind([5, 4], 4)), ["2 x 2 row-major", "3,2", "0,0"]);
  assertEquals(form(Replicated.bind([4, 4], 2)), null);
  assertEquals(form(Replicated.bind([4, 4], 1)), ["1 x 1", "4,4", "0,0"]);
});

function blocksOf(distribution: Distribution): BlockCyclic | null {
  try {
    return distribution.to(BlockCyclic);
  } catch (error) {
    assert(error instanceof DistributionError);
    return null;
  }
}
