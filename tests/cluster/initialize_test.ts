/** initialize(), the runtime, and what they refuse. */
import { totalmem } from "node:os";
import { assert, assertEquals, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  allocateSymmetricMemory,
  CollectiveError,
  Communicator,
  ConfigurationError,
  currentRuntime,
  DistributedArray,
  initialize,
  type InitializeOptions,
  Slab,
  StateError,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest, testRuntime } from "../../src/testing/mod.ts";

// deno-lint-ignore no-explicit-any
type Misuse = [name: string, options: any, errorClass: any, message: string];

const MISUSE: Misuse[] = [
  ["a GPU that does not exist", { device: 99 }, ConfigurationError, "There is no GPU 99"],
  ["a negative GPU", { device: -1 }, RangeError, "a GPU's number is an integer from 0"],
  ["an unknown device", { device: "gpu" }, TypeError, 'device is "gpu", allowed are "auto", "cpu" and a GPU\'s number'],
  ["unknown checks", { checks: "none" }, TypeError, 'checks is "none", allowed are "collective" and "local"'],
  ["a time limit of 0", { timeoutSeconds: 0 }, RangeError, "timeoutSeconds is 0, it must be a positive number"],
  ["a time limit that is NaN", { timeoutSeconds: NaN }, RangeError, "timeoutSeconds is NaN"],
  ["half a thread", { threads: 0.5 }, RangeError, "threads is 0.5, it must be an integer from 1"],
  ["no thread", { threads: 0 }, RangeError, "threads is 0"],
  ["a communicator that is none", { communicator: {} }, TypeError, "communicator must be a Communicator"],
  ["options that are no object", "cpu", TypeError, "options must be an object"],
  ["null for options", null, TypeError, "options must be an object; got null"],
  [
    "an unknown option",
    { devic: "cpu" },
    TypeError,
    'options may have no key "devic"; did you mean "device"? Allowed: device,',
  ],
];

for (const [name, options, errorClass, message] of MISUSE) {
  clusterTest(`initialize() refuses ${name}`, (runtime) => {
    runtime[Symbol.dispose]();
    assertThrowsEverywhere(runtime, () => initialize(options), errorClass, message);
  });
}

clusterTest("initialize() refuses a second runtime, and allows one after the first is closed", (runtime) => {
  assertStrictEquals(currentRuntime(), runtime);
  assertThrowsEverywhere(
    runtime,
    () => initialize(),
    StateError,
    "there is a runtime already; currentRuntime() returns it",
  );
  runtime[Symbol.dispose]();
  assert(runtime.isClosed && !runtime.isFinalized);
  assertThrows(() => currentRuntime(), StateError, "There is no runtime; call initialize() first.");
  const next = initialize({ device: "cpu", checks: "local" });
  assertEquals([next.checks, next.rank], ["local", runtime.rank]);
  next[Symbol.dispose]();
});

clusterTest("options that differ are refused everywhere", { ranks: [2, 3, 4] }, (runtime) => {
  runtime[Symbol.dispose]();
  const checks: InitializeOptions["checks"] = runtime.rank === 0 ? "local" : "collective";
  assertThrowsEverywhere(
    runtime,
    () => initialize({ checks }),
    CollectiveError,
    'checks ("local" on rank 0; "collective" on',
  );
  const device = runtime.rank === 0 ? 0 : "cpu";
  assertThrowsEverywhere(runtime, () => initialize({ device }), CollectiveError, 'device ("a GPU" on rank 0; "cpu" on');
  const missing = runtime.rank === 0 ? 98 : 99;
  assertThrowsEverywhere(runtime, () => initialize({ device: missing }), ConfigurationError, "(on rank 0 of ");
});

