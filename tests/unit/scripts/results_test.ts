import { assertEquals, assertStringIncludes } from "@std/assert";
import { count, type JobEnd, junit, mergeRanks, summary } from "../../../scripts/merge.ts";
import { TapReader } from "../../../scripts/tap.ts";

const goodEnd: JobEnd = { code: 0, isTimedOut: false, signal: null, output: [] };

function read(...lines: string[]): TapReader {
  const reader = new TapReader();
  lines.forEach((line) => reader.push(line));
  return reader;
}

function failure(message: string, indent = "  "): string[] {
  return [`${indent}---`, `${indent}${JSON.stringify({ message, severity: "fail" })}`, `${indent}...`];
}

Deno.test("TapReader reads results, messages, output and steps", () => {
  const reader = read(
    "TAP version 14",
    "# ./a_test.ts",
    "ok 1 - adds",
    "printed by the next one",
    "not ok 2 - is \\# 1",
    ...failure("Error: boom\nline 2"),
    "ok 3 - is left out # SKIP",
    "# Subtest: has steps",
    "    ok 1 - step a",
    "    not ok 2 - step b",
    ...failure("Error: in a step", "      "),
    "    1..2",
    "not ok 4 - has steps",
    ...failure("1 test step failed."),
    "1..4",
    "error: Test failed",
    "left over",
  );
  assertEquals(reader.results, [
    { name: "adds", outcome: "passed", message: "", output: [] },
    { name: "is # 1", outcome: "failed", message: "Error: boom\nline 2", output: ["printed by the next one"] },
    { name: "is left out", outcome: "skipped", message: "", output: [] },
    { name: "has steps", outcome: "failed", message: "Error: in a step\n1 test step failed.", output: [] },
  ]);
  assertEquals(reader.output, ["left over"]);
});

Deno.test("mergeRanks() passes a test only if it passes on all ranks", () => {
  const merged = mergeRanks([
    read("ok 1 - a", "ok 2 - b", "ok 3 - c # SKIP"),
    read("ok 1 - a", "from rank 1", "not ok 2 - b", ...failure("Error: on 1"), "ok 3 - c # SKIP"),
    read("ok 1 - a", "not ok 2 - b", ...failure("Error: on 2"), "ok 3 - c # SKIP"),
  ], { ...goodEnd, code: 1 });
  assertEquals(merged, [
    { name: "a", outcome: "passed", failedRanks: [], details: "" },
    { name: "b", outcome: "failed", failedRanks: [1, 2], details: "Error: on 1\nfrom rank 1" },
    { name: "c", outcome: "skipped", failedRanks: [], details: "" },
  ]);
});

Deno.test("mergeRanks() fails what a rank did not finish, and says where the job stood", () => {
  const merged = mergeRanks([read("ok 1 - a", "ok 2 - b"), read("ok 1 - a", "waiting")], {
    ...goodEnd,
    code: 124,
    isTimedOut: true,
    timeoutSeconds: 4,
  });
  assertEquals(merged.map(({ name, outcome }) => [name, outcome]), [
    ["a", "passed"],
    ["b", "failed"],
    ["(the whole file)", "failed"],
  ]);
  assertEquals(merged[1].failedRanks, [1]);
  assertStringIncludes(merged[2].details, 'it did not end within 4 s: rank 0 after "b", rank 1 after "a"');
  assertStringIncludes(merged[2].details, "[rank 1] waiting");
});

Deno.test("mergeRanks() does not blame ranks that the launcher ended because another one failed", () => {
  const ranks = [read("ok 1 - a"), read("ok 1 - a", "ok 2 - b", "not ok 3 - c", ...failure("Error: on 1"))];
  const merged = mergeRanks(ranks, { ...goodEnd, code: 1 });
  assertEquals(merged.map(({ name, outcome, failedRanks }) => [name, outcome, ...failedRanks]), [
    ["a", "passed"],
    ["b", "passed"],
    ["c", "failed", 1],
  ]);
});

Deno.test("mergeRanks() fails a job that ends badly without a failed test", () => {
  const [, crash] = mergeRanks([read("ok 1 - a")], { ...goodEnd, code: 139, output: ["from the launcher"] });
  assertEquals(crash.outcome, "failed");
  assertEquals(crash.details, 'it ended with exit code 139: rank 0 after "a"\nfrom the launcher');
  const [, killed] = mergeRanks([read("ok 1 - a")], { ...goodEnd, code: 137, signal: "rank 0 was ended by signal 9" });
  assertEquals(killed.details, "rank 0 was ended by signal 9");
  assertEquals(mergeRanks([read("ok 1 - a")], goodEnd).length, 1);
});

Deno.test("junit() writes a suite a job, with text that XML allows", () => {
  const tests = mergeRanks([
    read("ok 1 - a < b & c", 'not ok 2 - "q"', ...failure("bell \u0007 & <tag>"), "ok 3 - d # SKIP"),
  ], { ...goodEnd, code: 1 });
  const text = junit([{ file: "a_test.ts", ranks: 1, tests, seconds: 1.5 }]);
  assertEquals(
    text,
    `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1" skipped="1">
  <testsuite name="a_test.ts on 1 rank" tests="3" failures="1" skipped="1" time="1.500">
    <testcase name="a &lt; b &amp; c" classname="a_test.ts on 1 rank"/>
    <testcase name="&quot;q&quot;" classname="a_test.ts on 1 rank"><failure message="failed on rank 0">bell  &amp; &lt;tag&gt;</failure></testcase>
    <testcase name="d" classname="a_test.ts on 1 rank"><skipped/></testcase>
  </testsuite>
</testsuites>
`,
  );
});

Deno.test("summary() counts, and names skipped tests only if there are any", () => {
  assertEquals(summary(count([{ outcome: "passed" }, { outcome: "failed" }])), "1 passed, 1 failed");
  assertEquals(summary(count([{ outcome: "skipped" }])), "0 passed, 0 failed, 1 skipped");
});
