import { assertEquals } from "@std/assert";
import {
  filterOfFailed,
  filterOfUnrun,
  withAttempt,
  withEarlier,
  withNextJob,
  withoutNextJob,
} from "../../../../scripts/results/attempts.ts";
import { type FileResult, matches, type MergedOutcome } from "../../../../scripts/results/merge.ts";

function result(...tests: [name: string, outcome: MergedOutcome][]): FileResult {
  return {
    file: "a_test.ts",
    ranks: 2,
    seconds: 1,
    tests: tests.map(([name, outcome]) => ({ name, outcome, failedRanks: [], details: "" })),
  };
}

const outcomes = ({ tests }: FileResult) => tests.map(({ name, outcome, details }) => [name, outcome, details]);

Deno.test("a filter lets through what failed or was not run, and nothing else", () => {
  const { tests } = result(["adds [MPI 5.0]", "passed"], ["a+b (c) [MPI]", "failed"], ["a|b", "not run"], [
    "s",
    "skipped",
  ]);
  const filter = filterOfFailed(tests);
  assertEquals(tests.map(({ name }) => matches(name, filter)), [false, true, true, false]);
  for (const name of ["aab (c) [MPI]", "a+b (c) [MPI] ", "a", "b"]) assertEquals(matches(name, filter), false, name);
});

Deno.test("a filter has names as a program takes them in an argument", () => {
  const names = ["a \0 b", "esc \x1b[31m", "del \x7f", "two\nlines", "line\u2028sep", "\\x00"];
  const { tests } = result(...names.map((name) => [name, "not run"] as [string, MergedOutcome]));
  const filter = filterOfUnrun(tests)!;
  // deno-lint-ignore no-control-regex -- those are what must not be there
  assertEquals(/[\x00-\x1f\x7f]/.test(filter), false, filter);
  for (const name of names) assertEquals(matches(name, filter), true, name);
  for (const name of ["a x00 b", "a \\x00 b", "\0"]) assertEquals(matches(name, filter), false, name);
});

Deno.test("what is too long for one filter is left for the next one", () => {
  const names = Array.from({ length: 4000 }, (_, i) => `the product ${i} of (☃) ${"x".repeat(60)}`);
  let left = result(...[...names, "y".repeat(150_000)].map((name) => [name, "not run"] as [string, MergedOutcome]));
  let jobs = 0;
  for (let filter = filterOfUnrun(left.tests); filter !== undefined; filter = filterOfUnrun(left.tests)) {
    // The longest argument of a program in Linux has 131072 bytes.
    const { length } = new TextEncoder().encode(filter);
    assertEquals(length < 120_000, true, `${length} bytes`);
    const pattern = new RegExp(filter.slice(1, -1));
    const run = left.tests.filter(({ name }) => pattern.test(name));
    left = withNextJob(left, result(...run.map(({ name }) => [name, "passed"] as [string, MergedOutcome])))!;
    jobs++;
  }
  assertEquals(jobs, 4);
  // Which no job can be told of by its name.
  assertEquals(left.tests.filter(({ outcome }) => outcome !== "passed").map(({ name }) => name.length), [150_000]);
});

Deno.test("what has run stays where the next job cannot be started", () => {
  const first = result(["a", "passed"], ["b", "failed"], ["c", "not run"]);
  assertEquals(outcomes(withoutNextJob(first, "no such program")), [...outcomes(first), [
    "(the whole file)",
    "failed",
    "the job for the tests that were not run could not be started: no such program",
  ]]);
});

Deno.test("a job that failed as a whole is run again as a whole", () => {
  assertEquals(filterOfFailed(result(["(the whole file)", "failed"], ["a", "failed"]).tests), undefined);
});

