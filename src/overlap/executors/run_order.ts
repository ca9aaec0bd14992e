/**
 * Runs of a product on a GPU follow each other, whatever stream they are on.
 *
 * @module
 */
import { Event } from "../../gpu/event.ts";
import type { Stream } from "../../gpu/stream.ts";

/** Keeps runs in order. */
export class RunOrder implements Disposable {
  readonly #stream: Stream;
  /** The last run, if it was on another stream than the product's. */
  #elsewhere: Stream | null = null;
  #event: Event | null = null;

  /** `stream` is where runs are unless something else is said. */
  constructor(stream: Stream) {
    this.#stream = stream;
  }

  /** Have what follows on a stream come after the last run, and after what is on the product's stream. */
  begin(stream: Stream): void {
    const last = this.#elsewhere;
    const isOther = stream !== this.#stream;
    // A graph that is captured cannot wait for what is no part of it: the host does.
    const isCapturing = (isOther || last !== null) && stream.isCapturing;
    if (last !== null && last !== stream) {
      if (isCapturing) this.#event!.synchronize();
      else stream.wait(this.#event!);
    }
    // Each time: results are allocated there, and operands written.
    if (isOther && !isCapturing) stream.wait(this.#stream);
    if (!isOther) this.#elsewhere = null;
  }

  /** The run is on this stream. */
  end(stream: Stream): void {
    if (stream === this.#stream) return;
    this.#event ??= new Event();
    this.#event.record(stream);
    this.#elsewhere = stream;
  }

  /** Free its event. */
  [Symbol.dispose](): void {
    this.#event?.[Symbol.dispose]();
    this.#event = null;
  }
}
