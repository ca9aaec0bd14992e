/**
 * What the script awaits, while the event loop turns, or asks for again and again: a request that lasts. Whoever watches is
 * told, until the request is complete or the rank makes a call that waits itself.
 *
 * @module
 */

export interface AwaitedCall {
  /** The function that began it. */
  readonly name: string;
  /** Whose collective calls `turn` counts; 0 where that is not known. */
  readonly scope: number;
  /** The number of the collective call; 0 for a message. */
  readonly turn: number;
  /** The line of the script that began it; empty if that is not known. */
  readonly line: string;
}

/** Is told of it. */
export interface AwaitingWatcher {
  begin(awaited: AwaitedCall): void;
  /** It was asked for once more, and is not complete. */
  goOn(): void;
  end(): void;
}

const watchers: AwaitingWatcher[] = [];

/** What the watchers were told of; null while nothing is awaited, or the rank is in a call that waits. */
export let awaited: AwaitedCall | null = null;

/** Have a watcher told from now on. */
export function watchAwaiting(watcher: AwaitingWatcher): void {
  watchers.push(watcher);
}

/** What was not asked for for so long gives way to what is. */
const LONGEST_SILENCE_MILLISECONDS = 1000;

/** When `awaited` was asked for last. */
let askedAt = 0;

/**
 * Tell of something that is awaited, each time that it is asked for, unless another one is asked for as well; a collective call
 * comes before a message.
 */
export function beginAwaiting(what: AwaitedCall): void {
  const now = performance.now();
  if (awaited !== null && awaited !== what) {
    const isFirst = awaited.turn > 0 || what.turn === 0;
    if (isFirst && now - askedAt < LONGEST_SILENCE_MILLISECONDS) return;
    endAwaiting();
  }
  askedAt = now;
  if (awaited === what) return void watchers.forEach((watcher) => watcher.goOn());
  awaited = what;
  for (const watcher of watchers) watcher.begin(what);
}

/** Tell that it is over: this one, or whatever it is. */
export function endAwaiting(what: AwaitedCall | null = awaited): void {
  if (awaited === null || awaited !== what) return;
  awaited = null;
  for (const watcher of watchers) watcher.end();
}

/** What is asked for so often, for so long, in vain is told of. */
const LASTING_TIMES = 10;
const LASTING_MILLISECONDS = 1000;

/** Something that a script may ask for again and again: once that lasts, it waits as one that awaits does. */
export class Asking {
  readonly #describe: () => AwaitedCall;
  #what: AwaitedCall | null = null;
  #times = 0;
  #since = 0;

  /** What is awaited is described when it is told of for the first time. */
  constructor(describe: () => AwaitedCall) {
    this.#describe = describe;
  }

  /** It was asked for in vain. */
  again(): void {
    const now = performance.now();
    if (this.#times++ === 0) this.#since = now;
    if (this.#times < LASTING_TIMES || now - this.#since < LASTING_MILLISECONDS) return;
    beginAwaiting(this.#what ??= this.#describe());
  }

  /** It is there: what is asked for next is something else. */
  end(): void {
    if (this.#what !== null) endAwaiting(this.#what);
    [this.#what, this.#times] = [null, 0];
  }
}
