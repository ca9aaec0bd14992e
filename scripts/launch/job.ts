/**
 * Running a job: starting the ranks, reading their output line by line, ending them in time.
 *
 * @module
 */
import { basename } from "node:path";
import { joined, textOf } from "./bytes_as_text.ts";
import { removeAbandonedFiles, removeFilesOfDead } from "./abandoned_files.ts";
import { guardJob } from "./job_guard.ts";
import { commandLine, type Launch, type Launcher } from "./launcher.ts";
import { CommandError, onSignals, signalCodes } from "../terminal.ts";
import { withPermissions } from "./deno_flags.ts";
import { allProcesses, readOfProcess } from "./processes.ts";
import { quote } from "./shell.ts";
import { withOwnInput } from "./standard_input.ts";

export interface JobOptions extends Launch {
  /** The job is ended after this many seconds. */
  timeoutSeconds?: number;
  /** Called before it is ended by its time limit: the end of the launcher may let ranks go on. */
  onTimeLimit?: () => void;
  /** The ranks' working directory; this process's when left out. */
  cwd?: string;
  /**
   * Rank 0 reads this process's standard input, and a line is shown before it is complete if its end is long in coming,
   * unless lines begin with ranks.
   */
  isInteractive?: boolean;
  /** The job is ended when this aborts; by its time limit if the reason is a `TimeoutError`. */
  signal?: AbortSignal;
  /**
   * Called for each line of output, as {@linkcode textOf} makes it of bytes; for a part of one with `isComplete` false. What
   * it throws ends the job.
   */
  onLine: (stream: "stdout" | "stderr", line: string, isComplete: boolean) => void;
  /** Whether so much is still to be written of what was told that no more is read now. */
  isFull?: () => boolean;
}

export interface JobResult {
  /** The launcher's exit code; 124 if the time was up, 128 + n if signal n ended it. */
  code: number;
  /** Whether a time limit ended it. */
  isTimedOut: boolean;
  /** Whether Ctrl-C, SIGTERM or SIGHUP ended it: what comes after the job must not begin. */
  isInterrupted: boolean;
  /** The signal that ended the launcher itself, without its ranks. */
  launcherSignal: Deno.Signal | null;
  /** How long it ran. */
  seconds: number;
}

/** The job gets this long to end by itself, after having been asked to, before it is killed. */
const graceMilliseconds = 3000;

/** The start of a line is shown after this long if it is to be shown at all. */
const partMilliseconds = 100;

const PARENT_MILLISECONDS = 500;

/** How often is looked whether there is room for more output. */
const ROOM_MILLISECONDS = 5;

