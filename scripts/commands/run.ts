/**
 * `run`: start a script on several ranks.
 *
 * @module
 */
import { runFiltered } from "../launch/job_output.ts";
import { denoRun, denoTest, type JobOptions, type JobResult } from "../launch/job.ts";
import { findLauncher, type Launcher } from "../launch/launcher.ts";
import {
  colorVariables,
  CommandError,
  type Options,
  parseCommand,
  parseCount,
  parseSeconds,
  splitAtPositional,
  userPath,
} from "../terminal.ts";

const help = `Start a script on several ranks.

Usage: run [options] SCRIPT [arguments of the script]

SCRIPT is a file or a URL, and runs in the folder where you are. A file that ends in _test.ts is started with
"deno test", all others with "deno run".
The launcher is the mpirun that belongs to the MPI in use; its own text about a job that failed is left out.
Ranks use colours if the output goes to a terminal, or FORCE_COLOR is set.

  -n, --ranks N      number of ranks (1)
  --hosts A:2,B:2    hosts with their slots; this host alone when left out
  --timeout SECONDS  end the job after this time; the exit code is then 124
  --mpirun PATH      the launcher to use (also DISTMATH_MPIRUN)
`;

const options = {
  ranks: { type: "string", short: "n", default: "1" },
  hosts: { type: "string" },
  timeout: { type: "string" },
  mpirun: { type: "string" },
  help: { type: "boolean", short: "h", default: false },
} as const satisfies Options;

/** The options that say where a job runs, as every command that starts one takes them. */
export interface Place {
  /** Hosts with their slots. */
  hosts?: string[];
  /** The time limit. */
  timeoutSeconds?: number;
}

/** Read `--hosts` and `--timeout`. */
export function parsePlace(values: { hosts?: string | undefined; timeout?: string | undefined }): Place {
  const place: Place = {};
  if (values.hosts !== undefined) {
    place.hosts = values.hosts.split(",").map((host) => host.trim()).filter(Boolean);
    if (place.hosts.length === 0) throw new CommandError("--hosts takes a list such as a:2,b:2");
  }
  if (values.timeout !== undefined) place.timeoutSeconds = parseSeconds(values.timeout, "--timeout");
  return place;
}

/** Run a job with its output passed on, less what the launcher adds; returns how it ended. */
export async function runVisibly(launcher: Launcher, job: Omit<JobOptions, "onLine">): Promise<JobResult> {
  const encoder = new TextEncoder();
  const { failure, signal: _, ...result } = await runFiltered(launcher, {
    ...job,
    env: { ...colorVariables(), ...job.env },
    onLine(stream, line, isComplete) {
      if (!isComplete && line.trim() === "") return;
      let bytes = encoder.encode(isComplete ? `${line}\n` : line);
      while (bytes.length > 0) bytes = bytes.subarray(Deno[stream].writeSync(bytes));
    },
  });
  if (result.isTimedOut) console.error(`error: the job did not end within ${job.timeoutSeconds} s and was ended`);
  else if (failure !== null) console.error(`error: ${failure}`);
  return result;
}

const isTest = (script: string) => /_test\.[cm]?[jt]sx?$/.test(script);

/** The program that starts a script, or a test file, on a rank. */
export function startScript(script: string, args: readonly string[]): string[] {
  return isTest(script) ? denoTest(script, args) : denoRun(script, args);
}

/** The address of a script that the user named: a URL as it is, or the path of a file that exists. */
export function scriptOfUser(name: string): string {
  if (/^(https?|file|jsr|npm):/.test(name)) return name;
  const path = userPath(name);
  try {
    if (Deno.statSync(path).isFile) return path;
  } catch {
    throw new CommandError(`there is no file ${path}`);
  }
  throw new CommandError(`${path} is no file`);
}

export async function run(args: string[]): Promise<number> {
  const [own, [script, ...rest]] = splitAtPositional(args, options);
  const { values } = parseCommand(own, options);
  if (values.help) {
    console.log(help);
    return 0;
  }
  if (script === undefined) throw new CommandError(`run needs a script; see "run --help"`);
  const ranks = parseCount(values.ranks, "-n");
  const place = parsePlace(values);
  const address = scriptOfUser(script);
  const program = startScript(address, rest);
  const launcher = await findLauncher(values.mpirun);
  const job = { ranks, ...place, program, cwd: userPath("."), isInteractive: true };
  const { code } = await runVisibly(launcher, job);
  return code;
}
