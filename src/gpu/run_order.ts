/**
 * Work in which GPUs wait for each other, one after the other, whatever streams it is on: where two GPUs began two such
 * works in different orders, each would wait for what the other has not begun.
 *
 * @module
 */
import { Event } from "./event.ts";
import type { Stream } from "./stream.ts";

/** The last such work on a GPU. */
interface Last {
  /** Where it is; null before the first. */
  stream: Stream | null;
  /** Where it ends, for streams that are no runtime's. */
  readonly end: Event;
  isMarked: boolean;
}

/** Before the first. */
const nothing = (): Last => ({ stream: null, end: new Event(), isMarked: false });

/** By the number of the GPU. */
const lasts = new Map<number, Last>();

const orders = new WeakMap<Stream, RunOrder>();

/** Keeps works that begin after what is on a stream, a runtime's, in the order in which the host puts them on streams. */
export class RunOrder {
  readonly #own: Stream;
  readonly #last: Last;
  #count = 0;

  private constructor(own: Stream, last: Last) {
    this.#own = own;
    this.#last = last;
  }

  /** That of a runtime's stream. */
  static of(own: Stream): RunOrder {
    let order = orders.get(own);
    if (order !== undefined) return order;
    const { ordinal } = own.device;
    let last = lasts.get(ordinal);
    if (last === undefined) lasts.set(ordinal, last = nothing());
    orders.set(own, order = new RunOrder(own, last));
    return order;
  }

  /** Have a new stream stand for a GPU of its own: where a process plays several ranks, each waits for the others. */
  static apart(own: Stream): void {
    orders.set(own, new RunOrder(own, nothing()));
  }

  /** How often something has begun, or waited for what is elsewhere. */
  get count(): number {
    return this.#count;
  }

  /**
   * Have what follows on a stream come after the last work, and after what is on the runtime's stream. What follows on one
   * that is captured for a graph comes after the last work alone, for which the host waits: it is no part of the graph.
   */
  begin(on: Stream): void {
    const [own, last] = [this.#own, this.#last];
    this.#count++;
    if (on === own && (last.stream === own || last.stream === null)) return;
    const isCapturing = on.isCapturing;
    if (last.stream !== null && last.stream !== on) follow(on, last, isCapturing);
    // Each time: results are allocated there, and operands written.
    if (on !== own && !isCapturing) on.wait(own);
    if (on !== own) return;
    last.stream = own;
    last.isMarked = false;
  }

  /** The work is on this stream. */
  end(on: Stream): void {
    const [own, last] = [this.#own, this.#last];
    // What is captured takes its turn when the graph is launched.
    if (on !== own && on.isCapturing) return;
    last.stream = on;
    last.isMarked = on !== own;
    if (last.isMarked) last.end.record(on);
  }

  /** Have the runtime's stream wait for works on others. */
  settle(): void {
    this.begin(this.#own);
  }
}

function follow(on: Stream, { stream, end, isMarked }: Last, isCapturing: boolean): void {
  if (!isMarked && stream!.isDisposed) return;
  const work = isMarked ? end : stream!;
  if (isCapturing) work.synchronize();
  else on.wait(work);
}
