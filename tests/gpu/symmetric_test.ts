/** Symmetric memory of GPUs: both backends at once, large copies between peers; tests/cluster/symmetric_test.ts has the rest. */
import { assert, assertEquals } from "@std/assert";
import {
  allocateSymmetricMemory,
  ConfigurationError,
  copyToDevice,
  DistributedArray,
  freeSymmetricMemory,
  liveAllocations,
  LocalArray,
  Slab,
} from "../../mod.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

gpuTest("both backends are open at once, and GPUs write into each other's memory", (runtime, stream) => {
  if (isMock(runtime)) return;
  const { rank, size } = runtime;
  const elements = 2 ** 22;
  const arrays = (["nvshmem", "nccl"] as const).map((backend) =>
    allocateSymmetricMemory(runtime, [size, elements], { dtype: "float32", backend })
  );
  for (const array of arrays) {
    assertEquals([array.memory, array.isOnDevice, array.address % 256n], ["symmetric", true, 0n]);
    const mine = LocalArray.empty("float32", [1, elements], "C", stream);
    mine.fill(rank + 1);
    for (let peer = 0; peer < size; peer++) array.peer(peer).slice([rank, 0], [1, elements]).set(mine);
    array.synchronize();
    const whole = DistributedArray.fromLocal(runtime, array, Slab.X);
    assertEquals(whole.sum(), elements * size * size * (size + 1) / 2);
    // What a peer's kernels see is what this rank's copies have brought.
    const host = new Float32Array(size * elements).fill(10 * (rank + 1));
    array.synchronize();
    copyToDevice(array.address, host, stream);
    array.synchronize();
    const next = (rank + 1) % size;
    assertEquals(array.peer(next).at(size - 1, elements - 1), 10 * (next + 1));
    array.synchronize();
    mine.release();
  }
  freeSymmetricMemory(arrays[1], arrays[0]);
});

gpuTest("a backend for CPUs is refused on GPUs, and names those that serve", (runtime) => {
  const make = () => allocateSymmetricMemory(runtime, [4], { backend: "mpi" });
  assertThrowsEverywhere(runtime, make, ConfigurationError, 'Use "nvshmem" or "nccl"');
});

gpuTest("NCCL works on beside its windows, and many rounds leave nothing", (runtime) => {
  if (isMock(runtime)) return;
  const before = liveAllocations().length;
  for (let round = 0; round < 20; round++) {
    const window = allocateSymmetricMemory(runtime, [2 ** 16], { dtype: "bfloat16", backend: "nccl" });
    window.fill(round);
    using a = DistributedArray.random(runtime, [32, 24], Slab.X, { seed: round });
    using b = a.redistribute(Slab.Y);
    assertEquals(b.maxAbsDifference(a), 0);
    assert(window.toNumbers().every((x) => x === round));
    freeSymmetricMemory(window);
  }
  assertEquals(liveAllocations().length, before);
});
