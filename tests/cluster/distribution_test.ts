/** `Box.fromLocal`, the one part of the distributions that communicates. */
import { assertEquals } from "@std/assert";
import { Box, DistributionError, ShapeError, Slab } from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

clusterTest("Box.fromLocal gathers the boxes and finds the global shape", (runtime) => {
  const { rank, size } = runtime;
  const box = Box.fromLocal(runtime, [0, 2 * rank], [3, 2 * rank + 2]);
  assertEquals([box.globalShape, box.size], [[3, 2 * size], size]);
  assertEquals(box.boxes, Array.from({ length: size }, (_, r) => [[0, 2 * r], [3, 2 * r + 2]] as const));
  assertEquals(box.coincidesWith(Slab.Y.bind([3, 2 * size], size)), true);
});

clusterTest("Box.fromLocal takes empty boxes", (runtime) => {
  const { rank, size } = runtime;
  const box = rank === size - 1 ? Box.fromLocal(runtime, [0, 0], [4, 5]) : Box.fromLocal(runtime, [9, 9], [9, 9]); // of a rank that holds nothing, wherever it is
  assertEquals([box.globalShape, box.owner([3, 4])], [[4, 5], size - 1]);
});

clusterTest("Box.fromLocal refuses overlapping boxes on every rank", { ranks: [2, 3, 4] }, (runtime) => {
  const lower = Math.max(0, 2 * runtime.rank - 1);
  const act = () => Box.fromLocal(runtime, [lower], [2 * runtime.rank + 2]);
  assertThrowsEverywhere(runtime, act, DistributionError, "the boxes of ranks 0 and 1 overlap");
});

clusterTest("Box.fromLocal refuses a hole on every rank", (runtime) => {
  const act = () => Box.fromLocal(runtime, [2 * runtime.rank + 1], [2 * runtime.rank + 2]);
  assertThrowsEverywhere(runtime, act, DistributionError, "no rank holds [0:1]");
});

clusterTest("Box.fromLocal refuses an inverted box of one rank on every rank", (runtime) => {
  const isLast = runtime.rank === runtime.size - 1;
  const act = () => Box.fromLocal(runtime, [runtime.rank + 1], [isLast ? 0 : runtime.rank + 2]);
  assertThrowsEverywhere(runtime, act, DistributionError, "inverted");
});

clusterTest("Box.fromLocal refuses boxes of different dimensions on every rank", { ranks: [2, 3, 4] }, (runtime) => {
  const corner = runtime.rank === 0 ? [1] : [1, 1];
  const act = () => Box.fromLocal(runtime, corner.map(() => 0), corner);
  assertThrowsEverywhere(runtime, act, ShapeError, "rank 0 has 1 dimensions");
});
