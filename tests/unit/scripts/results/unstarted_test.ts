/** What is told of tests in jobs that were not started. */
import { assertEquals } from "@std/assert";
import { type FileResult, type MergedOutcome, WHOLE_FILE } from "../../../../scripts/results/merge.ts";
import { listingOf, listingOfRun, UNASKED, unstarted, withUnknown } from "../../../../scripts/results/unstarted.ts";

/** A result with these tests: name, outcome, and what is told of it. */
const resultOf = (...tests: [string, MergedOutcome, string?][]): FileResult => ({
  file: "a.ts",
  ranks: 1,
  seconds: 1,
  tests: tests.map(([name, outcome, details = ""]) => ({ name, outcome, failedRanks: [], details })),
});

const inShort = ({ tests }: FileResult) => tests.map(({ name, outcome, details }) => [name, outcome, details]);

Deno.test("listingOf() tells the names of a file's tests, and why it was not loaded to its end", () => {
  const names = ["a", "b", "b"];
  const listed = names.map((name): [string, MergedOutcome] => [name, "filtered out"]);
  assertEquals(listingOf(resultOf(...listed)), { names, fault: null });
  const faultAfter = (details: string) => listingOf(resultOf(["a", "filtered out"], [WHOLE_FILE, "failed", details]));
  assertEquals(faultAfter("it has no tests\n[rank 0] said").fault, "it has no tests");
  for (
    const [details, fault] of [
      [
        "ended:\n[rank 0] error: SyntaxError: an x\n[rank 0]   |\n[rank 0]     at a.ts:1",
        "SyntaxError: an x at a.ts:1",
      ],
      ["ended:\n[rank 0] said\n[rank 0] error: Uncaught (in promise) Error: why\n[rank 0]  at b", "Error: why at b"],
      ["ended:\nerror: Uncaught Error: alone", "Error: alone"],
      ["it did not end within 5 s\n[rank 0] said", "it did not end within 5 s"],
    ]
  ) {
    assertEquals(faultAfter(details), { names: ["a"], fault: `the file could not be loaded: ${fault}` });
  }
});

Deno.test("listingOfRun() trusts a job that came to its tests, or to its end", () => {
  const known = { names: ["a", "b"], fault: null };
  const skipped = resultOf(["a", "skipped"], ["b", "not run"], [WHOLE_FILE, "failed"]);
  assertEquals(listingOfRun(skipped), known);
  assertEquals(listingOfRun({ ...skipped, isCut: true }), null);
  for (const outcome of ["passed", "failed"] as const) {
    assertEquals(listingOfRun({ ...resultOf(["a", outcome], ["b", "not run"]), isCut: true }), known);
  }
  assertEquals(listingOfRun(resultOf([WHOLE_FILE, "failed"])), null);
});

Deno.test("unstarted() has every test that is known, and the whole file where there may be more", () => {
  const job = { file: "a.ts", ranks: 2 };
  const all = unstarted(job, { names: ["a", "b"], fault: null }, { reason: "why", filter: "b" });
  assertEquals([all.file, all.ranks, all.seconds], ["a.ts", 2, 0]);
  assertEquals(inShort(all), [["a", "filtered out", "--filter b"], ["b", "not run", "why"]]);
  assertEquals(inShort(unstarted(job, { names: ["a"], fault: "a fault" }, { reason: "why" })), [
    ["a", "not run", "why"],
    [WHOLE_FILE, "not run", "why; a fault"],
  ]);
  // No filter hides a file of which nothing is known.
  assertEquals(inShort(unstarted(job, UNASKED, { reason: "why", filter: "b" })), [
    [WHOLE_FILE, "not run", "why; the file was not asked for its tests"],
  ]);
});

Deno.test("withUnknown() adds the tests that a job had not come to know", () => {
  const ended = resultOf(["a", "not run", "at the start"], [WHOLE_FILE, "failed", "interrupted"]);
  const result = withUnknown(ended, { names: ["a", "b", "c"], fault: "a fault" }, { reason: "why", filter: "/[ab]/" });
  assertEquals(inShort(result), [
    ...inShort(ended),
    ["b", "not run", "why"],
    ["c", "filtered out", "--filter /[ab]/"],
  ]);
});
