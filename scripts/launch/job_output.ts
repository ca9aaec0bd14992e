/**
 * What launchers add to the output of a job that failed, taken out again.
 *
 * @module
 */
import { stripVTControlCharacters } from "node:util";
import { type JobOptions, type JobResult, runJob } from "./job.ts";
import { JobEnd, TELL_END, underShell } from "./job_end.ts";
import type { Launcher, LauncherKind } from "./launcher.ts";
import { areAllAlive } from "./living_ranks.ts";
import type { WatchedRanks } from "./watched_ranks.ts";
import { TaggedLines, type TaggedText } from "./tagged_output.ts";

/** What a launcher writes about a job that did not end well; each is one of its blocks or lines. */
const known: Record<LauncherKind, { fence: RegExp; block: RegExp; line: RegExp }> = {
  open_mpi: {
    fence: /^(-{60}|-{74})\s*$/,
    block: new RegExp(
      [
        "Primary job\\s+terminated normally, but \\d+ process(es)? returned",
        "detected that one or more processes exited with non-zero status",
        "noticed that process rank \\d+",
        "has exited due to process rank \\d+",
        "MPI_ABORT was invoked on rank \\d+",
        "(ORTE|PRTE) has lost communication with a remote daemon",
        "ORTE was unable to reliably start one or more daemons",
        "A daemon failed to report back after being spawned",
      ].join("|"),
    ),
    line:
      /^\[[^\]]+:\d+\] (\[\[[\d,]+\],\d+\] ORTE_ERROR_LOG: |Delaying for \d+ seconds? before aborting|\d+ more process(es)? ha(s|ve) sent help message |Set MCA parameter "orte_base_help_aggregate"|PMIX ERROR: PMIX_ERR_UNREACH )|^(mpirun|prterun): Forwarding signal \d+ to job|^Abort is in progress\.\.\.hit ctrl-c again/,
  },
  mpich: {
    fence: /^={83}\s*$/,
    block: /BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES/,
    line:
      /^Abort\(-?\d+\) on node \d+ .*application called MPI_Abort|^\[(proxy:\S+|mpiexec)@[^\]]*\] |^YOUR APPLICATION TERMINATED WITH THE EXIT STRING|^This typically refers to a problem with your application|^Please see the FAQ page for debugging suggestions/,
  },
  slurm: {
    fence: /^(?!)/,
    block: /^(?!)/,
    line:
      /^srun: error: \S+: tasks? [\d,-]+: |^srun: (Job step aborted|Terminating |Force Terminated |launch\/slurm: |First task exited|StepId|forcing job termination|got SIGCONT|cluster configuration lacks support for cpu binding)|^slurmstepd(-\S+)?: error: (\*\*\* STEP | mpi\/pmix_\w+: _errhandler: )/,
  },
};

