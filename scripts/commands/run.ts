/**
 * `run`: start a script on several ranks.
 *
 * @module
 */
import { basename } from "node:path";
import { batchFile, type BatchJob, type BatchSystem, batchSystems } from "../launch/batch_file.ts";
import { denoFlagsWithValue, splitDenoFlags } from "../launch/deno_flags.ts";
import { denoRun, denoTest, perRank } from "../launch/job.ts";
import { commandLine, findLauncher, type Launcher } from "../launch/launcher.ts";
import { localModules, nextChange, warmCache } from "../launch/modules.ts";
import { parsePlace, parseRanks, placeHelp, placeOptions } from "../launch/job_place.ts";
import { clearProfiles, profileFlags, writeMergedProfile } from "../launch/profile.ts";
import { quote } from "../launch/shell.ts";
import { runVisibly, type VisibleJob } from "../launch/visible_job.ts";
import {
  checkWritable,
  CommandError,
  type Options,
  parseCommand,
  scriptAddress,
  splitAtPositional,
  userFolder,
  userPath,
  writeText,
} from "../terminal.ts";

const help = `Start a script on several ranks.

Usage: run [options] SCRIPT [arguments of the script]

SCRIPT is a file or a URL, and runs in the folder where you are. A file that ends in _test.ts is started with
"deno test", all others with "deno run". Flags of Deno, such as --allow-ffi or --config, are passed on; -A is one of
them unless others say what is permitted.
The launcher is the mpirun that belongs to the MPI in use, or in an allocation of Slurm's srun; its own text about a job
that failed is left out. Inside an allocation of Slurm, PBS or an MPIJob the ranks start on its hosts.
Of ranks that wait for each other for more than 10 seconds is told in which calls they are; the job goes on.
Ranks use colours if the output goes to a terminal, or FORCE_COLOR is set.

  -n, --ranks N      number of ranks (1; the slots of the hosts, or of the allocation)
${placeHelp}
  --cpu              compute on CPUs, though there are GPUs
  --gpus 0,2         the GPUs of each host to compute on, by number
  --env NAME=VALUE   set a variable on the ranks; NAME alone takes its value here; can be repeated
  --timeout SECONDS  end the job after this time; the exit code is then 124
  --tag-output       begin each line with the rank that wrote it
  --inspect RANK     have this rank wait for a debugger, at 127.0.0.1:9229
  --profile FOLDER   write a CPU profile of each rank, and trace.json with all of them side by side
  --watch            start the job again when a file of the script has changed
  --dry-run          print the command instead of running it
  --sbatch FILE      write a job file for Slurm instead; "-" prints it
  --pbs FILE         write one for PBS
  --mpijob FILE      write one for Kubeflow's MPI operator; there, and in the two above, a host gets as many GPUs as
                     --gpus lists: 0,1,2,3 for four
  --image NAME       the container image of an MPIJob (distmath, as Containerfile makes it, with distmath in /distmath)
  --mpirun PATH      the launcher to use (also DISTMATH_MPIRUN)
`;

const options = {
  ranks: { type: "string", short: "n" },
  ...placeOptions,
  cpu: { type: "boolean", default: false },
  gpus: { type: "string" },
  env: { type: "string", multiple: true, default: [] },
  "tag-output": { type: "boolean", default: false },
  inspect: { type: "string" },
  profile: { type: "string" },
  watch: { type: "boolean", default: false },
  "dry-run": { type: "boolean", default: false },
  sbatch: { type: "string" },
  pbs: { type: "string" },
  mpijob: { type: "string" },
  image: { type: "string" },
  mpirun: { type: "string" },
} as const satisfies Options;

const isTest = (script: string) => /_test\.[cm]?[jt]sx?$/.test(script);

/** The program that starts a script, or a test file, on a rank. */
export function startScript(script: string, args: readonly string[], flags: readonly string[] = []): string[] {
  return isTest(script) ? denoTest(script, args, flags) : denoRun(script, args, flags);
}

/** The address of a script that the user named: a URL as it is, or the path of a file that exists. */
export function scriptOfUser(name: string): string {
  if (/^(https?|file|jsr|npm):/.test(name)) return name;
  const path = userPath(name);
  try {
    if (Deno.statSync(path).isFile) return path;
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    if (name === "-") throw new CommandError(`a script is a file or a URL, not "-": write it to a file, and name that`);
    throw new CommandError(`there is no file ${path}`);
  }
  throw new CommandError(`${path} is no file`);
}

