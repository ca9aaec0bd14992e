/**
 * Streams: the order of work on a GPU.
 *
 * @module
 */
import {
  checkCuda,
  CudaStreamCaptureStatus,
  CudaStreamFlags,
  openCudaGraphs,
  openCudaRuntime,
} from "../../ffi/cuda/runtime.ts";
import { attempt } from "../attempt.ts";
import { StateError } from "../errors.ts";
import type { Device } from "./device.ts";
import { checkLetGo, Event, isReady } from "./event.ts";
import { askingFor, told, waitForGpu } from "./waiting.ts";

/** Where CUDA tells whether a stream is captured. */
const status = new Int32Array(1);

/** Options of a {@linkcode Stream}. */
export interface StreamOptions {
  /** Streams of lower numbers go first; 0 when left out. */
  priority?: number;
  /** A `cudaStream_t` of another library to use in place of a new stream; disposing leaves it alone. */
  handle?: bigint;
  /** What timelines call it; a number alone when left out. */
  name?: string;
}

/**
 * A queue of work on a GPU. Source: cudaStreamCreateWithPriority and the functions on streams.
 *
 * @example
 * ```ts
 * import { Device, Stream } from "@distmath/distmath";
 * if (Device.count() > 0) {
 *   const device = new Device(0);
 *   device.makeCurrent();
 *   using stream = new Stream(device);
 *   stream.synchronize();
 *   console.assert(stream.isDone);
 * }
 * ```
 */
export class Stream implements Disposable {
  /** The GPU. */
  readonly device: Device;
  /** What timelines call it; empty for a number alone. */
  readonly name: string;
  readonly #isOwned: boolean;
  #handle: bigint | null;
  /** What other streams wait for, anew each time: making an event takes longer than to record it. */
  #passed: Event | null = null;
  readonly #asking = askingFor("cudaStreamSynchronize");

  /** Make a stream on a GPU, which must be current. It does not wait for the default stream. */
  constructor(device: Device, options: StreamOptions = {}) {
    this.device = device;
    this.name = options.name ?? "";
    this.#isOwned = options.handle === undefined;
    this.#handle = options.handle ?? createStream(options.priority ?? 0);
  }

  /**
   * The `cudaStream_t`.
   *
   * @throws {StateError} after the stream was disposed of.
   */
  get handle(): bigint {
    if (this.#handle === null) throw new StateError("This Stream was disposed of; make a new one.");
    return this.#handle;
  }

  /** Whether the stream was disposed of. */
  get isDisposed(): boolean {
    return this.#handle === null;
  }

  /** Wait until all that was put on the stream has been done. Source: cudaStreamSynchronize. */
  synchronize(): void {
    waitForGpu("cudaStreamSynchronize", openCudaRuntime().symbols.cudaStreamQuery, this.handle);
  }

  /**
   * Whether all that was put on the stream has been done. A script that asks ten times, for a second, waits. Source:
   * cudaStreamQuery.
   */
  get isDone(): boolean {
    return told(isIdle(this), this.#asking);
  }

  /** Whether what is put on the stream becomes part of a graph. Source: cudaStreamIsCapturing. */
  get isCapturing(): boolean {
    checkCuda(openCudaGraphs().cudaStreamIsCapturing(this.handle, status), "cudaStreamIsCapturing");
    return status[0] !== CudaStreamCaptureStatus.None;
  }

  /** Put an event on the stream: it happens once all before it has been done. A new event is made when left out. */
  record(event: Event = new Event()): Event {
    event.record(this);
    return event;
  }

  /** Have what follows on this stream wait for an event, or for all that is on another stream now. */
  wait(other: Event | Stream): void {
    const { symbols } = openCudaRuntime();
    if (other instanceof Event) {
      checkCuda(symbols.cudaStreamWaitEvent(this.handle, other.handle, 0), "cudaStreamWaitEvent");
    } else if (other !== this) {
      this.wait(other.#pass());
    }
  }

  /** The event of all that is on the stream now. */
  #pass(): Event {
    const { handle } = this;
    this.#passed ??= new Event();
    this.#passed.record({ handle });
    return this.#passed;
  }

  /** Let go of the stream; what was put on it is still done. Source: cudaStreamDestroy. */
  [Symbol.dispose](): void {
    if (this.#handle === null) return;
    attempt(() => void (this.isCapturing || restOf(this.device).wait(this)));
    this.#passed?.[Symbol.dispose]();
    this.#passed = null;
    const handle = this.#handle;
    this.#handle = null;
    if (this.#isOwned) checkLetGo(openCudaRuntime().symbols.cudaStreamDestroy(handle), "cudaStreamDestroy");
  }
}

/** By the number of a GPU, a stream that follows all that were disposed of there. */
const rests = new Map<number, Stream>();

function restOf(device: Device): Stream {
  let rest = rests.get(device.ordinal);
  if (rest === undefined) rests.set(device.ordinal, rest = new Stream(device, { name: "rest" }));
  return rest;
}

/** The `cudaStream_t` in whose order memory of a stream is freed, also after that was disposed of. */
export function freeingHandle(stream: Stream): bigint {
  return (stream.isDisposed ? restOf(stream.device) : stream).handle;
}

function createStream(priority: number): bigint {
  const out = new BigUint64Array(1);
  checkCuda(
    openCudaRuntime().symbols.cudaStreamCreateWithPriority(out, CudaStreamFlags.NonBlocking, priority),
    "cudaStreamCreateWithPriority",
  );
  return out[0];
}

/** Whether all that was put on a stream has been done, asked by what does not wait for it. */
export function isIdle(stream: Stream): boolean {
  return isReady(openCudaRuntime().symbols.cudaStreamQuery(stream.handle), "cudaStreamQuery");
}
