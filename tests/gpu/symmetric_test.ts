/** Symmetric memory of GPUs: both backends at once, large copies between peers; tests/cluster/symmetric_test.ts has the rest. */
import { assert, assertEquals } from "@std/assert";
import { liveAllocations } from "../../internals.ts";
import {
  allocateSymmetricMemory,
  CollectiveError,
  ConfigurationError,
  copyToDevice,
  DistributedArray,
  freeSymmetricMemory,
  LocalArray,
  ShapeError,
  Slab,
  StateError,
  type SymmetricBackend,
} from "../../mod.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

gpuTest("both backends are open at once, and GPUs write into each other's memory", (runtime, stream) => {
  const { rank, size } = runtime;
  const elements = isMock(runtime) ? 2 ** 12 : 2 ** 22;
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

const BACKENDS: readonly SymmetricBackend[] = ["nvshmem", "nccl"];

for (const backend of BACKENDS) {
  gpuTest(
    `${backend}: a GPU whose work has failed is an error on every rank, and they go on in step`,
    (runtime, stream) => {
      const { rank, size, communicator } = runtime;
      const memory = allocateSymmetricMemory(runtime, [4], { backend });
      const isLast = rank === size - 1;
      if (isLast) {
        stream.synchronize = () => {
          throw new StateError("the work of this GPU has failed");
        };
      }
      try {
        assertThrowsEverywhere(runtime, () => memory.synchronize(), StateError, "the work of this GPU has failed");
      } finally {
        if (isLast) Reflect.deleteProperty(stream, "synchronize");
      }
      memory.synchronize();
      assertEquals(communicator.allReduce(Int32Array.of(1))[0], size);
      freeSymmetricMemory(memory);
    },
  );

  gpuTest(`${backend}: every misuse is an error on every rank, and the memory lives on`, (runtime, stream) => {
    const { rank, size } = runtime;
    const before = liveAllocations().length;
    const make = (extent = 4) => allocateSymmetricMemory(runtime, [extent, 3], { dtype: "float32", backend });
    const [a, b] = [make(), make()];
    const refuse = (free: () => unknown, message: string) => assertThrowsEverywhere(runtime, free, StateError, message);
    const ordinary = LocalArray.zeros("float32", [4], "C", stream);
    refuse(() => freeSymmetricMemory(ordinary), "which allocateSymmetricMemory did not make");
    ordinary.release();
    refuse(() => freeSymmetricMemory(a.transpose()), "is a view of symmetric memory");
    refuse(() => freeSymmetricMemory(a.slice([0, 0], [2, 3])), "is a view of symmetric memory");
    refuse(() => freeSymmetricMemory(a.peer(size - 1)), "is a view of symmetric memory");
    refuse(() => freeSymmetricMemory(DistributedArray.fromLocal(runtime, a, Slab.X).transpose()), "is a view of");
    refuse(() => freeSymmetricMemory(a, a), "the same memory as argument 0");
    assertThrowsEverywhere(runtime, () => a.peerAddress(size), RangeError, `there is no rank ${size}`);
    if (size > 1) {
      const disagree = (free: () => unknown) =>
        assertThrowsEverywhere(runtime, free, CollectiveError, "the ranks disagree on arrays");
      disagree(() => rank === 0 ? freeSymmetricMemory(a, b) : freeSymmetricMemory(b, a));
      disagree(() => rank === 0 ? freeSymmetricMemory(a) : freeSymmetricMemory(b));
      assertThrowsEverywhere(runtime, () => make(rank === 0 ? 4 : 5), ShapeError, "Pass { makeSymmetric: true }");
      const other = BACKENDS.find((name) => name !== backend)!;
      assertThrowsEverywhere(
        runtime,
        () => allocateSymmetricMemory(runtime, [4], { backend: rank === 0 ? backend : other }),
        CollectiveError,
        "backend",
      );
    }
    a.fill(rank + 1);
    a.synchronize();
    assertEquals(a.peer((rank + 1) % size).at(3, 2), (rank + 1) % size + 1);
    a.synchronize();
    freeSymmetricMemory(b, a);
    const twice = assertThrowsEverywhere(runtime, () => freeSymmetricMemory(a), StateError, "was freed already");
    assert(twice.message.includes("symmetric_test.ts:"), twice.message);
    refuse(() => a.address, "was freed");
    refuse(() => a.peerAddress(0), "was freed");
    refuse(() => a.fill(1), "was freed");
    const disposed = make();
    disposed[Symbol.dispose]();
    refuse(() => freeSymmetricMemory(disposed), "by its using block already");
    runtime.collect();
    assertEquals(liveAllocations().length, before);
  });
}

gpuTest("results are symmetric if all operands are, whatever the backend", (runtime) => {
  for (const backend of BACKENDS) {
    const part = allocateSymmetricMemory(runtime, [4, 3], { dtype: "float64", backend });
    part.fill(2);
    const whole = DistributedArray.fromLocal(runtime, part, Slab.X);
    const copy = whole.copy();
    assertEquals([whole.memory, copy.memory, copy.sum()], ["symmetric", "symmetric", 24 * runtime.size]);
    freeSymmetricMemory(copy, part);
  }
});
