import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  count,
  isSuccess,
  type JobEnd,
  type MergedTest,
  mergeRanks,
  summary,
} from "../../../../scripts/results/merge.ts";
import { json, junit, tap } from "../../../../scripts/results/reports.ts";
import { type News, newsMarker, splitReason, TapReader } from "../../../../scripts/results/tap.ts";

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
    "    not ok 3 - around b",
    ...failure("1 test step failed.", "      "),
    "    1..3",
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
    { name: "has steps", outcome: "failed", message: 'in step "step b": Error: in a step', output: [] },
  ]);
  assertEquals(reader.output, ["left over"]);
});

Deno.test("TapReader keeps the words of the runner's end apart from what tests print", () => {
  const reader = read(...registered("a", "b"));
  const end = ["error: Test failed", "", "Stack backtrace:", "   0: <unknown>"];
  const push = (lines: string[]) => lines.forEach((line) => reader.push(line, "stderr"));
  push(["one", "", "two", ...end]);
  assertEquals(reader.output, ["one", "", "two"]);
  push([starts("a"), ...end, tells({ ended: "a", error: null }), ...end, "late"]);
  assertEquals(reader.output, [...end, "late"]);
});

Deno.test("TapReader takes nothing that a test prints for a result", () => {
  const reader = read(...registered("a"), starts("a"));
  const printed = [
    "ok 7 - of a program that it started",
    "not ok 8 - neither",
    "1..8",
    "# a comment",
    '  {"message":"x"}',
  ];
  for (const line of printed) reader.push(line, "stderr");
  assertEquals([reader.isFinished, reader.results, reader.output], [false, [], printed]);
  for (const line of ["ok 1 - a", "1..1"]) reader.push(line, "stdout");
  assertEquals([reader.isFinished, reader.results.map(({ outcome }) => outcome)], [true, ["passed"]]);
});

Deno.test("TapReader finds a result behind what native code has printed without an end of line", () => {
  const reader = read(...registered("leaks", "b", "c"), starts("leaks"), tells({ ended: "leaks", error: null }));
  const lines = [
    "half a linenot ok 1 - leaks",
    ...failure("Leaks detected"),
    "    ok 2 - b", // a step
    "half a line    ok 2 - b",
    "half a line, ok 7 - b",
    "half a line, ok 2 - other",
    "half a line, ok 2 - b",
    "again ok 3 - b", // which has its result
    "ok 3 - c # SKIP",
  ];
  for (const line of lines) reader.push(line);
  assertEquals(reader.results.map(({ name, outcome, message }) => [name, outcome, message]), [
    ["leaks", "failed", "Leaks detected"],
    ["b", "passed", ""],
    ["c", "skipped", ""],
  ]);
  assertEquals(reader.results.map(({ output }) => output), [
    [
      "half a line",
      "half a line    ok 2 - b",
      "half a line, ok 7 - b",
      "half a line, ok 2 - other",
      "again ok 3 - b",
    ],
    ["half a line, "],
    [],
  ]);
});

Deno.test("TapReader gives output to the test that began last, however late results are", () => {
  const reader = read(...registered("a", "b"), starts("a"), "of a", starts("b"), "of b", "ok 1 - a", "of b too");
  assertEquals(reader.results, [{ name: "a", outcome: "passed", message: "", output: ["of a"] }]);
  assertEquals(reader.output, ["of b", "of b too"]);
  reader.push(`${newsMarker}{"started": "cut o`);
  assertEquals(reader.started.map(({ name }) => name), ["a", "b"]);
});

Deno.test("mergeRanks() passes a test only if it passes on all ranks", () => {
  const merged = mergeRanks([
    read("ok 1 - a", "ok 2 - b", "ok 3 - c # SKIP", "1..3"),
    read("ok 1 - a", "from rank 1", "not ok 2 - b", ...failure("Error: on 1"), "ok 3 - c # SKIP", "1..3"),
    read("ok 1 - a", "not ok 2 - b", ...failure("Error: on 2"), "ok 3 - c # SKIP", "1..3"),
  ], { ...goodEnd, code: 1 });
  assertEquals(merged, [
    { name: "a", outcome: "passed", failedRanks: [], details: "" },
    { name: "b", outcome: "failed", failedRanks: [1, 2], details: "Error: on 1\nfrom rank 1" },
    { name: "c", outcome: "skipped", failedRanks: [], details: "it is marked to be ignored" },
  ]);
});

const tells = (news: News) => `${newsMarker}${JSON.stringify(news)}`;