/** What begins a colour. */
// deno-lint-ignore no-control-regex
const CONTROL = /[\x1b\x9b]/;

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
  /** What followed the first line of such an error that came again; it is part of the copy if a stack ends it. */
  #copy: string[] | null = null;
  /** Whether the stack of a copy is coming. */
  #isInStack = false;
  /** The text that was taken for the launcher's. */
  #dropped: string[] = [];
  readonly #end: JobEnd;
  readonly #hasCopies: boolean;

  /** A filter for what this family of launchers writes; what it drops is read by `end`. One rank raises no copies. */
  constructor(kind: LauncherKind, end: JobEnd = new JobEnd(), ranks = 2) {
    this.#known = known[kind];
    this.#end = end;
    this.#hasCopies = ranks > 1;
  }

  /** Take a line; returns the lines to show now. */
  push(text: string): string[] {
    const line = this.#end.take(text);
    if (line === null) return [];
    const { fence, line: single } = this.#known;
    if (this.#block) {
      this.#block.push(line);
      if (!fence.test(line) && this.#block.length < longestBlock) return [];
      return this.#close();
    }
    if (fence.test(line)) {
      this.#block = [line];
      return this.#endCopy();
    }
    if (single.test(line)) {
      this.#drop([line]);
      return [];
    }
    return this.#hasCopies ? this.#withoutCopies(line) : [line];
  }

  /** Whether the lines that come next decide about some before. */
  get isHolding(): boolean {
    return this.#block !== null || this.#copy !== null;
  }

  /** The lines that were held back, at the end of the stream. */
  end(): string[] {
    return [...this.#endCopy(), ...this.#block ? this.#close() : []];
  }

  /** The lines that were taken for the launcher's: to be shown if they were a script's. */
  takeBack(): string[] {
    const lines = this.#dropped;
    this.#dropped = [];
    return lines;
  }

  #drop(lines: readonly string[]): void {
    this.#end.note(lines.join(" "));
    this.#dropped.push(...lines);
  }

  #close(): string[] {
    const block = this.#block ?? [];
    this.#block = null;
    if (!this.#known.block.test(block.join("\n"))) return block;
    this.#drop(block);
    return [];
  }

  /** The lines to show now, but for an error that another rank has already printed: its first line, source and stack. */
  #withoutCopies(coloured: string): string[] {
    const line = CONTROL.test(coloured) ? stripVTControlCharacters(coloured) : coloured;
    const isStack = /^\s+at |^Caused by: /.test(line);
    if (isStack && this.#copy !== null) {
      this.#copy = null;
      this.#isInStack = true;
    }
    if (isStack && this.#isInStack) return [];
    this.#isInStack = false;
    if (/^error: Uncaught /.test(line)) {
      const shown = this.#endCopy();
      if (this.#errors.has(line)) this.#copy = [];
      else shown.push(coloured);
      this.#errors.add(line);
      return shown;
    }
    if (this.#copy === null) return [coloured];
    this.#copy.push(coloured);
    return this.#copy.length < longestBlock ? [] : this.#endCopy();
  }

  /** What followed a repeated line, which no stack has ended. */
  #endCopy(): string[] {
    const lines = this.#copy ?? [];
    this.#copy = null;
    return lines;
  }
}

/** As for {@linkcode runJob}, and lines are told with their ranks where the job is to tag them: null for the launcher's. */
export interface FilteredOptions extends Omit<JobOptions, "onLine"> {
  onLine: (stream: "stdout" | "stderr", line: string, isComplete: boolean, rank: number | null) => void;
  /** The ranks of this machine, if they are watched. */
  watch?: Pick<WatchedRanks, "lost" | "missing" | "ends">;
}

export interface FilteredResult extends JobResult {
  /** The launcher's words on a rank that a signal ended, or `null`. */
  signal: string | null;
  /** Which rank ended the job, how, and with which code; `null` for a job that went well, or that was ended from here. */
  failure: string | null;
}

/**
 * How long a launcher may take to end after a rank did: some hang, as Open MPI 5's does at times when a rank fails while
 * others start MPI; and MPICH's, which kills its daemon when a rank fails beside much output, and not the others. Tests set
 * the variable.
 */
const patienceSeconds = () => (Number(Deno.env.get("DISTMATH_PATIENCE_SECONDS")) || 10) / 2;

/** How often the ranks are looked at. */
const LOOK_MILLISECONDS = 500;

/** Call `end` once something has been so for as long, until disposed of. */
function afterLong(isSo: () => boolean, end: () => void): Disposable {
  const patience = patienceSeconds() * 1000;
  let since: number | null = null;
  const timer = setInterval(() => {
    since = isSo() ? since ?? performance.now() : null;
    if (since !== null && performance.now() - since >= patience) end();
  }, LOOK_MILLISECONDS);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Launchers write a block at once: lines that are held for as long are a script's, which may go on for hours. */
const holdMilliseconds = 2000;

/** {@linkcode runJob} with its output less what the launcher adds; parts of lines pass as they come, unless tagged. */
export async function runFiltered(launcher: Launcher, options: FilteredOptions): Promise<FilteredResult> {
  const job = crypto.randomUUID();
  const end = new JobEnd(job);
  const streams = ["stdout", "stderr"] as const;
  const filters = streams.map(() => new BoilerplateFilter(launcher.kind, end, options.ranks));
  const tagged = streams.map(() => options.tag ? new TaggedLines(launcher, options.ranks) : null);
  const { onLine, watch } = options;
  const hanging = new AbortController();
  const lost = () => watch?.lost() ?? null;
  const held: (ReturnType<typeof setTimeout> | undefined)[] = [];
  const showHeld = (i: number) => {
    clearTimeout(held[i]);
    for (const line of filters[i].end()) onLine(streams[i], line, true, null);
  };
  /** A script's lines, since nothing came of them. */
  const showTaken = () => {
    end.forget();
    for (const i of streams.keys()) for (const line of filters[i].takeBack()) onLine(streams[i], line, true, null);
  };
  const failures: unknown[] = [];
  const orEnd = (show: () => void) => () => {
    try {
      show();
    } catch (error) {
      failures.push(error);
      hanging.abort();
    }
  };
  const show = (i: number, { rank, text }: TaggedText) => {
    const kept = rank === null ? filters[i].push(text) : [end.take(text)].filter((line) => line !== null);
    for (const line of kept) onLine(streams[i], line, true, rank);
  };
  // Whoever has failed is no more, or has told so.
  const isWell = () =>
    (watch?.ends() ?? []).length === 0 && areAllAlive(launcher.kind, `${TELL_END}=${job}`, options.ranks);
  const missing = () => end.isCertain ? null : watch?.missing() ?? null;
  const isFailing = () => end.isTold || lost() !== null || (end.isCertain && !isWell()) || missing() !== null;
  using _timer = afterLong(isFailing, () => {
    const ended = missing();
    if (ended !== null) end.add(ended);
    end.lose(lost());
    hanging.abort();
  });
  using _other = afterLong(() => end.isSaid && isWell(), orEnd(showTaken));
  const result = await runJob(launcher, {
    ...options,
    signal: AbortSignal.any([hanging.signal, ...options.signal ? [options.signal] : []]),
    program: underShell(launcher.kind, options.program),
    env: { [TELL_END]: job, ...options.env },
    onLine(stream, line, isComplete) {
      const i = streams.indexOf(stream);
      const lines = tagged[i]?.push(line);
      if (!isComplete && !lines) {
        showHeld(i);
        return onLine(stream, line, false, null);
      }
      clearTimeout(held[i]);
      for (const one of lines ?? [{ rank: null, text: line }]) show(i, one);
      if (filters[i].isHolding) held[i] = setTimeout(orEnd(() => showHeld(i)), holdMilliseconds);
    },
  });
  if (failures.length > 0) throw failures[0];
  for (const i of streams.keys()) {
    for (const line of tagged[i]?.end() ?? []) show(i, line);
    showHeld(i);
  }
  if (result.code !== 0) { for (const told of watch?.ends() ?? []) end.add(told); }
  const isGood = end.code(result.code) === 0;
  if (isGood && end.isSaid) showTaken();
  if (isGood || result.isTimedOut || result.isInterrupted) return { ...result, signal: null, failure: null };
  // One that crashes while it ends the others, as Open MPI 5's may, is not what ended the job.
  if (result.ownSignal !== null && !end.isCertain) {
    const failure = `the launcher was ended by ${result.ownSignal}, and the job with exit code ${result.code}`;
    return { ...result, signal: null, failure };
  }
  return { ...result, code: end.code(result.code), signal: end.signal, failure: end.describe(result.code) };
}
