/**
 * What is told of jobs that were not started: every test of their files, as far as the files tell them.
 *
 * @module
 */
import { type FileResult, matches, type MergedTest, WHOLE_FILE } from "./merge.ts";

/** What is known of the tests of a file. */
export interface Listing {
  /** The names of those that it registers. */
  names: readonly string[];
  /** Why there may be more that are not known, or why there are none; `null` if these are all. */
  fault: string | null;
}

/** Of a file that nobody asked for its tests. */
export const UNASKED: Listing = { names: [], fault: "the file was not asked for its tests" };

/** Why tests are not run, and the filter that would not have let all of them through. */
export interface Reason {
  /** Why the job was not started. */
  reason: string;
  /** A filter as `deno test` takes it. */
  filter?: string | undefined;
}

const isWholeFile = ({ name }: MergedTest) => name === WHOLE_FILE;

const ownNames = ({ tests }: FileResult) => tests.flatMap((test) => isWholeFile(test) ? [] : [test.name]);

/** Why a file could not be loaded, in a line, by what is told of a job that did nothing else. */
function faultOfLoading(details: string): string {
  const lines = details.split("\n").map((line) => line.replace(/^\[rank \d+\] /, "").trim());
  if (lines[0] === "it has no tests") return lines[0];
  const error = lines.find((line) => line.startsWith("error: "))?.replace(/^error: (Uncaught (\(in promise\) )?)?/, "");
  const place = lines.find((line) => line.startsWith("at "));
  const words = error === undefined ? [lines[0]] : [error, ...place === undefined ? [] : [place]];
  return `the file could not be loaded: ${words.join(" ")}`;
}

/** What a job tells of its file which loaded it and let no test through. */
export function listingOf(result: FileResult): Listing {
  const whole = result.tests.find(isWholeFile);
  return { names: ownNames(result), fault: whole === undefined ? null : faultOfLoading(whole.details) };
}

/** What a job that was to run its tests tells of the file; `null` if it may have ended before it knew all of them. */
export function listingOfRun(result: FileResult): Listing | null {
  const names = ownNames(result);
  // Tests begin once the file is loaded.
  const hasBegun = result.tests.some((test) =>
    !isWholeFile(test) && (test.outcome === "passed" || test.outcome === "failed")
  );
  return names.length > 0 && (hasBegun || !result.isCut) ? { names, fault: null } : null;
}

function toldTest(name: string, { reason, filter }: Reason): MergedTest {
  const isWanted = matches(name, filter);
  return {
    name,
    outcome: isWanted ? "not run" : "filtered out",
    failedRanks: [],
    details: isWanted ? reason : `--filter ${filter}`,
  };
}

/** Stands for a job that was not started: its tests, and the job itself where they may not be all. */
export function unstarted(
  { file, ranks }: Pick<FileResult, "file" | "ranks">,
  { names, fault }: Listing,
  why: Reason,
): FileResult {
  const tests = names.map((name) => toldTest(name, why));
  if (fault !== null) tests.push(toldTest(WHOLE_FILE, { reason: `${why.reason}; ${fault}` }));
  return { file, ranks, tests, seconds: 0 };
}

/** The result of a job that was ended, with the tests that it had not come to know. */
export function withUnknown(result: FileResult, { names }: Listing, why: Reason): FileResult {
  const known = new Set(ownNames(result));
  const others = names.filter((name) => !known.has(name));
  return { ...result, tests: [...result.tests, ...others.map((name) => toldTest(name, why))] };
}
