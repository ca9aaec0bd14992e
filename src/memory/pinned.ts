/**
 * Host memory that a GPU copies from and to at full speed.
 *
 * @module
 */
import { checkCuda, CudaHostFlags, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { StateError } from "../errors.ts";
import { checkLetGo } from "../gpu/event.ts";
import { type AllocationKey, checkBytes, noteAllocation, noteFree, Origin } from "./allocations.ts";

/**
 * Pinned host memory. Source: cudaHostAlloc, cudaFreeHost.
 *
 * @example
 * ```ts no-eval
 * import { initialize, PinnedBuffer } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: 0 });
 * using staging = new PinnedBuffer(2 ** 20);
 * console.log(staging.address);
 * ```
 */
export class PinnedBuffer implements Disposable {
  /** Its size. */
  readonly byteLength: number;
  readonly #origin = new Origin();
  readonly #key: AllocationKey;
  #address: bigint | null;

  /**
   * Allocate; the contents are whatever they were.
   *
   * @throws {RangeError} if the size is no whole number from 0.
   * @throws {CudaError} if so much cannot be pinned.
   */
  constructor(bytes: number) {
    checkBytes("The size of a PinnedBuffer", bytes);
    const out = new BigUint64Array(1);
    checkCuda(openCudaRuntime().symbols.cudaHostAlloc(out, BigInt(bytes), CudaHostFlags.AllocDefault), "cudaHostAlloc");
    this.byteLength = bytes;
    this.#address = out[0];
    this.#key = noteAllocation("pinned", bytes, this.#origin);
  }

  /**
   * Where it lies.
   *
   * @throws {StateError} after `free`.
   */
  get address(): bigint {
    if (this.#address === null) throw new StateError("This pinned memory was freed.");
    return this.#address;
  }

  /** Unpin and free it; a second call does nothing. Copies from and to it must have ended. */
  free(): void {
    if (this.#address === null) return;
    const address = this.#address;
    this.#address = null;
    noteFree(this.#key);
    checkLetGo(openCudaRuntime().symbols.cudaFreeHost(address), "cudaFreeHost");
  }

  /** As `free`. */
  [Symbol.dispose](): void {
    this.free();
  }
}
