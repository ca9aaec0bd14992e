/**
 * Merging what the ranks report of their tests into one result a test.
 *
 * @module
 */
import type { Outcome, Registration, Start, TapReader, TestResult } from "./tap.ts";

/** How a test went on all ranks together; no test is left untold. */
export type MergedOutcome = Outcome | "not run" | "filtered out";

export interface MergedTest {
  /** The test's name. */
  name: string;
  /** Failed if it failed on any rank, or had not ended when the job did. */
  outcome: MergedOutcome;
  /** The ranks that failed themselves, not those that only learned of it. */
  failedRanks: number[];
  /** The error and the output of the first of them; or why it was skipped or not run. */
  details: string;
  /** How long it took on the rank that it took longest on, if that is known. */
  seconds?: number;
  /** What was told of it when it failed, where it was run again. */
  failedBefore?: string;
}

/** The name of what stands for a job itself, where it ended wrongly or was not started. */
export const WHOLE_FILE = "(the whole file)";

/** The tests of one file on one number of ranks. */
export interface FileResult {
  file: string;
  ranks: number;
  /** The tests; one that stands for the job itself where the job ended wrongly, in none of the tests. */
  tests: MergedTest[];
  /** How long the job ran. */
  seconds: number;
  /** Whether a rank ended before it had run all tests of the file. */
  isCut?: boolean;
  /** How many times it was run, if more than once. */
  attempts?: number;
  /** What rank 0 printed in tests that passed. */
  printed?: readonly string[];
}

/** How the job of a file ended, apart from its tests. */
export interface JobEnd {
  /** The launcher's exit code. */
  code: number;
  /** Whether a time limit ended it. */
  isTimedOut: boolean;
  /** The time limit of the job. */
  timeoutSeconds?: number | undefined;
  /** The time limit of a test, where the job has none. */
  testSeconds?: number | undefined;
  /** A rank that a signal ended, in the launcher's words. */
  signal: string | null;
  /** Output that belongs to no rank. */
  output: string[];
  /** Where the ranks of this machine were last, in lines, if any of them waited. */
  places?: string | null;
  /** What a test's name has to contain, or to match if it is between slashes. */
  filter?: string | undefined;
}

/** What one rank tells of one test. */
interface OnRank {
  registration?: Registration | undefined;
  /** Left out if it has not begun. */
  start?: Start;
  result?: TestResult | undefined;
}

/** A test, by what each rank tells of it. */
interface Reported {
  name: string;
  ranks: OnRank[];
}

/** All tests that any rank has told of, in order. Tests of the same name are told apart by their order. */
function collect(readers: readonly TapReader[]): Reported[] {
  const tests = new Map<string, Reported>();
  readers.forEach((reader, rank) => {
    const each = <T>(list: readonly T[], nameOf: (item: T) => string, note: (test: OnRank, item: T) => void) => {
      const seen = new Map<string, number>();
      for (const item of list) {
        const name = nameOf(item);
        const order = seen.get(name) ?? 0;
        seen.set(name, order + 1);
        const key = `${order} ${name}`;
        if (!tests.has(key)) tests.set(key, { name, ranks: readers.map(() => ({})) });
        note(tests.get(key)!.ranks[rank], item);
      }
    };
    each(reader.registered, ({ name }) => name, (test, registration) => test.registration = registration);
    each(reader.started, ({ name }) => name, (test, start) => {
      test.start = start;
      if (start.end) test.result = { name: start.name, output: start.output, ...start.end };
    });
    each(reader.results, ({ name }) => name, (test, result) => {
      test.result = result;
      // Not one that nobody began since an error had ended the process.
      if (reader.hasFailedAround && !reader.isDead) test.start ??= { name: result.name, output: result.output };
    });
    for (const { ranks: { [rank]: test } } of tests.values()) {
      if (test.start?.isFatal) test.result = fatalResult(test.start, test.result);
    }
  });
  return [...tests.values()];
}

/** The result of a test after which an uncaught error ended the process, though it may have been told as passed. */
function fatalResult({ name, output }: Start, result?: TestResult): TestResult {
  const message = result?.outcome === "passed" ? "an uncaught error after the end of the test:" : result?.message ?? "";
  return { name, outcome: "failed", message, output };
}

/** Whether a test ran to its end. After an uncaught error Deno reports a failure of all tests that have not begun, too. */
function hasEnded({ registration, start, result }: OnRank): boolean {
  return result !== undefined && !(result.outcome === "failed" && registration && !start);
}

const isRunning = (test: OnRank) => test.start !== undefined && !hasEnded(test);

/** Whether all that is left of a test on a rank is to wait for the others. */
const isWaiting = (test: OnRank) => isRunning(test) && test.start?.isWaiting === true;

/** Takes the results of all ranks together. */
export function mergeRanks(readers: readonly TapReader[], end: JobEnd): MergedTest[] {
  const reported = collect(readers);
  const job = describeJob(readers, reported, end);
  const tests = reported.map((test) => mergeTest(test, job));
  const hasFailed = tests.some(({ outcome }) => outcome === "failed");
  if (job.problem !== null && !job.isTold && (!hasFailed || end.isTimedOut || end.signal !== null)) {
    const details = [job.problem, ...job.lastWords(readers.keys())].join("\n");
    tests.push({ name: WHOLE_FILE, outcome: "failed", failedRanks: [], details });
  }
  return tests;
}