/** What `test_output.ts` tells before any test runs: its names, with a mark, and a reason, behind some. */
function registered(...names: string[]): string[] {
  return names.map((text) => {
    const [name, mark, ...words] = text.split(" ");
    const reason = words.join(" ");
    const marks = { isIgnored: mark === "ignored", isOnly: mark === "only" };
    return tells({ registered: { name, ...marks, ...reason !== "" && { reason } } });
  });
}

const starts = (name: string, isAgain = false) => tells({ started: name, isAgain });
const passes = (name: string) => [starts(name), `ok 1 - ${name}`];
const fails = (name: string) => [starts(name), `not ok 1 - ${name}`, ...failure("Error: on purpose")];

/** Name, outcome and ranks of merged tests. */
const inShort = (tests: readonly MergedTest[]) =>
  tests.map(({ name, outcome, failedRanks }) => [name, outcome, ...failedRanks]);

Deno.test("mergeRanks() names the test that hangs, and those behind it, which did not run", () => {
  const all = registered("a", "b", "c", "d ignored");
  const merged = mergeRanks([
    read(...all, ...fails("a"), ...passes("b"), starts("c"), "from rank 0"),
    read(...all, ...passes("a"), starts("b"), "from rank 1"),
  ], { ...goodEnd, code: 124, isTimedOut: true, timeoutSeconds: 4 });
  assertEquals(inShort(merged), [["a", "failed", 0], ["b", "failed", 1], ["c", "not run"], ["d", "skipped"]]);
  assertEquals(
    merged[1].details,
    "rank 1 did not come to the end of the test: the job did not end within 4 s: " +
      'rank 0 was in "c", rank 1 was in "b"\n[rank 1] from rank 1',
  );
  assertEquals(merged[2].details, 'at the end of the job rank 0 was in "c", rank 1 was in "b"');
});

Deno.test("mergeRanks() tells of the ranks that failed themselves, not of those that learn of it", () => {
  const all = registered("a", "b");
  const relayed = [starts("a"), "from rank 0", "not ok 1 - a", ...failure("CollectiveError: rank 1: Error: boom")];
  const own = [starts("a"), "from rank 1", tells({ failed: "a", error: "Error: boom\n    at a_test.ts:3" })];
  const [a] = mergeRanks([
    read(...all, ...relayed),
    read(...all, ...own, "not ok 1 - a", ...failure("Error: boom, in the runner's words")),
  ], { ...goodEnd, code: 1 });
  assertEquals(inShort([a]), [["a", "failed", 1]]);
  assertEquals(a.details, "Error: boom, in the runner's words\nfrom rank 1");
  // The other rank waits, until the job ends: its stack is told once, and where the ranks were.
  const [b] = mergeRanks([read(...all, starts("a")), read(...all, ...own)], { ...goodEnd, code: 1 });
  assertEquals(inShort([b]), [["a", "failed", 1]]);
  assertEquals(
    b.details,
    "Error: boom\n    at a_test.ts:3\nranks 0, 1 did not come to the end of the test: " +
      'the job ended with exit code 1: ranks 0, 1 were in "a"\n[rank 1] from rank 1',
  );
  // One that a signal ended is to blame as well.
  const signal = "rank 0 was ended by signal 9 (Killed)";
  const [c] = mergeRanks([read(...all, starts("a")), read(...all, ...own)], { ...goodEnd, code: 137, signal });
  assertEquals(inShort([c]), [["a", "failed", 0, 1]]);
});

Deno.test("mergeRanks() takes the last of several attempts for the test, and what fails before it for its failure", () => {
  const all = registered("a", "b");
  const ends = (error: string | null) => tells({ ended: "a", error });
  const flaky = [...all, starts("a"), "first", ends("Error: once"), starts("a", true), "then", ends(null), "ok 1 - a"];
  const merged = mergeRanks([
    read(...flaky, ...passes("b"), "1..2"),
    read(...all, ...passes("a"), ...passes("b"), "1..2"),
  ], goodEnd);
  assertEquals(inShort(merged), [["a", "passed"], ["b", "passed"]]);
  const broken = [
    ...all,
    "no database",
    tells({ hook: "beforeEach" }),
    "not ok 1 - a",
    ...failure("Error: no database"),
  ];
  const [a, b] = mergeRanks([read(...broken, ...passes("b"), "1..2")], { ...goodEnd, code: 1 });
  assertEquals(inShort([a, b]), [["a", "failed", 0], ["b", "passed"]]);
  assertStringIncludes(a.details, "Error: no database");
});

