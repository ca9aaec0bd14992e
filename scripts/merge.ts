/**
 * Merging what the ranks report of their tests into one result a test.
 *
 * @module
 */
import type { Outcome, TapReader } from "./tap.ts";

/** One test on all ranks. */
export interface MergedTest {
  /** The test's name. */
  name: string;
  /** Failed if it failed, or was not finished, on any rank. */
  outcome: Outcome;
  /** The ranks on which it failed. */
  failedRanks: number[];
  /** The error and the output of the first rank that failed. */
  details: string;
}

/** The tests of one file on one number of ranks. */
export interface FileResult {
  /** The file, as it was named. */
  file: string;
  /** The number of ranks. */
  ranks: number;
  /** The tests; one that stands for the job itself where the job ended wrongly. */
  tests: MergedTest[];
  /** How long the job ran. */
  seconds: number;
  /** Whether a rank ended before it had run all tests of the file. */
  isCut?: boolean;
  /** What rank 0 printed in tests that passed. */
  printed?: readonly string[];
}

/** How the job of a file ended, apart from its tests. */
export interface JobEnd {
  /** The launcher's exit code. */
  code: number;
  /** Whether the time limit ended it. */
  isTimedOut: boolean;
  /** The time limit. */
  timeoutSeconds?: number | undefined;
  /** A rank that a signal ended, in the launcher's words. */
  signal: string | null;
  /** Output that belongs to no rank. */
  output: string[];
}

/** Takes the results of all ranks together. */
export function mergeRanks(readers: readonly TapReader[], end: JobEnd): MergedTest[] {
  const names = [...new Set(readers.flatMap(({ results }) => results.map(({ name }) => name)))];
  const isExplained = readers.some(({ results }) => results.some(({ outcome }) => outcome === "failed"));
  // A rank that fails makes the launcher end the others, wherever they are; a rank that hangs is told by its silence.
  const tests = names.map((name) => mergeTest(name, readers, isExplained && !end.isTimedOut));
  const problem = describeEnd(readers, end);
  const isTold = tests.some(({ outcome }) => outcome === "failed");
  if (problem !== null && (!isTold || end.isTimedOut || end.signal !== null)) {
    const last = readers.flatMap(({ output }, rank) => output.map((line) => `[rank ${rank}] ${line}`));
    tests.push({
      name: "(the whole file)",
      outcome: "failed",
      failedRanks: [],
      details: [problem, ...last, ...end.output].join("\n"),
    });
  }
  return tests;
}

function mergeTest(name: string, readers: readonly TapReader[], mayLack: boolean): MergedTest {
  const results = readers.map((reader) => reader.results.find((result) => result.name === name));
  const failedRanks = results.flatMap((result, rank) => result?.outcome === "failed" ? [rank] : []);
  if (failedRanks.length > 0) {
    const first = failedRanks[0];
    const { message, output } = results[first]!;
    return { name, outcome: "failed", failedRanks, details: [message, ...output].filter(Boolean).join("\n") };
  }
  const missing = results.flatMap((result, rank) => result === undefined ? [rank] : []);
  if (missing.length > 0 && !mayLack) {
    const details = `${listRanks(missing)} did not come to the end of it`;
    return { name, outcome: "failed", failedRanks: missing, details };
  }
  const isSkipped = results.every((result) => result?.outcome !== "passed");
  return { name, outcome: isSkipped ? "skipped" : "passed", failedRanks: [], details: "" };
}

function describeEnd(readers: readonly TapReader[], end: JobEnd): string | null {
  const at = readers.map(({ results }, rank) => `rank ${rank} after "${results.at(-1)?.name ?? "the start"}"`);
  if (end.isTimedOut) return `it did not end within ${end.timeoutSeconds} s: ${at.join(", ")}`;
  if (end.signal !== null) return end.signal;
  if (end.code !== 0) return `it ended with exit code ${end.code}: ${at.join(", ")}`;
  return readers.every(({ results }) => results.length === 0) && end.output.length > 0 ? "it printed no results" : null;
}

/** Ranks for people: `rank 1`, `ranks 0, 2`. */
export function listRanks(ranks: readonly number[]): string {
  return `${ranks.length === 1 ? "rank" : "ranks"} ${ranks.join(", ")}`;
}

/** How many tests passed, failed and were skipped. */
export interface Counts {
  /** Tests that passed. */
  passed: number;
  /** Tests that failed. */
  failed: number;
  /** Tests that this machine or this number of ranks cannot run. */
  skipped: number;
}

/** Count outcomes. */
export function count(tests: Iterable<{ outcome: Outcome }>): Counts {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  for (const { outcome } of tests) counts[outcome]++;
  return counts;
}

/** The line that ends a test run: `12 passed, 0 failed`. */
export function summary({ passed, failed, skipped }: Counts): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };

/** Text for XML, without the control characters that XML 1.0 forbids. */
function xml(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "").replace(/[&<>"]/g, (sign) => escapes[sign]);
}

/**
 * Results as JUnit XML: a suite for each file and number of ranks.
 */
export function junit(files: readonly FileResult[]): string {
  const suites = files.map(({ file, ranks, tests, seconds }) => {
    const { failed, skipped } = count(tests);
    const name = `${file} on ${ranks} ${ranks === 1 ? "rank" : "ranks"}`;
    const cases = tests.map((test) => {
      const open = `    <testcase name="${xml(test.name)}" classname="${xml(name)}"`;
      if (test.outcome === "passed") return `${open}/>`;
      if (test.outcome === "skipped") return `${open}><skipped/></testcase>`;
      const message = test.failedRanks.length > 0 ? `failed on ${listRanks(test.failedRanks)}` : "failed";
      return `${open}><failure message="${xml(message)}">${xml(test.details)}</failure></testcase>`;
    });
    const attributes = `tests="${tests.length}" failures="${failed}" skipped="${skipped}" time="${seconds.toFixed(3)}"`;
    return [`  <testsuite name="${xml(name)}" ${attributes}>`, ...cases, "  </testsuite>"].join("\n");
  });
  const all = count(files.flatMap(({ tests }) => tests));
  const tests = all.passed + all.failed + all.skipped;
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites tests="${tests}" failures="${all.failed}" skipped="${all.skipped}">`,
    ...suites,
    "</testsuites>",
    "",
  ].join("\n");
}
