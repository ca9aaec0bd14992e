/**
 * Running a program with all that it starts: reading its output line by line, ending everything in time.
 *
 * @module
 */
import { basename } from "node:path";
import { joined, textOf } from "./bytes_as_text.ts";
import { guardJob } from "./job_guard.ts";
import type { CommandLine } from "./launcher.ts";
import { allProcesses, readOfProcess } from "./processes.ts";
import { onSignals, signalCodes } from "../terminal.ts";

export interface TreeOptions {
  /** Everything is ended after this many seconds. */
  timeoutSeconds?: number;
  /** Called before it is ended by its time limit: the end of the program may let others go on. */
  onTimeLimit?: () => void;
  /** The working directory; this process's when left out. */
  cwd?: string;
  /** Everything is ended when this aborts; by its time limit if the reason is a `TimeoutError`. */
  signal?: AbortSignal;
  /**
   * Called for each line of output, as {@linkcode textOf} makes it of bytes; for a part of one with `isComplete` false. What
   * it throws ends everything.
   */
  onLine: (stream: "stdout" | "stderr", line: string, isComplete: boolean) => void;
  /** Whether so much is still to be written of what was told that no more is read now. */
  isFull?: () => boolean;
  /** Whether a line is shown before it is complete if its end is long in coming. */
  showParts?: boolean;
  /** How the paths of files begin that are removed if this process is killed. */
  unfinished?: string;
  /** Whether the program reads this process's standard input. */
  hasInput?: boolean;
}

export interface TreeResult {
  /** The program's exit code; 124 if the time was up, 128 + n if signal n ended it. */
  code: number;
  /** Whether a time limit ended it. */
  isTimedOut: boolean;
  /** Whether Ctrl-C, SIGTERM or SIGHUP ended it: what comes after it must not begin. */
  isInterrupted: boolean;
  /** The signal that ended the program itself, without what it started. */
  ownSignal: Deno.Signal | null;
  /** How long it ran. */
  seconds: number;
}

/** Everything gets this long to end by itself, after the program has been asked to, before it is killed. */
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

/** A longer part of a line is shown at once. */
const MOST_PART_BYTES = 1024 * 1024;

/** How a stream is read. */
interface Reading {
  showParts: boolean;
  /** Whether NULs behind a line, and nothing else, are none of the output's. */
  dropsNuls: boolean;
  /** Waits until there is room for more. */
  room: () => Promise<void>;
}

async function readLines(
  stream: ReadableStream<Uint8Array>,
  { showParts, dropsNuls, room }: Reading,
  onLine: (line: string, isComplete: boolean) => void,
): Promise<void> {
  let rest: Uint8Array[] = [];
  let timer: ReturnType<typeof setTimeout> | undefined;
  const failure = Promise.withResolvers<never>();
  const flush = () => {
    const text = textOf(joined(rest));
    rest = [];
    if (text !== "" && !(dropsNuls && /^\0*$/.test(text))) onLine(text, false);
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
      if (showParts && lengthOf(rest) > MOST_PART_BYTES) flush();
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

const lengthOf = (parts: readonly Uint8Array[]) => parts.reduce((sum, { length }) => sum + length, 0);

/** Send a signal, unless the process has ended. */
export function sendSignal(pid: number, signal: Deno.Signal): void {
  try {
    Deno.kill(pid, signal);
  } catch {
    // It has.
  }
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Ask the program to end, and kill what is left of all that it started after a while. */
async function endTree(program: Deno.ChildProcess, job: string): Promise<void> {
  sendSignal(program.pid, "SIGTERM");
  const timer = setTimeout(() => killTree(job), graceMilliseconds);
  await program.status;
  clearTimeout(timer);
  await pause(200);
  killTree(job);
}

/**
 * The variable by which all that a program starts is known, also where a launcher's daemon has left it: a word of its own,
 * and those of the programs that started this one.
 */
const jobVariable = "DISTMATH_JOB";

/** Kill all processes of a job, its program among them. */
function killTree(job: string): void {
  for (const process of allProcesses()) {
    if (readOfProcess(process, "environ").includes(job)) sendSignal(Number(process), "SIGKILL");
  }
}

/** Start a program and wait for its end. Ctrl-C, SIGTERM and what `onLine` throws end it and all that it started first. */
export async function runTree({ command, args, env }: CommandLine, options: TreeOptions): Promise<TreeResult> {
  const { onLine, timeoutSeconds, showParts = false } = options;
  const [started, job] = [performance.now(), crypto.randomUUID()];
  let endedWith: number | null = null;
  let ending: Promise<void> | undefined;
  let isOver = false;
  const endOnce = () => ending ??= endTree(child, job).then(() => void (isOver = true));
  const end = (code: number) => () => {
    if (code === 124 && ending === undefined) options.onTimeLimit?.();
    endedWith ??= code;
    endOnce();
  };
  // What has been killed leaves little to be read.
  const room = async () => {
    while (!isOver && options.isFull?.()) await pause(ROOM_MILLISECONDS);
  };
  // Before the program begins: nothing runs in between that a signal could call.
  using _signals = onSignals(end);
  using _task = onEndOfTask(end(signalCodes.SIGHUP));
  const child = new Deno.Command(command, {
    args,
    env: { ...env, [jobVariable]: `${Deno.env.get(jobVariable) ?? ""} ${job}`.trim() },
    ...options.cwd !== undefined && { cwd: options.cwd },
    stdin: options.hasInput ? "inherit" : "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  await using _guard = guardJob(child, job, options.unfinished);
  const abort = () => {
    if (options.signal?.reason?.name === "TimeoutError") end(124)();
    // The program may not have ended because it has more output than is read.
    else room().then(() => isOver ? undefined : endOnce());
  };
  if (options.signal?.aborted) abort();
  options.signal?.addEventListener("abort", abort);
  const timer = timeoutSeconds === undefined ? undefined : setTimeout(end(124), timeoutSeconds * 1000);
  try {
    const [status] = await Promise.all([
      child.status.then((status) => {
        // Hydra may leave ranks behind that it should have ended.
        if (!status.success && ending === undefined) killTree(job);
        return status;
      }),
      readLines(
        child.stdout,
        { showParts, dropsNuls: false, room },
        (line, isComplete) => onLine("stdout", line, isComplete),
      ),
      // Open MPI 5 ends its texts about a failed job with the NUL that ends strings in C.
      readLines(
        child.stderr,
        { showParts, dropsNuls: true, room },
        (line, isComplete) => onLine("stderr", line, isComplete),
      ),
    ]);
    await ending;
    return {
      code: endedWith ?? status.code,
      isTimedOut: endedWith === 124,
      isInterrupted: endedWith !== null && endedWith !== 124,
      ownSignal: ending === undefined ? status.signal : null,
      seconds: (performance.now() - started) / 1000,
    };
  } catch (error) {
    await endOnce();
    throw error;
  } finally {
    isOver = true;
    options.signal?.removeEventListener("abort", abort);
    clearTimeout(timer);
  }
}