/** What the merging of each test has to know of the job. */
interface Job extends Pick<JobEnd, "filter"> {
  /** What was wrong with it, or `null`. */
  problem: string | null;
  /** Whether that is told by tests in which ranks were when it ended. */
  isTold: boolean;
  /** Whether a signal ended it, of which the launcher told. */
  isKilled: boolean;
  /** The ranks to blame for a test that had not ended on some. */
  guilty: (test: Reported) => number[];
  /** Where ranks were when it ended. */
  whereabouts: (ranks: Iterable<number>) => string;
  /** What ranks, those that wait for the others, and the launcher printed last. */
  lastWords: (ranks: Iterable<number>) => string[];
  /** Whether a test is marked to be the only one. */
  hasOnly: boolean;
}

function describeJob(readers: readonly TapReader[], reported: readonly Reported[], end: JobEnd): Job {
  const current = readers.map((_, rank) => reported.find(({ ranks }) => isRunning(ranks[rank]))?.name);
  const waiting = readers.flatMap((_, rank) => reported.some(({ ranks }) => isWaiting(ranks[rank])) ? [rank] : []);
  const place = (rank: number) => {
    const { isDead, isFinished, registered, started, results } = readers[rank];
    if (isDead) {
      const last = started.at(-1);
      return `gone after an uncaught error ${last === undefined ? "outside of the tests" : `in "${last.name}"`}`;
    }
    if (waiting.includes(rank)) return `waiting for the others at the end of "${current[rank]}"`;
    if (current[rank] !== undefined) return `in "${current[rank]}"`;
    if (isFinished && registered.length + results.length === 0) return "gone before any test";
    if (!isFinished) return `after "${results.at(-1)?.name ?? "the start"}"`;
    const isCut = reported.some(({ ranks: { [rank]: test } }) => test.result && !hasEnded(test));
    return isCut ? "gone after an uncaught error" : "at the end of the tests";
  };
  const whereabouts = (ranks: Iterable<number>) =>
    Array.from(
      Map.groupBy(ranks, place),
      ([place, ranks]) => `${listRanks(ranks)} ${ranks.length === 1 ? "was" : "were"} ${place}`,
    ).join(", ");
  // A rank on which tests failed, or that died, makes the launcher end the others, wherever they are, when it is done.
  const isEndedByFailure = !end.isTimedOut && end.signal === null &&
    readers.some(({ isDead, isFinished, results }) =>
      isDead || isFinished && results.some(({ outcome }) => outcome === "failed")
    );
  const dead = /^rank (\d+) /.exec(end.signal ?? "")?.[1];
  const guilty = (test: Reported) => {
    const running = where(test, isRunning);
    // It went on without this test, after an error that was caught by nobody.
    const gone = running.filter((rank) => readers[rank].isFinished);
    if (gone.length > 0 || isEndedByFailure) return gone;
    if (end.signal !== null) return dead === undefined ? running : running.filter((rank) => rank === Number(dead));
    // Who waits at the end of the test, or for a rank that has not even come to it, is innocent; unless all wait there.
    const late = where(test, (test) => isRunning(test) && !isWaiting(test));
    const isAnyElsewhere = test.ranks.some((test) => test.start === undefined && !hasEnded(test));
    if (isAnyElsewhere) return end.isTimedOut ? [] : late;
    return late.length > 0 ? late : running;
  };
  return {
    problem: describeEnd(readers, reported, end, whereabouts(readers.keys())),
    isTold: reported.some((test) => guilty(test).length > 0),
    isKilled: end.signal !== null,
    guilty,
    whereabouts,
    lastWords: (ranks) => {
      // One that has waited for too long may have ended the job, and says so.
      const own = [...new Set([...ranks, ...waiting])].flatMap((rank) =>
        readers[rank].output.map((line) => `[rank ${rank}] ${line}`)
      );
      return [...own, ...end.output, ...placesBeside(end.places ?? null, readers)];
    },
    hasOnly: reported.some(({ ranks }) => ranks.some(({ registration }) => registration?.isOnly)),
    filter: end.filter,
  };
}

/** Where the ranks were, unless one of them has said so. */
function placesBeside(places: string | null, readers: readonly TapReader[]): string[] {
  const lines = places?.split("\n") ?? [];
  const isTold = readers.some(({ output }) => lines.some((line) => output.includes(line)));
  return lines.length === 0 || isTold ? [] : ["the ranks of this machine were here:", ...lines];
}

/** The ranks for which a condition holds. */
const where = ({ ranks }: Reported, condition: (test: OnRank) => boolean): number[] =>
  ranks.flatMap((test, rank) => condition(test) ? [rank] : []);

const isLeftOut = ({ registration }: OnRank) => registration?.isIgnored === true;

/** Why a test is skipped. */
const reasonOf = (test?: OnRank) => test?.registration?.reason ?? "it is marked to be ignored";

