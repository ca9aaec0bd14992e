/**
 * A time limit for each step of a job, whose number of steps nobody knows beforehand.
 *
 * @module
 */

/** Timers take 31 bits of milliseconds, and end at once by more. */
const LONGEST_TIMER = 2 ** 31 - 1;

/** Aborts its signal, as `AbortSignal.timeout` does, unless the next step comes in time. */
export class StepLimit implements Disposable {
  readonly #controller = new AbortController();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #seconds = 0;

  /** The first step begins, and may take so long. */
  constructor(seconds: number) {
    this.restart(seconds);
  }

  /** Ends the job. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** What the current step may take. */
  get seconds(): number {
    return this.#seconds;
  }

  /** The next step begins, and may take so long. */
  restart(seconds: number): void {
    clearTimeout(this.#timer);
    if (this.signal.aborted) return;
    this.#seconds = seconds;
    const reason = () => new DOMException(`the step took more than ${seconds} s`, "TimeoutError");
    this.#timer = setTimeout(() => this.#controller.abort(reason()), Math.min(LONGEST_TIMER, seconds * 1000));
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