/** The variables that `--env`, `--cpu` and `--gpus` set. */
function parseVariables(
  { env, cpu, gpus }: { env: readonly string[]; cpu: boolean; gpus?: string | undefined },
  environment: Record<string, string> = Deno.env.toObject(),
): Record<string, string> {
  if (cpu && gpus !== undefined) throw new CommandError("take --cpu or --gpus, not both");
  const numbers = gpus?.split(",") ?? [];
  if (numbers.some((number) => !/^\d+$/.test(number)) || new Set(numbers.map(Number)).size < numbers.length) {
    throw new CommandError(`--gpus takes numbers of GPUs such as 0,2, each once, not "${gpus}"`);
  }
  const variables: Record<string, string> = {};
  if (cpu) variables.DISTMATH_DEVICE = "cpu";
  if (gpus !== undefined) variables.CUDA_VISIBLE_DEVICES = gpus;
  for (const text of env) {
    const [, name, value] = /^([A-Za-z_]\w*)(?:=(.*))?$/s.exec(text) ?? [];
    if (name === undefined) throw new CommandError(`--env takes NAME=VALUE or NAME, not "${text}"`);
    if (value === undefined && environment[name] === undefined) {
      throw new CommandError(`--env ${name}: there is no variable of this name here; --env ${name}=VALUE gives it one`);
    }
    if (Object.hasOwn(variables, name)) {
      throw new CommandError(`--env ${text}: another option gives ${name} a value; leave out one`);
    }
    variables[name] = value ?? environment[name];
  }
  return variables;
}

/** Refuse options that contradict each other, or that a job file cannot carry. */
function checkTogether(values: RunValues): void {
  const [file, other] = batchSystems.filter((name) => values[name] !== undefined);
  if (other !== undefined) throw new CommandError(`take --${file} or --${other}, not both`);
  const now = (["inspect", "watch", "dry-run"] as const).find((name) => values[name] !== undefined && values[name]);
  if (file !== undefined && now) throw new CommandError(`--${now} is for a job that starts now: leave out --${file}`);
  if (values.image !== undefined && file !== "mpijob") throw new CommandError("--image is for --mpijob alone");
  if (values.watch && values.profile !== undefined) throw new CommandError("take --watch or --profile, not both");
}

/** The rank that `--inspect` names. */
function parseRank(text: string, ranks: number): number {
  const rank = Number(text);
  if (/^\d+$/.test(text) && rank < ranks) return rank;
  throw new CommandError(`--inspect takes a rank from 0 to ${ranks - 1}, not "${text}"`);
}

/** The command that starts a job, as a shell takes it. */
function describeCommand(launcher: Launcher, job: VisibleJob): string {
  const { command, args, env } = commandLine(launcher, job);
  const variables = Object.entries(env).map(([name, value]) => `${name}=${quote(value)}`);
  return ["env", ...variables, ...[command, ...args].map(quote)].join(" ");
}

/** Run a job again and again, whenever a file of its script has changed, until it is interrupted. */
async function runWatched(
  launcher: Launcher,
  job: VisibleJob,
  script: string,
  flags: readonly string[],
): Promise<number> {
  while (true) {
    const files = await localModules(script, flags, userPath("."));
    const ended = new AbortController();
    using change = nextChange(files, () => ended.abort());
    const { isInterrupted, code } = await runVisibly(launcher, { ...job, signal: ended.signal });
    if (isInterrupted) return code;
    if (!ended.signal.aborted) console.error(`the job ended with exit code ${code}; it starts again after a change`);
    await change.happened;
    console.error("a file has changed; the job starts again");
  }
}

/** What remains of the options in a job file: how the ranks run, not where; the batch system chooses GPUs, too. */
function argumentsOf(values: RunValues, flags: readonly string[]): string[] {
  const variables = Object.entries(parseVariables({ env: values.env, cpu: false }));
  return [
    ...values.cpu ? ["--cpu"] : [],
    ...variables.flatMap(([name, value]) => ["--env", `${name}=${value}`]),
    ...values["tag-output"] ? ["--tag-output"] : [],
    ...values.profile === undefined ? [] : [`--profile=${values.profile}`],
    ...values.mpirun === undefined ? [] : [`--mpirun=${values.mpirun}`],
    ...flags,
  ];
}

/** Where the image that `Containerfile` makes has this library. */
const IMAGE_FOLDER = "/distmath/";

/** Where this library is. */
const ownFolder = () => scriptAddress("main.ts").replace(/scripts\/main\.ts$/, "");

