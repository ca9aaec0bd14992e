/**
 * The pools that memory of GPUs comes from.
 *
 * @module
 */
import { checkCuda, CudaMemPoolAttribute, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import type { Device } from "../gpu/device.ts";
import type { Stream } from "../gpu/stream.ts";
import { checkBytes } from "./allocations.ts";

/** The threshold that keeps everything. */
const LARGEST = 2n ** 64n - 1n;

/**
 * The pool that a GPU's stream-ordered memory comes from. Source: cudaDeviceGetDefaultMemPool and the functions on pools.
 *
 * @example
 * ```ts no-eval
 * import { initialize, MemoryPool } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: 0 });
 * using pool = new MemoryPool(runtime.stream!.device);
 * console.log(pool.usedBytes, pool.reservedBytes);
 * ```
 */
export class MemoryPool implements Disposable {
  readonly #handle: bigint;

  /** The default pool of a GPU. */
  constructor(device: Device) {
    const out = new BigUint64Array(1);
    checkCuda(
      openCudaRuntime().symbols.cudaDeviceGetDefaultMemPool(out, device.ordinal),
      "cudaDeviceGetDefaultMemPool",
    );
    this.#handle = out[0];
  }

  /** Bytes that are allocated now. */
  get usedBytes(): number {
    return Number(this.#attribute(CudaMemPoolAttribute.AttrUsedMemCurrent));
  }

  /** Bytes that the pool holds, allocated or kept for the next allocation. */
  get reservedBytes(): number {
    return Number(this.#attribute(CudaMemPoolAttribute.AttrReservedMemCurrent));
  }

  /** How many bytes the pool keeps when a stream is synchronized; `Infinity` for all. */
  get releaseThreshold(): number {
    const bytes = this.#attribute(CudaMemPoolAttribute.AttrReleaseThreshold);
    return bytes === LARGEST ? Infinity : Number(bytes);
  }

  set releaseThreshold(bytes: number) {
    if (bytes !== Infinity) checkBytes("releaseThreshold, if it is not Infinity,", bytes);
    const value = BigUint64Array.of(bytes === Infinity ? LARGEST : BigInt(bytes));
    checkCuda(
      openCudaRuntime().symbols.cudaMemPoolSetAttribute(
        this.#handle,
        CudaMemPoolAttribute.AttrReleaseThreshold,
        value,
      ),
      "cudaMemPoolSetAttribute",
    );
  }

  /** Give memory that is not allocated back to the driver, but for so many bytes. */
  trim(bytesToKeep = 0): void {
    checkBytes("bytesToKeep", bytesToKeep);
    checkCuda(openCudaRuntime().symbols.cudaMemPoolTrimTo(this.#handle, BigInt(bytesToKeep)), "cudaMemPoolTrimTo");
  }

  #attribute(attribute: CudaMemPoolAttribute): bigint {
    const value = new BigUint64Array(1);
    checkCuda(
      openCudaRuntime().symbols.cudaMemPoolGetAttribute(this.#handle, attribute, value),
      "cudaMemPoolGetAttribute",
    );
    return value[0];
  }

  /** As `trim`: the pool itself belongs to the GPU. */
  [Symbol.dispose](): void {
    this.trim();
  }
}

/** The bytes that are free on a stream's GPU; if there are fewer than are needed, also what the pool has kept. Local. */
export function freeBytesFor(bytes: number, stream: Stream): number {
  const { device } = stream;
  const { freeBytes } = device.memoryInfo();
  if (freeBytes >= bytes) return freeBytes;
  stream.synchronize();
  new MemoryPool(device).trim();
  return device.memoryInfo().freeBytes;
}
