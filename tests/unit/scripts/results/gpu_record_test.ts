import { assertEquals, assertThrows } from "@std/assert";
import {
  type GpuRun,
  readRecord,
  type RecordHead,
  runOf,
  writeRecord,
} from "../../../../scripts/results/gpu_record.ts";
import type { FileResult, MergedTest } from "../../../../scripts/results/merge.ts";
import { CommandError } from "../../../../scripts/terminal.ts";

const made = { date: "2026-11-21", commit: "abc1234" };
const head: RecordHead = { machine: "NVIDIA H200, 16 cores", driver: "580.1", versions: { Deno: "2.9.6" } };

function testOf(name: string, outcome: MergedTest["outcome"], details = "", ...failedRanks: number[]): MergedTest {
  return { name, outcome, failedRanks, details };
}

const result: FileResult = {
  file: "tests/gpu/a_test.ts",
  ranks: 2,
  tests: [
    testOf("adds", "passed"),
    testOf("multiplies", "skipped", "for 4 ranks"),
    testOf("divides", "failed", Array.from({ length: 50 }, (_, i) => `line ${i}`).join("\n"), 1),
    testOf("subtracts", "not run"),
    testOf("(the whole file)", "failed", "it ended with exit code 139"),
  ],
  seconds: 1.26,
  isCut: true,
  printed: ["measured 3 GB/s"],
};

Deno.test("runOf() keeps counts, reasons and the last lines of what failed", () => {
  const run = runOf(result, made);
  const { failures, ...rest } = run;
  assertEquals(rest, {
    ...made,
    gpus: 2,
    file: "tests/gpu/a_test.ts",
    passed: 1,
    failed: 2,
    skipped: ["multiplies (for 4 ranks)"],
    seconds: 1.3,
    notRun: ["subtracts"],
    why: "the job ended early",
    printed: ["measured 3 GB/s"],
  });
  assertEquals(failures!.map(({ test, on }) => [test, on]), [["divides", "rank 1"], ["(the whole file)", undefined]]);
  assertEquals([failures![0].output.length, failures![0].output.at(-1)], [40, "line 49"]);
  assertEquals(failures![1].output, ["it ended with exit code 139"]);
});

Deno.test("runOf() says nothing of failures and an early end where there were none", () => {
  const run = runOf({ ...result, tests: [testOf("adds", "passed")], isCut: false, printed: [] }, made);
  assertEquals(Object.keys(run), ["date", "commit", "gpus", "file", "passed", "failed", "skipped", "seconds"]);
});

Deno.test("a record grows run by run, and a run of the same file on as many GPUs is replaced", () => {
  const folder = Deno.makeTempDirSync({ prefix: "distmath-test-" });
  const path = `${folder}/record.json`;
  try {
    assertEquals(readRecord(path, head), []);
    const runs: GpuRun[] = [];
    const one = runOf(result, made);
    writeRecord(path, head, runs, one, { "tests/b_test.ts": "no arrays" });
    writeRecord(path, head, runs, { ...one, gpus: 4 }, {});
    const kept = readRecord(path, head);
    assertEquals(kept.map(({ gpus }) => gpus), [2, 4]);
    writeRecord(path, head, kept, { ...one, passed: 7 }, {});
    assertEquals(readRecord(path, head).map(({ gpus, passed }) => [gpus, passed]), [[2, 7], [4, 1]]);
    const { driver, leftOut } = JSON.parse(Deno.readTextFileSync(path));
    assertEquals([driver, leftOut], ["580.1", {}]);
    const other = { ...head, versions: { Deno: "3.0.0" } };
    assertThrows(() => readRecord(path, other), CommandError, "of another machine or other libraries");
    Deno.writeTextFileSync(path, "no record");
    assertThrows(() => readRecord(path, head), CommandError, "is no JSON");
    Deno.writeTextFileSync(path, "null");
    assertThrows(() => readRecord(path, head), CommandError, "of another machine");
    assertThrows(() => writeRecord(`${folder}/none/a.json`, head, [], one, {}), CommandError, "cannot write");
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});

Deno.test("runOf() leaves out where the repository is", () => {
  const { href } = new URL("../../../../src/a.ts", import.meta.url);
  const run = runOf({ ...result, tests: [testOf("divides", "failed", `at divide (${href}:1:2)`)] }, made);
  assertEquals(run.failures![0].output, ["at divide (src/a.ts:1:2)"]);
});

Deno.test("runOf() keeps no folder of the machine, neither the repository's nor that of packages", () => {
  const repository = new URL("../../../../", import.meta.url).href;
  const lines = [
    `at a (${repository}tests/a.ts:1:2)`,
    "at b (file:///cache/deno/npm/registry.example/std/1.0.0/b.js:3:4)",
  ];
  const { failures } = runOf({ ...result, tests: [testOf("divides", "failed", lines.join("\n"))] }, made);
  assertEquals(failures![0].output, ["at a (tests/a.ts:1:2)", "at b (npm:std/1.0.0/b.js:3:4)"]);
});
