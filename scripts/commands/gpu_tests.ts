/**
 * `test:gpu`: the tests and the examples on GPUs, one rank a GPU, and a record of what they said.
 *
 * @module
 */
import { roomOnGpus } from "../../internals.ts";
import { Device } from "../../mod.ts";
import { runFiltered } from "../launch/job_output.ts";
import { printFile, runTestFile } from "./cluster_tests.ts";
import { type GpuProbe, marker } from "./gpu_tests_rank.ts";
import { type GpuRun, readRecord, type RecordHead, runOf, writeRecord } from "../results/gpu_record.ts";
import { denoRun } from "../launch/job.ts";
import { describeLauncher, findLauncher, type Launcher } from "../launch/launcher.ts";
import { count, type FileResult, isSuccess, type MergedTest, summary } from "../results/merge.ts";
import {
  checkWritable,
  CommandError,
  type Options,
  parseCommand,
  parseCount,
  parseSeconds,
  scriptAddress,
  userPath,
  withoutColors,
} from "../terminal.ts";

const help =
  `Run the tests on GPUs, one rank a GPU: those of GPUs alone, the cluster tests on device arrays, the examples.

Usage: test:gpu [options] [FILES…]

FILES are paths in the repository, such as tests/gpu/arrays_test.ts; everything when none is named. Each file is one
job. One that dies or takes too long has failed, and the others still run.

  -n, --ranks N      number of ranks, and of GPUs (1)
  --timeout SECONDS  time limit of a file (300)
  --json FILE        write the record: machine, versions, and for each file what passed, failed and was skipped. Runs
                     of the same file on as many GPUs are replaced, others that FILE has are kept
  --commit TEXT      the commit to record, where git cannot tell it
  --cached-only      the ranks load packages from Deno's cache only (DENO_DIR names it)
  --mpirun PATH      the launcher to use (also DISTMATH_MPIRUN)
`;

const options = {
  ranks: { type: "string", short: "n", default: "1" },
  timeout: { type: "string", default: "300" },
  json: { type: "string" },
  commit: { type: "string" },
  "cached-only": { type: "boolean", default: false },
  mpirun: { type: "string" },
} as const satisfies Options;

/** Cluster tests that have nothing to do on GPUs. */
const leftOut: Readonly<Record<string, string>> = {
  "tests/cluster/communicator_calls_test.ts": "MPI between processes: no arrays",
  "tests/cluster/communicator_test.ts": "MPI between processes: no arrays",
  "tests/cluster/distribution_test.ts": "index maps: no arrays",
  "tests/cluster/engine_test.ts": "the ways that the CPUs' engine has",
  "tests/cluster/large_messages_test.ts": "messages of MPI, from hosts",
  "tests/cluster/lost_memory_test.ts": "buffers of the host",
  "tests/cluster/registered_engine_test.ts": "an engine of plain loops, for CPUs",
};

/** Tests that ask for what only the CPUs' engine has, in files that run on GPUs otherwise. */
const onCpusOnly: Readonly<Record<string, readonly string[]>> = {
  "tests/cluster/collective_arguments_test.ts": ["agree succeeds or fails alike on all ranks"],
  "tests/cluster/initialize_test.ts": ["a runtime knows its ranks, its machine and its device"],
  "tests/cluster/matmul_test.ts": ["one call of matmul agrees once, its steps apart one time each"],
  "tests/cluster/matmul_misuse_test.ts": [
    "misuse: an engine for GPUs",
    "misuse: an algorithm for GPUs",
    "misuse: a stream",
    "ranks differ: algorithm",
    "ranks differ: engine",
    "misuse: an algorithm that cannot run the product",
    "ranks differ: one has no ScaLAPACK",
    "ranks differ: one has another ScaLAPACK",
    "a logger that throws on one rank leaves no rank waiting",
  ],
};

/** A folder of the repository, which the package lacks. */
function namesIn(folder: string, end: string): string[] {
  const path = scriptAddress(`../${folder}`);
  try {
    return [...Deno.readDirSync(path)].map(({ name }) => `${folder}/${name}`).filter((name) => name.endsWith(end))
      .sort();
  } catch {
    throw new CommandError(`${folder} is in the repository, not in the package: clone it, and run the task there`);
  }
}

/** All that runs on GPUs, by path in the repository. */
function everything(): string[] {
  const shared = namesIn("tests/cluster", "_test.ts").filter((file) => !(file in leftOut));
  return [...namesIn("tests/gpu", "_test.ts"), ...shared, ...namesIn("examples", ".ts")];
}

/** How files are run. */
interface Settings {
  readonly launcher: Launcher;
  readonly ranks: number;
  readonly timeoutSeconds: number;
  readonly denoFlags: readonly string[];
}

/** Run a script on all GPUs; returns how the job ended and what each rank printed. */
async function runScript(path: string, { launcher, ranks, timeoutSeconds, denoFlags }: Settings) {
  const lines: string[] = [];
  const take = (line: string, rank: number | null) => {
    if (rank !== null) lines.push(ranks === 1 ? line : `[rank ${rank}] ${line}`);
    else if (line.trim() !== "") lines.push(line);
  };
  const job = await runFiltered(launcher, {
    ranks,
    timeoutSeconds,
    tag: true,
    env: withoutColors,
    program: denoRun(path, [], denoFlags),
    onLine: (_stream, line, _isComplete, rank) => take(line.toWellFormed(), rank),
  });
  if (job.isInterrupted) throw new CommandError("interrupted", job.code);
  return { ...job, lines };
}

