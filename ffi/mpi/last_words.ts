/**
 * What a rank tells when it ends otherwise than well: the command that started its job, since launchers do not say how a
 * rank ended, and MPICH's not even which; and MPICH's launcher, to which an exit code alone may be lost.
 *
 * @module
 */
import { environment } from "../library.ts";
import { libcFunctions } from "../memory.ts";
import { LAST_WORDS, writeImmediately } from "../process.ts";
import { launcher } from "./launcher.ts";

/** What the launcher and the command want to know of this rank's end. */
export interface LastWords {
  /** The line for the command, or nothing. */
  words: Uint8Array;
  /** Hydra's socket; 0 if there is none. */
  socket: number;
  /** What MPI_Abort writes to it. */
  request: Uint8Array;
}

/**
 * The last words of a rank that ends with this code, by what. Hydra is asked to end the job: it sees the socket of a process
 * that just exits close, ends the others, and then takes the exit code of one of these. Source: MPICH, PMI-1.
 */
export function lastWords(code: number, how: string): LastWords {
  const starter = launcher();
  const encoder = new TextEncoder();
  const isAsked = starter !== null && environment("DISTMATH_TELL_END") !== undefined;
  return {
    words: encoder.encode(isAsked ? `distmath-end: ${JSON.stringify({ rank: starter.rank, code, how })}\n` : ""),
    socket: starter?.kind === "mpich" ? Number(environment("PMI_FD") ?? 0) : 0,
    request: encoder.encode(`cmd=abort exitcode=${code}\n`),
  };
}

/** Tell the command that started the job that this rank is about to end with this code, and by what. */
export function tellEnd(code: number, how: string): void {
  const { words } = lastWords(code, how);
  if (words.length === 0) return;
  try {
    writeImmediately(new TextDecoder().decode(words).trimEnd());
  } catch {
    // Without --allow-ffi the launcher's words have to do.
  }
}

/**
 * Write a line to standard error and end the job with this exit code, from any thread, also while another one waits in MPI.
 * Sees nothing of this module, so that it can run in a thread of its own.
 */
export function endAtOnce(
  code: number,
  line: string,
  { words, socket, request }: LastWords,
  { write, _exit }: Deno.DynamicLibrary<typeof LAST_WORDS>["symbols"],
): never {
  const standardError = 2;
  /** For Hydra to read what was printed: it stops when a rank aborts. */
  const readMilliseconds = 100;
  /** For Hydra to end all processes, this one among them. */
  const abortMilliseconds = 1000;
  const pause = (milliseconds: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
  const text = new TextEncoder().encode(`${line}\n`);
  write(standardError, text, BigInt(text.length));
  write(standardError, words.slice(), BigInt(words.length));
  if (socket > 0) {
    pause(readMilliseconds);
    write(socket, request.slice(), BigInt(request.length));
    pause(abortMilliseconds);
  }
  _exit(code);
  throw new Error("unreachable");
}

/** As {@linkcode endAtOnce}, in this thread; `how` is for the command that started the job. */
export function endJobAtOnce(code: number, how: string, line: string): never {
  try {
    return endAtOnce(code, line, lastWords(code, how), libcFunctions(LAST_WORDS));
  } catch {
    // Without libc, the ordinary way has to do.
    return Deno.exit(code);
  }
}