Deno.test("mergeRanks() does not blame ranks that only wait for the others at the end of a test", () => {
  const all = registered("a");
  const waits = read(...all, starts("a"), tells({ waits: "a" }), "rank 0 has waited");
  const hangs = () => read(...all, starts("a"), "from rank 1");
  const exits = { ...goodEnd, code: 1 };
  const [a] = mergeRanks([waits, hangs()], exits);
  assertEquals(inShort([a]), [["a", "failed", 1]]);
  assertEquals(
    a.details,
    "rank 1 did not come to the end of the test: the job ended with exit code 1: " +
      'rank 0 was waiting for the others at the end of "a", rank 1 was in "a"\n' +
      "[rank 1] from rank 1\n[rank 0] rank 0 has waited",
  );
  const timedOut = { ...goodEnd, code: 124, isTimedOut: true, timeoutSeconds: 4 };
  assertEquals(inShort(mergeRanks([waits, hangs(), waits, hangs()], timedOut)), [["a", "failed", 1, 3]]);
  // Nor if it is in an earlier test, or between two, that a rank hangs.
  const both = registered("a", "b");
  const ahead = read(...both, ...passes("a"), starts("b"), tells({ waits: "b" }), "rank 0 has waited");
  const behind = read(...both, starts("a"));
  const earlier = mergeRanks([ahead, behind], exits);
  assertEquals(inShort(earlier), [["a", "failed", 1], ["b", "not run"]]);
  assertStringIncludes(earlier[0].details, 'at the end of "b", rank 1 was in "a"\n[rank 0] rank 0 has waited');
  const [, b, file] = mergeRanks([ahead, read(...both, ...passes("a"))], exits);
  assertEquals(inShort([b, file]), [["b", "not run"], ["(the whole file)", "failed"]]);
  assertStringIncludes(file.details, 'the others at the end of "b", rank 1 was after "a"\n[rank 0] rank 0 has waited');
  // Unless one of them was killed, or all of them wait.
  const signal = "a rank was ended by signal 9 (Killed)";
  assertEquals(inShort(mergeRanks([waits, hangs()], { ...goodEnd, code: 137, signal })), [["a", "failed", 0, 1]]);
  for (const end of [exits, timedOut]) assertEquals(inShort(mergeRanks([waits, waits], end)), [["a", "failed", 0, 1]]);
});

Deno.test("mergeRanks() blames the test, and the rank, of an error that nobody caught", () => {
  const all = registered("a", "b", "c");
  const dies = [
    ...[starts("a"), tells({ ended: "a", error: null })],
    ...["error: Uncaught Error: late", "    at a.ts:1", tells({ uncaughtIn: "a", isFatal: true })],
  ];
  const waits = read(...all, ...passes("a"), starts("b"), "rank 0 has waited");
  const end = { ...goodEnd, code: 1 };
  const repeated = ["error: Error: late", "    at a.ts:1"];
  for (const rest of [["ok 1 - a", ...repeated, "not ok 2 - b", "not ok 3 - c", "1..3"], ["ok 1 - a"], repeated]) {
    const merged = mergeRanks([waits, read(...all, ...dies, ...rest)], end);
    assertEquals(inShort(merged), [["a", "failed", 1], ["b", "not run"], ["c", "not run"]]);
    assertEquals(
      merged[0].details,
      "an uncaught error after the end of the test:\nerror: Uncaught Error: late\n    at a.ts:1",
    );
    const place = 'at the end of the job rank 0 was in "b", rank 1 was gone after an uncaught error in "a"';
    assertEquals(merged[1].details, place);
  }
  // A listener of the test has dealt with it.
  const caught = read(
    ...all,
    ...dies,
    tells({ uncaughtIn: "a", isFatal: false }),
    "ok 1 - a",
    ...passes("b"),
    ...passes("c"),
    "1..3",
  );
  assertEquals(inShort(mergeRanks([caught], goodEnd)), [["a", "passed"], ["b", "passed"], ["c", "passed"]]);
  // Of two files side by side, one goes on.
  const both = read(
    ...all,
    starts("a"),
    starts("b"),
    tells({ uncaughtIn: "a", isFatal: true }),
    "not ok 1 - a",
    starts("c"),
  );
  assertEquals(inShort(mergeRanks([both], { ...goodEnd, code: 139 })), [["a", "failed", 0], ["b", "failed", 0], [
    "c",
    "failed",
    0,
  ]]);
  // Outside of the tests.
  const top = ["error: Uncaught Error: at the top", tells({ uncaughtIn: null, isFatal: true })];
  const [, , , file] = mergeRanks([read(...all, starts("a")), read(...all, ...top)], end);
  assertEquals(
    file.details,
    'the job ended with exit code 1: rank 0 was in "a", rank 1 was gone after an uncaught error outside of the tests\n' +
      "[rank 1] error: Uncaught Error: at the top",
  );
});