async function runExample(file: string, settings: Settings): Promise<FileResult> {
  const { code, isTimedOut, seconds, lines, signal } = await runScript(scriptAddress(`../${file}`), settings);
  const end = isTimedOut
    ? `it did not end within ${settings.timeoutSeconds} s`
    : signal ?? `it ended with exit code ${code}`;
  const details = code === 0 ? "" : [end, ...lines].join("\n");
  const test: MergedTest = { name: "runs", outcome: code === 0 ? "passed" : "failed", failedRanks: [], details };
  return { file, ranks: settings.ranks, tests: [test], seconds };
}

/** What a test that is for CPUs says on GPUs does not count. */
function withoutCpus(file: string, tests: readonly MergedTest[]): MergedTest[] {
  const names = onCpusOnly[file] ?? [];
  return tests.map((test) =>
    names.includes(test.name) ? { name: test.name, outcome: "skipped", failedRanks: [], details: "on CPUs only" } : test
  );
}

async function runTests(file: string, settings: Settings): Promise<FileResult> {
  const { launcher, ranks, timeoutSeconds, denoFlags } = settings;
  const result = await runTestFile(launcher, scriptAddress(`../${file}`), ranks, {
    timeoutSeconds,
    denoFlags,
    cwd: scriptAddress(".."),
  });
  return { ...result, file, tests: withoutCpus(file, result.tests) };
}

async function runFile(file: string, settings: Settings): Promise<FileResult> {
  return await (file.endsWith("_test.ts") ? runTests : runExample)(file, settings);
}

const lookSeconds = 120;

/** What the machine has; ends the command if its GPUs cannot even multiply. */
async function look(settings: Settings): Promise<GpuProbe> {
  const script = scriptAddress("commands/gpu_tests_rank.ts");
  const { code, lines } = await runScript(script, { ...settings, timeoutSeconds: lookSeconds });
  const line = lines.find((line) => line.includes(marker));
  if (code === 0 && line) return JSON.parse(line.slice(line.indexOf(marker) + marker.length));
  throw new CommandError(`a small product on ${settings.ranks} GPUs failed:\n${lines.join("\n")}`, 1);
}

/** What a program prints, or null if it cannot be run. */
async function outputOf(program: string, ...args: string[]): Promise<string | null> {
  try {
    const command = new Deno.Command(program, { args, cwd: scriptAddress(".."), stdin: "null", stderr: "null" });
    const { success, stdout } = await command.output();
    return success ? new TextDecoder().decode(stdout).trim() : null;
  } catch {
    return null;
  }
}

/** The commit of the repository, with a remark if files differ from it. */
async function commitOf(given: string | undefined): Promise<string> {
  if (given !== undefined) return given;
  const commit = await outputOf("git", "rev-parse", "--short", "HEAD");
  if (commit === null) return "unknown";
  return await outputOf("git", "status", "--porcelain") === "" ? commit : `${commit} with changes`;
}

async function headOf({ gpus, versions }: GpuProbe, ranks: number): Promise<RecordHead> {
  const driver = await outputOf("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader");
  const count = Device.count();
  const names = [...new Set(gpus)].join(", ") + (count < ranks ? ` (${count}, shared by ${ranks} ranks)` : "");
  return {
    machine: `${names}, ${navigator.hardwareConcurrency} cores`,
    driver: driver?.split("\n")[0] ?? "unknown",
    versions,
  };
}

/** The files to run, in the order of {@linkcode everything}. */
function chosenFiles(named: readonly string[]): string[] {
  const all = everything();
  const files = named.map((name) =>
    all.find((file) => file === name || userPath(name) === scriptAddress(`../${file}`))
  );
  const unknown = named.find((_, i) => files[i] === undefined);
  if (unknown === undefined) return files.length === 0 ? all : all.filter((file) => files.includes(file));
  const reason = leftOut[unknown];
  throw new CommandError(
    reason ? `${unknown} does not run on GPUs: ${reason}` : `${unknown} is none of the files:\n${all.join("\n")}`,
  );
}

/** `test:gpu`: the tests on GPUs; says why there is nothing to run on a machine without one. */
export async function gpuTests(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, options, help);
  const ranks = parseCount(values.ranks, "--ranks");
  const timeoutSeconds = parseSeconds(values.timeout, "--timeout");
  const files = chosenFiles(positionals);
  const path = values.json === undefined ? null : userPath(values.json);
  if (path !== null) checkWritable(path, "--json");
  if (roomOnGpus() < ranks) {
    const found = Device.count();
    console.log(`skipped: the tests on ${ranks} GPUs need as many, and this machine has ${found} that CUDA can use`);
    return 0;
  }
  const launcher = await findLauncher(values.mpirun);
  const denoFlags = values["cached-only"] ? ["--cached-only"] : [];
  const settings: Settings = { launcher, ranks, timeoutSeconds, denoFlags };
  const probe = await look(settings);
  console.log(`${describeLauncher(launcher)}; ${ranks} x ${probe.gpus[0]}`);
  const head = await headOf(probe, ranks);
  const runs: GpuRun[] = path === null ? [] : readRecord(path, head);
  const made = { date: new Date().toISOString().slice(0, 10), commit: await commitOf(values.commit) };
  const results: FileResult[] = [];
  for (const file of files) {
    const result = await runFile(file, settings);
    printFile(result, { isBrief: true });
    results.push(result);
    if (path !== null) writeRecord(path, head, runs, runOf(result, made), leftOut);
  }
  const counts = count(results.flatMap(({ tests }) => tests));
  console.log(`\n${summary(counts)}`);
  return isSuccess(counts) ? 0 : 1;
}
