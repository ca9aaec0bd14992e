/** Tasks that ranks take as they become free: their results, and what fails. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { CollectiveError, mapTasks } from "../../mod.ts";
import { assertSameOnAllRanks, assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";

const range = (n: number) => Array.from({ length: n }, (_, i) => i);

clusterTest("every rank has the results of all tasks in their order, whoever did them", ({ communicator: world }) => {
  const { rank, size } = world;
  const done: number[] = [];
  const work = (task: number) => {
    done.push(task);
    // Not all take the same time.
    for (const until = performance.now() + task % 3; performance.now() < until;);
    return { square: task * task, on: rank };
  };
  const results = mapTasks(world, range(30), work);
  assertEquals(results.map(({ square }) => square), range(30).map((task) => task * task));
  assertEquals(done, range(30).filter((task) => results[task].on === rank));
  const workers = new Set(results.map(({ on }) => on));
  assertEquals([...workers].toSorted(), size === 1 ? [0] : range(size).slice(1));
  assertEquals(mapTasks(world, [], work), []);
  assertEquals(mapTasks(world, [undefined, 2n, new Map([[1, NaN]])], (task) => task), [
    undefined,
    2n,
    new Map([[1, NaN]]),
  ]);
  assertEquals(mapTasks(world, rank === 0 ? [5] : [6, 7], (task) => task + 1), [6], "the tasks are those of rank 0");
});

clusterTest("messages of the script are not taken for tasks", ({ communicator: world }) => {
  const { rank, size } = world;
  const sent = world.isendObject("mine", (rank + 1) % size);
  assertEquals(mapTasks(world, range(5), (task) => -task), range(5).map((task) => -task));
  assertEquals(world.receiveObject((rank + size - 1) % size), "mine");
  sent.wait();
});

clusterTest("a task that fails, or does not travel, fails on every rank, and others are not begun", (runtime) => {
  const world = runtime.communicator;
  let count = 0;
  const work = (task: number) => {
    count++;
    if (task === 3) throw new RangeError("no such strip");
    // The rank that fails may be late on a busy machine.
    if (task > 3) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    return task;
  };
  assertThrowsEverywhere(
    runtime,
    () => mapTasks(world, range(1000), work),
    CollectiveError,
    "mapTasks: task 3 failed on rank",
  );
  assertThrowsEverywhere(runtime, () => mapTasks(world, range(4), work), CollectiveError, "no such strip");
  const begun = world.allReduce(Int32Array.of(count))[0];
  assert(begun <= 2 * (4 + 2 * world.size), `${begun} tasks were begun`);
  if (world.size > 1) {
    assertThrowsEverywhere(
      runtime,
      () => mapTasks(world, [() => 1], (task) => task()),
      CollectiveError,
      "cannot be sent",
    );
  }
  const odd = [Object.create(null), Object.assign(new Error(), { message: Symbol("s") }), undefined];
  for (const thrown of odd) {
    const fail = () => {
      throw thrown;
    };
    assertThrowsEverywhere(
      runtime,
      () => mapTasks(world, [1], fail),
      CollectiveError,
      "mapTasks: task 0 failed on rank",
    );
  }
  for (const result of [() => 1, Promise.resolve(1)]) {
    assertThrowsEverywhere(runtime, () => mapTasks(world, [1, 2], () => result), CollectiveError, "cannot be sent");
  }
  assertEquals(mapTasks(world, [1], (task) => task), [1], "and the next call works");
});

/** An array in an array, and so on, so many times. */
function nest(depth: number): unknown {
  let value: unknown = [];
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

/** Whether all is well, by what a call does: it returns, or throws a CollectiveError. */
function goesWell(call: () => unknown): boolean {
  try {
    call();
    return true;
  } catch (error) {
    if (!(error instanceof CollectiveError)) throw error;
    assertStringIncludes(error.message, "mapTasks: ");
    return false;
  }
}

clusterTest("what one rank alone cannot read or write fails on every rank", (runtime) => {
  const world = runtime.communicator;
  // How deep a value may be nested depends on what a rank has on its stack, where, and for reading or writing.
  const outcomes = range(16).map((i) => 250 * (i + 1)).map((depth) => [
    goesWell(() => mapTasks(world, [1, 2, 3], (task) => task === 2 ? nest(depth) : task)),
    goesWell(() => mapTasks(world, [1, nest(depth), 3], () => 0)),
  ]);
  assertSameOnAllRanks(runtime, () => JSON.stringify(outcomes));
  assertEquals([outcomes[0], outcomes.at(-1)], [[true, true], [false, world.size === 1]]);
  assertEquals(mapTasks(world, [1], (task) => task), [1], "and the next call works");
});

clusterTest("results that rank 0 has and cannot write fail on every rank", (runtime) => {
  const world = runtime.communicator;
  const { DefaultSerializer } = globalThis.process.getBuiltinModule("node:v8");
  const { writeValue } = DefaultSerializer.prototype;
  // Of all results together, a list, there may be more than V8 can write.
  DefaultSerializer.prototype.writeValue = function (value: unknown): boolean {
    if (Array.isArray((value as { result?: unknown } | null)?.result)) throw new RangeError("too much for this test");
    return writeValue.call(this, value);
  };
  try {
    const call = () => mapTasks(world, range(3), (task) => task);
    if (world.size === 1) assertEquals(call(), range(3));
    else assertThrowsEverywhere(runtime, call, CollectiveError, "the results do not travel together");
  } finally {
    DefaultSerializer.prototype.writeValue = writeValue;
  }
  assertEquals(mapTasks(world, range(3), (task) => task), range(3), "and the next call works");
});

clusterTest("arguments that are wrong on one rank are refused on all", (runtime) => {
  const world = runtime.communicator;
  const { rank, size } = world;
  const wrong = (value: unknown) => value as never;
  const no = rank === size - 1 ? wrong(1) : (task: number) => task;
  assertThrowsEverywhere(
    runtime,
    () => mapTasks(world, [1], no),
    TypeError,
    "work must be a function (task) => result, not 1",
  );
  const tasks = rank === 0 ? wrong("ab") : [1];
  assertThrowsEverywhere(runtime, () => mapTasks(world, tasks, () => 1), TypeError, "tasks must be an array, not");
});
