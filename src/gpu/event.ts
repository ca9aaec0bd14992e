/**
 * Events: points in the order of work on a GPU.
 *
 * @module
 */
import { checkCuda, CudaEventFlags, CudaStatus, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { StateError } from "../errors.ts";
import { askingFor, forgetNotReady, told, waitForGpu } from "./waiting.ts";

/** Options of an {@linkcode Event}. */
export interface EventOptions {
  /** Whether `elapsedSince` will be asked; false when left out, which is cheaper. */
  timing?: boolean;
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
  readonly #hasTiming: boolean;
  readonly #asking = askingFor("cudaEventSynchronize");

  /** Make an event on the current GPU. */
  constructor(options: EventOptions = {}) {
    const out = new BigUint64Array(1);
    this.#hasTiming = options.timing ?? false;
    const flags = this.#hasTiming ? CudaEventFlags.Default : CudaEventFlags.DisableTiming;
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
  record(stream: { readonly handle: bigint }): void {
    this.#asking.end();
    checkCuda(openCudaRuntime().symbols.cudaEventRecord(this.handle, stream.handle), "cudaEventRecord");
  }

  /** Wait until it has happened. Source: cudaEventSynchronize. */
  synchronize(): void {
    waitForGpu("cudaEventSynchronize", openCudaRuntime().symbols.cudaEventQuery, this.handle);
  }

  /** Whether it has happened. A script that asks ten times, for a second, waits. Source: cudaEventQuery. */
  get isDone(): boolean {
    return told(hasHappened(this), this.#asking);
  }

  /**
   * Seconds from another event to this one; both made with `timing`, and happened. Source: cudaEventElapsedTime.
   *
   * @throws {StateError} if one was made without `timing`.
   */
  elapsedSince(start: Event): number {
    if (!this.#hasTiming || !start.#hasTiming) {
      throw new StateError("elapsedSince: an Event was made without timing. Make both by new Event({ timing: true }).");
    }
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
    const handle = this.#handle;
    this.#handle = null;
    checkLetGo(openCudaRuntime().symbols.cudaEventDestroy(handle), "cudaEventDestroy");
  }
}

/**
 * As {@linkcode checkCuda}, of what is let go of. Once work of a GPU has failed, every call says so: here that would hide the
 * error that unwinds.
 */
export function checkLetGo(code: number, functionName: string): void {
  const isOfEarlierWork = code >= CudaStatus.ErrorIllegalAddress && code <= CudaStatus.ErrorLaunchFailure;
  if (!isOfEarlierWork) checkCuda(code, functionName);
}

/** Whether an event has happened, asked by what does not wait for it. */
export function hasHappened(event: Event): boolean {
  return isReady(openCudaRuntime().symbols.cudaEventQuery(event.handle), "cudaEventQuery");
}

/** Whether a query found that all has been done. */
export function isReady(code: number, functionName: string): boolean {
  if (code === CudaStatus.ErrorNotReady) {
    forgetNotReady();
    return false;
  }
  checkCuda(code, functionName);
  return true;
}
