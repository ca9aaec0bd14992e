import { assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { explainPlan } from "../../../src/array/explanation.ts";
import { MEETING_SECONDS, predictOnHost, timesOf } from "../../../src/array/host_model.ts";
import { CommunicationMatrix } from "../../../src/distribution/mod.ts";
import type { Runtime } from "../../../src/runtime/runtime.ts";
import { shortestSeconds } from "../../../src/stopwatch.ts";

const work = { operations: 4e9, operationsPerSecond: 2e9, bytes: 5e8, sent: 3e8, meetings: 100 };
const onRanks = (size: number, localSize: number) => ({ rank: 0, size, localSize }) as Runtime;

Deno.test("the model adds what is computed, what is copied, and the meetings", () => {
  const { predicted, limit, basis } = timesOf(work, 1e9);
  assertAlmostEquals(predicted, 2 + 0.5 + 100 * MEETING_SECONDS);
  assertEquals(limit, 2);
  assertEquals(basis, "at 2.0 GFLOP/s and 1.0 GB/s, measured in this process, and 5 us a meeting of ranks");
  const moves = timesOf({ ...work, operations: 0 }, 1e9);
  assertAlmostEquals(moves.predicted, 0.5 + 100 * MEETING_SECONDS);
  assertEquals([moves.limit, moves.basis?.startsWith("at 1.0 GB/s")], [0.5, true]);
});

Deno.test("between machines the network carries its share, and may be the limit", () => {
  const network = { bytesPerSecond: 5e7, meetingSeconds: 1e-3, share: 2 / 3 };
  const { predicted, limit, basis } = timesOf(work, 1e9, network);
  assertAlmostEquals(predicted, 2 + 0.5 + 4 + 100 * 1e-3);
  assertEquals(limit, 4);
  assertEquals(
    basis,
    "at 2.0 GFLOP/s and 1.0 GB/s, measured in this process, and 0.05 GB/s from each rank to other machines and 1000 us a " +
      "meeting of ranks, measured when the ranks joined",
  );
  assertEquals(timesOf(work, 1e9, { ...network, bytesPerSecond: 5e9 }).limit, 2);
});

Deno.test("of a network that was not measured no time is predicted", () => {
  assertEquals(predictOnHost({ ...onRanks(4, 2), communicator: {} } as Runtime, work), null);
  const times = predictOnHost(onRanks(2, 2), work)!;
  assertEquals(times.predicted > times.limit, true);
});

Deno.test("the shortest run counts, and the first does not", () => {
  let runs = 0;
  const seconds = shortestSeconds(() => void runs++, 4);
  assertEquals([runs, seconds > 0], [5, true]);
});

Deno.test("plans are explained in the same words, whatever they have", () => {
  const bare = { algorithm: "moves", workspaceBytes: 8, bytesMoved: 16, communication: null, times: null };
  assertEquals(explainPlan(bare, onRanks(2, 2)), [
    "algorithm moves",
    "  workspace 8 bytes on this rank, 16 bytes between ranks an execution",
    "  8 of them from each rank on average: nothing tells which rank sends what to whom",
    "  no time is predicted: there is no model of moves here",
  ]);
  const communication = new CommunicationMatrix([[0, 16], [0, 0]], ["without something"]);
  const full = { ...bare, engine: "e", variant: "v", steps: ["copy: A"], communication, notes: ["slow"] };
  const lines = explainPlan({ ...full, times: { predicted: 2e-6, limit: 1e-6 } }, onRanks(2, 2));
  assertEquals(lines, [
    "engine e, algorithm moves: v",
    "  copy: A",
    "  workspace 8 bytes on this rank, 16 bytes between ranks an execution",
    "  without something",
    "  this rank sends 16 bytes and receives 0",
    "  predicted 2.0 us, 50 % of the limit (1.0 us); not measured",
    "  note: slow",
  ]);
  // What a library sends without telling is not left out of the sum.
  assertEquals(explainPlan({ ...full, libraryBytes: 32, notes: [] }, onRanks(2, 2)).slice(2, 5), [
    "  workspace 8 bytes on this rank, at least 48 bytes between ranks an execution",
    "  without something",
    "  of the rest this rank sends 16 bytes and receives 0",
  ]);
  const nothingElse = new CommunicationMatrix([[0, 0], [0, 0]], ["without something"]);
  const alone = { ...bare, bytesMoved: 0, libraryBytes: 32, communication: nothingElse };
  assertEquals(explainPlan(alone, onRanks(2, 2)).slice(1, 3), [
    "  workspace 8 bytes on this rank, at least 32 bytes between ranks an execution",
    "  without something",
  ]);
  assertEquals(explainPlan(alone, onRanks(2, 2)).some((line) => line.includes("this rank sends")), false);
  assertStringIncludes(
    explainPlan({ ...bare, libraryBytes: null }, onRanks(2, 2)).join(),
    ", 16 bytes between ranks an execution, and an unknown number that the library sends",
  );
  const measured = { predicted: 2e-6, limit: 1e-6, measured: 4e-6 };
  assertStringIncludes(
    explainPlan({ ...full, times: measured }, onRanks(2, 2)).join(),
    "; measured 4.0 us, 25 % of the limit",
  );
  const [, , , , , model] = explainPlan({ ...full, times: timesOf(work, 1e9) }, onRanks(2, 2));
  assertEquals(model.includes("measured in this process") && !model.includes("not measured"), true);
});