Deno.test("the reason of a skipped test is told apart from its name", () => {
  assertEquals(splitReason("adds (skipped: no compiler (g++))"), { name: "adds", reason: "no compiler (g++)" });
  for (const name of ["adds", "adds (in place)", " (skipped: no GPU)"]) assertEquals(splitReason(name), { name });
  const all = registered("a ignored no GPU", "b ignored");
  const skips = ["ok 1 - a # SKIP", "ok 2 - b # SKIP", "1..2"];
  const [a, b] = mergeRanks([read(...all, ...skips), read(...all, ...skips)], goodEnd);
  assertEquals([a.outcome, a.details], ["skipped", "no GPU"]);
  assertEquals([b.outcome, b.details], ["skipped", "it is marked to be ignored"]);
  // Where only some ranks skip it, the others may wait for them.
  const runs = read(...registered("a"), starts("a"));
  const [mixed] = mergeRanks([read(...all, ...skips), runs], { ...goodEnd, code: 1 });
  assertEquals(inShort([mixed]), [["a", "failed", 1]]);
  assertStringIncludes(mixed.details, "rank 0 has skipped it: no GPU");
});

Deno.test("mergeRanks() names the test in which a rank dies, with any exit code", () => {
  const all = registered("a", "b", "c");
  const readers = () => [
    read(...all, ...passes("a"), ...passes("b"), starts("c")),
    read(...all, ...fails("a"), starts("b")),
  ];
  for (const code of [0, 3]) {
    const merged = mergeRanks(readers(), { ...goodEnd, code });
    // Which of the ranks has died is not known.
    assertEquals(inShort(merged), [["a", "failed", 1], ["b", "failed", 1], ["c", "failed", 0]]);
    assertStringIncludes(merged[1].details, `the job ended with exit code ${code}`);
  }
  const merged = mergeRanks(readers(), { ...goodEnd, code: 137, signal: "rank 1 was ended by signal 9 (Killed)" });
  assertEquals(inShort(merged), [["a", "failed", 1], ["b", "failed", 1], ["c", "not run"]]);
  assertStringIncludes(merged[1].details, "rank 1 was ended by signal 9");
});

Deno.test("mergeRanks() knows how a test ended whose result was lost with the process", () => {
  const ends = (name: string, error: string | null) => tells({ ended: name, error });
  const lines = [starts("a"), ends("a", null), starts("b"), ends("b", "Error: on purpose"), starts("c")];
  const merged = mergeRanks([read(...registered("a", "b", "c"), ...lines)], { ...goodEnd, code: 3 });
  assertEquals(inShort(merged), [["a", "passed"], ["b", "failed", 0], ["c", "failed", 0]]);
  assertEquals(merged[1].details, "Error: on purpose");
});

Deno.test("mergeRanks() blames the file where a rank ends between its tests", () => {
  const all = registered("a", "b");
  const merged = mergeRanks([read(...all, ...passes("a"), starts("b")), read(...all, ...passes("a"), "last words")], {
    ...goodEnd,
    code: 143,
    isTimedOut: true,
    timeoutSeconds: 4,
  });
  assertEquals(inShort(merged), [["a", "passed"], ["b", "not run"], ["(the whole file)", "failed"]]);
  assertStringIncludes(merged[2].details, 'the job did not end within 4 s: rank 0 was in "b", rank 1 was after "a"');
  assertStringIncludes(merged[2].details, "[rank 1] last words");
});

Deno.test("mergeRanks() does not blame ranks that the launcher ended because another one failed", () => {
  const all = registered("a", "b", "c");
  const merged = mergeRanks([
    read(...all, ...passes("a"), starts("b")),
    read(...all, ...passes("a"), ...passes("b"), ...fails("c"), "1..3"),
  ], { ...goodEnd, code: 1 });
  assertEquals(inShort(merged), [["a", "passed"], ["b", "not run"], ["c", "failed", 1]]);
  assertEquals(merged[1].details, 'at the end of the job rank 0 was in "b"');
});

