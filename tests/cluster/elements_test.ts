/** Single elements, and arrays as text. */
import { assertEquals } from "@std/assert";
import {
  BlockCyclic,
  DistributedArray,
  DTypeError,
  LocalArray,
  ProcessGrid,
  Replicated,
  Slab,
  StateError,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

const memory = "host";

clusterTest("format shows what NumPy prints, on every rank, of large arrays the edges", (runtime) => {
  const grid = new ProcessGrid({ shape: [runtime.size, 1] });
  for (const distribution of [Slab.X, Slab.Y, new BlockCyclic(grid, [1, 2]), Replicated]) {
    using a = DistributedArray.generate(runtime, [3, 4], distribution, (i, j) => i - j / 2, { order: "F", memory });
    assertEquals(a.format(), "[[ 0.  -0.5 -1.  -1.5]\n [ 1.   0.5  0.  -0.5]\n [ 2.   1.5  1.   0.5]]");
    using large = DistributedArray.generate(runtime, [40, 50], distribution, (i, j) => i * 50 + j, {
      dtype: "int32",
      memory,
    });
    assertEquals(large.format({ edgeItems: 1 }), "[[   0 ...   49]\n ...\n [1950 ... 1999]]");
    assertEquals(large.transpose().format({ edgeItems: 1 }), "[[   0 ... 1950]\n ...\n [  49 ... 1999]]");
  }
  using z = DistributedArray.full(runtime, [2], Slab.X, [1, -2], { dtype: "complex64", memory });
  assertEquals(z.format(), "[1.-2.j 1.-2.j]");
  using empty = DistributedArray.zeros(runtime, [0, 3], Slab.X, { memory });
  assertEquals(empty.format(), "[]");
  assertThrowsEverywhere(runtime, () => z.format({ precision: -1 }), RangeError, "precision must be a whole number");
});

clusterTest("console.log shows what an array is, of a part its values", (runtime) => {
  const a = DistributedArray.zeros(runtime, [3, 4], Slab.X, { memory });
  assertEquals(Deno.inspect(a), "DistributedArray(float64, [3, 4], Slab.X, C)");
  a.free();
  assertEquals(Deno.inspect(a), "DistributedArray(float64, [3, 4], Slab.X, C), freed");
  const part = new LocalArray({ data: Float32Array.of(1, 2.5), dtype: "float32", shape: [1, 2] });
  assertEquals([String(part), Deno.inspect(part)], [
    "LocalArray(float32, [1, 2])",
    "LocalArray(float32, [1, 2])\n[[1.  2.5]]",
  ]);
});

clusterTest("an array that is freed while its elements are visited says so", (runtime) => {
  for (const what of ["array", "owner"]) {
    const owner = DistributedArray.full(runtime, [100], Replicated, 7, { memory });
    const a = what === "owner" ? owner.slice([[1, 3]]) : owner;
    const seen: unknown[] = [];
    const visit = () => {
      for (const [, value] of a.entries()) {
        seen.push(value);
        owner.free();
      }
    };
    assertThrowsEverywhere(runtime, visit, StateError, "was freed");
    assertEquals(seen, [7]);
  }
});

clusterTest("at and set reach any element from every rank", (runtime) => {
  for (const distribution of [Slab.X, Slab.Y, Replicated]) {
    using a = DistributedArray.generate(runtime, [5, 3], distribution, (i, j) => -0.5 + 10 * i + j, { memory });
    assertEquals([a.at(4, 2), a.at(-1, -3), a.at(0, 0)], [41.5, 39.5, -0.5]);
    a.set([-1, 1], NaN);
    assertEquals([a.at(4, 1), a.at(4, 0)], [NaN, 39.5]);
    for (const [[i, j], value] of a.entries()) assertEquals(value, i === 4 && j === 1 ? NaN : -0.5 + 10 * i + j);
  }
  using big = DistributedArray.generate(runtime, [5], Slab.X, (i) => -BigInt(i), { dtype: "int64", memory });
  assertEquals([big.at(3), [...big.entries()].length], [-3n, big.local.size]);
  using none = DistributedArray.zeros(runtime, [9e9, 0], Slab.Y, { memory });
  assertEquals([[...none.entries()], none.format()], [[], "[]"]);
  using z = DistributedArray.zeros(runtime, [3], Slab.X, { dtype: "complex128", memory });
  z.set([2], [-1, -0]);
  assertEquals([z.at(2), z.at(0)], [[-1, -0], [0, 0]]);
  using bytes = DistributedArray.full(runtime, [7], Slab.X, 200, { dtype: "uint8", memory });
  assertEquals([bytes.at(6), bytes.sum()], [200, 1400]);
  assertThrowsEverywhere(runtime, () => bytes.at(7), RangeError, "a list of 1 whole numbers inside of it, not [7]");
  assertThrowsEverywhere(runtime, () => bytes.at(0, 0), RangeError, "An index of an array of shape [7]");
  assertThrowsEverywhere(runtime, () => bytes.set([0], 256), RangeError, "from 0 to 255, not 256");
  assertThrowsEverywhere(
    runtime,
    () => bytes.set([0], [1, 2] as unknown as number),
    DTypeError,
    "uint8 takes a number",
  );
  assertThrowsEverywhere(runtime, () => bytes.set(0 as unknown as number[], 1), TypeError, "not 0");
});