/** Have the end of the task of Deno's that started this process call `action`, until disposed of: a shell's changes nothing. */
function onEndOfTask(action: () => void): Disposable {
  const parent = Deno.ppid;
  const timer = !isTask(parent) ? undefined : setInterval(() => {
    if (Deno.ppid !== parent) action();
  }, PARENT_MILLISECONDS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Whether a process is `deno task`. */
function isTask(process: number): boolean {
  try {
    const [program, ...words] = Deno.readTextFileSync(`/proc/${process}/cmdline`).split("\0");
    return basename(program) === "deno" && words.find((word) => !word.startsWith("-")) === "task";
  } catch {
    return false;
  }
}

const LINE_FEED = 10;

async function readLines(
  stream: ReadableStream<Uint8Array>,
  { showParts, room }: { showParts: boolean; room: () => Promise<void> },
  onLine: (line: string, isComplete: boolean) => void,
): Promise<void> {
  let rest: Uint8Array[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const failure = Promise.withResolvers<never>();
  const flush = () => {
    const text = textOf(joined(rest));
    rest = [];
    // Open MPI 5 ends its text about a failed job with the NUL that ends strings in C.
    if (!/^\0*$/.test(text)) onLine(text, false);
  };
  const flushLater = () => {
    try {
      flush();
    } catch (error) {
      failure.reject(error);
    }
  };
  const read = async () => {
    for await (const chunk of stream) {
      clearTimeout(timer);
      const end = chunk.lastIndexOf(LINE_FEED);
      if (end >= 0) {
        const lines = textOf(joined([...rest, chunk.subarray(0, end)])).split("\n");
        rest = [];
        for (const line of lines) onLine(line, true);
      }
      if (end + 1 < chunk.length) rest.push(chunk.subarray(end + 1));
      if (showParts && rest.length > 0) timer = setTimeout(flushLater, partMilliseconds);
      await room();
    }
  };
  try {
    await Promise.race([read(), failure.promise]);
  } finally {
    clearTimeout(timer);
  }
  flush();
}

function send(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch {
    // It has ended already.
  }
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Ask the launcher to end the job, and kill what is left of it after a while. */
async function endJob(launcher: Deno.ChildProcess, job: string): Promise<void> {
  send(launcher.pid, "SIGTERM");
  const timer = setTimeout(() => killJob(job), graceMilliseconds);
  await launcher.status;
  clearTimeout(timer);
  await pause(200);
  killJob(job);
}

/**
 * The variable by which the processes of a job are known, also where their launcher's daemon has left them: a word of
 * its own, and those of the jobs that it is part of.
 */
const jobVariable = "DISTMATH_JOB";

/** Kill all processes of a job, its launcher among them. */
function killJob(job: string): void {
  for (const process of allProcesses()) {
    if (readOfProcess(process, "environ").includes(job)) send(Number(process), "SIGKILL");
  }
}

/** Start a job and wait for its end. Ctrl-C, SIGTERM and what `onLine` throws end the job first. */
export async function runJob(launcher: Launcher, options: JobOptions): Promise<JobResult> {
  const { isInteractive = false, tag = false, onLine, timeoutSeconds } = options;
  const showParts = isInteractive && !tag;
  const ownInput = isInteractive ? withOwnInput(launcher, options) : null;
  const { command, args, env } = commandLine(launcher, { ...options, program: ownInput ?? options.program });
  const [started, startedAt, job] = [performance.now(), Date.now(), crypto.randomUUID()];
  removeAbandonedFiles();
  let endedWith: number | null = null;
  let ending: Promise<void> | undefined;
  let isOver = false;
  const endOnce = () => ending ??= endJob(child, job).then(() => void (isOver = true));
  const end = (code: number) => () => {
    if (code === 124 && ending === undefined) options.onTimeLimit?.();
    endedWith ??= code;
    endOnce();
  };
  // What a job that has been killed leaves to be read is little.
  const room = async () => {
    while (!isOver && options.isFull?.()) await pause(ROOM_MILLISECONDS);
  };
  // Before the job begins: nothing runs in between that a signal could call.
  using _signals = onSignals(end);
  using _task = onEndOfTask(end(signalCodes.SIGHUP));
  const child = new Deno.Command(command, {
    args,
    env: { ...env, [jobVariable]: `${Deno.env.get(jobVariable) ?? ""} ${job}`.trim() },
    ...options.cwd !== undefined && { cwd: options.cwd },
    stdin: isInteractive && ownInput === null ? "inherit" : "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  await using _guard = guardJob(child, job);
  const abort = () => {
    if (options.signal?.reason?.name === "TimeoutError") end(124)();
    // The launcher may not have ended because it has more output than is read.
    else room().then(() => isOver ? undefined : endOnce());
  };
  if (options.signal?.aborted) abort();
  options.signal?.addEventListener("abort", abort);
  const timer = timeoutSeconds === undefined ? undefined : setTimeout(end(124), timeoutSeconds * 1000);
  try {
    const [status] = await Promise.all([
      child.status.then((status) => {
        // Hydra may leave ranks behind that it should have ended.
        if (!status.success && ending === undefined) killJob(job);
        return status;
      }),
      readLines(child.stdout, { showParts, room }, (line, isComplete) => onLine("stdout", line, isComplete)),
      readLines(child.stderr, { showParts, room }, (line, isComplete) => onLine("stderr", line, isComplete)),
    ]);
    await ending;
    const code = endedWith ?? status.code;
    if (code !== 0) await removeFilesOfDead(startedAt);
    const isInterrupted = endedWith !== null && endedWith !== 124;
    const launcherSignal = ending === undefined ? status.signal : null;
    const seconds = (performance.now() - started) / 1000;
    return { code, isTimedOut: endedWith === 124, isInterrupted, launcherSignal, seconds };
  } catch (error) {
    await endOnce();
    throw error;
  } finally {
    isOver = true;
    options.signal?.removeEventListener("abort", abort);
    clearTimeout(timer);
  }
}

/**
 * Run a program with its output passed on; returns its exit code.
 *
 * @throws {CommandError} when Ctrl-C, SIGTERM or SIGHUP ends it, at once.
 */
export async function runProgram(program: string, args: readonly string[], cwd: string = Deno.cwd()): Promise<number> {
  let endedWith: number | null = null;
  using _signals = onSignals((code) => () => {
    endedWith ??= code;
    send(child.pid, "SIGTERM");
  });
  const child = new Deno.Command(program, { args: [...args], cwd, stdin: "null" }).spawn();
  const { code } = await child.status;
  if (endedWith !== null) throw new CommandError("interrupted", endedWith);
  return code;
}

/** The program and first arguments that start a script on a rank; `flags` are Deno's own. */
export function denoRun(script: string, args: readonly string[] = [], flags: readonly string[] = []): string[] {
  return [Deno.execPath(), "run", ...withPermissions(flags), script, ...args];
}

/** The program and first arguments that run a file's tests on a rank, by its path or URL. */
export function denoTest(file: string, args: readonly string[] = [], flags: readonly string[] = []): string[] {
  // Types are checked by "deno check", once and not on every rank.
  const command = [Deno.execPath(), "test", ...withPermissions(["--no-check", ...flags])];
  const rest = args.length > 0 ? ["--", ...args] : [];
  if (!/^(https?|jsr|npm):/.test(file)) return [...command, file, ...rest];
  // "deno test" takes files only: each rank makes one on its host, which removes itself when it is read.
  const module = `Deno.removeSync(import.meta.dirname, { recursive: true }); await import(${JSON.stringify(file)});`;
  const make = `folder=$(mktemp -d) && printf %s ${quote(module)} > "$folder/url_test.ts"`;
  return ["sh", "-c", `${make} && exec ${command.map(quote).join(" ")} "$folder/url_test.ts" "$@"`, "sh", ...rest];
}

/** Stands for the rank's number in the flags of {@linkcode perRank}. */
export const RANK = "{rank}";

/** A program that starts a rank, by its flags: those of one rank, and those of all others; both may name {@linkcode RANK}. */
export function perRank(
  start: (flags: readonly string[]) => readonly string[],
  { flags = [], only }: { flags?: readonly string[]; only?: { rank: number; flags: readonly string[] } | undefined },
): readonly string[] {
  const own = only?.flags ?? [];
  if ([...flags, ...own].every((flag) => !flag.includes(RANK)) && only === undefined) return start(flags);
  const command = (flags: readonly string[]) =>
    start(flags).map((word) => flags.includes(word) ? quote(word).replaceAll(RANK, `'"$rank"'`) : quote(word)).join(
      " ",
    );
  const others = `exec ${command(flags)}`;
  const script = only === undefined
    ? others
    : `if [ "$rank" = ${only.rank} ]; then exec ${command([...flags, ...own])}; fi; ${others}`;
  return ["sh", "-c", `rank=\${OMPI_COMM_WORLD_RANK-\${PMI_RANK-$SLURM_PROCID}}; ${script}`];
}