Deno.test("a test whose name is in parentheses is a test", () => {
  const first = result(["(1) dies", "failed"], ["(2) passes", "not run"]);
  assertEquals(matches("(1) dies", filterOfFailed(first.tests)), true);
  const both = withNextJob(first, result(["(1) dies", "filtered out"], ["(2) passes", "passed"]))!;
  assertEquals(outcomes(both), [["(1) dies", "failed", ""], ["(2) passes", "passed", ""]]);
  const again = withAttempt(both, result(["(1) dies", "passed"]), 2);
  assertEquals(outcomes(again), [["(1) dies", "passed", "attempt 2"], ["(2) passes", "passed", ""]]);
});

Deno.test("what passes when it is run again is told as passed, with the attempt", () => {
  const first = result(["a", "passed"], ["b", "failed"], ["c", "not run"], ["(the whole file)", "failed"]);
  const mended = withAttempt(first, result(["a", "filtered out"], ["b", "passed"], ["c", "passed"]), 2);
  assertEquals(outcomes(mended), [["a", "passed", ""], ["b", "passed", "attempt 2"], ["c", "passed", "attempt 2"]]);
  assertEquals(mended.attempts, 2);
});

Deno.test("a test keeps what was told of it when it failed", () => {
  const first = result(["a", "passed"], ["b", "failed"]);
  first.tests[1].details = "Error: once";
  const second = withEarlier(result(["a", "failed"], ["b", "passed"]), first);
  const third = withEarlier(result(["a", "passed"], ["b", "passed"]), second);
  assertEquals(second.tests.map(({ failedBefore }) => failedBefore), [undefined, "Error: once"]);
  assertEquals(third.tests.map(({ failedBefore }) => failedBefore), ["", "Error: once"]);
});

Deno.test("a job keeps what was told of it when it failed as a whole", () => {
  const whole = "(the whole file)";
  const first = result(["a", "passed"], [whole, "failed"]);
  first.tests[1].details = "Error: once";
  const second = withEarlier(result(["a", "failed"]), first);
  const third = withEarlier(result(["a", "passed"]), second);
  for (const { tests } of [second, third]) {
    assertEquals(tests.slice(1), [
      { name: whole, outcome: "passed", failedRanks: [], details: "", failedBefore: "Error: once" },
    ]);
  }
  const failing = withEarlier(result(["a", "passed"], [whole, "failed"]), first);
  assertEquals(failing.tests[1].failedBefore, "Error: once");
  assertEquals(failing.tests.length, 2);
});

Deno.test("what fails again, or did not come to run, has failed", () => {
  const first = result(["a", "passed"], ["b", "failed"], ["c", "failed"]);
  const others = [
    result(["b", "passed"], ["c", "failed"]),
    result(["b", "passed"]),
    result(["b", "passed"], ["c", "skipped"]),
    result(["b", "passed"], ["c", "passed"], ["(the whole file)", "failed"]),
  ];
  for (const again of others) assertEquals(outcomes(withAttempt(first, again, 2)), outcomes(first));
});

Deno.test("a new job runs what one did not come to, and no other", () => {
  const first = result(["a", "passed"], ["b", "failed"], ["c", "not run"], ["d", "not run"], ["d", "not run"], [
    "e",
    "not run",
  ]);
  const filter = filterOfUnrun(first.tests);
  assertEquals(first.tests.map(({ name }) => matches(name, filter)), [false, false, true, false, false, true]);
  assertEquals(filterOfUnrun(result(["a", "failed"], ["d", "not run"], ["d", "not run"]).tests), undefined);
  // What was told of other tests does not count.
  const next = result(["a", "filtered out"], ["b", "passed"], ["c", "failed"], ["e", "not run"], [
    "(the whole file)",
    "failed",
  ]);
  const both = withNextJob(first, next)!;
  assertEquals(outcomes(both).map(([, outcome]) => outcome), [
    "passed",
    "failed",
    "failed",
    "not run",
    "not run",
    "not run",
    "failed",
  ]);
  assertEquals(both.seconds, 2);
  assertEquals(
    withNextJob(first, result(["c", "not run"], ["e", "not run"], ["(the whole file)", "failed"])),
    undefined,
  );
});