clusterTest("a runtime knows its ranks, its machine and its device", (runtime) => {
  const { rank, size, localRank, localSize, device, communicator, threads } = runtime;
  assertStrictEquals(communicator, Communicator.world());
  assertEquals([rank, size], [communicator.rank, communicator.size]);
  // All test ranks are on one machine.
  assertEquals(communicator.allGatherObject(localRank).toSorted(), Array.from({ length: size }, (_, r) => r));
  assertEquals(localSize, size);
  assertEquals([device.kind, device.ordinal, device.computeCapability], ["cpu", null, null]);
  assertEquals(device.memoryBytes, totalmem());
  assertEquals(threads, Math.max(1, Math.floor(navigator.hardwareConcurrency / size)));
  assertEquals(runtime.timeoutSeconds, 60);
  const mpi = runtime.versions().find(({ name }) => name === "MPI");
  assert(mpi && /MPI/.test(mpi.version) && /^\/.*libmp/.test(mpi.path) && mpi.source.length > 0, JSON.stringify(mpi));
});

clusterTest("a runtime of a part of the ranks", (runtime) => {
  runtime[Symbol.dispose]();
  const part = runtime.communicator.split(runtime.rank % 2)!;
  const inner = initialize({ communicator: part, threads: 1 });
  assertEquals([inner.size, inner.rank, inner.localSize], [part.size, part.rank, part.size]);
  assertEquals(inner.threads, 1);
  inner[Symbol.dispose]();
  part.free();
});

clusterTest("a part of the ranks learns of communicators that differ or were freed", { ranks: [3, 4] }, (runtime) => {
  runtime[Symbol.dispose]();
  const { rank } = runtime;
  const color = rank === 0 ? 1 : 0;
  const [part, other, freed] = [0, 1, 2].map(() => runtime.communicator.split(color)!);
  freed.free();
  const told = (choose: () => Communicator) => {
    try {
      initialize({ communicator: choose(), threads: 1 });
      return "nothing";
    } catch (error) {
      return error instanceof Error ? error.message : "";
    }
  };
  // The ranks but the first form a part, whose last one passes something else.
  const isLast = rank === runtime.size - 1;
  if (rank > 0) {
    assertStringIncludes(told(() => isLast ? other : part), "the ranks disagree on communicator");
    assertStringIncludes(told(() => isLast ? freed : part), "freed) can have no runtime");
    const inner = initialize({ communicator: part, threads: 1 });
    assertEquals(inner.size, runtime.size - 1);
    inner[Symbol.dispose]();
  }
  part.free();
  other.free();
  assertEquals(runtime.communicator.split(0)!.size, runtime.size);
});

clusterTest("onCollect() frees what every rank has queued, in order", (runtime) => {
  const freed: string[] = [];
  runtime.onCollect(() => freed.push("first"));
  runtime.onCollect(() => freed.push("second"));
  assertEquals(freed, []);
  runtime.collect();
  assertEquals(freed, ["first", "second"]);
  runtime.collect();
  assertEquals(freed.length, 2);
});

clusterTest("what is queued is freed by collective operations, with local checks by one of sixteen", (runtime) => {
  runtime[Symbol.dispose]();
  for (const checks of ["collective", "local"] as const) {
    using own = initialize({ device: "cpu", checks });
    using a = DistributedArray.full(own, [4, 4], Slab.X, 1);
    let freed = 0;
    own.onCollect(() => freed++);
    const part = own.communicator.split(0)!;
    part[Symbol.dispose]();
    for (let i = 0; i < (checks === "collective" ? 1 : 16); i++) assertEquals(a.sum(), 16);
    assertEquals([freed, part.isFreed], [1, true]);
  }
});

clusterTest("what is queued of one communicator is not taken for that of another", (runtime) => {
  runtime[Symbol.dispose]();
  const world = runtime.communicator;
  const part = world.split(world.rank % 2)!;
  const freed: string[] = [];
  {
    using own = initialize({ device: "cpu", communicator: part });
    allocateSymmetricMemory(own, [64], { dtype: "float64" })[Symbol.dispose]();
    own.onCollect(() => freed.push("of a part"));
    // Which its other ranks never have.
    if (own.rank === 0) own.onCollect(() => freed.push(own.size === 1 ? "alone" : "never"));
  }
  using own = initialize({ device: "cpu" });
  own.onCollect(() => freed.push("of all"));
  using array = allocateSymmetricMemory(own, [64], { dtype: "float64" });
  own.collect();
  assertEquals(freed.filter((what) => what !== "alone"), ["of a part", "of all"]);
  assertEquals(array.isFreed, false);
  part.free();
});

