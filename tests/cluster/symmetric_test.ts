/** Symmetric memory: what it does, and every misuse, on CPUs (MPI's shared windows) and on GPUs. */
import { assert, assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { viewOfAddress } from "../../ffi/memory.ts";
import { liveAllocations } from "../../internals.ts";
import {
  allocateSymmetricMemory,
  CollectiveError,
  ConfigurationError,
  DistributedArray,
  type DType,
  DTypeError,
  freeSymmetricMemory,
  LocalArray,
  Replicated,
  type Runtime,
  ShapeError,
  Slab,
  StateError,
  type SymmetricArray,
  type SymmetricBackend,
} from "../../mod.ts";
import { MpiWindow } from "../../src/memory/mpi_window.ts";
import { assertThrowsEverywhere, clusterTest, type ErrorClass } from "../../src/testing/mod.ts";
import { hasGpu } from "../gpu/gpu_test_kit.ts";

/** The backends that serve a runtime. */
function backendsOf(runtime: Runtime): SymmetricBackend[] {
  return runtime.stream ? ["nvshmem", "nccl"] : ["mpi"];
}

function symmetricCount(): number {
  return liveAllocations().filter(({ kind }) => kind === "symmetric").length;
}

clusterTest("symmetric memory is zero at first, and every rank reads and writes the others'", (runtime) => {
  const { rank, size } = runtime;
  for (const backend of backendsOf(runtime)) {
    for (
      const [dtype, value] of [["float64", 7], ["float32", 5], ["int64", 9], ["complex64", 3]] as [DType, number][]
    ) {
      const array = allocateSymmetricMemory(runtime, [size, 3], { dtype, backend });
      assertEquals([array.memory, array.backend, array.shape], ["symmetric", backend, [size, 3]]);
      assert(array.toNumbers().every((x) => x === 0));
      assertEquals(array.peerAddress(rank), array.address);
      array.synchronize();
      // Row `rank` of every rank's array is written by this rank.
      for (let peer = 0; peer < size; peer++) array.peer(peer).slice([rank, 0], [1, 3]).fill(value + 10 * rank + peer);
      array.synchronize();
      for (let peer = 0; peer < size; peer++) {
        for (let column = 0; column < 3; column++) {
          const at = array.at(peer, column);
          const real = Array.isArray(at) ? at[0] : Number(at);
          assertEquals(real, value + 10 * peer + rank, `${backend} ${dtype}, written by ${peer}`);
        }
      }
      array.synchronize();
      const next = (rank + 1) % size;
      assertEquals(array.peer(next).toNumbers()[0], value + next);
      array.synchronize();
      freeSymmetricMemory(array);
      assert(array.isFreed);
    }
  }
});

clusterTest("several arrays have addresses of their own, and orders and shapes as asked for", (runtime) => {
  for (const backend of backendsOf(runtime)) {
    const a = allocateSymmetricMemory(runtime, [4, 6], { dtype: "float32", order: "F", backend });
    const b = allocateSymmetricMemory(runtime, [4, 6], { dtype: "float32", backend });
    assertEquals([a.strides, b.strides], [[1, 4], [6, 1]]);
    assertNotEquals(a.address, b.address);
    b.set(Array.from({ length: 24 }, (_, i) => i));
    a.set(b);
    assertEquals(a.toNumbers(), b.toNumbers());
    assertEquals(a.transpose().toNumbers().slice(0, 2), [0, 6]);
    freeSymmetricMemory(b, a);
  }
});

clusterTest("makeSymmetric gives every rank as much as the largest part needs", (runtime) => {
  const { rank, size } = runtime;
  for (const backend of backendsOf(runtime)) {
    const array = allocateSymmetricMemory(runtime, [10 + 100 * rank], { dtype: "int32", makeSymmetric: true, backend });
    assertEquals(array.shape, [10 + 100 * rank]);
    assert(array.symmetric.byteLength >= 4 * (10 + 100 * (size - 1)));
    assertEquals(
      runtime.communicator.allGatherObject(array.symmetric.byteLength).filter((x, _, all) => x !== all[0]),
      [],
    );
    array.fill(rank + 1);
    array.synchronize();
    for (let peer = 0; peer < size; peer++) {
      const part = array.peer(peer);
      assertEquals(part.shape, [10 + 100 * peer]);
      assertEquals(new Set(part.toNumbers()), new Set([peer + 1]));
    }
    array.synchronize();
    freeSymmetricMemory(array);
  }
});

clusterTest(
  "using queues the free for the next collective point, also while an error unwinds on one rank",
  (runtime) => {
    const before = symmetricCount();
    let kept!: SymmetricArray;
    try {
      using array = allocateSymmetricMemory(runtime, [8]);
      kept = array;
      if (runtime.rank === 0) throw new Error("on rank 0 only");
    } catch {
      // It unwound past the array without waiting for anybody.
    }
    assert(kept.isFreed);
    assertEquals(symmetricCount(), before + 1);
    runtime.collect();
    assertEquals(symmetricCount(), before);
    assertThrowsEverywhere(runtime, () => kept.address, StateError, "was freed");
    {
      using _ = allocateSymmetricMemory(runtime, [8]);
    }
    freeSymmetricMemory(allocateSymmetricMemory(runtime, [8]));
    assertEquals(symmetricCount(), before);
  },
);

clusterTest("100 rounds leave nothing behind", (runtime) => {
  const before = symmetricCount();
  const rounds = 100;
  for (let round = 0; round < rounds; round++) {
    const array = allocateSymmetricMemory(runtime, [256], { dtype: "float32" });
    array.fill(round);
    freeSymmetricMemory(array);
  }
  assertEquals(symmetricCount(), before);
});

clusterTest("a DistributedArray can be symmetric: zeros, random, to, fromLocal, redistribute", (runtime) => {
  const plain = DistributedArray.random(runtime, [9, 7], Slab.X, { dtype: "float32", seed: 3 });
  const made = DistributedArray.random(runtime, [9, 7], Slab.X, { dtype: "float32", seed: 3, memory: "symmetric" });
  assertEquals([made.memory, made.maxAbsDifference(plain)], ["symmetric", 0]);
  const moved = plain.to({ memory: "symmetric", order: "F" });
  assertEquals([moved.memory, moved.order, moved.maxAbsDifference(plain)], ["symmetric", "F", 0]);
  const back = moved.redistribute(Slab.Y);
  assertEquals(back.maxAbsDifference(plain), 0);
  const part = allocateSymmetricMemory(runtime, [2, 3]);
  part.fill(2);
  const whole = DistributedArray.fromLocal(runtime, part, Slab.X);
  assertEquals([whole.memory, whole.shape, whole.sum()], ["symmetric", [2 * runtime.size, 3], 12 * runtime.size]);
  whole.free();
  assert(!part.isFreed, "parts that the user has made stay the user's");
  freeSymmetricMemory(moved, part);
  assertThrowsEverywhere(runtime, () => moved.sum(), StateError, "was freed");
  made.free();
  assertThrowsEverywhere(runtime, () => made.norm(), StateError, "was freed");
  runtime.collect();
});

const onHost = "typed arrays of freed memory are empty, and not somebody else's";
clusterTest(onHost, { ignore: hasGpu && "a GPU" }, (runtime) => {
  const array = allocateSymmetricMemory(runtime, [16]);
  const kept = array.view();
  freeSymmetricMemory(array);
  assertEquals(kept.length, 0);
});

clusterTest("another rank's array is refused once it was freed, and its typed arrays are empty", (runtime) => {
  for (const backend of backendsOf(runtime)) {
    const array = allocateSymmetricMemory(runtime, [4, 4], { backend });
    array.fill(runtime.rank);
    array.synchronize();
    const peers = Array.from({ length: runtime.size }, (_, rank) => array.peer(rank));
    const parts = peers.map((peer) => peer.slice([1, 1], [2, 2]).transpose());
    const views = runtime.stream ? [] : [...peers, ...parts].map((peer) => peer.view());
    assertEquals(peers.map((peer) => peer.at(3, 3)), peers.map((_, rank) => rank));
    assertEquals(peers.map((peer) => peer.address), peers.map((_, rank) => array.peerAddress(rank)));
    array.synchronize();
    freeSymmetricMemory(array);
    const next = allocateSymmetricMemory(runtime, [4, 4], { backend });
    assertEquals(views.map(({ length }) => length), views.map(() => 0));
    for (const peer of [...peers, ...parts]) {
      for (const use of [() => peer.toNumbers(), () => peer.address, () => peer.fill(7), () => peer.at(0, 0)]) {
        assertThrows(use, StateError, "freed");
      }
    }
    next.synchronize();
    assertEquals(new Set(next.toNumbers()), new Set([0]));
    freeSymmetricMemory(next);
  }
});

// ---- misuse -------------------------------------------------------------------------------------------------------------

type Misuse = [name: string, body: (runtime: Runtime) => unknown, errorClass: ErrorClass<Error>, message: string];

const MISUSE: Misuse[] = [
  ["a negative extent", (r) => allocateSymmetricMemory(r, [-1]), ShapeError, "is [-1]"],
  ["a shape that is none", (r) => allocateSymmetricMemory(r, 5 as never), TypeError, "must be an array of numbers"],
  ["an unknown dtype", (r) => allocateSymmetricMemory(r, [1], { dtype: "half" as never }), DTypeError, '"half"'],
  ["an unknown order", (r) => allocateSymmetricMemory(r, [1], { order: "K" as never }), TypeError, '"C" or "F"'],
  [
    "an unknown backend",
    (r) => allocateSymmetricMemory(r, [1], { backend: "shmem" as never }),
    TypeError,
    'the backend must be "nvshmem", "nccl" or "mpi"',
  ],
  [
    "the backend of another kind of device",
    (r) => allocateSymmetricMemory(r, [1], { backend: r.stream ? "mpi" : "nvshmem" }),
    ConfigurationError,
    "does not serve a",
  ],
  [
    "makeSymmetric that is no boolean",
    (r) => allocateSymmetricMemory(r, [1], { makeSymmetric: 1 as never }),
    TypeError,
    "makeSymmetric must be true or false",
  ],
  ["freeing what is no array", () => freeSymmetricMemory({} as never), TypeError, "argument 0 is no array"],
  ["freeing null", () => freeSymmetricMemory(null as never), TypeError, "argument 0 is no array"],
  [
    "freeing an ordinary array",
    () => freeSymmetricMemory(LocalArray.zeros("float32", [4])),
    StateError,
    "which allocateSymmetricMemory did not make",
  ],
  [
    "freeing an ordinary distributed array",
    (r) => freeSymmetricMemory(DistributedArray.zeros(r, [4], Slab.X)),
    StateError,
    "which allocateSymmetricMemory did not make",
  ],
];

for (const [name, body, errorClass, message] of MISUSE) {
  clusterTest(`symmetric memory refuses ${name}`, (runtime) => {
    const before = symmetricCount();
    assertThrowsEverywhere(runtime, () => body(runtime), errorClass, message);
    assertEquals(symmetricCount(), before);
  });
}

/** Misuse of an array that is there. */
const MISUSE_OF_ARRAY: [
  name: string,
  body: (array: SymmetricArray, runtime: Runtime) => unknown,
  errorClass: ErrorClass<Error>,
  message: string,
][] = [
  ["freeing a transposed view", (a) => freeSymmetricMemory(a.transpose()), StateError, "is a view of symmetric memory"],
  ["freeing a slice", (a) => freeSymmetricMemory(a.slice([0, 0], [1, 1])), StateError, "is a view of symmetric memory"],
  ["freeing another rank's part", (a) => freeSymmetricMemory(a.peer(0)), StateError, "is a view of symmetric memory"],
  [
    "freeing a view of a distributed array",
    (a, r) => freeSymmetricMemory(DistributedArray.fromLocal(r, a, Slab.X).transpose()),
    StateError,
    "is a view of symmetric memory",
  ],
  ["freeing an array twice in one call", (a) => freeSymmetricMemory(a, a), StateError, "the same memory as argument 0"],
  ["the address of a rank that does not exist", (a) => a.peerAddress(99), RangeError, "there is no rank 99"],
  ["the address of rank -1", (a) => a.peerAddress(-1), RangeError, "there is no rank -1"],
];

for (const [name, body, errorClass, message] of MISUSE_OF_ARRAY) {
  clusterTest(`symmetric memory refuses ${name}, and the array lives on`, (runtime) => {
    const array = allocateSymmetricMemory(runtime, [4, 5]);
    assertThrowsEverywhere(runtime, () => body(array, runtime), errorClass, message);
    array.fill(1);
    assertEquals(array.toNumbers().length, 20);
    freeSymmetricMemory(array);
  });
}

clusterTest("freeing twice is an error that says where the memory came from", (runtime) => {
  const array = allocateSymmetricMemory(runtime, [4]);
  freeSymmetricMemory(array);
  const error = assertThrowsEverywhere(runtime, () => freeSymmetricMemory(array), StateError, "was freed already");
  assert(error.message.includes("symmetric_test.ts:"), error.message);
  const disposed = allocateSymmetricMemory(runtime, [4]);
  disposed[Symbol.dispose]();
  assertThrowsEverywhere(runtime, () => freeSymmetricMemory(disposed), StateError, "by its using block already");
  assertThrowsEverywhere(runtime, () => array.address, StateError, "was freed");
  assertThrowsEverywhere(runtime, () => array.peerAddress(0), StateError, "was freed");
  assertThrowsEverywhere(runtime, () => array.fill(1), StateError, "was freed");
  runtime.collect();
});

clusterTest("sizes that differ are refused, with the hint", { ranks: [2, 3, 4] }, (runtime) => {
  const error = assertThrowsEverywhere(
    runtime,
    () => allocateSymmetricMemory(runtime, [runtime.rank === 1 ? 5 : 4], { dtype: "float32" }),
    ShapeError,
    "Pass { makeSymmetric: true }",
  );
  assert(error.message.includes("16 on rank 0, 20 on rank 1"), error.message);
});

clusterTest("what differs between ranks is refused everywhere", { ranks: [2, 3, 4] }, (runtime) => {
  const isLast = runtime.rank === runtime.size - 1;
  const dtype = isLast ? "int32" : "float32";
  assertThrowsEverywhere(runtime, () => allocateSymmetricMemory(runtime, [4], { dtype }), CollectiveError, "dtype");
  assertThrowsEverywhere(
    runtime,
    () => allocateSymmetricMemory(runtime, [4], { makeSymmetric: isLast }),
    CollectiveError,
    "makeSymmetric",
  );
  assertThrowsEverywhere(
    runtime,
    () => allocateSymmetricMemory(runtime, [isLast ? -4 : 4]),
    ShapeError,
    `(on rank ${runtime.size - 1} of ${runtime.size})`,
  );
});

clusterTest("freeing in another order, or other arrays, is refused everywhere", { ranks: [2, 3, 4] }, (runtime) => {
  const [a, b] = [allocateSymmetricMemory(runtime, [4]), allocateSymmetricMemory(runtime, [4])];
  const isFirst = runtime.rank === 0;
  assertThrowsEverywhere(
    runtime,
    () => isFirst ? freeSymmetricMemory(a, b) : freeSymmetricMemory(b, a),
    CollectiveError,
    "the ranks disagree on arrays",
  );
  assertThrowsEverywhere(
    runtime,
    () => isFirst ? freeSymmetricMemory(a) : freeSymmetricMemory(a, b),
    CollectiveError,
    "the ranks disagree on arrays",
  );
  assertThrowsEverywhere(
    runtime,
    () => isFirst ? freeSymmetricMemory(a) : allocateSymmetricMemory(runtime, [4]),
    CollectiveError,
    "The ranks are in different operations",
  );
  a.fill(1);
  freeSymmetricMemory(a, b);
});

clusterTest("a replicated symmetric array can be summed and compared", (runtime) => {
  const ones = DistributedArray.full(runtime, [6, 2], Replicated, 1, { memory: "symmetric" });
  assertEquals(ones.sum(), 12);
  freeSymmetricMemory(ones);
});

clusterTest(
  "another rank's part is in the array's order, also where this rank's has either",
  { ranks: [2] },
  (runtime) => {
    const array = allocateSymmetricMemory(runtime, runtime.rank === 0 ? [1, 3] : [2, 3], {
      dtype: "float32",
      order: "F",
      makeSymmetric: true,
    });
    array.set(Float32Array.from(array.shape[0] === 1 ? [1, 2, 3] : [1, 2, 3, 4, 5, 6]));
    array.synchronize();
    assertEquals(array.peer(1).toNumbers(), [1, 2, 3, 4, 5, 6]);
    assertEquals(array.peer(1).strides, [1, 2]);
    freeSymmetricMemory(array);
  },
);

clusterTest("windows of MPI outlive the communicators that they were made for", ({ communicator: world }) => {
  const windows = [1, 2, 3].map((value) => {
    const own = world.split(0)!;
    const window = new MpiWindow(own, 64);
    own.free();
    new Uint8Array(window.host).fill(value);
    return window;
  });
  world.barrier();
  const peer = (world.rank + 1) % world.size;
  for (const [i, window] of windows.entries()) {
    assertEquals(new Uint8Array(viewOfAddress(window.peerAddress(peer), 64)), new Uint8Array(64).fill(i + 1));
  }
  world.barrier();
  for (const window of windows) window.free();
});
