/**
 * Looking at the ranks of a job from outside: what they wait for is in memory that they share with the command that started
 * them (`ffi/mpi/presence.ts`). So a job that hangs is told of at no cost to its ranks.
 *
 * @module
 */
import { PRESENCE_PREFIX } from "../../ffi/mpi/presence.ts";
import { FIELDS as fields, LAYOUT, PRESENT, WORDS, WORDS_OF_RANK } from "../../ffi/mpi/presence_page.ts";
import { namesOfFunctions } from "../../ffi/mpi/waits.ts";
import { describeRanks } from "./watchdog_thread.ts";

/** A rank may wait so much longer for others to start MPI. */
const PATIENCE_AT_START = 6;

/** So many seconds longer where ranks of other machines may have left: those who wait for them end the job by themselves. */
const GRACE_SECONDS = 2;

/** What a rank was in when it was first seen there. */
interface Sighting {
  readonly call: string;
  readonly since: number;
}

/** Where the words of each rank begin. */
function placesOf(words: Int32Array): number[] {
  const ranks = Math.min(words[WORDS.RANKS], words.length / WORDS_OF_RANK - 1);
  return Array.from({ length: ranks }, (_, i) => (i + 1) * WORDS_OF_RANK);
}

/** Whether a rank waits. */
function isWaiting(words: Int32Array, at: number): boolean {
  return words[at + fields.STATE] === PRESENT.STARTING || words[at + fields.CALLS] % 2 === 1;
}

/** Whether what a rank waits in is for all ranks of a communicator. */
function isOfAll(words: Int32Array, at: number): boolean {
  const isStarting = words[at + fields.STATE] === PRESENT.STARTING;
  return isStarting || words[at + fields.TURN] > 0 || words[at + fields.NAME_BYTES] > 0;
}

/** A line for each rank, as one of them sees it. */
function describe(words: Int32Array, own: number): string {
  const page = { byteLength: words.byteLength, words: WORDS_OF_RANK, fields, ranks: placesOf(words).length, own };
  return describeRanks(words, page, namesOfFunctions());
}

/** Where the ranks are, as one sees it that waits for all others, or for another one; `null` if none does. */
export function whereRanksAre(words: Int32Array): string | null {
  const waiting = placesOf(words).filter((at) => isWaiting(words, at));
  const own = waiting.find((at) => isOfAll(words, at)) ?? waiting[0];
  return own === undefined ? null : describe(words, own);
}

/**
 * Tells of ranks that wait for long. Each time that something was told, twice as much patience is had from then on: ranks
 * may have good reasons to wait.
 */
export class LongWaits {
  #patience: number;
  readonly #ranks: number;
  readonly #seen = new Map<number, Sighting>();

  /** Tell of those that have waited for so many seconds; `ranks` is how many the job has, on all machines. */
  constructor(patienceSeconds: number, ranks: number) {
    this.#patience = patienceSeconds;
    this.#ranks = ranks;
  }

  /**
   * What is to be told now, or `null`: of collective calls, and of others if all ranks wait. Of ranks that wait for one that
   * has left, that one tells, and of those that are waited for, unless they are on other machines, which nobody here sees.
   */
  look(words: Int32Array, now: number = performance.now()): string | null {
    const places = placesOf(words);
    const grace = places.length < this.#ranks ? GRACE_SECONDS : 0;
    const stuck = places.filter((at) => this.#isStuck(words, at, now, grace));
    const has = (at: number, state: number) => words[at + fields.STATE] === state;
    const left = places.filter((at) => has(at, PRESENT.LEAVING) || has(at, PRESENT.LEFT_BEFORE_START));
    if (left.length > 0) return left.length < places.length ? null : this.#lookElsewhere(words, places, now);
    const own = stuck.find((at) => isOfAll(words, at)) ?? (stuck.length === places.length ? stuck[0] : undefined);
    if (own === undefined) return null;
    const seconds = Math.floor((now - this.#seen.get(own)!.since) / 1000);
    this.#patience *= 2;
    const who = `rank ${words[own + fields.RANK]}`;
    return `distmath: ${who} has waited for ${seconds} s; the ranks of this machine are here:\n${
      describe(words, own)
    }\n` +
      "The job goes on. timeoutSeconds of initialize() would end it, and --timeout.";
  }

  /** What is to be told when all ranks of this machine have ended, but not the job. */
  #lookElsewhere(words: Int32Array, places: readonly number[], now: number): string | null {
    const seconds = Math.floor((now - Math.max(...places.map((at) => this.#seen.get(at)!.since))) / 1000);
    const isTold = words[WORDS.NOTED] !== 0;
    if (places.length === this.#ranks || isTold || seconds < this.#patience) return null;
    this.#patience *= 2;
    const here = new Set(places.map((at) => words[at + fields.RANK]));
    const elsewhere = Array.from({ length: this.#ranks }, (_, rank) => rank).filter((rank) => !here.has(rank));
    return `distmath: the ranks of this machine have ended, and have waited for ${seconds} s for those of other ` +
      `machines: ${elsewhere.join(", ")}. The job goes on. timeoutSeconds of initialize() would end it, and --timeout.`;
  }

  #isStuck(words: Int32Array, at: number, now: number, grace: number): boolean {
    const state = words[at + fields.STATE];
    const call = `${state} ${words[at + fields.CALLS]}`;
    const seen = this.#seen.get(at);
    if (seen?.call !== call) this.#seen.set(at, { call, since: now });
    if (seen?.call !== call || !isWaiting(words, at)) return false;
    const patience = this.#patience * (state === PRESENT.STARTING ? PATIENCE_AT_START : 1) + grace;
    return now - seen.since >= patience * 1000;
  }
}

/** The memory of a job that is about to be started. */
export interface PresencePage extends Disposable {
  /** What `PRESENCE_VARIABLE` has to say. */
  readonly path: string;
  /** What is in it now. */
  read(): Int32Array;
}

/** Make the memory that the ranks of a job on this machine will share; `null` where there is none. */
export function makePresencePage(): PresencePage | null {
  const path = `${PRESENCE_PREFIX}${Deno.pid}.${crypto.randomUUID()}.${LAYOUT}`;
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { read: true, write: true, createNew: true, mode: 0o600 });
  } catch {
    return null;
  }
  return {
    path,
    read() {
      const bytes = new Uint8Array(file.statSync().size);
      file.seekSync(0, Deno.SeekMode.Start);
      file.readSync(bytes);
      return new Int32Array(bytes.buffer);
    },
    [Symbol.dispose]() {
      file.close();
      try {
        Deno.removeSync(path);
      } catch {
        // The last of the ranks has removed it.
      }
    },
  };
}
