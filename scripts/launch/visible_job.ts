/**
 * A job whose output is passed on to people.
 *
 * @module
 */
import { colorVariables, progressVariables, style } from "../terminal.ts";
import type { JobOptions, JobResult } from "./job.ts";
import { runFiltered } from "./job_output.ts";
import type { Launcher } from "./launcher.ts";
import { PassedOutput, writeLast } from "./passed_output.ts";
import { watchRanks } from "./watched_ranks.ts";

const rankColors = ["cyan", "magenta", "yellow", "green", "blue"] as const;

/** What begins the lines of each rank. */
function prefixes(ranks: number, stream: "stdout" | "stderr"): string[] {
  return Array.from({ length: ranks }, (_, rank) => {
    const number = String(rank).padStart(String(ranks - 1).length);
    return style(rankColors[rank % rankColors.length], `[${number}]`, stream);
  });
}

/** Of a job that was ended, so long is waited for who reads its output. */
const READER_MILLISECONDS = 1000;

/** A job, but for what becomes of its output. */
export type VisibleJob = Omit<JobOptions, "onLine" | "onTimeLimit">;

/** Run a job with its output passed on, less what the launcher adds; returns how it ended. */
export async function runVisibly(launcher: Launcher, job: VisibleJob): Promise<JobResult> {
  const output = new PassedOutput();
  // The script's own output tells what cannot be written.
  using watch = watchRanks(launcher, job.ranks, (text) => output.write("stderr", `${text}\n`, true));
  const tags = { stdout: prefixes(job.ranks, "stdout"), stderr: prefixes(job.ranks, "stderr") };
  let where: string | null = null;
  const { failure, signal: _, ...result } = await runFiltered(launcher, {
    ...job,
    watch,
    signal: AbortSignal.any([output.failed, ...job.signal ? [job.signal] : []]),
    isFull: () => output.isFull,
    onTimeLimit: () => where = watch.where(),
    env: { ...colorVariables(), ...progressVariables(), ...watch.env, ...job.env },
    onLine(stream, line, isComplete, rank) {
      const text = rank === null ? line : `${tags[stream][rank]} ${line}`;
      output.write(stream, isComplete ? `${text}\n` : text);
    },
  });
  await output.end(result.isTimedOut || result.isInterrupted ? READER_MILLISECONDS : undefined);
  if (job.signal?.aborted) return result;
  if (result.isTimedOut) {
    const place = where === null ? "" : `; the ranks of this machine were here:\n${where}`;
    const told = `error: the job did not end within ${job.timeoutSeconds} s and was ended${place}`;
    await writeLast(told, READER_MILLISECONDS);
  } else if (failure !== null) console.error(`error: ${failure}`);
  return result;
}
