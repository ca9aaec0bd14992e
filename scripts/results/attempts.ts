/**
 * Running again what went wrong: a test that passes only then is told as such, since it has to be mended all the same.
 *
 * @module
 */
import { count, type FileResult, isSuccess, type MergedTest } from "./merge.ts";

/** Whether a test counts against the whole. */
export function hasGoneWrong({ outcome }: MergedTest): boolean {
  return outcome === "failed" || outcome === "not run";
}

/** Stands for the job itself: all of it is run again. */
const isWholeJob = ({ name }: MergedTest) => name.startsWith("(");

/** A filter for `deno test` that lets through what went wrong; `undefined` where that was the job itself. */
export function filterOfFailed(tests: readonly MergedTest[]): string | undefined {
  const failed = tests.filter(hasGoneWrong);
  if (failed.some(isWholeJob)) return undefined;
  const names = failed.map(({ name }) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return `/^(${names.join("|")})$/`;
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
