/**
 * Measuring several programs in turns: A B A B …, so that whatever else the machine does hits all of them alike.
 *
 * @module
 */
import { matches } from "../../scripts/results/merge.ts";
import { Job } from "./job.ts";
import type { Libraries } from "./libraries.ts";
import { launcherSettings } from "./machine.ts";
import type { Program } from "./programs.ts";
import type { Row, Verdict } from "./record.ts";
import { differences, median, ratios, summarize } from "./statistics.ts";

/** The name of the library in tables. */
export const ours = "distmath";

/** What to compare, and the bound that it should keep. */
export interface Comparison {
  /** `speed`: the peer's time over ours; `time`: ours over the peer's; `overhead`: the seconds that ours is longer. */
  quantity: "speed" | "time" | "overhead";
  /** The other program. */
  against: string;
  /** At least this for a speed, at most this for the others; left out for information only. */
  bound?: number;
}

/** One thing to measure. */
export interface Measurement {
  /** What is measured. */
  title: string;
  /** What each program does for one round: the seconds of its calls. */
  turns: Record<string, Turn>;
  /** How often everything is repeated. */
  rounds: number;
  /** Floating point operations of one call. */
  operations?: number;
  /** What to compare. */
  comparisons: Comparison[];
  /** Our own time in seconds should be at most this. */
  secondsAtMost?: number;
  /** Milliseconds to wait before each turn, for threads of the last one to fall asleep. */
  pause?: number;
}

/** A way to measure a program once, or the reason why that is impossible. */
export type Turn = (() => Promise<readonly number[]>) | Error;

/** The programs of a group: running jobs, or why they do not run. */
export type Jobs<Name extends string> = Record<Name, Job | Error> & AsyncDisposable;

function verdict(quantity: string, values: readonly number[] | null, relation: ">=" | "<=", bound?: number): Verdict {
  const value = values && summarize(values);
  const pass = value === null || bound === undefined
    ? null
    : relation === ">="
    ? value.median >= bound
    : value.median <= bound;
  return { quantity, value, relation, bound: bound ?? null, pass };
}

function compare({ quantity, against, bound }: Comparison, times: Map<string, number[]>): Verdict {
  const [mine, theirs] = [times.get(ours), times.get(against)];
  const known = mine !== undefined && theirs !== undefined;
  switch (quantity) {
    case "speed":
      return verdict(`speed / ${against}`, known ? ratios(theirs, mine) : null, ">=", bound);
    case "time":
      return verdict(`time / ${against}`, known ? ratios(mine, theirs) : null, "<=", bound);
    case "overhead":
      return verdict(`seconds beyond ${against}`, known ? differences(mine, theirs) : null, "<=", bound);
  }
}

/** Measure all programs in turns. Each round begins with another one, so that no program always comes first. */
export async function measure(measurement: Measurement): Promise<Row> {
  const { title, turns, rounds, operations, comparisons, secondsAtMost, pause = 0 } = measurement;
  const missing = new Map<string, string>();
  const times = new Map<string, number[]>();
  const runnable: [name: string, turn: () => Promise<readonly number[]>][] = [];
  for (const [name, turn] of Object.entries(turns)) {
    if (turn instanceof Error) missing.set(name, turn.message);
    else runnable.push([name, turn]);
  }
  for (let round = 0; round < rounds; round++) {
    for (let place = 0; place < runnable.length; place++) {
      const [name, turn] = runnable[(round + place) % runnable.length];
      if (missing.has(name)) continue;
      await new Promise((resolve) => setTimeout(resolve, pause));
      try {
        const seconds = median(await turn());
        times.set(name, [...times.get(name) ?? [], seconds]);
      } catch (error) {
        missing.set(name, error instanceof Error ? error.message : String(error));
        times.delete(name);
      }
    }
  }
  const names = Object.keys(turns).filter((name) => times.has(name));
  return {
    title,
    operations: operations ?? null,
    seconds: Object.fromEntries(names.map((name) => [name, summarize(times.get(name)!)])),
    missing: Object.fromEntries(missing),
    verdicts: [
      ...comparisons.map((comparison) => compare(comparison, times)),
      ...secondsAtMost === undefined ? [] : [verdict("seconds", times.get(ours) ?? null, "<=", secondsAtMost)],
    ],
  };
}

