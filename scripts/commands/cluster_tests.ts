/**
 * `cluster-test`: run test files on 1, 2, … ranks, and merge what the ranks report.
 *
 * @module
 */
import { relative } from "node:path";
import { runFiltered } from "../launch/job_output.ts";
import { denoTest, runProgram } from "../launch/job.ts";
import { describeLauncher, findLauncher, type Launcher } from "../launch/launcher.ts";
import { StepLimit } from "../launch/step_limit.ts";
import { watchRanks } from "../launch/watched_ranks.ts";
import { filterOfUnrun, withEarlier, withNextJob, withoutNextJob } from "../results/attempts.ts";
import { count, type FileResult, isSuccess, listRanks, matches, mergeRanks, summary } from "../results/merge.ts";
import { jobName, json, junit, tap } from "../results/reports.ts";
import { type Listing, listingOf, listingOfRun, UNASKED, unstarted, withUnknown } from "../results/unstarted.ts";
import { fetchModules } from "../launch/modules.ts";
import { isThisHost, nameOf } from "../launch/allocation.ts";
import { parsePlace, type Place, placeHelp, placeOptions } from "../launch/job_place.ts";
import { scriptOfUser } from "./run.ts";
import { TapReader } from "../results/tap.ts";
import {
  checkWritable,
  CommandError,
  jobProgress,
  oneLine,
  onSignals,
  type Options,
  parseCommand,
  parseCount,
  type ProgressBar,
  scriptAddress,
  style,
  userFolder,
  userPath,
  withoutColors,
  writeText,
} from "../terminal.ts";

const help = `Run test files on several numbers of ranks.

Usage: cluster-test [options] FILES…

Each file is one job a number of ranks: "deno test" on every rank. A test passes if it passes on all ranks.
Every test of a file is told of: one that hangs or dies has failed, and those that come after it run in a new job. For
those that do not run, a file is loaded to learn which it has; where the command is interrupted, for 5 seconds at most,
and until it is interrupted again.
The exit code is 1 if a test failed or was not run, a file has no tests, or --filter without --shard matches none.

  --ranks 1,2,4      numbers of ranks (1,2,4)
${placeHelp}
  --timeout SECONDS  time limit of a job, which is a file on a number of ranks; a job that takes longer is ended and has
                     failed. When left out, a clusterTest has 60 seconds or its timeoutSeconds, others 120
  --junit FILE       write the results as JUnit XML
  --json FILE        write them as JSON
  --tap FILE         write them as TAP
  --filter TEXT      only tests whose name contains it, or matches it as /TEXT/
  --shard I/N        only the I-th of N parts of the jobs, for machines that share the work
  --fail-fast        run no more jobs after one that failed
  --retries N        run a job that failed up to N more times (0)
  --coverage FOLDER  gather the coverage of all ranks there, and print it
  --no-check         leave out the type check that comes first
  --mpirun PATH      the launcher to use (also DISTMATH_MPIRUN)
`;

const options = {
  ranks: { type: "string", default: "1,2,4" },
  ...placeOptions,
  junit: { type: "string" },
  json: { type: "string" },
  tap: { type: "string" },
  shard: { type: "string" },
  "fail-fast": { type: "boolean", default: false },
  retries: { type: "string", default: "0" },
  coverage: { type: "string" },
  filter: { type: "string" },
  "no-check": { type: "boolean", default: false },
  mpirun: { type: "string" },
} as const satisfies Options;

/** What a test may take, and what is before, between and after tests, where the job has no limit of its own. */
const TEST_SECONDS = 120;

/** So long after a test's own time limit the ranks have had time to tell of it themselves. */
const TELLING_SECONDS = 30;

/** So long may a file take to tell of its tests. */
const LISTING_SECONDS = 20;

/** And all files together where the user waits for the end: what interrupts may kill soon. */
const LAST_LISTING_SECONDS = 5;

/** A filter that lets no test through. */
const NONE = "/(?!)/";

