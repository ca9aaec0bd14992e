/**
 * Looking at the ranks of a job from outside: what they wait for is in memory that they share with the command that started
 * them (`ffi/mpi/presence.ts`). So a job that hangs is told of at no cost to its ranks.
 *
 * @module
 */
import { FIELDS as fields, PRESENCE_PREFIX, PRESENT, WORDS, WORDS_OF_RANK } from "../../ffi/mpi/presence.ts";
import { namesOfFunctions } from "../../ffi/mpi/waits.ts";
import { describeRanks } from "./watchdog_thread.ts";

/** A rank may wait so much longer for others to start MPI. */
const PATIENCE_AT_START = 6;

/** What a rank was in when it was first seen there. */
interface Sighting {
  readonly call: string;
  readonly since: number;
}

/**
 * Tells of ranks that wait for long. Each time that something was told, twice as much patience is had from then on: ranks
 * may have good reasons to wait.
 */
export class LongWaits {
  #patience: number;
  readonly #seen = new Map<number, Sighting>();
  readonly #names = namesOfFunctions();

  /** Tell of those that have waited for so many seconds. */
  constructor(patienceSeconds: number) {
    this.#patience = patienceSeconds;
  }

  /**
   * What is to be told now, or `null`: of collective calls, and of others if all ranks wait. Of ranks that wait for one that
   * has left, that one tells.
   */
  look(words: Int32Array, now: number = performance.now()): string | null {
    const ranks = Math.min(words[WORDS.RANKS], words.length / WORDS_OF_RANK - 1);
    const places = Array.from({ length: ranks }, (_, i) => (i + 1) * WORDS_OF_RANK);
    const stuck = places.filter((at) => this.#isStuck(words.subarray(at, at + WORDS_OF_RANK), at, now));
    const has = (at: number, state: number) => words[at + fields.STATE] === state;
    if (places.some((at) => has(at, PRESENT.LEAVING) || has(at, PRESENT.LEFT_BEFORE_START))) return null;
    const isOfAll = (at: number) =>
      words[at + fields.TURN] > 0 || words[at + fields.NAME_BYTES] > 0 || has(at, PRESENT.STARTING);
    const own = stuck.find(isOfAll) ?? (stuck.length === ranks ? stuck[0] : undefined);
    if (own === undefined) return null;
    const seconds = Math.floor((now - this.#seen.get(own)!.since) / 1000);
    this.#patience *= 2;
    const page = { byteLength: words.byteLength, words: WORDS_OF_RANK, fields, ranks, own };
    return `distmath: rank ${
      words[own + fields.RANK]
    } has waited for ${seconds} s; the ranks of this machine are here:\n` +
      `${describeRanks(words, page, this.#names)}\n` +
      "The job goes on. timeoutSeconds of initialize() would end it, and --timeout.";
  }

  #isStuck(rank: Int32Array, at: number, now: number): boolean {
    const [state, calls] = [rank[fields.STATE], rank[fields.CALLS]];
    const isStarting = state === PRESENT.STARTING;
    const call = `${state} ${calls}`;
    const seen = this.#seen.get(at);
    if (seen?.call !== call) this.#seen.set(at, { call, since: now });
    if (seen?.call !== call || !(isStarting || calls % 2 === 1)) return false;
    return now - seen.since >= this.#patience * (isStarting ? PATIENCE_AT_START : 1) * 1000;
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
  const path = `${PRESENCE_PREFIX}${Deno.pid}.${crypto.randomUUID()}`;
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
