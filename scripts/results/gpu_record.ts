/**
 * The record of tests on GPUs: one JSON file a machine, with a run for each file and number of GPUs.
 *
 * @module
 */
import { count, type FileResult, listRanks } from "./merge.ts";
import { CommandError, oneLine } from "../terminal.ts";

/** What holds for all runs of a record. */
export interface RecordHead {
  /** The GPUs and cores. */
  readonly machine: string;
  /** The version of the GPUs' driver. */
  readonly driver: string;
  /** The libraries' versions, by name. */
  readonly versions: Readonly<Record<string, string>>;
}

/** A test that failed. */
export interface GpuFailure {
  readonly test: string;
  /** Where it failed, such as `rank 1`; left out if that is not known. */
  readonly on?: string;
  /** The last lines of its error and of the output of the job. */
  readonly output: readonly string[];
}

/** One file on a number of GPUs. */
export interface GpuRun {
  readonly date: string;
  readonly commit: string;
  readonly gpus: number;
  /** The test file or the example, by path in the repository. */
  readonly file: string;
  /** Tests that passed on all ranks. */
  readonly passed: number;
  /** Tests that failed, the job itself included if it died. */
  readonly failed: number;
  /** Tests that this number of GPUs cannot run: their names, each with the reason in parentheses. */
  readonly skipped: readonly string[];
  /** How long the job ran. */
  readonly seconds: number;
  /** What failed; left out if nothing did. */
  readonly failures?: readonly GpuFailure[];
  /** Tests that the job did not come to; left out if it came to all. */
  readonly notRun?: readonly string[];
  /** Said if the job ended before all of its tests had run. */
  readonly why?: string;
  /** What tests that passed have measured, as rank 0 printed it. */
  readonly printed?: readonly string[];
}

/** A record, as the file holds it. */
export interface GpuRecord extends RecordHead {
  /** Test files that do not run on GPUs, with the reason. */
  readonly leftOut: Readonly<Record<string, string>>;
  readonly runs: readonly GpuRun[];
}

/** So many lines of a failure, or of what was printed, are kept. */
const lastLines = 40;

const repository = new URL("../../", import.meta.url);

/** Where Deno keeps packages: the machine's folder for them, and the registry's host. */
const packages = /file:\/\/\/\S*?\/npm\/[^/\s]+\//g;

/** A line without the folders of the machine that the repository and packages are in. */
function withoutFolders(line: string): string {
  return line.replaceAll(repository.href, "").replaceAll(decodeURIComponent(repository.pathname), "")
    .replaceAll(packages, "npm:");
}

/** A file's results as they are recorded. */
export function runOf(
  { file, ranks, tests, seconds, isCut, printed = [] }: FileResult,
  { date, commit }: { date: string; commit: string },
): GpuRun {
  const { passed, failed } = count(tests);
  const notRun = tests.filter(({ outcome }) => outcome === "not run").map(({ name }) => name);
  const skipped = tests.filter(({ outcome }) => outcome === "skipped").map(({ name, details }) =>
    `${name} (${details})`
  );
  const failures = tests.filter(({ outcome }) => outcome === "failed").map(({ name, failedRanks, details }) => ({
    test: name,
    ...failedRanks.length > 0 && { on: listRanks(failedRanks) },
    output: details.split("\n").slice(-lastLines).map(withoutFolders),
  }));
  return {
    date,
    commit,
    gpus: ranks,
    file,
    passed,
    failed,
    skipped,
    seconds: Math.round(10 * seconds) / 10,
    ...failures.length > 0 && { failures },
    ...notRun.length > 0 && { notRun },
    ...isCut && { why: "the job ended early" },
    ...printed.length > 0 && { printed: printed.slice(-lastLines).map(withoutFolders) },
  };
}

/**
 * The runs that a record has so far; none if there is no such file.
 *
 * @throws {CommandError} if it is of another machine, other libraries, or no record.
 */
export function readRecord(path: string, head: RecordHead): GpuRun[] {
  let text: string;
  try {
    text = Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw new CommandError(`cannot read ${path}: ${oneLine(error)}`, 1);
  }
  let record: Partial<GpuRecord> | null;
  try {
    record = JSON.parse(text);
  } catch (error) {
    throw new CommandError(`${path} is no JSON: ${oneLine(error)}`, 1);
  }
  const same = (["machine", "driver", "versions"] as const).every((key) =>
    JSON.stringify(record?.[key]) === JSON.stringify(head[key])
  );
  if (!same || !Array.isArray(record?.runs)) {
    throw new CommandError(`${path} is a record of another machine or other libraries; write to another file`, 1);
  }
  return [...record.runs];
}

/** Add a run to a record's, in place of an earlier one of the same file on as many GPUs, and write all of it. */
export function writeRecord(
  path: string,
  head: RecordHead,
  runs: GpuRun[],
  run: GpuRun,
  leftOut: Readonly<Record<string, string>>,
): void {
  const at = runs.findIndex(({ gpus, file }) => gpus === run.gpus && file === run.file);
  if (at < 0) runs.push(run);
  else runs[at] = run;
  const record: GpuRecord = { ...head, leftOut, runs };
  try {
    Deno.writeTextFileSync(path, `${JSON.stringify(record, null, 2)}\n`);
  } catch (error) {
    throw new CommandError(`cannot write ${path}: ${oneLine(error)}`, 1);
  }
}
