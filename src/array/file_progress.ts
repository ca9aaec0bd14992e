/**
 * How far the reading or writing of a large file is: lines of rank 0 on standard error.
 *
 * @module
 */
import { environment } from "../../ffi/library.ts";
import { launcher } from "../../ffi/mpi/mod.ts";
import type { Runtime } from "../runtime/runtime.ts";

/** Called with the bytes that were read or written since the last call. */
export type FileProgress = (bytes: number) => void;

/** A piece of a file between two looks at the clock. */
export const PIECE_BYTES = 2 ** 26;

/**
 * Tells of what takes long: `what` says it (`reading a.npy`), `total` is its bytes on rank 0. A line comes after as many
 * seconds as `DISTMATH_PROGRESS` has, and again after as many; where it is not set, on a terminal alone. `run` sets it.
 */
export function fileProgress({ rank }: Runtime, what: string, total: number): FileProgress {
  const seconds = rank === 0 ? secondsBetweenLines() : null;
  if (seconds === null) return () => {};
  let [done, told] = [0, performance.now()];
  return (bytes) => {
    done += bytes;
    const now = performance.now();
    if (now - told < seconds * 1000) return;
    told = now;
    console.error(`distmath: ${what}: ${megabytes(done)} of ${megabytes(total)} MB of rank 0`);
  };
}

/** What a process on its own takes, whose standard error nobody stands before. */
const SECONDS_ON_TERMINAL = 2;

function secondsBetweenLines(): number | null {
  const given = environment("DISTMATH_PROGRESS");
  if (given) return Number(given) >= 0 ? Number(given) : null;
  // What launchers give their ranks says nothing of where the output goes.
  const isWatched = launcher() === null && Deno.stderr.isTerminal() && !environment("CI");
  return isWatched ? SECONDS_ON_TERMINAL : null;
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0);
}
