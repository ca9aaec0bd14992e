/**
 * Who ended a job, how, and with which exit code: read from what launchers and ranks print.
 *
 * @module
 */
import { constants } from "node:os";
import type { ToldEnd } from "../../internals.ts";
import type { LauncherKind } from "./launcher.ts";

/** How a rank ended that did not end well. */
interface RankEnd {
  /** Its number, if it is known. */
  rank: number | null;
  /** Its exit code, if it was not ended by a signal. */
  code: number | null;
  signal: { number: number; name: string } | null;
}

/** What a rank tells of its end. */
interface LastWords {
  rank: number;
  code: number;
  how?: string;
  /** What the job's ranks alone know. */
  job?: string;
}

/** How a rank tells of its end, where `DISTMATH_TELL_END` asks for it: a line, unless others' parts of lines are around it. */
const LAST_WORDS = /distmath-end: (\{[^{}]*\})/;

/** What V8 says before it ends a process whose objects have no room. */
const OUT_OF_HEAP = /^# Fatal JavaScript out of memory: /;

const HEAP = "its JavaScript objects need more memory than V8 allows (--v8-flags=--max-old-space-size=8192, in MiB, " +
  "allows more; elements of arrays do not count)";

/** The variable that has ranks tell of their end: with its value, which the job's ranks alone know. */
export const TELL_END = "DISTMATH_TELL_END";

/** For Hydra to read what a rank has printed: it stops reading when one is gone. */
const LAST_WORDS_SECONDS = 0.1;

/**
 * The program of a rank under a shell that tells of an end that is not well. Hydra names no ranks, only processes, and
 * sometimes one that it ended itself after another had gone. It may also overlook a process that exits (`ffi/mpi/hydra.ts`),
 * but none that a signal ends.
 */
export function underShell(kind: LauncherKind, program: readonly string[]): readonly string[] {
  if (kind !== "mpich") return program;
  const words = `distmath-end: {\\"rank\\":$PMI_RANK,\\"code\\":$code,\\"job\\":\\"$${TELL_END}\\"}`;
  const script = `"$@"; code=$?; [ $code = 0 ] || { echo "${words}" >&2; sleep ${LAST_WORDS_SECONDS}; kill -KILL $$; }`;
  return ["sh", "-c", script, "sh", ...program];
}

/**
 * Gathers what is known of the rank that ended a job.
 */
export class JobEnd {
  readonly #job: string | undefined;
  readonly #words: LastWords[] = [];
  #end: RankEnd | null = null;
  #signalled: RankEnd | null = null;
  /** A host that the launcher lost, in words. */
  #lost: string | null = null;
  /** A rank that is no more, and that the launcher took no notice of. */
  #gone: number | null = null;
  #isOutOfHeap = false;

  /** Words count if they come with this value of `TELL_END`; all of them when left out. */
  constructor(job?: string) {
    this.#job = job;
  }

