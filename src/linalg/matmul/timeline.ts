/**
 * What the ranks of a product do when: predicted, and measured.
 *
 * @module
 */
import { chromeTrace, type Interval, timelineSVG } from "../../overlap/timeline.ts";

/** What the ranks do when, in microseconds since all of them began. Made by `Matmul.timeline`. */
export class Timeline {
  /** What a model says. */
  readonly predicted: readonly Interval[];
  /** What one execution was, by events on the GPUs. */
  readonly measured: readonly Interval[];

  /** Both, of all ranks. */
  constructor(predicted: readonly Interval[], measured: readonly Interval[]) {
    this.predicted = predicted;
    this.measured = measured;
  }

  /** A picture of one of them: a row for each stream of each rank. */
  toSVG(which: "predicted" | "measured" = "measured"): string {
    return timelineSVG(this[which], which);
  }

  /** One of them for chrome://tracing and Perfetto: a process a rank, a thread a stream. */
  toChromeTrace(which: "predicted" | "measured" = "measured"): string {
    return chromeTrace(this[which]);
  }
}