/** On which ranks a test failed, and what is to be told of it; `null` if it did not. */
function findFailure(test: Reported, job: Job): Pick<MergedTest, "failedRanks" | "details"> | null {
  const guilty = job.guilty(test);
  const unended = guilty.length === 0 ? [] : [
    `${listRanks(guilty)} did not come to the end of the test: ${job.problem}`,
    // The others wait for them.
    ...where(test, isLeftOut).map((rank) => `rank ${rank} has skipped it: ${reasonOf(test.ranks[rank])}`),
    ...job.lastWords(guilty),
  ];
  // Those that tell of a failure make the test fail on the others as well.
  const told = where(test, ({ start }) => start?.failure !== undefined);
  const failed = told.length > 0 ? told : where(test, (test) => hasEnded(test) && test.result?.outcome === "failed");
  if (failed.length === 0) return guilty.length === 0 ? null : { failedRanks: guilty, details: unended.join("\n") };
  const [first] = failed;
  const { start, result } = test.ranks[first];
  const output = guilty.includes(first) ? [] : result?.output ?? start!.output;
  const details = [result?.message || start?.failure, ...output, ...unended].filter(Boolean).join("\n");
  // All that had not ended are guilty if nobody knows who ended the job: some may only have waited for those that failed.
  const others = job.isKilled ? guilty.filter((rank) => !failed.includes(rank)) : [];
  return { failedRanks: [...failed, ...others].sort((a, b) => a - b), details };
}

function mergeTest(test: Reported, job: Job): MergedTest {
  const { name, ranks } = test;
  const longest = Math.max(-1, ...ranks.map(({ start }) => start?.seconds ?? -1));
  const time = longest < 0 ? {} : { seconds: longest };
  const merged = (outcome: MergedOutcome, details: string) => ({ name, outcome, failedRanks: [], details, ...time });

  const failure = findFailure(test, job);
  if (failure) return { name, outcome: "failed", ...failure, ...time };
  const isUntouched = ranks.every(({ start, result }) => start === undefined && result === undefined);
  if (isUntouched && !matches(name, job.filter)) return merged("filtered out", `--filter ${job.filter}`);
  const isSkipped = ({ registration, result }: OnRank) =>
    result ? result.outcome === "skipped" : registration === undefined || registration.isIgnored;
  if (ranks.every(isSkipped)) return merged("skipped", reasonOf(ranks.find(isLeftOut)));
  if (isUntouched && job.hasOnly) return merged("filtered out", "another test is marked to be the only one");
  const missing = where(test, (test) => !hasEnded(test));
  return missing.length === 0
    ? merged("passed", "")
    : merged("not run", `at the end of the job ${job.whereabouts(missing)}`);
}

/**
 * Whether a filter, as `deno test --filter` takes it, lets a name through.
 *
 * @throws {SyntaxError} if it is between slashes and no regular expression.
 */
export function matches(name: string, filter = ""): boolean {
  if (!filter.startsWith("/") || !filter.endsWith("/")) return name.includes(filter);
  return new RegExp(filter.replaceAll(/^\/+|\/+$/g, "")).test(name);
}

function describeEnd(
  readers: readonly TapReader[],
  reported: readonly Reported[],
  end: JobEnd,
  whereabouts: string,
): string | null {
  if (end.isTimedOut) return `${describeLimit(end)}: ${whereabouts}`;
  if (end.signal !== null) return end.signal;
  const isCut = readers.some(({ isFinished }) => !isFinished);
  if (end.code !== 0) return `the job ended with exit code ${end.code}: ${whereabouts}`;
  if (isCut) return `the job ended with exit code 0 before all of its tests had run: ${whereabouts}`;
  return reported.length === 0 ? "it has no tests" : null;
}

function describeLimit({ timeoutSeconds, testSeconds }: JobEnd): string {
  return testSeconds === undefined
    ? `the job did not end within ${timeoutSeconds} s`
    : `no test began or ended within ${testSeconds} s (clusterTest takes timeoutSeconds for a longer one)`;
}

/** Ranks for people: `rank 1`, `ranks 0, 2`. */
export function listRanks(ranks: readonly number[]): string {
  return `${ranks.length === 1 ? "rank" : "ranks"} ${ranks.join(", ")}`;
}

/** How many tests had each outcome. */
export type Counts = Record<MergedOutcome, number>;

export function count(tests: Iterable<{ outcome: MergedOutcome }>): Counts {
  const counts: Counts = { passed: 0, failed: 0, skipped: 0, "not run": 0, "filtered out": 0 };
  for (const { outcome } of tests) counts[outcome]++;
  return counts;
}

/** Whether all went well that was to run. */
export function isSuccess(counts: Counts): boolean {
  return counts.failed === 0 && counts["not run"] === 0;
}

/** The line that ends a test run: `12 passed, 0 failed`. */
export function summary(counts: Counts): string {
  const others = (["skipped", "not run", "filtered out"] as const).filter((outcome) => counts[outcome] > 0);
  return [
    `${counts.passed} passed, ${counts.failed} failed`,
    ...others.map((outcome) => `${counts[outcome]} ${outcome}`),
  ]
    .join(", ");
}
