/**
 * `test`: every test that this machine can run, with its set-up.
 *
 * @module
 */
import { basename, dirname, join } from "node:path";
import { printFile, runTestFile } from "./cluster_tests.ts";
import { canShareCores, describeLauncher, findLaunchers, identifyLauncher, type Launcher } from "../launch/launcher.ts";
import { filterOfFailed, hasGoneWrong, withAttempt } from "../results/attempts.ts";
import { count, type FileResult, isSuccess, type MergedTest, mergeRanks, summary } from "../results/merge.ts";
import { installCpu } from "../native/install.ts";
import { jobName } from "../results/reports.ts";
import { probeLauncher } from "../launch/probe.ts";
import { runTree, type TreeOptions, type TreeResult } from "../launch/process_tree.ts";
import { StepLimit } from "../launch/step_limit.ts";
import { TapReader } from "../results/tap.ts";
import {
  CommandError,
  jobProgress,
  oneLine,
  parseCommand,
  parseCount,
  scriptAddress,
  style,
  withoutColors,
} from "../terminal.ts";
import { taskCommand } from "../../internals.ts";

const help = `Run every test that this machine can run: formatting, lint, types, documentation; unit tests;
cluster tests under every MPI that is found (also below the prefixes in DISTMATH_TEST_PREFIXES, separated by colons);
system tests: how jobs end, the examples, the commands. Installs Open MPI and MKL first where native install can. The last line is "N passed, N failed".

Usage: test [options] [PARTS…]

PARTS are some of: check unit cluster system (all of them when none is named).

  --filter TEXT   cluster tests only of files whose name contains it
  --retries N     run what failed again when all else is done, up to N times, and tell what passes only then
`;

const parts = ["check", "unit", "cluster", "system"] as const;

/**
 * Numbers of ranks: all under the best MPI; under the others those that show what differs between MPIs, which is the
 * runtime rather than arithmetic.
 */
const rankCounts = { best: [1, 2, 3, 4], runtime: [2, 3], newest: [4], older: [2] } as const;

/** Cluster tests that show on 3 ranks what they do on more, and take long. */
const smallTests = /\/(collective_arguments|lifetimes|quantization|registered_engine)_test\.ts$/;

const clusterSeconds = 180;
const checkSeconds = 600;

/** A test of a file without ranks of its own takes less; what tests start is ended after as long. */
const testSeconds = 600;

/** Something that is run, and named while it is. */
interface Job {
  readonly name: string;
  /** How many cores it keeps busy, in eighths at the finest; those of the machine if that is fewer. */
  readonly cores: number;
  /** Run it: all of its tests, or those that a filter, as `deno test --filter` takes it, lets through. */
  readonly run: (filter?: string) => Promise<FileResult>;
}

/** An MPI to test under, and the variables that choose its libraries. */
interface Stack {
  launcher: Launcher;
  name: string;
  env: Record<string, string>;
  /** Whether it can run all tests; without ScaLAPACK, only those of the runtime. */
  canMultiply: boolean;
  /** Whether it has a library for transforms; without, those of `fft` are left out. */
  canTransform: boolean;
}

/** Cluster tests that need no ScaLAPACK. */
const runtimeTests = /\/(communicator|agreement|initialize)_test\.ts$/;

/** Cluster tests that need a library for transforms. */
const transformTests = /\/(fft\w*|collective_arguments)_test\.ts$/;

/** Cluster tests of what lies above every MPI: under the best MPI alone. */
const arithmeticTests = new RegExp(
  `/(${
    "elements elementwise empty epilog fft_numpy fft_sweep matmul_misuse nulls quantization reductions registered_engine shaping"
      .replaceAll(" ", "|")
  })_test\\.ts$`,
);

/** What the tests import is what it was: the packages' hashes are in the repository. */
const locked = ["--lock=tests/deno.lock", "--frozen"];

/** What the package exports, with all that its documentation refers to, but for `ffi/mod.ts`, of which a test asks less. */
const entryPoints = ["mod.ts", "scripts/main.ts", "internals.ts", "src/testing/mod.ts"];

