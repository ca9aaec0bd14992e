/**
 * Work in which GPUs wait for each other, one after the other, whatever streams it is on: where two GPUs began two such
 * works in different orders, each would wait for what the other has not begun.
 *
 * @module
 */
import { Event } from "./event.ts";
import type { Stream } from "./stream.ts";

const orders = new WeakMap<Stream, RunOrder>();

/** Keeps works that begin after what is on a stream, a runtime's, in the order in which the host puts them on streams. */
export class RunOrder {
  readonly #stream: Stream;
  /** The end of the last one, if it is on another stream. */
  #elsewhere: { readonly end: Event; stream: Stream } | null = null;
  #count = 0;

  private constructor(stream: Stream) {
    this.#stream = stream;
  }

  /** That of a runtime's stream. */
  static of(stream: Stream): RunOrder {
    let order = orders.get(stream);
    if (order === undefined) orders.set(stream, order = new RunOrder(stream));
    return order;
  }

  /** How many works have begun. */
  get count(): number {
    return this.#count;
  }

  /** Have what follows on a stream come after the last work, and after what is on the runtime's stream. */
  begin(on: Stream): void {
    const [own, last] = [this.#stream, this.#elsewhere];
    this.#count++;
    if (on === own && last === null) return;
    // A graph that is captured cannot wait for what is no part of it: the host does.
    const isCapturing = on.isCapturing;
    if (last !== null && last.stream !== on) {
      if (isCapturing) last.end.synchronize();
      else on.wait(last.end);
    }
    // Each time: results are allocated there, and operands written.
    if (on !== own && !isCapturing) on.wait(own);
    if (on !== own || last === null) return;
    last.end[Symbol.dispose]();
    this.#elsewhere = null;
  }

  /** The work is on this stream. */
  end(on: Stream): void {
    // What is captured takes its turn when the graph is launched.
    if (on === this.#stream || on.isCapturing) return;
    this.#elsewhere ??= { end: new Event(), stream: on };
    this.#elsewhere.end.record(on);
    this.#elsewhere.stream = on;
  }

  /** Have the runtime's stream wait for works on others. */
  settle(): void {
    this.begin(this.#stream);
  }
}
