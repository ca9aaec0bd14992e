/**
 * A recording of what a script does on all ranks.
 *
 * @module
 */
import type { Stream } from "../gpu/stream.ts";
import { type Agreeing, agreeStrictly, exchange } from "./agreement.ts";
import {
  clockOffsets,
  mergeSpans,
  type RecordedSpan,
  type Recorder,
  startRecorder,
  stopRecorder,
  timeBarriers,
} from "./recorder.ts";
import { Timeline } from "./timeline.ts";

/** What a recording is of: a runtime. */
interface Recordable extends Agreeing {
  readonly stream: Stream | null;
}

/**
 * What a script does from `runtime.record()` on, until `timeline()` or `stop()`: the executions of plans, and of products,
 * transforms and PBLAS routines in one call; in them BLAS, local transforms, copies; every call that waits for other ranks. On
 * GPUs products, transforms, kernels, copies and waits for other GPUs are measured by events, on the stream that each is on;
 * calls of NCCL, cuBLASMp and cuFFTMp do not tell when they wait.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, matmul, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.random(runtime, [64, 64], Slab.X);
 * using recording = runtime.record();
 * using square = matmul(a, a);
 * console.log(recording.collectives, square.shape); // { MPI_Allreduce: 1 }, and what a first product prepares; [64, 64]
 * const timeline = recording.timeline();
 * if (runtime.rank === 0) Deno.writeTextFileSync("timeline.svg", timeline.toSVG());
 * ```
 */
export class Recording implements Disposable {
  readonly #runtime: Recordable;
  readonly #recorder: Recorder;
  #spans: readonly RecordedSpan[] | null = null;
  #lanes: readonly string[] = [];

  /** Made by `Runtime.record`. */
  constructor(runtime: Recordable) {
    this.#runtime = runtime;
    this.#recorder = startRecorder(runtime.stream);
  }

  /**
   * How often this rank has called each collective function of MPI, ScaLAPACK and NCCL since the recording began, by their
   * names in C. Checks of arguments between the ranks are one `MPI_Allreduce` an operation. Local.
   */
  get collectives(): Readonly<Record<string, number>> {
    return this.#recorder.collectives;
  }

  /**
   * How often the ranks have exchanged parts of arrays since the recording began, by what the exchange is and how it
   * travels: `all-to-all in shared memory`, `all-gather by messages`. Those that are one call of MPI are in
   * {@linkcode collectives}, too. What travels inside of libraries, and in products on GPUs, is not counted. Local.
   */
  get exchanges(): Readonly<Record<string, number>> {
    return this.#recorder.exchanges;
  }

  /** End the recording; {@linkcode timeline} can still be asked for. Local. */
  stop(): void {
    if (this.#spans !== null) return;
    stopRecorder(this.#recorder);
    this.#spans = this.#recorder.spans;
    this.#lanes = this.#recorder.lanes;
    this.#recorder[Symbol.dispose]();
  }

  /**
   * End the recording, and gather what all ranks did. Collective. The clocks of the ranks are brought together by barriers:
   * they agree to about the time that one takes.
   *
   * @throws {CollectiveError} if some ranks are in another operation
   */
  timeline(): Timeline {
    const name = "Recording.timeline";
    const runtime = this.#runtime;
    agreeStrictly(runtime, name, () => this.stop());
    const times = timeBarriers(runtime.communicator);
    const all = exchange(runtime, name, () => ({ times, spans: this.#spans!, lanes: this.#lanes }));
    const offsets = clockOffsets(all.map(({ times }) => times));
    const nameOf = (lane: number, rank: number) => all[rank].lanes[lane];
    return new Timeline([], mergeSpans(all.map(({ spans }) => spans), offsets), nameOf);
  }

  /** As {@linkcode stop}. */
  [Symbol.dispose](): void {
    this.stop();
  }
}
