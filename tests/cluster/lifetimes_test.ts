/** Many rounds of making, using and freeing leave the memory of the host, and of a GPU, where it was. */
import { assertEquals } from "@std/assert";
import {
  allocateSymmetricMemory,
  DistributedArray,
  freeSymmetricMemory,
  Matmul,
  matmul,
  type Runtime,
  Slab,
  type SymmetricBackend,
  syrk,
  trsm,
} from "../../mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import { hasGpu } from "../gpu/gpu_test_kit.ts";
import { checkRounds, ROUND_BYTES } from "./rounds.ts";

const LIMIT = { timeoutSeconds: 280 };

/** An extent with which a square matrix of float32 takes a round's bytes on each rank. */
const extentFor = ({ size }: Runtime) => Math.ceil(Math.sqrt(ROUND_BYTES * size / 4));

/** Enough for a leak to be seen; on a GPU, a leak of its own. */
const manyRounds = ({ stream }: Runtime) => stream ? 1000 : 300;

clusterTest("rounds of arrays: made, copied, converted, redistributed, summed, freed", LIMIT, async (runtime) => {
  const extent = extentFor(runtime);
  await checkRounds(runtime, "arrays", manyRounds(runtime), (i) => {
    using a = DistributedArray.full(runtime, [extent, extent], Slab.X, i % 100, { dtype: "float32" });
    using copy = a.copy();
    using other = copy.redistribute(Slab.Y);
    using wide = a.slice([[0, 8], [0, 8]]).to({ dtype: "float64" });
    assertEquals(wide.sum(), 64 * (i % 100));
    other.free();
  });
});

clusterTest("rounds of products by the function, and of PBLAS routines", LIMIT, async (runtime) => {
  const extent = Math.ceil(extentFor(runtime) / 4);
  const options = { dtype: "float64" } as const;
  using a = DistributedArray.generate(runtime, [extent, extent], Slab.X, (i, j) => i === j ? 2 : 0, options);
  using b = DistributedArray.full(runtime, [extent, extent], Slab.Y, 1, options);
  await checkRounds(runtime, "products and PBLAS routines", 200, () => {
    using product = matmul(a, b);
    using solved = trsm(a, product);
    using updated = syrk(solved);
    assertEquals(updated.sum(), extent * extent * (extent + 1) / 2);
  });
});

clusterTest("rounds of plans: made, planned, executed, reset, freed", LIMIT, async (runtime) => {
  const extent = Math.ceil(extentFor(runtime) / 2);
  const options = { dtype: "float32", order: "F" } as const;
  using a = DistributedArray.full(runtime, [extent, extent], Slab.X, 1, options);
  using b = DistributedArray.full(runtime, [extent, extent], Slab.Y, 1, options);
  await checkRounds(runtime, "plans", manyRounds(runtime), (i) => {
    const object = new Matmul(a, b, { distribution: Slab.X, alpha: 2 });
    object.plan();
    object.execute().free();
    object.resetOperands({ alpha: 1 });
    using d = object.execute();
    if (i % 100 === 0) assertEquals(d.sum(), extent ** 3);
    object.free();
  });
});

const BACKENDS: readonly SymmetricBackend[] = ["mpi", "nvshmem", "nccl"];

for (const backend of BACKENDS) {
  const isElsewhere = (backend === "mpi") === hasGpu;
  const ignore = isElsewhere && "on other devices";
  clusterTest(`rounds of symmetric memory: ${backend}`, { ...LIMIT, ignore }, async (runtime) => {
    await checkRounds(runtime, `symmetric memory of ${backend}`, manyRounds(runtime), (i) => {
      const array = allocateSymmetricMemory(runtime, [ROUND_BYTES / 4], { dtype: "float32", backend });
      array.fill(i % 100);
      const whole = DistributedArray.fromLocal(runtime, array, Slab.X);
      if (i % 10 === 0) assertEquals(whole.sum(), (i % 100) * runtime.size * ROUND_BYTES / 4);
      whole.free();
      if (i % 3 === 0) array[Symbol.dispose]();
      else freeSymmetricMemory(array);
    });
  });
}
