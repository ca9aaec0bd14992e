/**
 * Telling of ranks that wait for long, by the memory that those of a machine share (`ffi/mpi/presence.ts`).
 *
 * @module
 */
import { FIELDS, PRESENT, WORDS, WORDS_OF_RANK } from "../../ffi/mpi/presence_page.ts";
import { namesOfFunctions } from "../../ffi/mpi/waits.ts";
import { describeElsewhere, describeRanks } from "./watchdog_thread.ts";

/** How the memory is read: a thread sees no constants. */
export interface PageReading {
  readonly head: typeof WORDS;
  readonly wordsOfRank: number;
  readonly fields: typeof FIELDS;
  readonly present: typeof PRESENT;
  readonly names: ReadonlyMap<number, string>;
}

/** How the memory of this version is read. */
export function pageReading(): PageReading {
  return { head: WORDS, wordsOfRank: WORDS_OF_RANK, fields: FIELDS, present: PRESENT, names: namesOfFunctions() };
}

/** What a rank was in when it was first seen there. */
interface Sighting {
  readonly call: string;
  /** How often it had asked for what it awaits when it was seen last. */
  readonly asked: number;
  readonly since: number;
}

/** Where the words of each rank begin. */
export function placesOf(words: Int32Array, { head, wordsOfRank }: PageReading): number[] {
  const ranks = Math.min(words[head.RANKS], words.length / wordsOfRank - 1);
  return Array.from({ length: ranks }, (_, i) => (i + 1) * wordsOfRank);
}

/** Whether a rank waits. */
export function isWaiting(words: Int32Array, at: number, { fields, present }: PageReading): boolean {
  return words[at + fields.STATE] === present.STARTING || words[at + fields.CALLS] % 2 !== 0;
}

/** Whether what a rank waits in is for all ranks of a communicator. */
export function isOfAll(words: Int32Array, at: number, { fields, present }: PageReading): boolean {
  const isStarting = words[at + fields.STATE] === present.STARTING;
  return isStarting || words[at + fields.TURN] > 0 || words[at + fields.NAME_BYTES] > 0;
}

/** A line for each rank, as one of them sees it; and one on those of other machines, of a job of so many ranks. */
export function describeFor(words: Int32Array, own: number, reading: PageReading, size: number): string {
  const { fields, wordsOfRank, names } = reading;
  const ranks = placesOf(words, reading).length;
  const page = { byteLength: words.byteLength, words: wordsOfRank, fields, ranks, size, own };
  return describeRanks(words, page, names) + describeElsewhere(words, page);
}

/**
 * Tells of ranks that wait for long. Each time that something was told, twice as much patience is had from then on: ranks
 * may have good reasons to wait. Also runs in a thread, where it sees nothing of this module but the functions above.
 */
export class LongWaits {
  /** A rank may wait so much longer for others to start MPI. */
  static readonly #patienceAtStart = 6;
  /** So many seconds longer where ranks of other machines may have left: those who wait for them end the job by themselves. */
  static readonly #graceSeconds = 2;
  /** In ms, what lies between two looks is more only if the whole job was suspended; ranks have not waited then. */
  static readonly #longestLook = 2000;
  #patience: number;
  /** The time of the last look, and how much of it has passed for the ranks. */
  #last = 0;
  #now = 0;
  readonly #ranks: number;
  readonly #reading: PageReading;
  readonly #seen = new Map<number, Sighting>();

  /** Tell of those that have waited for so many seconds; `ranks` is how many the job has, on all machines. */
  constructor(patienceSeconds: number, ranks: number, reading: PageReading = pageReading()) {
    this.#patience = patienceSeconds;
    this.#ranks = ranks;
    this.#reading = reading;
  }

