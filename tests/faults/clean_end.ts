/** How a job has to end after a fault: soon, with an error, with words on the rank and the reason, and without a trace. */
import { assert, assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { type JobResult, slowdown } from "../mpi_installations.ts";

/** From the fault to the end of the job. */
const LONGEST_END_SECONDS = 10;

/** What MPI cannot be had not to leave of ranks that are killed while they start it, if `run` does not look after the job. */
export const MEMORY_AT_START = /^\/dev\/shm\/(distmath_sm\.|mpich_shm_|Intel_MPI_)/;

/** The fault, and what else is known of the end. */
export interface ExpectedEnd {
  /** The rank to be named; left out where all have the fault, and any may be; `null` where there are no ranks. */
  rank?: number | null | undefined;
  /** The words that tell the reason. */
  why: string | RegExp;
  /** The exit code; left out, it is not 0. */
  code?: number;
  /** What the job may take longer than usual: such as the time limit that ends it. */
  extraSeconds?: number;
  /** When the fault happened, in milliseconds since 1970; left out, the output says "fault at" it. */
  faultAt?: number;
  /** Names of memory that a job may leave which ends while MPI starts, to be removed by a later one. */
  mayLeave?: RegExp;
  /** A folder that the job has written to, and the names that may be in it. */
  files?: { folder: string; names: readonly string[] };
}

/** Assert that a job has ended as it has to. */
export function assertCleanEnd(result: Omit<JobResult, "pid">, expected: ExpectedEnd): void {
  const { code, output, endedAt, left, stays = [] } = result;
  const { rank, why, extraSeconds = 0, faultAt = faultIn(output), mayLeave, files } = expected;
  if (expected.code === undefined) assertNotEquals(code, 0, output);
  else assertEquals(code, expected.code, output);
  assertMatch(output, typeof why === "string" ? RegExp(RegExp.escape(why)) : why);
  assert(rank === null || isNamed(output, rank), `rank ${rank ?? "?"} is not named:\n${output}`);
  // Those that a launcher ends then are not told of as killed.
  const killed = Array.from(
    output.matchAll(/rank (\d+), process \d+, was (?:ended by signal|killed)/g),
    ([, rank]) => Number(rank),
  );
  assert(killed.length === 0 || killed.join() === String(rank), `ranks ${killed} are told to be killed:\n${output}`);
  assert(faultAt > 0, `the fault did not happen:\n${output}`);
  const seconds = (endedAt - faultAt) / 1000;
  recordEnd({ seconds, extraSeconds, why: String(why) });
  assert(seconds < (LONGEST_END_SECONDS + extraSeconds) * slowdown(), `the job took ${seconds} s to end:\n${output}`);
  assertEquals(left.filter((what) => !mayLeave?.test(what)), [], output);
  assertEquals(stays, [], output);
  if (files === undefined) return;
  assertEquals(Array.from(Deno.readDirSync(files.folder), ({ name }) => name).sort(), files.names, output);
}

/** Append how long a job took to a file, if that is wanted: on a busy machine it may take longer than it has to. */
function recordEnd(end: { seconds: number; extraSeconds: number; why: string }): void {
  const file = Deno.env.get("DISTMATH_FAULT_TIMES");
  if (file) Deno.writeTextFileSync(file, `${JSON.stringify(end)}\n`, { append: true });
}

/** When the last fault happened of which the output tells; 0 if none. */
function faultIn(output: string): number {
  return Math.max(0, ...Array.from(output.matchAll(/fault at (\d+)/g), ([, time]) => Number(time)));
}

/** Whether the output names a rank: some rank if none is given. */
function isNamed(output: string, rank: number | string = "\\d+"): boolean {
  return RegExp(`\\branks? (\\d+, )*${rank}\\b`).test(output);
}
