/**
 * Merging what the ranks report of their tests into one result a test.
 *
 * @module
 */
import type { Outcome, Registration, TapReader, TestResult } from "./tap.ts";

/** How a test went on all ranks together; no test is left untold. */
export type MergedOutcome = Outcome | "not run" | "filtered out";

export interface MergedTest {
  /** The test's name. */
  name: string;
  /** Failed if it failed on any rank, or had not ended when the job did. */
  outcome: MergedOutcome;
  failedRanks: number[];
  /** The error and the output of the first rank that failed; or why it was skipped or not run. */
  details: string;
}

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
  /** Whether the time limit ended it. */
  isTimedOut: boolean;
  /** The time limit. */
  timeoutSeconds?: number | undefined;
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
  hasStarted: boolean;
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
        if (!tests.has(key)) tests.set(key, { name, ranks: readers.map(() => ({ hasStarted: false })) });
        note(tests.get(key)!.ranks[rank], item);
      }
    };
    each(reader.registered, ({ name }) => name, (test, registration) => test.registration = registration);
    each(reader.started, ({ name }) => name, (test, { name, output, end }) => {
      test.hasStarted = true;
      if (end) test.result = { name, output, ...end };
    });
    each(reader.results, ({ name }) => name, (test, result) => test.result = result);
  });
  return [...tests.values()];
}

/** Whether a test ran to its end. After an uncaught error Deno reports a failure of all tests that have not begun, too. */
function hasEnded({ registration, hasStarted, result }: OnRank): boolean {
  return result !== undefined && !(result.outcome === "failed" && registration && !hasStarted);
}

const isRunning = (test: OnRank) => test.hasStarted && !hasEnded(test);

/** Takes the results of all ranks together. */
export function mergeRanks(readers: readonly TapReader[], end: JobEnd): MergedTest[] {
  const reported = collect(readers);
  const job = describeJob(readers, reported, end);
  const tests = reported.map((test) => mergeTest(test, job));
  const hasFailed = tests.some(({ outcome }) => outcome === "failed");
  if (job.problem !== null && !job.isTold && (!hasFailed || end.isTimedOut || end.signal !== null)) {
    const details = [job.problem, ...job.lastWords(readers.keys())].join("\n");
    tests.push({ name: "(the whole file)", outcome: "failed", failedRanks: [], details });
  }
  return tests;
}

/** What the merging of each test has to know of the job. */
interface Job extends Pick<JobEnd, "filter"> {
  /** What was wrong with it, or `null`. */
  problem: string | null;
  /** Whether that is told by tests in which ranks were when it ended. */
  isTold: boolean;
  /** The ranks to blame for a test that had not ended on some. */
  guilty: (test: Reported) => number[];
  place: (rank: number) => string;
  /** What ranks, and the launcher, printed last. */
  lastWords: (ranks: Iterable<number>) => string[];
  /** Whether a test is marked to be the only one. */
  hasOnly: boolean;
}

function describeJob(readers: readonly TapReader[], reported: readonly Reported[], end: JobEnd): Job {
  const current = readers.map((_, rank) => reported.find(({ ranks }) => isRunning(ranks[rank]))?.name);
  const place = (rank: number) => {
    if (current[rank] !== undefined) return `in "${current[rank]}"`;
    if (readers[rank].isFinished) {
      return reported.some(({ ranks: { [rank]: test } }) => test.result && !hasEnded(test))
        ? "with an uncaught error"
        : "at its end";
    }
    return `after "${readers[rank].results.at(-1)?.name ?? "the start"}"`;
  };
  // A rank on which tests failed makes the launcher end the others, wherever they are, when it is done.
  const isEndedByFailure = !end.isTimedOut && end.signal === null &&
    readers.some(({ isFinished, results }) => isFinished && results.some(({ outcome }) => outcome === "failed"));
  const dead = /^rank (\d+) /.exec(end.signal ?? "")?.[1];
  const guilty = ({ ranks }: Reported) => {
    const running = ranks.flatMap((test, rank) => isRunning(test) ? [rank] : []);
    // It went on without this test, after an error that was caught by nobody.
    const gone = running.filter((rank) => readers[rank].isFinished);
    if (gone.length > 0 || isEndedByFailure) return gone;
    // One that waits for a rank that has not even come to the test is innocent.
    if (end.isTimedOut) return ranks.every((test) => test.hasStarted || hasEnded(test)) ? running : [];
    return dead === undefined ? running : running.filter((rank) => rank === Number(dead));
  };
  return {
    problem: describeEnd(readers, reported, end, place),
    isTold: reported.some((test) => guilty(test).length > 0),
    guilty,
    place,
    lastWords: (ranks) => {
      const own = [...ranks].flatMap((rank) => readers[rank].output.map((line) => `[rank ${rank}] ${line}`));
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

function mergeTest(test: Reported, job: Job): MergedTest {
  const { name, ranks } = test;
  const where = (condition: (test: OnRank) => boolean) => ranks.flatMap((test, rank) => condition(test) ? [rank] : []);
  const merged = (outcome: MergedOutcome, details: string, failedRanks: number[] = []) => ({
    name,
    outcome,
    failedRanks,
    details,
  });

  const failed = where((test) => hasEnded(test) && test.result?.outcome === "failed");
  if (failed.length > 0) {
    const { message, output } = ranks[failed[0]].result!;
    return merged("failed", [message, ...output].filter(Boolean).join("\n"), failed);
  }
  const guilty = job.guilty(test);
  if (guilty.length > 0) {
    const details = [`${listRanks(guilty)} did not come to its end: ${job.problem}`, ...job.lastWords(guilty)];
    return merged("failed", details.join("\n"), guilty);
  }
  const isUntouched = ranks.every(({ hasStarted, result }) => !hasStarted && result === undefined);
  if (isUntouched && !matches(name, job.filter)) return merged("filtered out", `--filter ${job.filter}`);
  const isSkipped = ({ registration, result }: OnRank) =>
    result ? result.outcome === "skipped" : registration === undefined || registration.isIgnored;
  if (ranks.every(isSkipped)) return merged("skipped", "it is marked to be ignored");
  if (isUntouched && job.hasOnly) return merged("filtered out", "another test is marked to be the only one");
  const missing = where((test) => !hasEnded(test));
  if (missing.length === 0) return merged("passed", "");
  const places = Map.groupBy(missing, job.place);
  const reason = [...places].map(([place, ranks]) => `${listRanks(ranks)} ended ${place}`).join(", ");
  return merged("not run", reason);
}

/**
 * Whether a filter, as `deno test --filter` takes it, lets a name through.
 *
 * @throws {SyntaxError} if it is between slashes and no regular expression.
 */
export function matches(name: string, filter = ""): boolean {
  const pattern = /^\/(.*)\/$/.exec(filter);
  return pattern ? new RegExp(pattern[1]).test(name) : name.includes(filter);
}

function describeEnd(
  readers: readonly TapReader[],
  reported: readonly Reported[],
  end: JobEnd,
  place: (rank: number) => string,
): string | null {
  const at = readers.map((_, rank) => `rank ${rank} ${place(rank)}`).join(", ");
  if (end.isTimedOut) return `it did not end within ${end.timeoutSeconds} s: ${at}`;
  if (end.signal !== null) return end.signal;
  const isCut = readers.some(({ isFinished }) => !isFinished);
  if (end.code !== 0) return `it ended with exit code ${end.code}: ${at}`;
  if (isCut) return `it ended with exit code 0 before all of its tests had run: ${at}`;
  return reported.length === 0 ? "it has no tests" : null;
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
