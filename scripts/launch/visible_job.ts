/**
 * A job whose output is passed on to people.
 *
 * @module
 */
import { colorVariables, progressVariables, style } from "../terminal.ts";
import { bytesOf } from "./bytes_as_text.ts";
import type { JobOptions, JobResult } from "./job.ts";
import { runFiltered } from "./job_output.ts";
import type { Launcher } from "./launcher.ts";
import { watchRanks } from "./watched_ranks.ts";

const rankColors = ["cyan", "magenta", "yellow", "green", "blue"] as const;

/** What begins the lines of a rank. */
function prefix(rank: number, ranks: number, stream: "stdout" | "stderr"): string {
  const number = String(rank).padStart(String(ranks - 1).length);
  return style(rankColors[rank % rankColors.length], `[${number}]`, stream);
}

/** Print a line on standard error, if it can be written: the script's own output tells what cannot. */
function complain(text: string): void {
  try {
    console.error(text);
  } catch {
    // Nobody reads it any more.
  }
}

/** A job, but for what becomes of its output. */
export type VisibleJob = Omit<JobOptions, "onLine" | "onTimeLimit">;

/** Run a job with its output passed on, less what the launcher adds; returns how it ended. */
export async function runVisibly(launcher: Launcher, job: VisibleJob): Promise<JobResult> {
  const write = (stream: "stdout" | "stderr", text: string) => {
    let bytes = bytesOf(text);
    while (bytes.length > 0) bytes = bytes.subarray(Deno[stream].writeSync(bytes));
  };
  using watch = watchRanks(job.ranks, complain);
  let where: string | null = null;
  const { failure, signal: _, ...result } = await runFiltered(launcher, {
    ...job,
    watch,
    onTimeLimit: () => where = watch.where(),
    env: { ...colorVariables(), ...progressVariables(), ...watch.env, ...job.env },
    onLine(stream, line, isComplete, rank) {
      const text = rank === null ? line : `${prefix(rank, job.ranks, stream)} ${line}`;
      write(stream, isComplete ? `${text}\n` : text);
    },
  });
  if (job.signal?.aborted) return result;
  if (result.isTimedOut) {
    const place = where === null ? "" : `; the ranks of this machine were here:\n${where}`;
    console.error(`error: the job did not end within ${job.timeoutSeconds} s and was ended${place}`);
  } else if (failure !== null) console.error(`error: ${failure}`);
  return result;
}