clusterTest("ranks of two parts free nothing of either", { ranks: [4] }, (runtime) => {
  runtime[Symbol.dispose]();
  const world = runtime.communicator;
  const row = world.split(world.rank >> 1)!;
  let freed = 0;
  {
    using own = initialize({ device: "cpu", communicator: row });
    allocateSymmetricMemory(own, [64], { dtype: "float64" })[Symbol.dispose]();
    own.onCollect(() => freed++);
  }
  const middle = world.split(world.rank === 1 || world.rank === 2 ? 0 : null);
  if (middle !== null) {
    using own = initialize({ device: "cpu", communicator: middle });
    own.collect();
  }
  assertEquals(freed, 0);
  world.barrier();
  {
    using own = initialize({ device: "cpu" });
    own.collect();
  }
  assertEquals(freed, 1);
  middle?.free();
  row.free();
});

clusterTest("a runtime has the time limit that it was given, not that of one before", { ranks: [2] }, (runtime) => {
  runtime[Symbol.dispose]();
  const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000);
  {
    using first = initialize({ device: "cpu", timeoutSeconds: 1 });
    assertEquals(first.timeoutSeconds, 1);
  }
  const refused = { device: "cpu", timeoutSeconds: 0.5, threads: -1 } as const;
  assertThrows(() => initialize(refused), RangeError, "threads is -1");
  using second = initialize({ device: "cpu" });
  assertEquals(second.timeoutSeconds, null);
  if (second.rank === 0) pause();
  second.communicator.barrier();
});

clusterTest("warnOnce() warns once, on rank 0", (runtime) => {
  const { warn } = console;
  const seen: unknown[] = [];
  console.warn = (text: unknown) => seen.push(text);
  try {
    runtime.warnOnce("a test", "slow BLAS");
    runtime.warnOnce("a test", "slow BLAS");
    runtime.warnOnce("another test", "slower");
  } finally {
    console.warn = warn;
  }
  assertEquals(seen, runtime.rank === 0 ? ["distmath: slow BLAS", "distmath: slower"] : []);
});

clusterTest("testRuntime() is the same until it is closed", (runtime) => {
  assertStrictEquals(testRuntime(), runtime);
});

clusterTest("different communicators, or a freed one, are refused everywhere", { ranks: [2, 3, 4] }, (runtime) => {
  const world = runtime.communicator;
  const [one, other, freed] = [world.duplicate(), world.duplicate(), world.duplicate()];
  freed.free();
  runtime[Symbol.dispose]();
  const start = (first: Communicator | undefined, others: Communicator | undefined) => () => {
    const communicator = runtime.rank === 0 ? first : others;
    return initialize({ device: "cpu", ...communicator && { communicator } });
  };
  const differ = "the ranks disagree on communicator";
  assertThrowsEverywhere(runtime, start(undefined, one), CollectiveError, differ);
  assertThrowsEverywhere(runtime, start(one, other), CollectiveError, differ);
  const message = ", freed) can have no runtime. Pass a communicator that is alive.";
  assertThrowsEverywhere(runtime, start(freed, freed), StateError, message);
  assertThrowsEverywhere(runtime, start(freed, one), StateError, message);
  const throwing = {
    get communicator(): Communicator {
      if (runtime.rank === 0) throw new RangeError("a user's error");
      return world;
    },
  };
  assertThrowsEverywhere(runtime, () => initialize(throwing), RangeError, "a user's error");
  using made = start(one, one)();
  assertEquals(made.communicator, one);
  other.free();
});