/** How to run a test file. */
export interface TestSettings extends Place {
  /** Only tests whose name contains this. */
  filter?: string | undefined;
  /** The time limit of a test that has no longer one of its own, unless the job has one. */
  testSeconds?: number;
  /** The folder in which the ranks start; the user's when left out. */
  cwd?: string;
  /** More variables for the ranks. */
  env?: Record<string, string>;
  /** More flags for Deno on the ranks. */
  denoFlags?: readonly string[];
}

/** What each rank loads before its tests. */
const testOutput = () => scriptAddress("results/test_output.ts");

/** A job was ended from here, with what its tests had come to. */
class Interruption extends CommandError {
  readonly result: FileResult;

  constructor(code: number, result: FileResult) {
    super("interrupted", code);
    this.result = result;
  }
}

/** Run one file on one number of ranks. */
export async function runTestFile(
  launcher: Launcher,
  file: string,
  ranks: number,
  { filter, env, denoFlags = [], testSeconds = TEST_SECONDS, cwd = userPath("."), ...place }: TestSettings = {},
): Promise<FileResult> {
  const readers = Array.from({ length: ranks }, () => new TapReader(() => performance.now()));
  const output: string[] = [];
  using limit = place.timeoutSeconds === undefined ? new StepLimit(testSeconds) : null;
  const read = (line: string, stream: "stdout" | "stderr", reader: TapReader) => {
    const { steps } = reader;
    reader.push(line, stream);
    if (reader.steps > steps) limit?.restart(secondsLeft(readers, testSeconds));
  };
  const take = (stream: "stdout" | "stderr", line: string, rank: number | null) => {
    if (rank !== null && rank < ranks) read(line, stream, readers[rank]);
    else if (line.trim() !== "") output.push(line);
  };
  using watch = watchRanks(launcher, ranks, () => {});
  const job = await runFiltered(launcher, {
    ranks,
    ...place,
    ...limit && { signal: limit.signal },
    cwd,
    tag: true,
    yieldsWhenIdle: true, // tests are right or wrong, not fast, and other jobs may run beside them
    env: { ...withoutColors, ...watch.env, ...env },
    watch,
    program: denoTest(file, [], [
      "--reporter=tap",
      `--preload=${testOutput()}`,
      ...denoFlags,
      ...filter === undefined ? [] : ["--filter", filter],
    ]),
    onLine: (stream, line, _isComplete, rank) => take(stream, line.toWellFormed(), rank),
  });
  const hasEnded = job.code !== 0 && !job.isInterrupted && readers.some(({ isFinished }) => isFinished);
  if (hasEnded && readers.every(isSilent)) {
    output.unshift(...await errorOfLoading(file, cwd, { ...withoutColors, ...env }));
  }
  const isCut = readers.some(({ isFinished }) => !isFinished);
  const places = isCut ? watch.where(job.isTimedOut) : null;
  const limits = { timeoutSeconds: place.timeoutSeconds, testSeconds: limit?.seconds };
  const signal = job.isInterrupted ? "the job was interrupted" : job.signal;
  const tests = mergeRanks(readers, { ...job, signal, ...limits, output, places, filter });
  const printed = readers[0].results.flatMap(({ outcome, output }) => outcome === "passed" ? output : []);
  const result = { file: shortName(file), ranks, tests, seconds: job.seconds, isCut, printed };
  if (job.isInterrupted) throw new Interruption(job.code, result);
  return result;
}

/** Whether a rank has said nothing at all: that reporter leaves out why a file could not be loaded. */
const isSilent = ({ registered, output }: TapReader) => registered.length + output.length === 0;

/** Why a file cannot be loaded, in Deno's words, which loads it once more and runs none of its tests. */
async function errorOfLoading(file: string, cwd: string, env: Record<string, string>): Promise<string[]> {
  const [program, ...args] = denoTest(file, [], ["--reporter=pretty", "--filter", NONE]);
  const signal = AbortSignal.timeout(LISTING_SECONDS * 1000);
  const { stdout } = await new Deno.Command(program, { args, cwd, env, stdin: "null", signal }).output();
  const text = new TextDecoder().decode(stdout);
  return /\n ERRORS \n\n.*\n([^]*?)\nThis error was not caught/.exec(text)?.[1].split("\n") ?? [];
}

