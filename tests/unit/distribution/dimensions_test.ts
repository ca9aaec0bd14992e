import { assertEquals, assertThrows } from "@std/assert";
import { isWhole, withDimensions } from "../../../src/distribution/dimensions.ts";
import { BlockCyclic, BlockNonCyclic, Box, ProcessGrid, Replicated, Slab } from "../../../src/distribution/mod.ts";
import { DistributionError } from "../../../src/errors.ts";

const grid = new ProcessGrid({ shape: [2, 1, 2] });

Deno.test("withDimensions keeps what each rank holds along the dimensions that stay", () => {
  const bounds = [Slab.X, new Slab(2), new BlockCyclic(grid, [2, 3, 1]), new BlockNonCyclic(grid)];
  for (const source of bounds.map((distribution) => distribution.bind([5, 4, 6], 4))) {
    const wider = withDimensions(source, [5, 7, 4, 6], [0, null, 1, 2]);
    const narrower = withDimensions(source, [5, 6], [0, 2]);
    assertEquals([wider.constructor, narrower.constructor], [source.constructor, source.constructor]);
    for (let rank = 0; rank < 4; rank++) {
      const [first, second, third] = source.ranges(rank);
      if (source.localShape(rank).includes(0)) continue;
      assertEquals(wider.ranges(rank), [first, [[0, 7]], second, third]);
      assertEquals(narrower.ranges(rank), [first, third]);
    }
  }
});

Deno.test("a dimension that is left out turns slabs into boxes, on one rank into Replicated", () => {
  assertEquals(String(withDimensions(Slab.X.bind([1, 6], 3), [6], [1])), "Box([0:6], [0:0], [0:0])");
  assertEquals(String(withDimensions(Slab.X.bind([3, 6], 1), [6], [1])), "Replicated");
  assertEquals(String(withDimensions(Replicated.bind([3, 6], 3), [6, 3], [1, 0])), "Replicated");
  const box = new Box([[[0, 0], [2, 4]], [[2, 0], [3, 4]]]).bind([3, 4], 2);
  assertEquals(String(withDimensions(box, [1, 3], [null, 0])), "Box([0:1, 0:2], [0:1, 2:3])");
  const cyclic = new BlockCyclic(new ProcessGrid({ shape: [2, 1] }), [1, 1]).bind([4, 4], 2);
  assertThrows(
    () => withDimensions(cyclic, [4, 4], [1, 0]),
    DistributionError,
    "Redistribute the array to a Slab first.",
  );
});

Deno.test("isWhole tells which dimensions every rank holds as a whole", () => {
  assertEquals([0, 1].map((d) => isWhole(Slab.X.bind([5, 4], 3), d)), [false, true]);
  assertEquals([0, 1].map((d) => isWhole(Slab.X.bind([1, 4], 3), d)), [true, true]);
  assertEquals([0, 1].map((d) => isWhole(Replicated.bind([5, 4], 3), d)), [true, true]);
});
