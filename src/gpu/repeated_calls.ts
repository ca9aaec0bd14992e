/**
 * Calls that put work on streams, and are made again and again: from some time on a graph makes them at once, which takes
 * the host a fraction of the time.
 *
 * @module
 */
import { NativeError } from "../errors.ts";
import type { Device } from "./device.ts";
import { Graph } from "./graph.ts";
import { Stream } from "./stream.ts";

/** How often calls are made one by one first: a graph that is hardly launched does not make up for its making. */
const WORTH_CAPTURING = 16;

/** Calls in some variants, which take turns. */
export class RepeatedCalls implements Disposable {
  readonly #device: Device;
  readonly #graphs = new Map<number, Graph>();
  /** What is captured: a stream of its own, since the one that calls are put on may be one that cannot be. */
  #captured: Stream | null = null;
  #count = 0;
  #isRefused = false;

  /** For streams of a GPU. */
  constructor(device: Device) {
    this.#device = device;
  }

  /**
   * Put calls on a stream, and on others which it joins in the end. `make` makes those of a variant, on the stream that it is
   * given: the same ones each time.
   */
  put(stream: Stream, variant: number, make: (stream: Stream) => void): void {
    const graph = this.#graphs.get(variant) ?? this.#capture(variant, make);
    if (graph === null) make(stream);
    else graph.launch(stream);
  }

  /** Let go of the graphs: calls will be other ones. What was launched runs on. */
  forget(): void {
    for (const graph of this.#graphs.values()) graph[Symbol.dispose]();
    this.#graphs.clear();
    this.#count = 0;
  }

  /** Let go of everything, after what was launched. */
  [Symbol.dispose](): void {
    this.forget();
    this.#captured?.[Symbol.dispose]();
    this.#captured = null;
  }

  #capture(variant: number, make: (stream: Stream) => void): Graph | null {
    if (this.#isRefused || this.#count++ < WORTH_CAPTURING) return null;
    const stream = this.#captured ??= new Stream(this.#device);
    try {
      const graph = Graph.capture({ stream }, () => make(stream));
      this.#graphs.set(variant, graph);
      return graph;
    } catch (error) {
      // Something in this process may be in the way; what is wrong with the calls themselves is told when they are made.
      if (!(error instanceof NativeError)) throw error;
      this.#isRefused = true;
      return null;
    }
  }
}
