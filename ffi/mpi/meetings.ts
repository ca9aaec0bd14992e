/**
 * Collective calls that do not match, seen before a rank waits in one: each rank notes by which functions it makes them, with
 * which root, and of how many entries, and looks at what those near it on its machine have noted.
 *
 * It looks at its first calls, at those that follow each other slowly, and at each that is not like the one before, of which
 * it also tells the ranks near it: so loops of calls of microseconds look at nothing until one of their ranks leaves them.
 *
 * @module
 */
import { FIELDS, MEETINGS, WORDS_OF_MEETING, WORDS_OF_RANK } from "./presence_page.ts";

/** So many ranks of the machine before a rank, and as many after it, are near: of ranks that disagree two neighbours do. */
const NEAR = 4;

/** What another rank writes while it is read is read again after that. */
const SETTLED_MILLISECONDS = 10;

const never = new Int32Array(new SharedArrayBuffer(4));

/** A rank that has made a collective call by another function, with another root, or of more or fewer entries. */
export interface Mismatch {
  /** The how manieth of the machine it is. */
  readonly place: number;
  /** What stands for its call. */
  readonly callHash: number;
  /** Of how many entries it is. */
  readonly count: number;
}

/** The collective calls of a rank and of those near it. */
export class Meetings {
  readonly #words: Int32Array;
  readonly #own: number;
  /** Where the words of the ranks near by begin. */
  readonly #near: readonly number[];
  #functionHash = 0;
  #count = 0;

  /** Made of the memory that ranks share, and which rank of how many of this machine this one is. */
  constructor(words: Int32Array, place: number, ranks: number) {
    this.#words = words;
    this.#own = (place + 1) * WORDS_OF_RANK;
    const steps = Array.from({ length: NEAR }, (_, i) => [i + 1, ranks - i - 1]).flat();
    const places = new Set(
      steps.map((step) => (place + step + ranks * NEAR) % ranks).filter((other) => other !== place),
    );
    this.#near = [...places].map((other) => (other + 1) * WORDS_OF_RANK);
  }

  /**
   * Note a collective call that is about to be made: its function, what stands for that and the root, and its entries, where all
   * ranks have to name as many.
   */
  enter(
    scope: number,
    turn: number,
    functionHash: number,
    callHash: number,
    count: number,
    isLooked: boolean,
  ): Mismatch | null {
    const words = this.#words;
    const at = this.#placeOf(turn);
    // No call of the communicator that stood here has what is written next.
    if (words[at] !== scope) Atomics.store(words, at, 0);
    words[at + 3] = count;
    words[at + 2] = callHash;
    words[at + 1] = turn;
    // Not plain: what the others have noted by now, or whether they tell to look, is to be read after this is written.
    Atomics.store(words, at, scope);
    const isOther = functionHash !== this.#functionHash || count !== this.#count;
    if (!isOther && !isLooked && words[this.#own + FIELDS.LOOK] === 0) return null;
    this.#functionHash = functionHash;
    this.#count = count;
    if (isOther) this.#near.forEach((near) => words[near + FIELDS.LOOK] = 1);
    // Not plain either: the others know that they have to look before this one does.
    Atomics.store(words, this.#own + FIELDS.LOOK, 0);
    if (this.#find(scope, turn, callHash, count) === null) return null;
    Atomics.wait(never, 0, 0, SETTLED_MILLISECONDS);
    return this.#find(scope, turn, callHash, count);
  }

  /** Take back the call of a number, which was not made after all. */
  takeBack(turn: number): void {
    Atomics.store(this.#words, this.#placeOf(turn), 0);
  }

  #placeOf(turn: number): number {
    return this.#own + FIELDS.MEETINGS + turn % MEETINGS * WORDS_OF_MEETING;
  }

  #find(scope: number, turn: number, callHash: number, count: number): Mismatch | null {
    const words = this.#words;
    const meeting = FIELDS.MEETINGS + turn % MEETINGS * WORDS_OF_MEETING;
    for (const near of this.#near) {
      const at = near + meeting;
      if (Atomics.load(words, at) !== scope || words[at + 1] !== turn) continue;
      if (words[at + 2] === callHash && words[at + 3] === count) continue;
      return { place: near / WORDS_OF_RANK - 1, callHash: words[at + 2], count: words[at + 3] };
    }
    return null;
  }
}
