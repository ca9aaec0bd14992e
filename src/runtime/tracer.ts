/**
 * When what a rank puts on streams begins and ends, by events around it.
 *
 * @module
 */
import { Event } from "../gpu/event.ts";
import type { Stream } from "../gpu/stream.ts";
import type { Interval, Span } from "./timeline.ts";

/** Notes the intervals of one run on one rank, from a moment on at which all ranks have met. */
export class Tracer implements Disposable {
  readonly #rank: number;
  readonly #met: Event;
  readonly #spans: { readonly span: Span; readonly start: Event; readonly end: Event }[] = [];

  /** The ranks have met when the stream is here. */
  constructor(rank: number, stream: Stream) {
    this.#rank = rank;
    this.#met = stream.record(new Event({ timing: true }));
  }

  /** Put something on a stream, between two events. */
  span(stream: Stream, span: Span, put: () => void): void {
    const start = stream.record(new Event({ timing: true }));
    put();
    this.#spans.push({ span, start, end: stream.record(new Event({ timing: true })) });
  }

  /** How many spans there are. */
  get length(): number {
    return this.#spans.length;
  }

  /** Wait until all of it has happened, on whatever streams. */
  synchronize(): void {
    for (const { end } of this.#spans) end.synchronize();
  }

  /** What was noted, in microseconds since the ranks met, once all of it has happened. */
  intervals(): Interval[] {
    return this.#spans.map(({ span, start, end }) => {
      const from = start.elapsedSince(this.#met) * 1e6;
      // CUDA tells float32: of what began long ago the length is still exact so.
      return { ...span, rank: this.#rank, start: from, end: from + end.elapsedSince(start) * 1e6 };
    });
  }

  /** Free the events. */
  [Symbol.dispose](): void {
    for (const event of [this.#met, ...this.#spans.flatMap(({ start, end }) => [start, end])]) event[Symbol.dispose]();
  }
}