Deno.test("mergeRanks() tells tests that have not begun from the one whose error was caught by nobody", () => {
  const all = registered("a", "b", "c");
  const merged = mergeRanks([read(...all, ...passes("a"), starts("b"), "not ok 2 - b", "not ok 3 - c", "1..3")], {
    ...goodEnd,
    code: 1,
  });
  assertEquals(inShort(merged), [["a", "passed"], ["b", "failed", 0], ["c", "not run"]]);
  assertEquals(merged[2].details, "at the end of the job rank 0 was gone after an uncaught error");
});

Deno.test("mergeRanks() tells tests of one name apart", () => {
  const merged = mergeRanks([read(...registered("a", "a"), ...passes("a"), ...fails("a"), "1..2")], {
    ...goodEnd,
    code: 1,
  });
  assertEquals(inShort(merged), [["a", "passed"], ["a", "failed", 0]]);
});

Deno.test("mergeRanks() knows tests that were filtered out from those that did not run", () => {
  const all = registered("abc", "bcd", "cde");
  const [abc, bcd, cde] = mergeRanks([read(...all, starts("bcd"))], { ...goodEnd, code: 3, filter: "bc" });
  assertEquals([abc, bcd, cde].map(({ outcome }) => outcome), ["not run", "failed", "filtered out"]);
  assertEquals(cde.details, "--filter bc");
  const none = mergeRanks([read(...all, "1..0")], { ...goodEnd, filter: "/^x|y$/" });
  assertEquals(none.map(({ outcome }) => outcome), ["filtered out", "filtered out", "filtered out"]);
  const only = [...registered("a", "b only"), ...passes("b"), "1..1"];
  const [a, b, file] = mergeRanks([read(...only, 'error: Test failed because the "only" option was used')], {
    ...goodEnd,
    code: 1,
  });
  assertEquals([a.outcome, b.outcome, file.outcome], ["filtered out", "passed", "failed"]);
  assertStringIncludes(file.details, '"only" option');
});

Deno.test("mergeRanks() fails a file without tests", () => {
  const [file] = mergeRanks([read("1..0"), read("1..0")], goodEnd);
  assertEquals([file.outcome, file.details], ["failed", "it has no tests"]);
});

Deno.test("mergeRanks() fails a job that ends badly without a failed test", () => {
  const [, crash] = mergeRanks([read("ok 1 - a")], { ...goodEnd, code: 139, output: ["from the launcher"] });
  assertEquals(crash.outcome, "failed");
  assertEquals(crash.details, 'the job ended with exit code 139: rank 0 was after "a"\nfrom the launcher');
  const [, killed] = mergeRanks([read("ok 1 - a")], { ...goodEnd, code: 137, signal: "rank 0 was ended by signal 9" });
  assertEquals(killed.details, "rank 0 was ended by signal 9");
  const [, early] = mergeRanks([read("ok 1 - a")], goodEnd);
  assertStringIncludes(early.details, "exit code 0 before all of its tests had run");
  assertEquals(mergeRanks([read("ok 1 - a", "1..1")], goodEnd).length, 1);
});

Deno.test("junit() writes a suite a job, with text that XML allows", () => {
  const tests = mergeRanks([
    read(
      ...registered('d ignored no "GPU"', "e"),
      "ok 1 - a < b & c",
      'not ok 2 - "q"',
      ...failure("bell \u0007 & <tag>"),
      "ok 3 - d # SKIP",
      "1..3",
    ),
  ], { ...goodEnd, code: 1, filter: "d" });
  const text = junit([{ file: "a_test.ts", ranks: 1, tests, seconds: 1.5 }]);
  assertEquals(
    text,
    `<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="4" failures="1" errors="0" skipped="2">
  <testsuite name="a_test.ts on 1 rank" tests="4" failures="1" errors="0" skipped="2" time="1.500">
    <testcase name="d" classname="a_test.ts on 1 rank"><skipped message="no &quot;GPU&quot;"/></testcase>
    <testcase name="e" classname="a_test.ts on 1 rank"><skipped message="filtered out: --filter d"/></testcase>
    <testcase name="a &lt; b &amp; c" classname="a_test.ts on 1 rank"/>
    <testcase name="&quot;q&quot;" classname="a_test.ts on 1 rank"><failure message="failed on rank 0">bell  &amp; &lt;tag&gt;</failure></testcase>
  </testsuite>
</testsuites>
`,
  );
});

