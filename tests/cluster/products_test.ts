/** Products of vectors and diagonals, against plain loops. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import {
  axpy,
  BlockCyclic,
  diagonal,
  DistributedArray,
  DistributionError,
  dot,
  type DType,
  kron,
  outer,
  ProcessGrid,
  Replicated,
  scale,
  ShapeError,
  Slab,
  trace,
  vdot,
  vecdot,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

const memory = "host";

clusterTest("dot, vdot, axpy, scale, outer", (runtime) => {
  using a = DistributedArray.generate(runtime, [7], Slab.X, (i) => i, { memory });
  using b = DistributedArray.generate(runtime, [7], Slab.X, (i) => 2 * i - 1, { memory });
  assertEquals(dot(a, b), 2 * 91 - 21);
  using z = DistributedArray.full(runtime, [7], Slab.X, [1, 2], { dtype: "complex128", memory });
  assertEquals([dot(z, z), vdot(z, z)], [[-21, 28], [35, 0]]);
  assertStrictEquals(axpy(3, a, b), b);
  assertEquals([...b.allGather()], [0, 1, 2, 3, 4, 5, 6].map((i) => 5 * i - 1));
  assertEquals(scale(b, 2).sum(), 2 * (5 * 21 - 7));
  using row = DistributedArray.generate(runtime, [3], Replicated, (j) => j + 1, { memory });
  using product = outer(a, row);
  assertEquals([String(product.distribution), [...product.shape], product.sum()], ["Slab.X", [7, 3], 21 * 6]);
  assertThrowsEverywhere(
    runtime,
    () => outer(product, row),
    ShapeError,
    "outer takes two vectors, not arrays of shapes",
  );
  assertEquals(outer(row, a).sum(), 21 * 6);
  if (runtime.size > 1) {
    const why =
      "outer: a is distributed as Slab.X and b as Slab.X, and each rank needs all of one. Pass b.redistribute";
    assertThrowsEverywhere(runtime, () => outer(a, b), DistributionError, why);
  }
  assertThrowsEverywhere(runtime, () => dot(a, row), ShapeError, "dot takes arrays of one shape, not of [7] and [3]");
});

clusterTest("kron and outer take arrays of which ranks hold what they need, not only replicated ones", (runtime) => {
  using a = DistributedArray.generate(runtime, [1, 2], Slab.X, (_, j) => j + 1, { memory });
  using b = DistributedArray.generate(runtime, [1, 3], Slab.X, (_, j) => 10 ** j, { memory });
  assertEquals([...kron(a, b).allGather()], [1, 10, 100, 2, 20, 200]);
  using empty = DistributedArray.zeros(runtime, [4, 0], Slab.Y, { memory });
  assertEquals([...kron(a, empty).shape], [4, 0]);
  using one = DistributedArray.full(runtime, [1], Slab.X, 3, { memory });
  using none = DistributedArray.zeros(runtime, [0], Slab.X, { memory });
  assertEquals([outer(one, one).sum(), ...outer(one, none).shape], [9, 1, 0]);
});

clusterTest("products of narrow elements are summed as they are", (runtime) => {
  const full = <D extends DType>(dtype: D, value: number) =>
    DistributedArray.full(runtime, [3], Slab.X, value, { dtype, memory });
  const cases = [
    ["int8", 100, 30_000],
    ["uint8", 200, 120_000],
    ["int32", 100_000, 3e10],
    ["float8_e4m3", 30, 2700],
    ["float16", 1024, 3 * 2 ** 20],
    ["bfloat16", 257, 3 * 256 ** 2],
  ] as const;
  for (const [dtype, value, sum] of cases) {
    using a = full(dtype, value);
    assertEquals([dot(a, a), vdot(a, a)], [sum, sum], dtype);
  }
  using z = DistributedArray.full(runtime, [3], Slab.X, [300, 400], { dtype: "complex32", memory });
  assertEquals([dot(z, z), vdot(z, z)], [[-210_000, 720_000], [750_000, 0]]);
  using rows = DistributedArray.full(runtime, [4, 3], Slab.X, 100, { dtype: "int8", memory });
  using sums = vecdot(rows, rows);
  assertEquals([sums.dtype, ...sums.allGather()], ["int64", 30_000n, 30_000n, 30_000n, 30_000n]);
  using halves = DistributedArray.full(runtime, [4, 3], Slab.X, 0.1, { dtype: "float16", memory });
  using short = vecdot(halves, halves);
  // Three times the square of float16's 0.1, rounded once.
  assertEquals([short.dtype, ...short.allGather()], ["float16", ...Array(4).fill(0.0299835205078125)]);
});

clusterTest("diagonal and trace", (runtime) => {
  const grid = new ProcessGrid({ shape: runtime.size === 4 ? [2, 2] : [runtime.size, 1] });
  for (const distribution of [Slab.X, Slab.Y, new BlockCyclic(grid, [2, 1]), Replicated]) {
    for (const dtype of ["float64", "int8", "complex64"] as const) {
      using a = DistributedArray.generate(runtime, [5, 7], distribution, (i, j) => 10 * i - j, {
        dtype,
        order: "F",
        memory,
      });
      using elements = diagonal(a);
      assertEquals(String(elements.distribution), "Replicated");
      const wanted = [0, 9, 18, 27, 36];
      assertEquals(elements.local.toNumbers(), dtype === "complex64" ? wanted.flatMap((x) => [x, 0]) : wanted);
      assertEquals(trace(a.transpose()), dtype === "complex64" ? [90, 0] : 90);
    }
  }
  using vector = DistributedArray.zeros(runtime, [3], Slab.X, { memory });
  assertThrowsEverywhere(
    runtime,
    () => trace(vector),
    ShapeError,
    "trace takes a matrix, not an array of shape [3]",
  );
});
