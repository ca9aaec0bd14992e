/**
 * `cluster-test`: run test files on 1, 2, … ranks, and merge what the ranks report.
 *
 * @module
 */
import { relative } from "node:path";
import { runFiltered } from "../launch/job_output.ts";
import { denoTest, runProgram } from "../launch/job.ts";
import { describeLauncher, findLauncher, type Launcher, parseTag } from "../launch/launcher.ts";
import { count, type FileResult, isSuccess, junit, listRanks, matches, mergeRanks, summary } from "../results/merge.ts";
import { parsePlace, type Place, placeHelp, placeOptions } from "../launch/place.ts";
import { scriptOfUser } from "./run.ts";
import { TapReader } from "../results/tap.ts";
import {
  CommandError,
  oneLine,
  type Options,
  parseCommand,
  parseCount,
  scriptAddress,
  style,
  userPath,
  withoutColors,
} from "../terminal.ts";

const help = `Run test files on several numbers of ranks.

Usage: cluster-test [options] FILES…

Each file is one job a number of ranks: "deno test" on every rank. A test passes if it passes on all ranks.
Every test of a file is told of: one that hangs or dies has failed, and those that the job did not come to were not run.
The exit code is 1 if a test failed or was not run, a file has no tests, or --filter matches none.

  --ranks 1,2,4      numbers of ranks (1,2,4)
${placeHelp}
  --timeout SECONDS  time limit of a job (120); a job that takes longer is ended and has failed
  --junit FILE       write the results as JUnit XML
  --filter TEXT      only tests whose name contains it, or matches it as /TEXT/
  --no-check         leave out the type check that comes first
  --mpirun PATH      the launcher to use (also DISTMATH_MPIRUN)
`;

const options = {
  ranks: { type: "string", default: "1,2,4" },
  ...placeOptions,
  timeout: { type: "string", default: "120" },
  junit: { type: "string" },
  filter: { type: "string" },
  "no-check": { type: "boolean", default: false },
  mpirun: { type: "string" },
  help: { type: "boolean", short: "h", default: false },
} as const satisfies Options;

/** How to run a test file. */
export interface TestSettings extends Place {
  /** Only tests whose name contains this. */
  filter?: string | undefined;
  /** More variables for the ranks. */
  env?: Record<string, string>;
  /** More flags for Deno on the ranks. */
  denoFlags?: readonly string[];
}

/** Run one file on one number of ranks. */
export async function runTestFile(
  launcher: Launcher,
  file: string,
  ranks: number,
  { filter, env, denoFlags = [], ...place }: TestSettings = {},
): Promise<FileResult> {
  const readers = Array.from({ length: ranks }, () => new TapReader());
  const output: string[] = [];
  const take = (line: string) => {
    const tagged = parseTag(line, launcher);
    if (tagged && tagged.rank < ranks) readers[tagged.rank].push(tagged.text);
    else if (line.trim() !== "") output.push(line);
  };
  const job = await runFiltered(launcher, {
    ranks,
    ...place,
    tag: true,
    yieldsWhenIdle: true, // tests are right or wrong, not fast, and other jobs may run beside them
    env: { ...withoutColors, ...env },
    program: denoTest(file, [], [
      "--reporter=tap",
      `--preload=${scriptAddress("results/test_output.ts")}`,
      ...denoFlags,
      ...filter === undefined ? [] : ["--filter", filter],
    ]),
    onLine: (_stream, line) => take(line),
  });
  if (job.isInterrupted) throw new CommandError("interrupted", job.code);
  const tests = mergeRanks(readers, { ...job, timeoutSeconds: place.timeoutSeconds, output, filter });
  const isCut = readers.some(({ isFinished }) => !isFinished);
  const printed = readers[0].results.flatMap(({ outcome, output }) => outcome === "passed" ? output : []);
  return { file: shortName(file), ranks, tests, seconds: job.seconds, isCut, printed };
}

function shortName(file: string): string {
  if (!file.startsWith("/")) return file;
  const short = relative(userPath("."), file);
  return short.startsWith("..") ? file : short;
}

/**
 * Print the results of a file: a line a test, and what a failing rank said. In brief, only what failed or did not run, and
 * how many did what.
 */
export function printFile({ file, ranks, tests, seconds }: FileResult, { heading = "", isBrief = false } = {}): void {
  const place = `${file} on ${ranks} ${ranks === 1 ? "rank" : "ranks"}${heading}`;
  const counts = isBrief ? `: ${summary(count(tests))}` : "";
  console.log(`${style("bold", place)}${counts} ${style("dim", `(${seconds.toFixed(1)} s)`)}`);
  for (const { name, outcome, failedRanks, details } of tests) {
    if (outcome === "failed") {
      const where = failedRanks.length > 0 ? ` on ${listRanks(failedRanks)}` : "";
      console.log(`  ${name} … ${style("red", `FAILED${where}`)}`);
      console.log(details.replace(/^/gm, "    "));
    } else if (outcome === "not run") {
      console.log(`  ${name} … ${style("red", "not run")}: ${details}`);
    } else if (!isBrief && outcome !== "filtered out") {
      console.log(
        `  ${name} … ${outcome === "passed" ? style("green", "ok") : `${style("yellow", outcome)}: ${details}`}`,
      );
    }
  }
}

/** The types of all files, checked once instead of on every rank. */
async function checkTypes(files: readonly string[]): Promise<void> {
  // As "-A" on the ranks, which allows every host.
  const code = await runProgram(Deno.execPath(), ["check", "--quiet", "--allow-import", ...files]);
  if (code !== 0) throw new CommandError("the test files have type errors", 1);
}

/** Refuse a regular expression that is none. */
function checkFilter(filter: string | undefined): void {
  try {
    matches("", filter);
  } catch (error) {
    throw new CommandError(`--filter: ${oneLine(error)}`);
  }
}

export async function clusterTests(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, options);
  if (values.help) {
    console.log(help);
    return 0;
  }
  if (positionals.length === 0) throw new CommandError(`cluster-test needs test files; see "cluster-test --help"`);
  const ranks = values.ranks.split(",").map((text) => parseCount(text.trim(), "--ranks"));
  const place = parsePlace(values);
  checkFilter(values.filter);
  const files = positionals.map(scriptOfUser);
  const report = values.junit === undefined ? undefined : userPath(values.junit);
  const launcher = await findLauncher(values.mpirun);
  if (!values["no-check"]) await checkTypes(files);
  console.log(describeLauncher(launcher));
  const results: FileResult[] = [];
  for (const file of files) {
    for (const size of ranks) {
      const result = await runTestFile(launcher, file, size, { ...place, filter: values.filter });
      printFile(result);
      results.push(result);
    }
  }
  if (report !== undefined) {
    try {
      Deno.writeTextFileSync(report, junit(results));
    } catch (error) {
      throw new CommandError(`cannot write ${report}: ${oneLine(error)}`, 1);
    }
  }
  const counts = count(results.flatMap(({ tests }) => tests));
  console.log(`\n${summary(counts)}`);
  if (counts["filtered out"] === Object.values(counts).reduce((sum, number) => sum + number)) {
    throw new CommandError(`--filter "${values.filter}" matches the name of no test in these files`, 1);
  }
  return isSuccess(counts) ? 0 : 1;
}