Deno.test("a test takes as long as on the rank that it took longest on, and its report says so", () => {
  const readers = [2500, 500].map((milliseconds) => {
    let now = 0;
    const reader = new TapReader(() => now);
    reader.push(starts("a"));
    now = milliseconds;
    for (const line of [tells({ ended: "a", error: null }), "ok 1 - a", "1..1"]) reader.push(line);
    return reader;
  });
  const tests = mergeRanks(readers, goodEnd);
  assertEquals(tests[0].seconds, 2.5);
  const text = junit([{ file: "a_test.ts", ranks: 2, tests, seconds: 3 }]);
  assertStringIncludes(text, '<testcase name="a" classname="a_test.ts on 2 ranks" time="2.500"/>');
});

Deno.test("junit() tells of a test that failed before it passed", () => {
  const test: MergedTest = {
    name: "a",
    outcome: "passed",
    failedRanks: [],
    details: "",
    failedBefore: "Error: <once>",
  };
  const text = junit([{ file: "a_test.ts", ranks: 1, tests: [test], seconds: 1, attempts: 2 }]);
  assertStringIncludes(text, '<properties><property name="attempts" value="2"/></properties>');
  assertStringIncludes(
    text,
    '<flakyFailure message="failed before it passed">Error: &lt;once&gt;</flakyFailure></testcase>',
  );
});

Deno.test("tap() and json() tell of every test", () => {
  const tests: MergedTest[] = [
    { name: "a # b", outcome: "passed", failedRanks: [], details: "", failedBefore: "Error: once" },
    { name: "c", outcome: "failed", failedRanks: [1, 2], details: "Error: \u001b[31mno\u0000\nsaid before" },
    { name: "d", outcome: "not run", failedRanks: [], details: 'rank 1 ended in "c"' },
    { name: "e", outcome: "skipped", failedRanks: [], details: "for 1, 2 ranks" },
  ];
  const results = [{ file: "a_test.ts", ranks: 3, tests, seconds: 1.5 }];
  assertEquals(
    tap(results),
    `TAP version 14
1..4
ok 1 - a_test.ts on 3 ranks: a \\# b
  ---
  failedBefore: |2
    Error: once
  ...
not ok 2 - a_test.ts on 3 ranks: c
  ---
  ranks: [1, 2]
  message: |2
    Error: [31mno
    said before
  ...
not ok 3 - a_test.ts on 3 ranks: d
  ---
  message: |2
    not run: rank 1 ended in "c"
  ...
ok 4 - a_test.ts on 3 ranks: e # SKIP for 1, 2 ranks
`,
  );
  const read = JSON.parse(json(results));
  assertEquals(read.jobs, [{ ...results[0], attempts: 1 }]);
  assertEquals(read.counts, { passed: 1, failed: 1, skipped: 1, "not run": 1, "filtered out": 0 });
});

Deno.test("tap() indents every line of output, whatever ends it", () => {
  const details = "50%\r100%\r\nno\u0085\u0090";
  const tests: MergedTest[] = [{ name: "a\r\nb", outcome: "failed", failedRanks: [], details }];
  const [, , point, , , ...block] = tap([{ file: "f", ranks: 1, tests, seconds: 1 }]).split("\n");
  assertEquals(point, "not ok 1 - f on 1 rank: a b");
  assertEquals(block.slice(0, 3), ["    50%", "    100%", "    no\u0085"]);
  const skipped: MergedTest = { name: "a", outcome: "skipped", failedRanks: [], details: "no\x07\nGPU\x1b[0m" };
  const [, , skip] = tap([{ file: "f", ranks: 1, tests: [skipped], seconds: 1 }]).split("\n");
  assertEquals(skip, "ok 1 - f on 1 rank: a # SKIP no GPU[0m");
});

Deno.test("summary() counts, and names other outcomes only if there are any; what did not run is no success", () => {
  const counts = count([{ outcome: "passed" }, { outcome: "failed" }]);
  assertEquals([summary(counts), isSuccess(counts)], ["1 passed, 1 failed", false]);
  const skipped = count([{ outcome: "skipped" }, { outcome: "filtered out" }]);
  assertEquals([summary(skipped), isSuccess(skipped)], ["0 passed, 0 failed, 1 skipped, 1 filtered out", true]);
  const notRun = count([{ outcome: "passed" }, { outcome: "not run" }]);
  assertEquals([summary(notRun), isSuccess(notRun)], ["1 passed, 0 failed, 1 not run", false]);
});
