/**
 * What launchers add to the output of a job that failed, taken out again.
 *
 * @module
 */
import { type JobOptions, type JobResult, runJob } from "./job.ts";
import type { Launcher, LauncherKind } from "./launcher.ts";

/** What a launcher writes about a job that did not end well; each is one of its blocks or lines. */
const known: Record<LauncherKind, { fence: RegExp; block: RegExp; line: RegExp }> = {
  open_mpi: {
    fence: /^-{74}\s*$/,
    block: new RegExp(
      [
        "Primary job\\s+terminated normally, but \\d+ process(es)? returned",
        "detected that one or more processes exited with non-zero status",
        "noticed that process rank \\d+",
        "has exited due to process rank \\d+",
        "MPI_ABORT was invoked on rank \\d+",
      ].join("|"),
    ),
    line:
      /^\[[^\]]+:\d+\] (\[\[[\d,]+\],\d+\] ORTE_ERROR_LOG: |\d+ more process(es)? ha(s|ve) sent help message |Set MCA parameter "orte_base_help_aggregate"|PMIX ERROR: PMIX_ERR_UNREACH )|^(mpirun|prterun): Forwarding signal \d+ to job/,
  },
  mpich: {
    fence: /^={83}\s*$/,
    block: /BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES/,
    line:
      /^Abort\(-?\d+\) on node \d+ .*application called MPI_Abort|^\[(proxy:\S+|mpiexec)@[^\]]*\] |^YOUR APPLICATION TERMINATED WITH THE EXIT STRING|^This typically refers to a problem with your application|^Please see the FAQ page for debugging suggestions/,
  },
};

/** A block of a launcher's text that is longer than this is not one of the known ones. */
const longestBlock = 30;

/**
 * Drops a launcher's own text, and the second and later copies of an error that several ranks raise, from one stream
 * of a job's output. Give it lines with {@linkcode push}, and call {@linkcode end} at the end.
 */
export class BoilerplateFilter {
  readonly #known: (typeof known)[LauncherKind];
  /** A block whose closing line has not come yet. */
  #block: string[] | null = null;
  /** First lines of the errors that were let through. */
  readonly #errors = new Set<string>();
  #isRepeating = false;
  /** Whether lines of the repeated error's stack have come. */
  #hasStack = false;
  #signal: string | null = null;

  /** A filter for what this family of launchers writes. */
  constructor(kind: LauncherKind) {
    this.#known = known[kind];
  }

  /** The launcher's own words on a rank that a signal ended, or `null`. */
  get signal(): string | null {
    return this.#signal;
  }

  /** Take a line; returns the lines to show now. */
  push(line: string): string[] {
    const { fence, line: single } = this.#known;
    if (this.#block) {
      this.#block.push(line);
      if (!fence.test(line) && this.#block.length < longestBlock) return [];
      return this.#close();
    }
    if (fence.test(line)) {
      this.#block = [line];
      return [];
    }
    if (single.test(line)) {
      this.#note(line);
      return [];
    }
    return this.#isRepeat(line) ? [] : [line];
  }

  /** The lines that were held back, at the end of the stream. */
  end(): string[] {
    return this.#block ? this.#close() : [];
  }

  #close(): string[] {
    const block = this.#block ?? [];
    this.#block = null;
    if (!this.#known.block.test(block.join("\n"))) return block;
    this.#note(block.join(" "));
    return [];
  }

  #note(text: string): void {
    const openMpi = /process rank (\d+) .*exited on\s+signal (\d+ \([^)]*\))/.exec(text);
    const hydra = /EXIT STRING: (.*) \(signal (\d+)\)/.exec(text);
    if (openMpi) this.#signal = `rank ${openMpi[1]} was ended by signal ${openMpi[2]}`;
    else if (hydra) this.#signal = `a rank was ended by signal ${hydra[2]} (${hydra[1]})`;
  }

  /** Whether a line belongs to an error that another rank has already printed: its first line, source and stack. */
  #isRepeat(line: string): boolean {
    if (/^error: Uncaught /.test(line)) {
      this.#isRepeating = this.#errors.has(line);
      this.#errors.add(line);
      this.#hasStack = false;
      return this.#isRepeating;
    }
    if (!this.#isRepeating) return false;
    const isStack = /^\s+at |^Caused by: /.test(line);
    if (this.#hasStack && !isStack) this.#isRepeating = false;
    this.#hasStack ||= isStack;
    return this.#isRepeating;
  }
}

/** How a job ended, and the launcher's own words on a rank that a signal ended, or `null`. */
export type FilteredResult = JobResult & { signal: string | null };

/** {@linkcode runJob} with its output less what the launcher adds; parts of lines pass as they come. */
export async function runFiltered(launcher: Launcher, options: JobOptions): Promise<FilteredResult> {
  const filters = { stdout: new BoilerplateFilter(launcher.kind), stderr: new BoilerplateFilter(launcher.kind) };
  const { onLine } = options;
  const result = await runJob(launcher, {
    ...options,
    onLine(stream, line, isComplete) {
      if (!isComplete) return onLine(stream, line, false);
      for (const kept of filters[stream].push(line)) onLine(stream, kept, true);
    },
  });
  for (const stream of ["stdout", "stderr"] as const) {
    for (const held of filters[stream].end()) onLine(stream, held, true);
  }
  return { ...result, signal: filters.stdout.signal ?? filters.stderr.signal };
}