/** How long it may take until a test begins or ends on a rank: the longest that any test which runs may take. */
function secondsLeft(readers: readonly TapReader[], testSeconds: number): number {
  const own = readers.flatMap(({ ownSeconds }) => ownSeconds === null ? [] : [ownSeconds + TELLING_SECONDS]);
  return Math.max(testSeconds, ...own);
}

/** As {@linkcode runTestFile}; what the job did not come to, since a test before hung or died, runs in a new one. */
async function runAllTests(launcher: Launcher, { file, ranks }: Job, settings: TestSettings): Promise<FileResult> {
  let result = await runTestFile(launcher, file, ranks, settings);
  while (true) {
    const filter = filterOfUnrun(result.tests);
    if (!filter) return result;
    try {
      const next = withNextJob(result, await runTestFile(launcher, file, ranks, { ...settings, filter }));
      if (!next) return result;
      result = next;
    } catch (error) {
      // What has run is told all the same.
      if (!(error instanceof Interruption)) return withoutNextJob(result, oneLine(error));
      throw new Interruption(error.code, withNextJob(result, error.result) ?? result);
    }
  }
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
  const place = `${jobName({ file, ranks })}${heading}`;
  const counts = isBrief ? `: ${summary(count(tests))}` : "";
  console.log(`${style("bold", place)}${counts} ${style("dim", `(${seconds.toFixed(1)} s)`)}`);
  for (const { name, outcome, failedRanks, details } of tests) {
    if (outcome === "failed") {
      const where = failedRanks.length > 0 ? ` on ${listRanks(failedRanks)}` : "";
      console.log(`  ${name} … ${style("red", `FAILED${where}`)}`);
      console.log(details.replace(/^/gm, "    "));
    } else if (outcome === "not run") {
      console.log(`  ${name} … ${style("red", "not run")}: ${details}`);
    } else if (!isBrief) {
      console.log(
        `  ${name} … ${outcome === "passed" ? style("green", "ok") : `${style("yellow", outcome)}: ${details}`}`,
      );
    }
  }
}

/** What is wrong with files by a check that comes once, instead of on every rank, and of which Deno has told; or `null`. */
async function faultOf(files: readonly string[]): Promise<string | null> {
  // As "-A" on the ranks, which allows every host.
  const command = (name: string) => [name, "--quiet", "--allow-import", ...files];
  if (await runProgram(Deno.execPath(), command("check"), userPath(".")) === 0) return null;
  // Without types.
  const options = { args: command("cache"), cwd: userPath("."), env: withoutColors, stdin: "null" } as const;
  const { success, stderr } = await new Deno.Command(Deno.execPath(), options).output();
  if (success) return "the test files have type errors";
  const isSyntax = new TextDecoder().decode(stderr).startsWith("error: SyntaxError");
  return isSyntax ? "the test files have a syntax error" : "the test files cannot be loaded";
}

/** The error that ends the command before any job begins, or `null`; modules are in the cache then. */
async function errorOfLoadingAll(
  files: readonly string[],
  sizes: readonly number[],
  noCheck: boolean,
): Promise<unknown> {
  try {
    const fault = noCheck ? null : await faultOf(files);
    if (fault !== null) return new CommandError(fault, 1);
    // What cannot be loaded is told of by the job that needs it.
    if (Math.max(...sizes) > 1) await fetchModules([...files, testOutput()], [], userPath("."));
    return null;
  } catch (error) {
    return error;
  }
}

