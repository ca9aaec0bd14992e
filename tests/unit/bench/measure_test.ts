import { assertAlmostEquals, assertEquals } from "@std/assert";
import { Bench, measure } from "../../../bench/harness/bench.ts";

/** A turn that takes the given seconds, round by round, and notes its name. */
function scripted(name: string, seconds: number[], log: string[]): () => Promise<number[]> {
  let round = 0;
  return () => {
    log.push(name);
    return Promise.resolve([seconds[round++]]);
  };
}

Deno.test("bench: programs take turns, and each round begins with another one", async () => {
  const log: string[] = [];
  const turns = { distmath: scripted("A", [1, 1, 1], log), C: scripted("B", [1, 1, 1], log) };
  await measure({ title: "t", rounds: 3, turns, comparisons: [] });
  assertEquals(log.join(""), "ABBAAB");
});

Deno.test("bench: a verdict is the median of the rounds' ratios against its bound", async () => {
  const turns = {
    distmath: scripted("A", [2, 10, 2], []),
    C: scripted("B", [1, 10, 1.9], []),
  };
  const row = await measure({
    title: "t",
    rounds: 3,
    turns,
    comparisons: [
      { quantity: "speed", against: "C", bound: 0.98 },
      { quantity: "time", against: "C", bound: 1.1 },
      { quantity: "time", against: "C" },
      { quantity: "overhead", against: "C", bound: 0.05 },
    ],
    secondsAtMost: 1,
  });
  const [speed, time, information, overhead, absolute] = row.verdicts;
  assertEquals(speed.value?.median, 0.95);
  assertEquals([speed.relation, speed.pass], [">=", false]);
  assertEquals([time.value?.median, time.relation, time.pass], [2 / 1.9, "<=", true]);
  assertEquals(information.pass, null);
  assertEquals([overhead.quantity, overhead.relation, overhead.pass], ["seconds beyond C", "<=", false]);
  assertAlmostEquals(overhead.value!.median, 0.1);
  assertEquals([absolute.value?.median, absolute.pass], [2, false]);
  assertEquals(row.seconds.distmath.count, 3);
});

Deno.test("bench: a missing or failing peer is reported, and the others are measured", async () => {
  const turns = {
    distmath: scripted("A", [1, 1], []),
    C: new Error("gcc is not installed."),
    mpi4py: () => Promise.reject(new Error("it hung up.")),
  };
  const comparisons = [{ quantity: "speed", against: "C", bound: 1 } as const];
  const row = await measure({ title: "t", rounds: 2, turns, comparisons });
  assertEquals(row.missing, { C: "gcc is not installed.", mpi4py: "it hung up." });
  assertEquals(Object.keys(row.seconds), ["distmath"]);
  assertEquals([row.verdicts[0].value, row.verdicts[0].pass], [null, null]);
});

Deno.test("bench: rows that are asked for are measured, as often as is asked for", async () => {
  const log: string[] = [];
  const rows = async (options: { rounds: number | null; filter?: string }) => {
    const bench = new Bench(2, {} as never, { pause: 0, ...options }, ({ title }) => log.push(title));
    for (const title of ["n = 1024", "n = 2048"]) {
      await bench.row({ title, rounds: 2, turns: { distmath: scripted("A", [1, 2], []) }, comparisons: [] });
    }
    return bench.rows.map(({ title, seconds }) => [title, seconds.distmath.count]);
  };
  assertEquals(await rows({ rounds: null }), [["n = 1024", 2], ["n = 2048", 2]]);
  assertEquals(await rows({ rounds: 1, filter: "20" }), [["n = 2048", 1]]);
  assertEquals(await rows({ rounds: null, filter: "/^n = 1/" }), [["n = 1024", 2]]);
  assertEquals(log, ["n = 1024", "n = 2048", "n = 2048", "n = 1024"]);
});