/** The checks of the repository, each one a test. */
const checks: readonly (readonly [name: string, args: readonly string[]])[] = [
  ["formatting", ["fmt", "--check", "--quiet"]],
  ["lint, with the layering rule", ["lint", "--quiet"]],
  ["types", ["check", "--quiet", ...locked]],
  ["types of the examples in the documentation", ["check", "--quiet", "--doc", ...entryPoints, "ffi/mod.ts"]],
  ["documentation of the public API", ["doc", "--lint", ...entryPoints]],
  ["no slow types, nor other warnings", ["publish", "--dry-run", "--allow-dirty"]],
];

const root = () => scriptAddress("..").replace(/\/$/, "");

/** Run Deno in the repository, and end all that it starts if it takes too long. */
async function runDeno(args: string[], options: TreeOptions): Promise<TreeResult> {
  const line = { command: Deno.execPath(), args, env: { ...withoutColors, INIT_CWD: root() } };
  const result = await runTree(line, { ...options, cwd: root() });
  if (result.isInterrupted) throw new CommandError("interrupted", result.code);
  return result;
}

function resultOf(name: string, isGood: boolean, details: string): MergedTest {
  return { name, outcome: isGood ? "passed" : "failed", failedRanks: [], details: isGood ? "" : details };
}

async function timed(file: string, ranks: number, run: () => Promise<MergedTest[]>): Promise<FileResult> {
  const started = performance.now();
  const tests = await run();
  return { file, ranks, tests, seconds: (performance.now() - started) / 1000 };
}

async function runChecks(): Promise<FileResult> {
  return await timed("checks", 1, () =>
    Promise.all(checks.map(async ([name, args]) => {
      const output: string[] = [];
      const onLine: TreeOptions["onLine"] = (_, line) => output.push(line);
      const { code, isTimedOut } = await runDeno([...args], { timeoutSeconds: checkSeconds, onLine });
      const ended = isTimedOut ? [`it did not end within ${checkSeconds} s`] : [];
      const isGood = code === 0 && !output.some((line) => /^warning\b/i.test(line));
      return resultOf(name, isGood, [...output, ...ended].join("\n"));
    })));
}