  /**
   * What is to be told now, or `null`: of collective calls, and of others if all ranks wait. Of ranks that wait for one that
   * has left, that one tells, and of those that are waited for, unless they are on other machines, which nobody here sees;
   * but where all others wait, and that has led to nothing for long, they may wait for each other.
   */
  look(words: Int32Array, time: number = performance.now()): string | null {
    const now = this.#now += Math.min(time - this.#last, LongWaits.#longestLook);
    this.#last = time;
    const { fields, present } = this.#reading;
    const places = placesOf(words, this.#reading);
    // Nobody has come yet, as when a command has just made the memory.
    if (places.length === 0) return null;
    const grace = places.length < this.#ranks ? LongWaits.#graceSeconds : 0;
    const has = (at: number, state: number) => words[at + fields.STATE] === state;
    const left = places.filter((at) => has(at, present.LEAVING) || has(at, present.LEFT_BEFORE_START));
    const stuck = places.filter((at) => this.#isStuck(words, at, now, grace) && !left.includes(at));
    if (left.length === places.length) {
      return this.#lookElsewhere(words, places, now) ?? this.#tellOf(words, this.#lastCall(words, places, now), now);
    }
    if (left.length > 0 && !this.#areAllStuck(words, places, left, now)) {
      return this.#tellOf(words, this.#besideLeft(words, stuck, places.length - left.length, now), now);
    }
    const own = stuck.find((at) => isOfAll(words, at, this.#reading)) ??
      (stuck.length === places.length - left.length ? stuck[0] : undefined);
    return this.#tellOf(words, own, now);
  }

  /** One that is in a collective call for so long that it does not wait for who has left: of several that are still there. */
  #besideLeft(words: Int32Array, stuck: readonly number[], staying: number, now: number): number | undefined {
    if (staying < 2) return undefined;
    return stuck.find((at) => isOfAll(words, at, this.#reading) && this.#isLong(at, now));
  }

  /** One that does not come to its end, in MPI_Finalize or before, though all of this job's ranks have begun with it. */
  #lastCall(words: Int32Array, places: readonly number[], now: number): number | undefined {
    if (places.length < this.#ranks) return undefined;
    return places.find((at) => isWaiting(words, at, this.#reading) && this.#isLong(at, now));
  }

  #isLong(at: number, now: number): boolean {
    return now - this.#seen.get(at)!.since >= 2 * this.#patience * 1000;
  }

  #tellOf(words: Int32Array, own: number | undefined, now: number): string | null {
    if (own === undefined) return null;
    const { fields } = this.#reading;
    const seconds = Math.floor((now - this.#seen.get(own)!.since) / 1000);
    this.#patience *= 2;
    const who = `rank ${words[own + fields.RANK]}`;
    return `distmath: ${who} has waited for ${seconds} s; the ranks of this machine are here:\n${
      describeFor(words, own, this.#reading, this.#ranks)
    }\n` +
      "The job goes on. timeoutSeconds of initialize() would end it, and --timeout of run.";
  }

  /** Whether all that have not left, several, have waited for twice the patience, and since the last one left. */
  #areAllStuck(words: Int32Array, places: readonly number[], left: readonly number[], now: number): boolean {
    if (places.length - left.length < 2) return false;
    return places.every((at) => this.#isLong(at, now) && (left.includes(at) || isWaiting(words, at, this.#reading)));
  }

  /** What is to be told when all ranks of this machine have ended, but not the job. */
  #lookElsewhere(words: Int32Array, places: readonly number[], now: number): string | null {
    const seconds = Math.floor((now - Math.max(...places.map((at) => this.#seen.get(at)!.since))) / 1000);
    const { fields, head } = this.#reading;
    const isTold = words[head.NOTED] !== 0;
    if (places.length === this.#ranks || isTold || seconds < this.#patience) return null;
    this.#patience *= 2;
    const here = new Set(places.map((at) => words[at + fields.RANK]));
    const elsewhere = Array.from({ length: this.#ranks }, (_, rank) => rank).filter((rank) => !here.has(rank));
    return `distmath: the ranks of this machine have ended, and have waited for ${seconds} s for those of other ` +
      `machines: ${
        elsewhere.join(", ")
      }. The job goes on. timeoutSeconds of initialize() would end it, and --timeout of run.`;
  }

  #isStuck(words: Int32Array, at: number, now: number, grace: number): boolean {
    const { fields, present } = this.#reading;
    const state = words[at + fields.STATE];
    const call = `${state} ${words[at + fields.CALLS]}`;
    const seen = this.#seen.get(at);
    const asked = words[at + fields.ASKED];
    // Who awaits something, and has not asked since the last look, does something else.
    const isBusy = words[at + fields.BESIDE] !== 0 && seen?.asked === asked;
    const isSame = seen?.call === call && !isBusy;
    this.#seen.set(at, { call, asked, since: isSame ? seen.since : now });
    if (!isSame || !isWaiting(words, at, this.#reading)) return false;
    const patience = this.#patience * (state === present.STARTING ? LongWaits.#patienceAtStart : 1) + grace;
    return now - seen.since >= patience * 1000;
  }
}
