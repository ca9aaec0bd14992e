import { assertEquals } from "@std/assert";
import { callsOf, type CpuProfile, mergeProfiles, writeMergedProfile } from "../../../../scripts/launch/profile.ts";

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
  assertEquals(callsOf(profile, 1), [
    { name: "inner", ph: "X", pid: 1, tid: 0, ts: 1000, dur: 20, args },
    { name: "(anonymous)", ph: "X", pid: 1, tid: 0, ts: 1020, dur: 10, args },
    { name: "outer", ph: "X", pid: 1, tid: 0, ts: 1000, dur: 40, args },
    { name: "inner", ph: "X", pid: 1, tid: 0, ts: 1050, dur: 0, args },
    { name: "outer", ph: "X", pid: 1, tid: 0, ts: 1050, dur: 0, args },
  ]);
});

Deno.test("mergeProfiles() shows ranks as processes", () => {
  const { traceEvents } = mergeProfiles(new Map([[0, profile], [1, profile]]));
  assertEquals(traceEvents.filter(({ name }) => name === "process_name").map(({ args }) => args?.name), [
    "rank 0",
    "rank 1",
  ]);
  assertEquals(traceEvents.filter(({ ph }) => ph === "X").map(({ pid }) => pid), [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
});

Deno.test("writeMergedProfile() leaves out what a rank did not write to its end", () => {
  const folder = Deno.makeTempDirSync();
  try {
    Deno.writeTextFileSync(`${folder}/rank-0.cpuprofile`, JSON.stringify(profile));
    Deno.writeTextFileSync(`${folder}/rank-1.cpuprofile`, JSON.stringify(profile).slice(0, 100));
    const line = writeMergedProfile(folder, 3);
    assertEquals(line.split("; ")[1], "none was written by rank 1, 2");
    const { traceEvents } = JSON.parse(Deno.readTextFileSync(`${folder}/trace.json`));
    assertEquals(new Set(traceEvents.map(({ pid }: { pid: number }) => pid)), new Set([0]));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
