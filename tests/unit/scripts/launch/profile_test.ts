import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import {
  callsOf,
  type CpuProfile,
  profileFlags,
  type TraceEvent,
  writeMergedProfile,
} from "../../../../scripts/launch/profile.ts";
import { CommandError } from "../../../../scripts/terminal.ts";

const frame = (functionName: string) => ({ functionName, url: "file:///a.ts", lineNumber: 6 });
const profile: CpuProfile = {
  nodes: [
    { id: 1, callFrame: { functionName: "(root)", url: "", lineNumber: -1 }, children: [2, 5] },
    { id: 2, callFrame: frame("outer"), children: [3, 4] },
    { id: 3, callFrame: frame("inner") },
    { id: 4, callFrame: frame("") },
    { id: 5, callFrame: { functionName: "(idle)", url: "", lineNumber: -1 } },
  ],
  startTime: 1000,
  samples: [3, 3, 4, 2, 5, 3],
  timeDeltas: [0, 10, 10, 10, 10, 10],
};

Deno.test("callsOf() makes one event of a call that several samples saw", () => {
  const args = { source: "file:///a.ts:7" };
  assertEquals([...callsOf(profile, 1)], [
    { name: "inner", ph: "X", pid: 1, tid: 0, ts: 1000, dur: 20, args },
    { name: "(anonymous)", ph: "X", pid: 1, tid: 0, ts: 1020, dur: 10, args },
    { name: "outer", ph: "X", pid: 1, tid: 0, ts: 1000, dur: 40, args },
    { name: "inner", ph: "X", pid: 1, tid: 0, ts: 1050, dur: 0, args },
    { name: "outer", ph: "X", pid: 1, tid: 0, ts: 1050, dur: 0, args },
  ]);
});

/** A folder with the profiles of ranks. */
function profiles(texts: string[]): { path: string } & Disposable {
  const path = Deno.makeTempDirSync();
  texts.forEach((text, rank) => Deno.writeTextFileSync(`${path}/rank-${rank}.cpuprofile`, text));
  return { path, [Symbol.dispose]: () => Deno.removeSync(path, { recursive: true }) };
}

Deno.test("writeMergedProfile() shows ranks as processes", () => {
  using folder = profiles([profile, profile].map((profile) => JSON.stringify(profile)));
  writeMergedProfile(folder.path, 2);
  const { traceEvents } = JSON.parse(Deno.readTextFileSync(`${folder.path}/trace.json`)) as {
    traceEvents: TraceEvent[];
  };
  assertEquals(traceEvents.filter(({ name }) => name === "process_name").map(({ args }) => args?.name), [
    "rank 0",
    "rank 1",
  ]);
  assertEquals(traceEvents.filter(({ ph }) => ph === "X").map(({ pid }) => pid), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
});

Deno.test("writeMergedProfile() leaves out what a rank did not write to its end", () => {
  using folder = profiles([JSON.stringify(profile), JSON.stringify(profile).slice(0, 100)]);
  const { path } = folder;
  const line = writeMergedProfile(path, 3);
  assertEquals(line.split("; ")[1], "none was written by rank 1, 2");
  const { traceEvents } = JSON.parse(Deno.readTextFileSync(`${path}/trace.json`));
  assertEquals(new Set(traceEvents.map(({ pid }: { pid: number }) => pid)), new Set([0]));
  Deno.removeSync(`${path}/rank-0.cpuprofile`);
  // The trace of an earlier job goes, too.
  assertEquals(writeMergedProfile(path, 3), `no rank has written a profile into ${path}`);
  assertEquals([...Deno.readDirSync(path)].map(({ name }) => name), ["rank-1.cpuprofile"]);
});

Deno.test("writeMergedProfile() writes a trace that is longer than a string can be", () => {
  const url = "a".repeat(1e6);
  const nodes = profile.nodes.map((node) => ({ ...node, callFrame: { ...node.callFrame, url } }));
  // Each sample of an inner function between others is an event.
  const samples = Array.from({ length: 600 }, (_, i) => i % 2 === 0 ? 3 : 4);
  using folder = profiles([JSON.stringify({ ...profile, nodes, samples, timeDeltas: samples })]);
  Deno.symlinkSync("/dev/null", `${folder.path}/trace.json`);
  assertMatch(writeMergedProfile(folder.path, 1), /^profiles of the ranks, side by side: /);
});

Deno.test("profileFlags() refuses a folder of which each rank would have another", () => {
  assertThrows(
    () => profileFlags("/p/{rank}"),
    CommandError,
    '--profile takes one folder for all ranks, not "/p/{rank}"',
  );
});
