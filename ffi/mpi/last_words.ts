/**
 * What a rank tells when it ends otherwise than well: people, or the command that started its job, since launchers do not
 * say how a rank ended, and MPICH's not even which; and MPICH's launcher, to which an exit code alone may be lost.
 *
 * @module
 */
import { pauseAtExit, TextAtExit } from "../at_exit.ts";
import { environment } from "../library.ts";
import { libcFunctions } from "../memory.ts";
import { LAST_WORDS, writeImmediately } from "../process.ts";
import { abortRequest, hydraSocket } from "./hydra.ts";
import { BY_ITSELF, shellOfRank } from "./killed_rank.ts";
import { launcher } from "./launcher.ts";
import { joinedPresence } from "./presence.ts";
import { MPICH_NAMES, removeMpichNames } from "./mpich_names.ts";

/** What the launcher and the command want to know of this rank's end. */
export interface LastWords {
  /** The line for the command, or nothing. */
  words: string;
  /** Hydra's socket; 0 if there is none. */
  socket: number;
  /** What is written to it. */
  request: string;
  /** The pipe to the shell that tells if this rank is killed, 0 if there is none; and that it ends by itself. */
  shell: number;
  byItself: string;
  /** The other ranks' processes on this machine, as far as they are known. */
  others: readonly number[];
}

/** The last words of a rank that ends with this code, by what. */
export function lastWords(code: number, how: string): LastWords {
  const starter = launcher();
  // It tells the job's ranks from others' text.
  const job = environment("DISTMATH_TELL_END");
  const isAsked = starter !== null && job !== undefined;
  return {
    words: isAsked ? `distmath-end: ${JSON.stringify({ rank: starter.rank, code, how, job })}\n` : "",
    socket: hydraSocket() ?? 0,
    request: abortRequest(code),
    shell: shellOfRank(),
    byItself: BY_ITSELF,
    others: joinedPresence()?.otherProcesses() ?? [],
  };
}

/** The line for the command that started the job, or, where there is none, for people; nothing of a rank that is alone. */
function lineOfEnd(code: number, how: string): string {
  const starter = launcher();
  if (starter === null || starter.size === 1) return "";
  return lastWords(code, how).words || `distmath: rank ${starter.rank} ended the job with exit code ${code}: ${how}\n`;
}

/** Tell that this rank is about to end the job with this code, and by what. */
export function tellEnd(code: number, how: string): void {
  joinedPresence()?.setEnd(code, how);
  const words = lineOfEnd(code, how);
  if (words.length === 0) return;
  try {
    writeImmediately(words.trimEnd());
  } catch {
    // Without --allow-ffi the launcher's words have to do.
  }
}

/** For Hydra to read what a rank has printed: it stops when it is asked to end the job. */
const READ_MICROSECONDS = 500_000n;

/** For Hydra to read the request, and to end this process with all others: it overlooks what it finds dead before. */
const ABORT_MICROSECONDS = 1_000_000n;
const STANDARD_ERROR = 2;

let atExit: { words: TextAtExit; request: TextAtExit | null } | undefined;

/**
 * Have the last words said if this process ends by itself before they are withdrawn: when an error is thrown, it is not
 * known yet whether the script handles it. After MPI_Finalize a launcher expects nothing more, and its socket is closed.
 */
export function sayAtExit(code: number, how: string, isMpiFinalized: boolean): void {
  const { socket, request } = lastWords(code, how);
  joinedPresence()?.setEnd(code, how);
  atExit ??= prepareTexts(isMpiFinalized ? 0 : socket);
  atExit.words.set(lineOfEnd(code, how));
  atExit.request?.set(isMpiFinalized ? "" : request);
}

function prepareTexts(socket: number): { words: TextAtExit; request: TextAtExit | null } {
  // What is asked for last is done first.
  if (socket > 0) pauseAtExit(ABORT_MICROSECONDS);
  const request = socket > 0 ? new TextAtExit(socket) : null;
  if (request !== null) pauseAtExit(READ_MICROSECONDS);
  return { request, words: new TextAtExit(STANDARD_ERROR) };
}

/** The command that started the job is not to think that this rank is about to end. */
export function withdrawEnd(): void {
  joinedPresence()?.setEnd(0, "");
}

/** The process goes on, or ends in another way. */
export function withdrawWords(): void {
  withdrawEnd();
  atExit?.words.set("");
  atExit?.request?.set("");
}

/** What {@linkcode endAtOnce} needs of the C library. */
export const END_AT_ONCE = { ...LAST_WORDS, ...MPICH_NAMES } as const;

/**
 * Write a line to standard error, unless it is empty, and end the job with this exit code, from any thread, also while
 * another one waits in MPI. Sees nothing of this module but `removeMpichNames`, so that it can run in a thread of its own.
 */
export function endAtOnce(
  code: number,
  line: string,
  { words, socket, request, shell, byItself, others }: LastWords,
  libc: Deno.DynamicLibrary<typeof END_AT_ONCE>["symbols"],
): never {
  const { write, _exit } = libc;
  const standardError = 2;
  /** For Hydra to read what was printed: it stops when a rank aborts. */
  const readMilliseconds = 500;
  /** For Hydra to end all processes, this one among them. */
  const abortMilliseconds = 1000;
  const pause = (milliseconds: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  const writeText = (file: number, text: string) => {
    const bytes = new TextEncoder().encode(text);
    write(file, bytes, BigInt(bytes.length));
  };
  writeText(standardError, line === "" ? words : `${line}\n${words}`);
  removeMpichNames(libc, others);
  if (socket > 0) {
    pause(readMilliseconds);
    writeText(socket, request);
    pause(abortMilliseconds);
  }
  if (shell > 0) writeText(shell, byItself);
  _exit(code);
  throw new Error("unreachable");
}

/** End this process without its exit handlers, when all is told. */
export function endProcess(code: number): never {
  const { write, _exit } = libcFunctions(LAST_WORDS);
  const bytes = new TextEncoder().encode(BY_ITSELF);
  if (shellOfRank() > 0) write(shellOfRank(), bytes, BigInt(bytes.length));
  return _exit(code) as never;
}

/** As {@linkcode endAtOnce}, in this thread; `how` is for the command that started the job. */
export function endJobAtOnce(code: number, how: string, line: string): never {
  try {
    joinedPresence()?.setEnd(code, how);
    return endAtOnce(code, line, lastWords(code, how), libcFunctions(END_AT_ONCE));
  } catch {
    // Without libc, the ordinary way has to do.
    return Deno.exit(code);
  }
}
