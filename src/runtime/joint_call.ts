/**
 * Calls of native libraries that wait for the same call of all ranks. Where one fails on a rank, say for want of memory on
 * its GPU, the others wait in theirs for ever, and an error does not reach them.
 *
 * @module
 */
import { END_AT_ONCE, endAtOnce, type LastWords, lastWords } from "../../ffi/mpi/last_words.ts";
import { removeMpichNames } from "../../ffi/mpi/mpich_names.ts";
import { lineOfScript } from "../../ffi/script_line.ts";
import { startThread } from "../../ffi/thread.ts";
import { type Agreeing, agreeWithin, freeUnlessAgreed } from "./agreement.ts";

/** The others come within this time of a rank on which the call failed, or not at all. */
const LONGEST_SECONDS = 5;

/**
 * Make a native call that waits for the same call of all ranks, and make sure that it succeeded on all. Collective, also as
 * a part of an operation.
 *
 * @throws on every rank what `call` throws on any, if the others come back from theirs; else the job ends, and says why.
 */
export function callJointly(subject: Agreeing, name: string, call: () => void): void {
  agreeWithin(subject, name, () => {
    try {
      call();
    } catch (error) {
      // It ends when the ranks have met, and do not agree.
      if (subject.communicator.size > 1) freeUnlessAgreed(endUnlessMet(subject, name, error));
      throw error;
    }
  });
}

/** End the job in some seconds, unless what this returns is disposed of before. */
function endUnlessMet(subject: Agreeing, name: string, error: unknown): Disposable {
  const isMet = new Int32Array(new SharedArrayBuffer(4));
  try {
    startThread(endLater, [endAtOnce, removeMpichNames], endStateOf(subject, name, error, isMet), END_AT_ONCE);
  } catch {
    // The error to see is the one that brought us here.
  }
  return {
    [Symbol.dispose]() {
      Atomics.store(isMet, 0, 1);
      Atomics.notify(isMet, 0);
    },
  };
}

function endStateOf(
  { communicator: { rank, worldRanks } }: Agreeing,
  name: string,
  error: unknown,
  isMet: Int32Array<SharedArrayBuffer>,
): EndState {
  const line = lineOfScript();
  const message = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const text =
    `distmath: ${name}${line && ` at ${line}`} failed on rank ${worldRanks[rank]}, and the other ranks have ` +
    `been in it for ${LONGEST_SECONDS} s, where they cannot learn of that. The job ends with exit code 1. ${message}`;
  return { isMet, milliseconds: LONGEST_SECONDS * 1000, text, lastWords: lastWords(1, "an error on one rank alone") };
}

interface EndState {
  /** Not 0 when the others have come. */
  isMet: Int32Array<SharedArrayBuffer>;
  milliseconds: number;
  text: string;
  lastWords: LastWords;
}

/** Runs in a thread, where it sees nothing of this module. */
function endLater(
  { isMet, milliseconds, text, lastWords }: EndState,
  libc: Deno.DynamicLibrary<typeof END_AT_ONCE>["symbols"],
): void {
  if (Atomics.wait(isMet, 0, 0, milliseconds) === "timed-out") endAtOnce(1, text, lastWords, libc);
}
