/**
 * What is done with the runs of a product on a GPU, whatever runs it.
 *
 * @module
 */
import { RunOrder } from "../../gpu/run_order.ts";
import type { Stream } from "../../gpu/stream.ts";
import { type Recorder, recorder } from "../../runtime/recorder.ts";
import { Tracer } from "../../runtime/tracer.ts";
import type { Interval } from "../../runtime/timeline.ts";
import type { Patience } from "./patience.ts";

/** A product that is run many times, on one rank of several. */
export abstract class GpuProduct {
  /** Where runs are unless something else is said. */
  protected abstract readonly stream: Stream;
  protected abstract readonly patience: Patience;
  /** Notes when each step of a run begins and ends, where that is wanted. */
  protected tracer: Tracer | null = null;
  #isMeeting = false;

  /** What reports say of its runs. */
  get notes(): readonly string[] {
    if (!this.#isMeeting) return [];
    return ["it was captured in a CUDA graph: since then the ranks meet at the beginning of every execution"];
  }

  /** What notes the steps of a run: for its own timeline, or a recording that is going on. */
  protected get tracing(): Tracer | Recorder | null {
    return this.tracer ?? recorder;
  }

  /** The order of what waits for other GPUs, of this product and of others. */
  protected get order(): RunOrder {
    return RunOrder.of(this.stream);
  }

  /** Whether a run on this stream begins with a meeting: once one was captured in a graph, all do. */
  protected isMeeting(stream: Stream): boolean {
    return this.#isMeeting ||= stream.isCapturing;
  }

  /** Wait until all ranks are here, and have taken their flags back if that is said. */
  protected abstract meet(stream: Stream, takesBack: boolean): void;

  /** Run once, after all ranks have met, and return when each step began and ended. All ranks have to do it. */
  protected traced(rank: number, run: () => void): Interval[] {
    this.settle();
    this.meet(this.stream, false);
    using tracer = this.tracer = new Tracer(rank, this.stream);
    try {
      run();
    } finally {
      this.tracer = null;
    }
    this.stream.synchronize();
    return tracer.intervals();
  }

  /** Have the product's own stream wait for runs on others. */
  settle(): void {
    this.order.begin(this.stream);
  }

  /**
   * Wait for all runs so far.
   *
   * @throws {CollectiveError} if one of them has waited too long for another rank; results since then are wrong.
   */
  check(): void {
    this.stream.synchronize();
    this.checkEnded();
  }

  /**
   * As {@linkcode check}, for runs that have ended already.
   *
   * @throws {CollectiveError} if one of them has waited too long for another rank.
   */
  checkEnded(): void {
    this.patience.check();
  }
}
