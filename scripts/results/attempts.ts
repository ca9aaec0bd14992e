/**
 * Running again what went wrong: a test that passes only then is told as such, since it has to be mended all the same; and
 * running what a job did not come to.
 *
 * @module
 */
import { count, type FileResult, isSuccess, type MergedTest, WHOLE_FILE } from "./merge.ts";

/** Whether a test counts against the whole. */
export function hasGoneWrong({ outcome }: MergedTest): boolean {
  return outcome === "failed" || outcome === "not run";
}

/** Stands for the job itself: all of it is run again. */
const isWholeJob = ({ name }: MergedTest) => name === WHOLE_FILE;

/** A filter for `deno test` that lets through what went wrong; `undefined` where that was the job itself. */
export function filterOfFailed(tests: readonly MergedTest[]): string | undefined {
  const failed = tests.filter(hasGoneWrong);
  if (failed.some(isWholeJob)) return undefined;
  return filterOf(failed);
}

/** A name as part of a regular expression; no argument of a program holds a NUL. */
function patternOf({ name }: MergedTest): string {
  return name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")
    // deno-lint-ignore no-control-regex -- those are what is replaced
    .replace(/[\x00-\x1f\x7f]/g, (character) => `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`);
}

function filterOf(tests: readonly MergedTest[]): string {
  return `/^(${tests.map(patternOf).join("|")})$/`;
}

/** An argument of a program has 128 KiB at most, in Linux, and a launcher may add to it. */
const LONGEST_FILTER_BYTES = 100_000;

/** The first of these tests whose names have room in one filter; of a name that has none alone nothing can be let through. */
function withRoom(tests: readonly MergedTest[]): MergedTest[] {
  const encoder = new TextEncoder();
  let bytes = 0;
  return tests.filter((test) => {
    const own = encoder.encode(patternOf(test)).length + 1;
    if (bytes + own > LONGEST_FILTER_BYTES) return false;
    bytes += own;
    return true;
  });
}

/**
 * A filter that lets through what the job did not come to, the first of it where that is much: the next job comes to what
 * is left. `undefined` if there is nothing that has its name alone.
 */
export function filterOfUnrun(tests: readonly MergedTest[]): string | undefined {
  const ofName = Map.groupBy(tests, ({ name }) => name);
  const unrun = withRoom(tests.filter((test) => test.outcome === "not run" && ofName.get(test.name)!.length === 1));
  return unrun.length === 0 ? undefined : filterOf(unrun);
}

/** A result of which the tests that are left could not be run, and why. */
export function withoutNextJob(result: FileResult, reason: string): FileResult {
  const details = `the job for the tests that were not run could not be started: ${reason}`;
  return { ...result, tests: [...result.tests, { name: WHOLE_FILE, outcome: "failed", failedRanks: [], details }] };
}

/** A result with what became, in the next job, of tests that it did not come to; `undefined` if that did not, either. */
export function withNextJob(result: FileResult, next: FileResult): FileResult | undefined {
  const hasRun = ({ outcome }: MergedTest) => outcome !== "not run" && outcome !== "filtered out";
  const found = new Map(next.tests.filter(hasRun).map((test) => [test.name, test]));
  const tests = result.tests.map((test) => (test.outcome === "not run" ? found.get(test.name) : undefined) ?? test);
  if (tests.every((test, i) => test === result.tests[i])) return undefined;
  return {
    ...result,
    tests: [...tests, ...next.tests.filter(isWholeJob)],
    seconds: result.seconds + next.seconds,
    printed: [...result.printed ?? [], ...next.printed ?? []],
  };
}

/** A result whose tests tell of how they failed before, and so does the job itself: it has passed now. */
export function withEarlier(result: FileResult, earlier: FileResult): FileResult {
  const told = new Map(earlier.tests.filter(hasGoneWrong).map(({ name, details }) => [name, details]));
  for (const { name, failedBefore } of earlier.tests) if (failedBefore !== undefined) told.set(name, failedBefore);
  const tests = result.tests.map((test) =>
    told.has(test.name) ? { ...test, failedBefore: told.get(test.name)! } : test
  );
  const failedBefore = told.get(WHOLE_FILE);
  if (failedBefore === undefined || tests.some(isWholeJob)) return { ...result, tests };
  const job: MergedTest = { name: WHOLE_FILE, outcome: "passed", failedRanks: [], details: "", failedBefore };
  return { ...result, tests: [...tests, job] };
}

/** A result with what passed when it was run again; as it was, unless nothing went wrong then. */
export function withAttempt(result: FileResult, again: FileResult, attempts: number): FileResult {
  const hasPassed = new Set(again.tests.flatMap(({ name, outcome }) => outcome === "passed" ? [name] : []));
  const isMended = isSuccess(count(again.tests)) &&
    result.tests.every((test) => !hasGoneWrong(test) || isWholeJob(test) || hasPassed.has(test.name));
  const mend = (test: MergedTest): MergedTest[] => {
    if (!hasGoneWrong(test)) return [test];
    return isWholeJob(test) ? [] : [{ ...test, outcome: "passed", failedRanks: [], details: `attempt ${attempts}` }];
  };
  return { ...result, attempts, tests: isMended ? result.tests.flatMap(mend) : result.tests };
}
