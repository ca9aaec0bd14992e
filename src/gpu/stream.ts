/**
 * Streams and events: the order of work on a GPU.
 *
 * @module
 */
import { checkCuda, CudaEventFlags, CudaStatus, CudaStreamFlags, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { StateError } from "../errors.ts";
import type { Device } from "./device.ts";

/** Options of a {@linkcode Stream}. */
export interface StreamOptions {
  /** Streams of lower numbers go first; 0 when left out. */
  priority?: number;
  /** A `cudaStream_t` of another library to use in place of a new stream; disposing leaves it alone. */
  handle?: bigint;
}

/** Options of an {@linkcode Event}. */
export interface EventOptions {
  /** Whether `elapsedSince` will be asked; false when left out, which is cheaper. */
  timing?: boolean;
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
  readonly #isOwned: boolean;
  #handle: bigint | null;

  /** Make a stream on a GPU, which must be current. It does not wait for the default stream. */
  constructor(device: Device, options: StreamOptions = {}) {
    this.device = device;
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

  /** Wait until all that was put on the stream has been done. Source: cudaStreamSynchronize. */
  synchronize(): void {
    checkCuda(openCudaRuntime().symbols.cudaStreamSynchronize(this.handle), "cudaStreamSynchronize");
  }

  /** Whether all that was put on the stream has been done. Source: cudaStreamQuery. */
  get isDone(): boolean {
    return isReady(openCudaRuntime().symbols.cudaStreamQuery(this.handle), "cudaStreamQuery");
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
      using event = other.record();
      this.wait(event);
    }
  }

  /** Let go of the stream; what was put on it is still done. Source: cudaStreamDestroy. */
  [Symbol.dispose](): void {
    if (this.#handle === null) return;
    if (this.#isOwned) checkCuda(openCudaRuntime().symbols.cudaStreamDestroy(this.#handle), "cudaStreamDestroy");
    this.#handle = null;
  }
}

/**
 * A point in a stream, to wait for or to measure from. Source: cudaEventCreateWithFlags and the functions on events.
 *
 * @example
 * ```ts no-eval
 * import { Device, Event, Stream } from "@distmath/distmath";
 * const device = new Device(0);
 * device.makeCurrent();
 * using stream = new Stream(device);
 * using start = stream.record(new Event({ timing: true }));
 * using end = stream.record(new Event({ timing: true }));
 * end.synchronize();
 * console.log(end.elapsedSince(start), "seconds");
 * ```
 */
export class Event implements Disposable {
  #handle: bigint | null;

  /** Make an event on the current GPU. */
  constructor(options: EventOptions = {}) {
    const out = new BigUint64Array(1);
    const flags = options.timing ? CudaEventFlags.Default : CudaEventFlags.DisableTiming;
    checkCuda(openCudaRuntime().symbols.cudaEventCreateWithFlags(out, flags), "cudaEventCreateWithFlags");
    this.#handle = out[0];
  }

  /**
   * The `cudaEvent_t`.
   *
   * @throws {StateError} after the event was disposed of.
   */
  get handle(): bigint {
    if (this.#handle === null) throw new StateError("This Event was disposed of; make a new one.");
    return this.#handle;
  }

  /** Put the event on a stream, in place of where it was. Source: cudaEventRecord. */
  record(stream: Stream): void {
    checkCuda(openCudaRuntime().symbols.cudaEventRecord(this.handle, stream.handle), "cudaEventRecord");
  }

  /** Wait until it has happened. Source: cudaEventSynchronize. */
  synchronize(): void {
    checkCuda(openCudaRuntime().symbols.cudaEventSynchronize(this.handle), "cudaEventSynchronize");
  }

  /** Whether it has happened. Source: cudaEventQuery. */
  get isDone(): boolean {
    return isReady(openCudaRuntime().symbols.cudaEventQuery(this.handle), "cudaEventQuery");
  }

  /** Seconds from another event to this one; both made with `timing`, and happened. Source: cudaEventElapsedTime. */
  elapsedSince(start: Event): number {
    const milliseconds = new Float32Array(1);
    checkCuda(
      openCudaRuntime().symbols.cudaEventElapsedTime(milliseconds, start.handle, this.handle),
      "cudaEventElapsedTime",
    );
    return milliseconds[0] / 1000;
  }

  /** Let go of the event. Source: cudaEventDestroy. */
  [Symbol.dispose](): void {
    if (this.#handle === null) return;
    checkCuda(openCudaRuntime().symbols.cudaEventDestroy(this.#handle), "cudaEventDestroy");
    this.#handle = null;
  }
}

function createStream(priority: number): bigint {
  const out = new BigUint64Array(1);
  checkCuda(
    openCudaRuntime().symbols.cudaStreamCreateWithPriority(out, CudaStreamFlags.NonBlocking, priority),
    "cudaStreamCreateWithPriority",
  );
  return out[0];
}

function isReady(code: number, functionName: string): boolean {
  if (code === CudaStatus.ErrorNotReady) return false;
  checkCuda(code, functionName);
  return true;
}