/** A path of this library as the image has it; other paths and URLs as they are. */
function inImage(path: string): string {
  const own = ownFolder();
  return `${path}/`.startsWith(own) ? (IMAGE_FOLDER + path.slice(own.length)).replace(/\/$/, "") : path;
}

/** Tell of a script that the image has only if somebody puts it there. */
function warnOfOutside(script: string, image: string): void {
  if (/^(https?|jsr|npm):/.test(script) || script.startsWith(ownFolder())) return;
  console.error(`warning: ${script} is not of distmath's folder: the image ${image} must have it at that path`);
}

/** Write the job file that an option asks for. */
function writeBatchFile(
  system: BatchSystem,
  file: string,
  script: string,
  job: Omit<BatchJob, "name" | "folder">,
): void {
  const name = basename(script).replace(/\.[cm]?[jt]sx?$/, "").replaceAll(/[^\w.-]/g, "-").replace(
    /^[^A-Za-z]/,
    "job-$&",
  );
  if (system === "mpijob") warnOfOutside(script, job.image);
  const place = system === "mpijob" ? inImage : (path: string) => path;
  const text = batchFile(system, { ...job, name, folder: place(userPath(".")), command: job.command.map(place) });
  if (file === "-") return console.log(text.trimEnd());
  const path = userPath(file);
  checkWritable(path, `--${system}`);
  writeText(path, text);
  const start = { sbatch: "sbatch", pbs: "qsub", mpijob: "kubectl create -f" }[system];
  console.log(`wrote ${path}; to start it: ${start} ${quote(file)}`);
}

type RunValues = ReturnType<typeof parseCommand<typeof options>>["values"];

/** Run the job as the options have it; profiles go into the folder, where there is one. */
async function runJobOf(
  values: RunValues,
  launcher: Launcher,
  script: string,
  flags: readonly string[],
  job: VisibleJob,
  folder: string | undefined,
): Promise<number> {
  if (values.watch) return await runWatched(launcher, job, script, flags);
  if (folder === undefined) return (await runVisibly(launcher, job)).code;
  clearProfiles(folder, job.ranks);
  const { code } = await runVisibly(launcher, job);
  console.error(writeMergedProfile(folder, job.ranks));
  return code;
}

export async function run(args: string[]): Promise<number> {
  const [all, [script, ...rest]] = splitAtPositional(args, { ...denoFlagsWithValue, ...options });
  const { flags, rest: own } = splitDenoFlags(all);
  const { values } = parseCommand(own, options, help);
  if (script === undefined) throw new CommandError(`run needs a script; see "run --help"`);
  checkTogether(values);
  const place = parsePlace(values);
  const ranks = parseRanks(values.ranks, place);
  const variables = parseVariables(values);
  const inspected = values.inspect === undefined ? null : parseRank(values.inspect, ranks);
  const address = scriptOfUser(script);
  const folder = userFolder(values.profile, "--profile");
  if (folder !== undefined && isTest(address)) throw new CommandError("--profile takes a script, not tests");
  const system = batchSystems.find((name) => values[name] !== undefined);
  if (system !== undefined) {
    const again = ["-n", String(ranks), ...argumentsOf(values, flags), address, ...rest];
    writeBatchFile(system, values[system]!, address, {
      ranks,
      hosts: place.isAllocated ? [] : place.hosts ?? [],
      timeoutSeconds: place.timeoutSeconds ?? null,
      gpus: values.gpus?.split(",").length ?? 0,
      // The shell of a batch job may have another PATH; an image has Deno elsewhere.
      command: [system === "mpijob" ? "deno" : Deno.execPath(), "run", "-A", scriptAddress("main.ts"), "run", ...again],
      image: values.image ?? "distmath",
    });
    return 0;
  }
  const launcher = await findLauncher(values.mpirun);
  const isFetched = ranks > 1 && !values["dry-run"];
  const ownFlags = isFetched ? await warmCache(address, flags, userPath(".")) : flags;
  const program = perRank(launcher, (more) => startScript(address, rest, [...ownFlags, ...more]), {
    flags: folder === undefined ? [] : profileFlags(folder),
    only: inspected === null ? undefined : { rank: inspected, flags: ["--inspect-wait=127.0.0.1:9229"] },
  });
  const job = {
    ranks,
    ...place,
    program,
    env: variables,
    cwd: userPath("."),
    isInteractive: true,
    tag: values["tag-output"],
  };
  if (values["dry-run"]) {
    console.log(describeCommand(launcher, job));
    return 0;
  }
  return await runJobOf(values, launcher, address, flags, job, folder);
}