/** The turn in which a job does what an order says. */
export function turn(job: Job | Error, order: string): Turn {
  return job instanceof Error ? job : () => job.ask(order);
}

/** How many BLAS threads each rank has: all cores are used, none twice. */
export function threadsPerRank(ranks: number): number {
  return Math.max(1, Math.floor(navigator.hardwareConcurrency / ranks));
}

/** What a promise gives, or its error. */
async function orError<T>(promise: Promise<T> | T): Promise<T | Error> {
  try {
    return await promise;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}

/** What the command line asks of all groups. */
export interface BenchOptions {
  /** Milliseconds before each turn, at least. */
  pause: number;
  /** How often everything is repeated; null for as often as each row says. */
  rounds: number | null;
  /** Only rows whose titles contain it, or match it as /TEXT/, are measured. */
  filter?: string | undefined;
}

/** What a group gets: how many ranks it may use, the native libraries, and how to start programs. */
export class Bench {
  /** The number of ranks that was asked for. */
  readonly ranks: number;
  /** The native libraries in use. */
  readonly libraries: Libraries;
  readonly #options: BenchOptions;
  #show: (row: Row) => void;
  #rows: Row[] = [];

  /** Make the context of a group; `show` is called with each row when it is measured. */
  constructor(ranks: number, libraries: Libraries, options: BenchOptions, show: (row: Row) => void) {
    this.ranks = ranks;
    this.libraries = libraries;
    this.#options = options;
    this.#show = show;
  }

  /** The rows so far. */
  get rows(): readonly Row[] {
    return this.#rows;
  }

  /** Measure, and keep and show the row, if it is asked for. */
  async row(measurement: Measurement): Promise<void> {
    const { filter, rounds, pause } = this.#options;
    if (!matches(measurement.title, filter)) return;
    const row = await measure({
      ...measurement,
      rounds: rounds ?? measurement.rounds,
      pause: Math.max(pause, measurement.pause ?? 0),
    });
    this.#rows.push(row);
    this.#show(row);
  }

  /** The command that starts a program on some ranks; one rank needs no launcher. */
  command(program: Program, ranks: number): string[] {
    return ranks === 1 ? program.command : [this.libraries.launcher, "-n", String(ranks), ...program.command];
  }

  /** Environment variables for all programs on that many ranks. */
  settings(ranks: number): Record<string, string> {
    const threads = String(threadsPerRank(ranks));
    return {
      ...launcherSettings(this.libraries, ranks),
      OMP_NUM_THREADS: threads,
      MKL_NUM_THREADS: threads,
      OPENBLAS_NUM_THREADS: threads,
    };
  }

  /** Start programs on some ranks each; one that cannot be had or does not start is an Error in its place. */
  async start<Name extends string>(
    programs: Record<Name, Promise<Program> | Program>,
    ranks: number = this.ranks,
  ): Promise<Jobs<Name>> {
    const start = async (name: string, program: Program | Error): Promise<Job | Error> => {
      if (program instanceof Error) return program;
      const env = { ...this.settings(ranks), ...program.env };
      return await orError(Job.start({ name, command: this.command(program, ranks), ranks, env }));
    };
    const names = Object.keys(programs) as Name[];
    const ready = await Promise.all(names.map((name) => orError(programs[name])));
    const jobs: [Name, Job | Error][] = [];
    for (const [index, name] of names.entries()) jobs.push([name, await start(name, ready[index])]);
    const dispose = async (): Promise<void> => {
      for (const [, job] of jobs) if (job instanceof Job) await job[Symbol.asyncDispose]();
    };
    return Object.assign(Object.fromEntries(jobs) as Record<Name, Job | Error>, { [Symbol.asyncDispose]: dispose });
  }
}

/** A group of benchmarks. */
export interface Group {
  /** The name that the command line takes. */
  name: string;
  /** One line about what is compared. */
  description: string;
  /** The number of ranks, if it is always the same. */
  ranks?: number;
  /** Measure everything of the group. */
  run(bench: Bench): Promise<void>;
}