/** What regular expressions of JavaScript have, and those of Deno's filters have not: looking around, and back. */
const UNKNOWN_TO_DENO = /^\/.*(\(\?<?[=!]|\\[1-9]|\\k<).*\/$/s;

/** Refuse a regular expression that is none, or that Deno does not know. */
function checkFilter(filter: string | undefined): void {
  const [, unknown] = UNKNOWN_TO_DENO.exec(filter ?? "") ?? [];
  if (unknown !== undefined) {
    throw new CommandError(
      `--filter: Deno's filters have no ${unknown}, which ${filter} has; use | for one of several`,
    );
  }
  try {
    matches("", filter);
  } catch (error) {
    throw new CommandError(`--filter: ${oneLine(error)}`);
  }
}

/** A file and a number of ranks. */
interface Job {
  file: string;
  ranks: number;
}

/** The part of the jobs that `--shard` names, such as `2/3`. */
export function shardOf<T>(jobs: readonly T[], shard: string | undefined): T[] {
  if (shard === undefined) return [...jobs];
  const [, index, count] = /^(\d+)\/(\d+)$/.exec(shard)?.map(Number) ?? [];
  if (!(index >= 1 && index <= count)) throw new CommandError(`--shard takes I/N with I from 1 to N, not "${shard}"`);
  return jobs.filter((_, i) => i % count === index - 1);
}

/** The formats that results are written in. */
const formats = { junit, json, tap } as const;

/** Write the reports that were asked for; returns which could not be written, and why. */
function writeReports(
  reports: readonly (readonly [keyof typeof formats, string])[],
  results: readonly FileResult[],
): string[] {
  return reports.flatMap(([format, path]) => {
    try {
      writeText(path, formats[format](results));
      return [];
    } catch (error) {
      return [`cannot write ${path}: ${oneLine(error)}`];
    }
  });
}

/** The error that ends the command, with the reports that could not be written. */
function withUnwritten(failure: unknown, unwritten: readonly string[]): unknown {
  if (unwritten.length === 0 || !(failure instanceof CommandError)) return failure;
  return new CommandError([failure.message, ...unwritten].join("; "), failure.code);
}

/** Run a job, and again while it fails; `keep` has each result before it is printed, which may fail. */
async function runWithRetries(
  launcher: Launcher,
  job: Job,
  settings: TestSettings,
  retries: number,
  progress: ProgressBar,
  keep: (result: FileResult) => void,
): Promise<FileResult> {
  let last: FileResult | null = null;
  for (let attempts = 1;; attempts++) {
    const made = await runAllTests(launcher, job, settings);
    const result: FileResult = last === null ? made : { ...withEarlier(made, last), attempts };
    last = result;
    keep(result);
    progress.end();
    printFile(result, { heading: attempts > 1 ? `, attempt ${attempts}` : "" });
    if (isSuccess(count(result.tests)) || attempts > retries) return result;
  }
}

const isInterruption = (error: unknown) => error instanceof CommandError && error.message === "interrupted";

/** What reports say of jobs that an error of the command itself left out. */
function whyEnded(error: unknown): string {
  if (!(error instanceof CommandError)) return `the command ended: ${oneLine(error)}`;
  return isInterruption(error) ? "the command was interrupted" : error.message;
}

/** Asks files for their tests, each once, until the time is up or Ctrl-C, SIGTERM or SIGHUP comes. */
class Lister implements Disposable {
  /** The exit code of the signal that came. */
  interruptedWith: number | null = null;
  readonly #launcher: Launcher;
  readonly #settings: TestSettings;
  readonly #end: number;
  readonly #known = new Map<string, Listing>();
  readonly #signals = onSignals((code) => () => this.interruptedWith ??= code);

  /** One that asks in this launcher's jobs, for so many seconds. */
  constructor(launcher: Launcher, settings: TestSettings, seconds: number) {
    this.#launcher = launcher;
    // What a file loads is no coverage.
    this.#settings = { ...settings, filter: NONE, denoFlags: [] };
    this.#end = performance.now() + seconds * 1000;
  }

  [Symbol.dispose](): void {
    this.#signals[Symbol.dispose]();
  }

  /** What a job has told of its file need not be asked for. */
  note(file: string, result: FileResult): void {
    const listing = listingOfRun(result);
    if (listing !== null) this.#known.set(file, listing);
  }

  /** The tests of a file. */
  async list(file: string): Promise<Listing> {
    const listing = this.#known.get(file) ?? await this.#ask(file);
    this.#known.set(file, listing);
    return listing;
  }

  /** A rank loads it, and runs none of its tests. */
  async #ask(file: string): Promise<Listing> {
    const left = Math.ceil((this.#end - performance.now()) / 1000);
    if (this.interruptedWith !== null || left <= 0) return UNASKED;
    try {
      const settings = { ...this.#settings, timeoutSeconds: Math.min(left, LISTING_SECONDS) };
      return listingOf(await runTestFile(this.#launcher, file, 1, settings));
    } catch (error) {
      if (!(error instanceof Interruption)) return { names: [], fault: oneLine(error) };
      this.interruptedWith ??= error.code;
      return { ...listingOf(error.result), fault: "the file was not loaded to its end" };
    }
  }
}

/** Which jobs are not run any more, and why. */
interface LeftOut {
  /** The first one that was not printed. */
  first: number;
  reason: string;
  /** The error that ended the command, if any. */
  failure: unknown;
  /** Whether reports are written. */
  isReported: boolean;
  progress: ProgressBar;
}

/** Print the jobs that are left, and add them to the results; returns the error that ends the command, or `null`. */
async function tellLeftOut(
  launcher: Launcher,
  jobs: readonly Job[],
  results: FileResult[],
  settings: TestSettings,
  { first, reason, failure, isReported, progress }: LeftOut,
): Promise<unknown> {
  const isPatient = failure === null || (failure instanceof CommandError && !isInterruption(failure));
  using lister = new Lister(launcher, settings, isPatient ? Infinity : LAST_LISTING_SECONDS);
  for (const [i, result] of results.entries()) lister.note(jobs[i].file, result);
  // Reports are written all the same.
  let canPrint = failure === null || failure instanceof CommandError;
  const tryPrinting = (print: () => void) => {
    try {
      if (canPrint) print();
    } catch {
      canPrint = false;
    }
  };
  for (const [i, { file, ranks }] of jobs.entries()) {
    if (i < first) continue;
    const job = { file: shortName(file), ranks };
    tryPrinting(() => progress.update(jobName(job), i));
    const listing = canPrint || isReported ? await lister.list(file) : UNASKED;
    const why = { reason, filter: settings.filter };
    results[i] = results[i] === undefined ? unstarted(job, listing, why) : withUnknown(results[i], listing, why);
    tryPrinting(() => {
      progress.end();
      printFile(results[i]);
    });
  }
  if (failure !== null || lister.interruptedWith === null) return failure;
  return new CommandError("interrupted", lister.interruptedWith);
}

/** Run jobs one after the other unless a fault was found before; those that do not run are told of as well. */
async function runJobs(
  launcher: Launcher,
  jobs: readonly Job[],
  settings: TestSettings,
  { fault, retries, failFast, isReported }: {
    fault: unknown;
    retries: number;
    failFast: boolean;
    isReported: boolean;
  },
): Promise<{ results: FileResult[]; failure: unknown }> {
  const results: FileResult[] = [];
  const progress = jobProgress(jobs.length);
  const leaveOut = async (first: number, reason: string, failure: unknown) => ({
    results,
    failure: await tellLeftOut(launcher, jobs, results, settings, { first, reason, failure, isReported, progress }),
  });
  if (fault !== null) return await leaveOut(0, whyEnded(fault), fault);
  for (const [i, job] of jobs.entries()) {
    try {
      progress.update(jobName({ ...job, file: shortName(job.file) }), i);
      const result = await runWithRetries(launcher, job, settings, retries, progress, (made) => results[i] = made);
      if (!failFast || isSuccess(count(result.tests))) continue;
    } catch (error) {
      if (error instanceof Interruption) results[i] = withAttemptsBefore(error.result, results.at(i));
      return await leaveOut(i, whyEnded(error), error);
    }
    return await leaveOut(i + 1, `--fail-fast, after ${jobName(results[i])}`, null);
  }
  progress.end();
  return { results, failure: null };
}

/** The result of a job's last attempt, with what the one before it was, if there was one. */
function withAttemptsBefore(result: FileResult, earlier: FileResult | undefined): FileResult {
  return earlier === undefined ? result : { ...withEarlier(result, earlier), attempts: (earlier.attempts ?? 1) + 1 };
}

/** What `deno coverage` says where ranks ran nothing that counts, as in a shard of no jobs: that is no failure. */
const NOTHING_COVERED = /No coverage files found|No covered files included/;

/** Tell what all ranks have covered together, by what they wrote into a folder; returns whether that could be told. */
async function tellCoverage(folder: string): Promise<boolean> {
  const exclude = [`--exclude=${scriptAddress("results/")}`, "--exclude=_test[.]"];
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["coverage", "--quiet", ...exclude, folder],
    stdin: "null",
    stdout: "inherit",
    stderr: "piped",
  }).output();
  const told = new TextDecoder().decode(stderr).trim();
  if (NOTHING_COVERED.test(told)) console.log("nothing was covered that counts");
  else if (told !== "") console.error(told);
  return code === 0 || NOTHING_COVERED.test(told);
}

export async function clusterTests(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, options, help);
  if (positionals.length === 0) throw new CommandError(`cluster-test needs test files; see "cluster-test --help"`);
  const sizes = values.ranks.split(",").map((text) => parseCount(text.trim(), "--ranks"));
  const place = parsePlace(values);
  const retries = parseCount(values.retries, "--retries", 0);
  checkFilter(values.filter);
  const files = positionals.map(scriptOfUser);
  const jobs = shardOf(files.flatMap((file) => sizes.map((ranks) => ({ file, ranks }))), values.shard);
  const reports = (["junit", "json", "tap"] as const).flatMap((format) =>
    values[format] === undefined ? [] : [[format, userPath(values[format])] as const]
  );
  for (const [i, [format, path]] of reports.entries()) {
    const other = reports.slice(0, i).find((report) => report[1] === path);
    if (other !== undefined) {
      throw new CommandError(
        `--${other[0]} and --${format} name the same file, ${path}: give each report one of its own`,
      );
    }
    checkWritable(path, `--${format}`);
  }
  if (jobs.length === 0) console.log(`no job is in shard ${values.shard}: there are fewer`);
  const coverage = userFolder(values.coverage, "--coverage") ?? null;
  const elsewhere = place.hosts?.find((host) => !isThisHost(nameOf(host)));
  if (coverage !== null && elsewhere !== undefined) {
    throw new CommandError(
      `--coverage counts what ranks of this machine run, not of ${
        nameOf(elsewhere)
      }: leave it out, or name this host alone`,
    );
  }
  const launcher = await findLauncher(values.mpirun);
  const denoFlags = coverage === null ? [] : [`--coverage=${coverage}`, "--coverage-raw-data-only"];
  const settings = { ...place, filter: values.filter, denoFlags };
  const isReported = reports.length > 0;
  const fault = await errorOfLoadingAll(files, sizes, values["no-check"]);
  if (fault === null) console.log(describeLauncher(launcher));
  const how = { fault, retries, failFast: values["fail-fast"], isReported };
  const { results, failure } = await runJobs(launcher, jobs, settings, how);
  const unwritten = writeReports(reports, results);
  const counts = count(results.flatMap(({ tests }) => tests));
  if (failure instanceof CommandError) console.log(`\n${summary(counts)}`);
  if (failure !== null) throw withUnwritten(failure, unwritten);
  const isCounted = coverage === null || await tellCoverage(coverage);
  console.log(`\n${summary(counts)}`);
  if (unwritten.length > 0) throw new CommandError(unwritten.join("; "), 1);
  const total = Object.values(counts).reduce((sum, number) => sum + number);
  if (values.filter !== undefined && total > 0 && counts["filtered out"] === total) {
    const words = `--filter "${values.filter}" matches the name of no test in`;
    if (values.shard === undefined) throw new CommandError(`${words} these files`, 1);
    console.log(`${words} this shard`);
  }
  return isSuccess(counts) && isCounted ? 0 : 1;
}