/** Test files below a folder of the repository; those in fixtures/ belong to other tests. */
function testFiles(folder: string): string[] {
  const found: string[] = [];
  try {
    for (const entry of Deno.readDirSync(join(root(), folder))) {
      const path = join(folder, entry.name);
      if (entry.isDirectory && entry.name !== "fixtures") found.push(...testFiles(path));
      else if (entry.name.endsWith("_test.ts")) found.push(path);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return found.sort();
}

/** Tests that take long, the longest first. */
const longTests =
  "hosts documents ends_job leaves unseen_waits time_limits untold_waits cluster_command command run mock_gpu mock_cublasmp mismatched no_memory permissions test_limits url cluster_test gpu_command soak examples tile_kernels"
    .split(" ");

/** Tests that keep a core busy: the others wait for jobs, whose ranks wait for each other. */
const busyTests = new Set(
  "commands demo doc_examples documents examples gpu_command leaks matmul mock_cublasmp mock_gpu mock_memory native no_memory offline peers programs soak tile_kernels url"
    .split(" "),
);

const testName = (file: string) => basename(file, "_test.ts");

/** Five that wait beside each other keep two cores busy. */
const coresFor = (file: string) => busyTests.has(testName(file)) ? 1 : 0.375;

/**
 * The order of test files: the longest first, which would else go on alone when all others are done, and those that keep
 * cores busy after those that wait, since ranks that wait spin, which slows others down.
 */
function inGoodOrder(files: readonly string[]): string[] {
  const place = (file: string) => {
    const found = longTests.indexOf(testName(file));
    return found < 0 ? longTests.length : found;
  };
  const sorted = files.toSorted((one, other) => place(one) - place(other));
  return sorted.toSorted((one, other) => coresFor(one) - coresFor(other));
}

/** Run test files in one ordinary process. */
async function runPlain(name: string, files: readonly string[], filter?: string): Promise<FileResult> {
  return await timed(name, 1, async () => {
    const reader = new TapReader(() => performance.now());
    using limit = new StepLimit(testSeconds);
    const preload = `--preload=${scriptAddress("results/test_output.ts")}`;
    const flags = filter === undefined ? [] : ["--filter", filter];
    const { code, isTimedOut, ownSignal: signal } = await runDeno(
      ["test", "-A", "--no-check", ...locked, "--reporter=tap", preload, ...flags, ...files],
      {
        signal: limit.signal,
        onLine(stream, line) {
          const { steps } = reader;
          reader.push(line, stream);
          if (reader.steps > steps) limit.restart(testSeconds);
        },
      },
    );
    return mergeRanks([reader], { code, isTimedOut, testSeconds, signal, output: [], filter });
  });
}

/** The launchers to test under, best first. */
async function launchersToTest(): Promise<Launcher[]> {
  const prefixes = (Deno.env.get("DISTMATH_TEST_PREFIXES") ?? "").split(":").filter(Boolean);
  const extra = await Promise.all(
    prefixes.map((prefix) => identifyLauncher({ path: join(prefix, "bin/mpirun"), source: "DISTMATH_TEST_PREFIXES" })),
  );
  return [...await findLaunchers(), ...extra.filter((launcher) => typeof launcher !== "string")];
}

/** A launcher's MPI with the first of these settings under which it has a ScaLAPACK that works. */
async function findStack(launcher: Launcher, settings: readonly Record<string, string>[]): Promise<Stack | null> {
  let reason = "";
  for (const env of settings) {
    const { canMultiply, libraries, error, transformError } = await probeLauncher(launcher, env);
    const scalapack = libraries.find(({ name }) => name === "ScaLAPACK")?.version ?? "";
    const name = `${describeLauncher(launcher)}, ${scalapack}`;
    const canTransform = transformError === null;
    if (canMultiply && !canTransform) {
      console.log(`${style("yellow", "left out")}: fft with ${name}: ${oneLine(transformError)}`);
    }
    if (canMultiply) return { launcher, env, name, canMultiply, canTransform };
    reason = error ?? "";
  }
  console.log(`${style("yellow", "left out")}: ${describeLauncher(launcher)}: ${oneLine(reason)}`);
  return null;
}

/** MPICH 5 has a second library beside its own: MPI's standard ABI. */
function standardAbi({ launcher }: Stack): Stack[] {
  const library = join(dirname(dirname(launcher.path)), "lib/libmpi_abi.so.1");
  try {
    Deno.statSync(library);
  } catch {
    return [];
  }
  const name = `${describeLauncher(launcher)}, its standard ABI, without ScaLAPACK`;
  return [{ launcher, name, env: { DISTMATH_MPI: library }, canMultiply: false, canTransform: false }];
}

/** Every MPI to test under, best first, with the ScaLAPACK that comes with it where there is one. */
async function findStacks(): Promise<Stack[]> {
  const stacks: Stack[] = [];
  for (const launcher of await launchersToTest()) {
    // A system's MPI is tested with the system's ScaLAPACK; if it has none, with that of native install.
    const system = { DISTMATH_NATIVE: "/nonexistent", DISTMATH_LIBRARY_PATH: "" };
    const stack = await findStack(launcher, launcher.source === "PATH" ? [system, {}] : [{}]);
    if (stack) stacks.push(stack, ...standardAbi(stack));
  }
  return stacks;
}

function ranksFor(file: string, stack: Stack, stacks: readonly Stack[]): readonly number[] {
  const counts = stack === stacks[0]
    ? rankCounts.best
    : arithmeticTests.test(file)
    ? []
    : rankCounts[runtimeTests.test(file) ? "runtime" : isNewest(stack, stacks) ? "newest" : "older"];
  const most = canShareCores(stack.launcher) ? Infinity : Math.max(2, navigator.hardwareConcurrency);
  return [...new Set(counts.map((ranks) => Math.min(ranks, most, smallTests.test(file) ? 3 : Infinity)))];
}

/** Whether a stack has the newest MPI of its family. */
function isNewest({ launcher, canMultiply }: Stack, stacks: readonly Stack[]): boolean {
  const release = (version: string) => Number.parseFloat(version);
  return canMultiply &&
    !stacks.some(({ launcher: other }) =>
      other.kind === launcher.kind && release(other.version) > release(launcher.version)
    );
}

async function runClusterTest(
  { launcher, env }: Stack,
  file: string,
  ranks: number,
  filter?: string,
): Promise<FileResult> {
  const settings = { timeoutSeconds: clusterSeconds, env, filter, cwd: root() };
  const result = await runTestFile(launcher, join(root(), file), ranks, settings);
  const abi = env.DISTMATH_MPI ? ", standard ABI" : "";
  return { ...result, file: `${file}, ${launcher.kind} ${launcher.version}${abi}` };
}

/** A job, and what came of it. */
interface Done {
  readonly job: Job;
  readonly result: FileResult;
}

/** Run jobs side by side, each time the first for which there are cores, and print each result when it is there. */
async function runSideBySide(jobs: readonly Job[]): Promise<Done[]> {
  const cores = navigator.hardwareConcurrency;
  const results: Done[] = [];
  const progress = jobProgress(jobs.length);
  const running = new Set<Promise<void>>();
  const waiting = [...jobs];
  let free = cores;
  while (waiting.length > 0) {
    const next = waiting.findIndex((job) => Math.min(job.cores, cores) <= free);
    if (next < 0) {
      await Promise.race(running);
      continue;
    }
    const [job] = waiting.splice(next, 1);
    const needed = Math.min(job.cores, cores);
    free -= needed;
    progress.update(job.name, results.length);
    const run = job.run().then((result) => {
      free += needed;
      running.delete(run);
      progress.end();
      printFile(result, { isBrief: true });
      results.push({ job, result });
    });
    running.add(run);
  }
  await Promise.all(running);
  progress.end();
  return results;
}

/** Run jobs, and what went wrong again when all else is done, with the machine to itself. */
async function runWithRetries(jobs: readonly Job[], retries: number): Promise<FileResult[]> {
  const done = await runSideBySide(jobs);
  for (let attempts = 2; attempts <= retries + 1; attempts++) {
    for (const [i, { job, result }] of done.entries()) {
      if (!result.tests.some(hasGoneWrong)) continue;
      const again = await job.run(filterOfFailed(result.tests));
      printFile(again, { isBrief: true, heading: `, attempt ${attempts}` });
      done[i] = { job, result: withAttempt(result, again, attempts) };
    }
  }
  return done.map(({ result }) => result);
}

/** Names tests below a heading, where there are any. */
function list(heading: string, results: readonly FileResult[], isNamed: (test: MergedTest) => boolean): void {
  const lines = results.flatMap(({ file, ranks, tests }) =>
    tests.filter(isNamed).map(({ name, outcome }) =>
      `  ${file} on ${ranks}: ${name}${outcome === "not run" ? " (not run)" : ""}`
    )
  );
  if (lines.length > 0) console.log(`\n${heading}:\n${lines.join("\n")}`);
}

/** Print why tests were skipped: what a machine lacks is among it. */
function listReasons(skipped: readonly MergedTest[]): void {
  const lines = [...Map.groupBy(skipped, ({ details }) => details)].map(([reason, { length }]) =>
    `  ${length} ${length === 1 ? "test" : "tests"}: ${reason}`
  );
  if (lines.length > 0) console.log(`\n${style("yellow", "skipped")}:\n${lines.sort().join("\n")}`);
}

/** So many are named, since the whole is to stay short. */
const SLOWEST = 20;

/** Print which tests took longest. */
function listSlowest(results: readonly FileResult[]): void {
  const lines = results.flatMap(({ file, ranks, tests }) =>
    tests.map(({ name, seconds = 0 }) => ({ seconds, text: `${file} on ${ranks}: ${name}` }))
  ).filter(({ seconds }) => seconds >= 1).sort((one, other) => other.seconds - one.seconds).slice(0, SLOWEST)
    .map(({ seconds, text }) => `  ${seconds.toFixed(1).padStart(5)} s  ${text}`);
  if (lines.length > 0) console.log(`\ntook longest:\n${lines.join("\n")}`);
}

/** A stack's jobs with cluster tests; those with few ranks first, as they fit beside each other. */
function clusterJobs(stack: Stack, stacks: readonly Stack[], filter: string): Job[] {
  const files = testFiles("tests/cluster").filter((file) =>
    file.includes(filter) && (stack.canMultiply || runtimeTests.test(file)) &&
    (stack.canTransform || !transformTests.test(file))
  );
  return files.flatMap((file) =>
    ranksFor(file, stack, stacks).map((ranks): Job => ({
      name: `${jobName({ file, ranks })}, ${stack.name}`,
      cores: ranks,
      run: (filter) => runClusterTest(stack, file, ranks, filter),
    }))
  ).sort((a, b) => a.cores - b.cores);
}

/** Get an MPI with ScaLAPACK if there is none: that of native install, which is tested wherever it can be installed. */
async function setUp(): Promise<void> {
  try {
    await installCpu();
  } catch (error) {
    if (!(error instanceof CommandError) || (await findLaunchers()).length === 0) throw error;
    console.log(`${style("yellow", "left out")}: ${oneLine(error)}`);
  }
}

export async function test(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, {
    filter: { type: "string", default: "" },
    retries: { type: "string", default: "0" },
  }, help);
  const unknown = positionals.find((name) => !(parts as readonly string[]).includes(name));
  if (unknown !== undefined) throw new CommandError(`test has no part "${unknown}"; there are ${parts.join(", ")}`);
  const retries = parseCount(values.retries, "--retries", 0);
  const wants = (part: (typeof parts)[number]) => positionals.length === 0 || positionals.includes(part);
  if (!root().startsWith("/")) throw new CommandError("the tests are in the repository: clone it, and run them there");

  const jobs: Job[] = [];
  if (wants("system") || wants("cluster")) await setUp();
  if (wants("unit")) {
    for (const name of ["tests/unit", "tests/abi"]) {
      jobs.push({ name, cores: 1, run: (filter) => runPlain(name, testFiles(name), filter) });
    }
  }
  if (wants("check")) jobs.push({ name: "checks", cores: 1, run: runChecks });
  if (wants("cluster")) {
    const stacks = await findStacks();
    if (stacks.length === 0) {
      throw new CommandError(`no MPI here has a ScaLAPACK that works; see ${taskCommand("doctor")}`, 1);
    }
    console.log(`tested under:\n${stacks.map(({ name }) => `  ${name}`).join("\n")}`);
    jobs.push(...stacks.flatMap((stack) => clusterJobs(stack, stacks, values.filter)));
  }
  if (wants("system")) {
    for (const file of inGoodOrder(["tests/faults", "tests/system"].flatMap(testFiles))) {
      jobs.push({ name: file, cores: coresFor(file), run: (filter) => runPlain(file, [file], filter) });
    }
  }
  const results = await runWithRetries(jobs, retries);

  list(style("red", "failed"), results, hasGoneWrong);
  const isLate = ({ outcome, details }: MergedTest) => outcome === "passed" && details !== "";
  list(style("yellow", "failed at first, and passed when run again"), results, isLate);
  listSlowest(results);
  const tests = results.flatMap(({ tests }) => tests);
  listReasons(tests.filter(({ outcome }) => outcome === "skipped"));
  const counts = count(tests);
  console.log(`\n${summary(counts)}`);
  return isSuccess(counts) ? 0 : 1;
}