  /** Take a rank's own words out of a line; returns the rest, or `null` if nothing is left. */
  take(line: string): string | null {
    this.#isOutOfHeap ||= OUT_OF_HEAP.test(line);
    const own = LAST_WORDS.exec(line);
    const words = own && parseWords(own[1]);
    if (words === null || (this.#job !== undefined && words.job !== this.#job)) return line;
    this.#words.push(words);
    return line.replace(own![0], "") || null;
  }

  /** Take what a rank has told by the memory that it shared, or was found of it, if no words have come: launchers may lose these. */
  add(told: ToldEnd): void {
    if (this.#words.length === 0 && this.#lost === null) this.#words.push(told);
  }

  /** Take a rank that is no more, and that the launcher took no notice of, if there is one. */
  lose(rank: number | null): void {
    this.#gone ??= rank;
  }

  /** Take a launcher's words on a rank; the first ones count, later ones are about what followed from it. */
  note(text: string): void {
    const openMpiSignal = /process rank (\d+) .*exited on\s+signal (\d+) \(([^)]*)\)/.exec(text);
    const openMpiAbort = /MPI_ABORT was invoked on rank (\d+) .*error ?code:?\s+(-?\d+)/is.exec(text);
    const openMpiExit = /Process name: \[(?:\[\d+,\d+\]|\S+@\d+),(\d+)\]\s+Exit code:\s+(\d+)/.exec(text);
    const mpichAbort = /^Abort\((-?\d+)\) on node \d+ \(rank (\d+) in comm 0\)/.exec(text);
    const hydraExit = /PID \d+ RUNNING AT .*EXIT CODE: (\d+)/s.exec(text);
    const hydraSignal = /EXIT STRING: (.*) \(signal (\d+)\)/.exec(text);
    const slurmExit = /^srun: error: \S+: tasks? (\d+)[\d,-]*: Exited with exit code (\d+)/.exec(text);
    const slurmSignal = /^srun: error: \S+: tasks? (\d+)[\d,-]*: ([A-Z][\w ]*\w)/.exec(text);
    this.#lost ??= describeLostHost(text);
    if (openMpiSignal) {
      const [, rank, number, name] = openMpiSignal;
      this.#set({ rank: Number(rank), code: null, signal: { number: Number(number), name } });
    } else if (openMpiAbort) this.#set({ rank: Number(openMpiAbort[1]), code: Number(openMpiAbort[2]), signal: null });
    else if (openMpiExit) this.#set({ rank: Number(openMpiExit[1]), code: Number(openMpiExit[2]), signal: null });
    else if (mpichAbort) this.#set({ rank: Number(mpichAbort[2]), code: Number(mpichAbort[1]), signal: null });
    // It tells of all tasks that it has ended in any order, but after the words of the one that failed.
    else if ((slurmExit || slurmSignal) && this.#words.length > 0) return;
    else if (slurmExit) this.#set({ rank: Number(slurmExit[1]), code: Number(slurmExit[2]), signal: null });
    else if (slurmSignal && signalTexts.has(slurmSignal[2])) {
      const [, rank, name] = slurmSignal;
      this.#set({ rank: Number(rank), code: null, signal: { number: signalTexts.get(name)!, name } });
    } else if (hydraExit) this.#set({ rank: null, code: Number(hydraExit[1]), signal: null });
    else if (hydraSignal && this.#words.length === 0) {
      const signal = { number: Number(hydraSignal[2]), name: hydraSignal[1] };
      // It tells of the same process as the words before, whose code was the signal.
      if (this.#end?.code === signal.number) this.#end = null;
      this.#set({ rank: null, code: null, signal });
    }
  }

  /** Forget the launcher's words: they were a script's, since nothing came of them. */
  forget(): void {
    this.#end = this.#signalled = this.#lost = null;
  }

  #set(end: RankEnd): void {
    this.#end ??= end;
    if (end.signal !== null) this.#signalled = end;
  }

  /** Whether a rank has ended otherwise than well, so that its launcher is about to end the others. */
  get isCertain(): boolean {
    return this.#end !== null || this.isTold;
  }

  /** Whether the shell above a rank has told so: a launcher's words may be a script's. */
  get isTold(): boolean {
    return this.#words.some(({ how }) => how === undefined);
  }

  /** Whether there are words of a launcher, or of a script that prints such, on what ends a job. */
  get isSaid(): boolean {
    return this.#end !== null || this.#lost !== null;
  }

  /** The rank that was the first to end; `null` if nothing is known. */
  #first(): RankEnd & { how?: string | undefined } | null {
    const rank = this.#end?.rank ?? null;
    const words = this.#words.find((words) => rank === null || words.rank === rank);
    if (!words) return this.#end;
    const name = signalNames.get(words.code - 128);
    const signal = words.how === undefined && name !== undefined ? { number: words.code - 128, name } : null;
    return { ...words, signal };
  }

  /** The launcher's words on a rank that a signal ended, whatever came first; or `null`. */
  get signal(): string | null {
    const first = this.#first();
    return first?.signal ? this.#describeSignal(first) : this.#signalled && this.#describeSignal(this.#signalled);
  }

  /** The exit code of the job: the rank's own where the launcher's is another one; 128 + n if signal n ended it. */
  code(launcherCode: number): number {
    // Open MPI 5 takes a lost host for a success.
    if (launcherCode === 0) return this.#lost === null && this.#gone === null ? 0 : 1;
    const end = this.#first();
    if (end?.signal) return 128 + end.signal.number;
    const code = end?.code ?? 0;
    // The system keeps 8 bits of it: 256 would be none.
    return code % 256 === 0 ? launcherCode : code;
  }

  /** Who ended the job, how, and with which code; `code` is the launcher's. */
  describe(launcherCode: number): string {
    const code = this.code(launcherCode);
    const end = this.#first();
    if (end === null && this.#lost !== null) return `${this.#lost}, and the job ended with exit code ${code}`;
    if (end === null) {
      const who = this.#gone === null
        ? "a rank failed"
        : `rank ${this.#gone} is no more, of which the launcher took no notice`;
      return `${who}, and the job ended with exit code ${code}`;
    }
    if (end.signal !== null) return `${this.#describeSignal(end)}, and the job with exit code ${code}`;
    return `${nameRank(end)} ended the job with exit code ${code}${end.how === undefined ? "" : `: ${end.how}`}`;
  }

  #describeSignal(end: RankEnd): string {
    const { number, name } = end.signal!;
    const why = this.#isOutOfHeap ? `, since ${HEAP}` : "";
    return `${nameRank(end)} was ended by signal ${number} (${name})${why}`;
  }
}

/** A rank's own words; `null` if they are a script's. */
function parseWords(text: string): LastWords | null {
  try {
    const words = JSON.parse(text);
    return Number.isInteger(words.rank) && Number.isInteger(words.code) ? words : null;
  } catch {
    return null;
  }
}

/** What a launcher's words say of another host that it has lost; `null` if they are about something else. */
function describeLostHost(text: string): string | null {
  const lost = /(?:ORTE|PRTE) has lost communication with a remote daemon.*Remote daemon: \S+ on node (\S+)/.exec(text);
  if (lost) return `the connection to ${lost[1]} was lost`;
  const silent = /A daemon failed to report back after being spawned.*Remote host: +(\S+)/.exec(text);
  if (silent) return `${silent[1]} cannot be reached`;
  const isLost = /ORTE was unable to reliably start one or more daemons|^\[mpiexec@\S+\] control_cb .*assert/.test(
    text,
  );
  return isLost ? "another host cannot be reached" : null;
}

/** The names of signals: `SIGKILL` by 9. */
const signalNames = new Map(Object.entries(constants.signals).reverse().map(([name, number]) => [number, name]));

/** The numbers of signals by what Slurm calls them. */
const signalTexts = new Map<string, number>(
  ([
    ["Hangup", "SIGHUP"],
    ["Interrupt", "SIGINT"],
    ["Illegal instruction", "SIGILL"],
    ["Aborted", "SIGABRT"],
    ["Bus error", "SIGBUS"],
    ["Floating point exception", "SIGFPE"],
    ["Killed", "SIGKILL"],
    ["Out Of Memory", "SIGKILL"],
    ["Segmentation fault", "SIGSEGV"],
    ["Terminated", "SIGTERM"],
  ] as const).map(([text, name]) => [text, constants.signals[name]]),
);

function nameRank({ rank }: RankEnd): string {
  return rank === null ? "a rank" : `rank ${rank}`;
}
