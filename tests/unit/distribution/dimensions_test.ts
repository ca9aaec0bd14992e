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

Deno.test("a dimension that one row of processes holds is left out with the others, in any grid", () => {
  for (const layout of ["row-major", "column-major"] as const) {
    for (const processes of [null, [3, 0, 2, 1]]) {
      const square = new ProcessGrid({ shape: [2, 2], layout, processes });
      const [places, ones] = [{ firstProcess: [1, 0] }, { firstProcess: [0, 1] }];
      const sources = [
        new BlockCyclic(square, [4, 2], places).bind([4, 7], 4),
        new BlockNonCyclic(square, places).bind([1, 7], 4),
        new BlockCyclic(square, [3, 2], ones).bind([0, 7], 4),
      ];
      for (const source of sources) {
        const row = withDimensions(source, [7], [1]);
        assertEquals(row.constructor, source.constructor);
        for (let rank = 0; rank < 4; rank++) {
          const [[held = null], columns] = source.ranges(rank);
          const hasPart = held !== null || source.globalShape![0] === 0 && square.coordinates(rank)![0] === 0;
          assertEquals(row.ranges(rank), hasPart ? [columns] : [[]], `${source} on rank ${rank}`);
        }
      }
      const shared = new BlockCyclic(square, [2, 2]).bind([4, 7], 4);
      assertThrows(
        () => withDimensions(shared, [7], [1]),
        DistributionError,
        "Redistribute the array to a Slab first.",
      );
    }
  }
});

Deno.test("isWhole tells which dimensions every rank holds as a whole", () => {
  assertEquals([0, 1].map((d) => isWhole(Slab.X.bind([5, 4], 3), d)), [false, true]);
  assertEquals([0, 1].map((d) => isWhole(Slab.X.bind([1, 4], 3), d)), [true, true]);
  assertEquals([0, 1].map((d) => isWhole(Replicated.bind([5, 4], 3), d)), [true, true]);
  // Without elements as it would be with some.
  const columns = new BlockCyclic(new ProcessGrid({ shape: [1, 2] }), [4, 2]).bind([0, 5], 2);
  assertEquals([0, 1].map((d) => isWhole(columns, d)), [true, false]);
});
