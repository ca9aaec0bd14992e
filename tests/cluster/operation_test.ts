/** A collective operation of its own on the library's life of operations: y = alpha x + y. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import {
  CollectiveError,
  DistributedArray,
  FFT,
  initialize,
  Matmul,
  Redistribution,
  Replicated,
  ShapeError,
  Slab,
  StateError,
} from "../../mod.ts";
import { checkAlive, checkArray, runtimeOf } from "../../src/array/base_array.ts";
import { keysOf, readOptions } from "../../src/options.ts";
import { CollectiveOperation, type OperationPlan } from "../../src/runtime/operation.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import { hasGpu, hostTest } from "../gpu/gpu_test_kit.ts";

// ---- the operation --------------------------------------------------------------------------------------------------
interface Operands {
  readonly x: DistributedArray;
  readonly y: DistributedArray;
}

class Axpy implements Disposable {
  readonly #operation: CollectiveOperation<Operands, OperationPlan & { readonly alpha: number }>;

  constructor(x: DistributedArray, y: DistributedArray) {
    this.#operation = new CollectiveOperation(runtimeOf(x, y), "Axpy", () => this.#check({ x, y }));
  }
  plan(options: { alpha: number }): void {
    this.#operation.plan("plan", (operands) => {
      const { alpha } = readOptions("the options of plan", options, keysOf<typeof options>({ alpha: true }));
      return { plan: { alpha, [Symbol.dispose]() {} }, operands, facts: { alpha } };
    });
  }
  execute(): DistributedArray {
    return this.#operation.execute("execute", undefined, ({ alpha }, { x, y }) => {
      for (const [name, array] of Object.entries({ x, y })) checkAlive(name, array);
      const [from, to] = [x, y].map(({ local }) => local.toTypedArray() as Float64Array);
      return { run: () => (y.local.set(to.map((value, i) => alpha * from[i] + value)), y) };
    });
  }
  resetOperands = (operands: Operands) => this.#operation.reset("resetOperands", () => this.#check(operands));
  releaseOperands = () => this.#operation.release();
  free = () => this.#operation.free();
  [Symbol.dispose] = () => this.#operation[Symbol.dispose]();

  #check({ x, y }: Operands) {
    for (const [name, array] of Object.entries({ x, y })) checkArray(array, name);
    if (!x.distribution.coincidesWith(y.distribution)) throw new ShapeError(`x is ${x}, and y is ${y}.`);
    return { operands: { x, y }, facts: { x: String(x), y: String(y) } };
  }
}
// ---------------------------------------------------------------------------------------------------------------------

clusterTest("an operation of 40 lines is checked, planned, executed, reset, released and freed", (runtime) => {
  const filled = (value: number) => DistributedArray.full(runtime, [6, 4], Slab.X, value);
  const y = filled(1);
  const axpy = new Axpy(filled(2), y);
  axpy.plan({ alpha: 10 });
  assertEquals(axpy.execute().sum(), 24 * 21);
  axpy.resetOperands({ x: filled(3), y });
  axpy.plan({ alpha: 1 });
  assertEquals(axpy.execute().sum(), 24 * 24);
  axpy.releaseOperands();
  axpy.resetOperands({ x: filled(1), y: filled(0) });
  assertEquals(axpy.execute().sum(), 24);
  axpy.free();
  axpy.free();
});

clusterTest("a plan that cannot be opened leaves the earlier one", (runtime) => {
  const log: string[] = [];
  const plan = (name: string) => ({
    open: () => {
      if (name === "third") throw new Error("no room");
      log.push(`${name} opened`);
    },
    [Symbol.dispose]: () => void log.push(`${name} closed`),
  });
  const operation = new CollectiveOperation<null, ReturnType<typeof plan>>(
    runtime,
    "Test",
    () => ({ operands: null, facts: {} }),
  );
  const planned = (name: string) => operation.plan("plan", () => ({ plan: plan(name), operands: null, facts: {} }));
  planned("first");
  planned("second");
  const { currentPlan } = operation;
  assertThrows(() => planned("third"), Error, "no room");
  assertStrictEquals(operation.currentPlan, currentPlan);
  assertEquals(log, ["first opened", "second opened", "first closed", "third closed"]);
  operation.free();
  assertEquals(log.at(-1), "second closed");
});

// GPUs are timed by what they do, and this execution does nothing on them.
const onHost = { ranks: [2], ignore: hasGpu && "on other devices" };

clusterTest("an execution that is measured takes as long as its slowest rank", onHost, (runtime) => {
  const plan = { [Symbol.dispose]() {} };
  const operation = new CollectiveOperation(runtime, "Test", () => ({ operands: null, facts: {} }));
  // Each rank is the slow one in turn, so that the fastest execution of each alone takes no time.
  let turn = runtime.rank;
  const wait = () => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, turn++ % 2 === 0 ? 50 : 0);
  const seconds = operation.measure("a test", () => ({ plan }), () => wait, 4);
  assert(typeof seconds === "number" && seconds >= 0.049, `${seconds}`);
});

clusterTest("ranks that are at different operations of one kind fail alike", { ranks: [2, 3] }, (runtime) => {
  const filled = (size: number) => DistributedArray.full(runtime, [size, size], Slab.X, 1);
  const isFirst = runtime.rank === 0;
  const options = { distribution: Slab.X } as const;
  const fields = [8, 8].map((size) => DistributedArray.random(runtime, [size, size], Slab.X, { dtype: "complex128" }));
  const pairs = {
    Matmul: [8, 16].map((size) => new Matmul(filled(size), filled(size), options)),
    FFT: fields.map((field) => new FFT(field)),
    Redistribution: [8, 8].map((size) => new Redistribution(filled(size), Slab.Y)),
  };
  for (const [name, pair] of Object.entries(pairs)) {
    const [one, other] = pair as Matmul[];
    const differs = (run: (operation: Matmul) => unknown, method: string) => {
      const message = `${name}.${method}: the ranks disagree on which ${name} it is`;
      assertThrowsEverywhere(runtime, () => run(isFirst ? one : other), CollectiveError, message);
    };
    differs((operation) => operation.plan(), "plan");
    one.plan();
    other.plan();
    differs((operation) => operation.execute(), "execute");
    // Both are as good as before.
    for (const operation of [one, other]) {
      operation.execute().free();
      operation.free();
    }
  }
});

clusterTest("such an operation fails on every rank or on none", { ranks: [2, 3] }, (runtime) => {
  const filled = (value: number, slab = Slab.X) => DistributedArray.full(runtime, [6, 4], slab, value);
  const isFirst = runtime.rank === 0;
  const [x, y, freed] = [filled(2), filled(1), filled(0)];
  freed.free();
  const axpy = new Axpy(x, y);
  const fails = (run: () => unknown, kind: typeof StateError | typeof TypeError, text: string) =>
    assertThrowsEverywhere(runtime, run, kind as typeof Error, text);
  fails(() => new Axpy(x, isFirst ? freed : y), StateError, "freed");
  fails(() => new Axpy(x, isFirst ? filled(1, Slab.Y) : y), CollectiveError, "different operations");
  fails(() => axpy.execute(), StateError, "Axpy.execute() was used before plan(). Call plan() first, once.");
  fails(() => axpy.plan((isFirst ? { beta: 1 } : { alpha: 1 }) as never), TypeError, 'no key "beta"');
  fails(() => axpy.plan({ alpha: runtime.rank }), CollectiveError, "Axpy.plan: the ranks disagree on alpha");
  axpy.plan({ alpha: 1 });
  fails(() => axpy.resetOperands({ x: isFirst ? freed : x, y }), StateError, "freed");
  assertEquals(axpy.execute().sum(), 24 * 3);
  const gone = filled(1);
  axpy.resetOperands({ x: gone, y });
  if (isFirst) gone.free();
  fails(() => axpy.execute(), StateError, "x was freed");
  axpy.releaseOperands();
  fails(() => axpy.execute(), StateError, "Axpy.execute() was called after releaseOperands()");
  axpy.free();
  const message = "was used after free(). Make a new Axpy.";
  fails(() => axpy.execute(), StateError, `Axpy.execute() ${message}`);
  fails(() => axpy.plan({ alpha: 1 }), StateError, `Axpy.plan() ${message}`);
  fails(() => axpy.resetOperands({ x, y }), StateError, `Axpy.resetOperands() ${message}`);
});

clusterTest("executions exchange nothing with local checks", (runtime) => {
  runtime[Symbol.dispose]();
  using local = initialize({ device: "cpu", checks: "local" });
  const filled = (value: number) => DistributedArray.full(local, [6, 4], Slab.X, value);
  const axpy = new Axpy(filled(1), filled(0));
  axpy.plan({ alpha: 1 });
  const executeOften = () => {
    for (let i = 0; i < 40; i++) axpy.execute();
  };
  if (local.rank === 0) executeOften();
  local.communicator.barrier();
  if (local.rank !== 0) executeOften();
  assertEquals(axpy.execute().sum(), 24 * 41);
  axpy.free();
});

clusterTest("a recording has what all ranks did, by one clock, and counts collective calls", (runtime) => {
  const { rank, size, stream } = runtime;
  using a = DistributedArray.full(runtime, [8, 8], Slab.X, 1);
  const algorithm = size > 1 && stream === null ? "pgemm" : "default";
  using product = new Matmul(a, a, { distribution: Slab.X, algorithm });
  product.plan();
  using turn = new Redistribution(a, Slab.Y);
  turn.execute().free();
  assertStringIncludes(product.explain(), "no execution was recorded");
  using recording = runtime.record();
  assertThrowsEverywhere(runtime, () => runtime.record(), StateError, "A recording is going on already");
  product.execute().free();
  turn.execute().free();
  const { collectives } = recording;
  if (algorithm === "pgemm") {
    assertEquals([collectives.pdgemm, collectives.MPI_Allreduce >= 2], [1, true]);
    assertStringIncludes(product.explain(), "collective calls: pdgemm 1");
  }
  assertStringIncludes(product.explain(), "the last execution that was recorded took");
  const { measured, predicted, ...timeline } = recording.timeline();
  assertEquals([predicted, timeline], [[], {}]);
  for (let peer = 0; peer < size; peer++) {
    const operations = measured.filter((one) => one.rank === peer && one.lane === 0);
    assertEquals(operations.map(({ label }) => label), ["Matmul.execute", "Redistribution.execute"]);
    // What an operation does lies within it.
    const work = measured.filter((one) => one.rank === peer && one.lane === 1);
    const [first] = operations;
    if (stream === null) {
      assert(work.some(({ kind, start, end }) => kind === "gemm" && start >= first.start && end <= first.end));
    }
  }
  assert(measured.every(({ start, end }) => start >= 0 && end >= start));
  const all = runtime.communicator.allGatherObject(measured);
  assertEquals(all[rank], all[0]);
  // The clocks are compared again, so that waits may end elsewhere.
  const again = recording.timeline();
  assertEquals(again.measured.filter(({ lane }) => lane === 0).length, 2 * size);
  assertStringIncludes(again.toSVG(), `>rank ${size - 1}, operations</text>`);
  assertStringIncludes(again.toChromeTrace(), '"thread_name"');
});

hostTest("a recording counts what the ranks exchange, whichever way it travels", (runtime) => {
  const { size } = runtime;
  using a = DistributedArray.full(runtime, [256, 256], Slab.X, 1);
  using gather = new Matmul(a, a, { distribution: Slab.X, algorithm: "all_gather_gemm" });
  gather.plan();
  using turn = new Redistribution(a, Slab.Y);
  using spectrum = new FFT(a, { distribution: Slab.Y });
  spectrum.plan();
  using recording = runtime.record();
  const told = (operation: { execute(): DistributedArray; explain(): string }) => {
    operation.execute().free();
    return / exchanges: (.*)$/.exec(operation.explain())?.[1] ?? "none";
  };
  const shared = /^all-to-all (between processes|in shared memory|by messages) 1$/;
  const none = /^none$/;
  assertMatch(told(gather), size > 1 ? /^all-gather by messages 1$/ : none);
  assertMatch(told(turn), size > 1 ? shared : none);
  assertMatch(told(spectrum), size > 1 ? shared : none);
  turn.plan({ algorithm: "packed_alltoallv" });
  assertMatch(told(turn), size > 1 ? /^all-to-all by messages 1$/ : none);
  if (size > 1) assertStringIncludes(turn.explain(), "collective calls: MPI_Alltoallv 1; exchanges: ");
  a.redistribute(Replicated).free();
  a.allGather();
  const counts = Object.entries(recording.exchanges);
  const all = (kind: string) => counts.reduce((sum, [name, count]) => sum + (name.startsWith(kind) ? count : 0), 0);
  assertEquals([all("all-to-all "), all("all-gather ") >= 2], size > 1 ? [3, true] : [0, false]);
});
