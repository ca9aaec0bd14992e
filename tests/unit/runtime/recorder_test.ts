/** What ranks did, by one clock: offsets of clocks from barriers, and waits until the last rank has come. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { StateError } from "../../../mod.ts";
import {
  clockOffsets,
  mergeSpans,
  recordedLanes,
  type RecordedSpan,
  recorder,
  startRecorder,
  stopRecorder,
} from "../../../src/runtime/recorder.ts";
import { noteStarting, noteWaiting } from "../../../ffi/waiting.ts";

const call = (start: number, end: number, meeting?: string): RecordedSpan => ({
  lane: 1,
  kind: "reduce",
  label: "MPI_Allreduce",
  start,
  end,
  ...meeting !== undefined && { meeting },
});

Deno.test("clocks are brought together by barriers, as exactly as the best barrier tells", () => {
  const offset = fc.double({ min: -1e6, max: 1e6, noNaN: true });
  const step = fc.double({ min: 0, max: 10, noNaN: true });
  // When each of two ranks comes to a barrier after the last one, and how long after the last has come it goes on.
  const barrier = fc.record({ comes: fc.tuple(step, step), leaves: fc.tuple(step, step) });
  fc.assert(fc.property(offset, fc.array(barrier, { minLength: 1, maxLength: 20 }), (offset, barriers) => {
    let now = 0;
    let best = Infinity;
    const times = [[], []] as { before: number; after: number }[][];
    for (const { comes, leaves } of barriers) {
      const before = comes.map((delay) => now + delay);
      const met = Math.max(...before);
      const after = leaves.map((delay) => met + delay);
      times.forEach((own, rank) =>
        own.push({ before: before[rank] + rank * offset, after: after[rank] + rank * offset })
      );
      best = Math.min(best, Math.max(...after) - Math.min(...before));
      now = Math.max(...after);
    }
    const [first, second] = clockOffsets(times);
    assert(first === 0);
    assert(Math.abs(second - offset) <= best + 1e-6, `${second} for ${offset}, within ${best}`);
  }));
});

Deno.test("a call in which ranks wait for each other is a wait until the last one has come", () => {
  // Rank 1's clock is 1000 ms ahead; it comes 2 ms later than rank 0.
  const spans = [[call(10, 13, "7/1")], [call(1012, 1013, "7/1")]];
  const merged = mergeSpans(spans, [0, 1000]);
  assertEquals(merged.map(({ rank, kind, start, end }) => [rank, kind, start, end]), [
    [0, "wait", 0, 2000],
    [0, "reduce", 2000, 3000],
    [1, "reduce", 2000, 3000],
  ]);
  const apart = mergeSpans([[call(10, 13)], [call(1012, 1013, "7/2")]], [0, 1000]);
  assertEquals(apart.map(({ kind, start, end }) => [kind, start, end]), [["reduce", 0, 3000], ["reduce", 2000, 3000]]);
  // By clocks that do not agree exactly, the last may seem to come after others have left.
  const [early, late] = mergeSpans([[call(10, 11, "7/1")], [call(12, 13, "7/1")]], [0, 0]);
  assertEquals([early.kind, early.end, late.kind, late.start], ["wait", 1000, "reduce", 2000]);
  assertEquals(mergeSpans([[], []], [0, 0]), []);
});

Deno.test("what begins and waits is recorded while somebody asks, and nothing otherwise", () => {
  let calls = 0;
  const table = { wait: () => ++calls, begin: () => ++calls };
  noteWaiting(table, { wait: "MPI_Barrier" });
  noteStarting(table, { begin: "MPI_Ibarrier" });
  const other = { wait: () => ++calls };
  const own = startRecorder(null);
  try {
    noteWaiting(other, { wait: "pdgemm" });
    assertThrows(
      () => startRecorder(null),
      StateError,
      "A recording is going on already; end it by timeline() or stop()",
    );
    const { result, recorded } = own.operation("Matmul.execute", null, () => {
      const span = recorder?.begin("copy", "rows");
      table.wait();
      span?.end();
      recorder?.exchange("all-to-all in shared memory");
      table.begin();
      return other.wait();
    });
    assertEquals([result, calls], [3, 3]);
    assertEquals(recorded.collectives, { MPI_Barrier: 1, MPI_Ibarrier: 1, pdgemm: 1 });
    assertEquals(recorded.exchanges, { "all-to-all in shared memory": 1 });
    table.wait();
    own.exchange("all-to-all in shared memory");
    assertEquals(own.exchanges, { "all-to-all in shared memory": 2 });
    assertEquals(own.operation("idle", null, () => 0).recorded.exchanges, {});
    assertEquals(own.collectives, { MPI_Barrier: 2, MPI_Ibarrier: 1, pdgemm: 1 });
    assertThrows(() => own.operation("fails", null, () => assert(false)));
  } finally {
    stopRecorder(own);
  }
  table.wait();
  assertEquals(calls, 5);
  assertEquals(own.spans.map(({ lane, kind, label }) => [own.lanes[lane], kind, label]), [
    ["work", "wait", "MPI_Barrier"],
    ["work", "copy", "rows"],
    ["work", "gemm", "pdgemm"],
    ["operations", "operation", "Matmul.execute"],
    ["work", "wait", "MPI_Barrier"],
    ["operations", "operation", "idle"],
  ]);
  assertEquals(recordedLanes(["main", ""]), ["operations", "work", "stream 0 (main)", "stream 1"]);
  assertEquals(recorder, null);
});
