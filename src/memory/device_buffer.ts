/**
 * Memory of GPUs, in the order of streams.
 *
 * @module
 */
import { checkCuda, CudaStatus, openCudaRuntime } from "../../ffi/cuda/runtime.ts";
import { StateError } from "../errors.ts";
import { freeUnlessAgreed } from "../runtime/agreement.ts";
import { checkLetGo } from "../gpu/event.ts";
import { freeingHandle, type Stream } from "../gpu/stream.ts";
import { type AllocationKey, checkBytes, noteAllocation, noteFree, Origin } from "./allocations.ts";
import { MemoryPool } from "./memory_pool.ts";

/** Memory that kernels and copies reach by its address. */
export interface DeviceMemory {
  /** Where it lies. Throws after it was freed. */
  readonly address: bigint;
  /** Its size. */
  readonly byteLength: number;
  /** The stream in whose order it is used and freed. */
  readonly stream: Stream;
  /** Whether it was freed; left out by memory that others look after. */
  readonly isFreed?: boolean;
}

/** What a finalizer needs to give memory back. */
interface Dropped {
  address: bigint;
  stream: Stream;
  key: AllocationKey;
}

/** Memory whose buffer was dropped without being freed goes back to its pool. */
const dropped = new FinalizationRegistry<Dropped>(({ address, stream, key }) => {
  noteFree(key);
  freeAsync(address, stream);
});

/**
 * Bytes of a GPU, in the order of a stream: work that is put on the stream afterwards may use them; `free` lets work that
 * is on the stream already finish. Work on other streams has to wait by itself. Source: cudaMallocAsync, cudaFreeAsync.
 *
 * @example
 * ```ts no-eval
 * import { DeviceBuffer, initialize } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: 0 });
 * using buffer = new DeviceBuffer(runtime.stream!, 1024);
 * console.log(buffer.address, buffer.byteLength);
 * ```
 */
export class DeviceBuffer implements DeviceMemory, Disposable {
  /** Its size. */
  readonly byteLength: number;
  /** The stream in whose order it is used and freed. */
  readonly stream: Stream;
  readonly #origin = new Origin();
  readonly #key: AllocationKey;
  #address: bigint | null;

  /**
   * Allocate; the contents are whatever they were.
   *
   * @throws {RangeError} if the size is no whole number from 0.
   * @throws {CudaError} if the GPU has not enough memory.
   */
  constructor(stream: Stream, bytes: number) {
    checkBytes("The size of a DeviceBuffer", bytes);
    this.byteLength = bytes;
    this.stream = stream;
    this.#address = bytes === 0 ? 0n : allocateAsync(stream, bytes);
    this.#key = noteAllocation("device", bytes, this.#origin);
    if (bytes > 0) dropped.register(this, { address: this.#address, stream, key: this.#key }, this);
    freeUnlessAgreed(this);
  }

  /**
   * Where it lies; 0 for an empty buffer.
   *
   * @throws {StateError} after `free`.
   */
  get address(): bigint {
    if (this.#address === null) throw new StateError("This device memory was freed.");
    return this.#address;
  }

  get isFreed(): boolean {
    return this.#address === null;
  }

  /** Give it back to its pool; a second call does nothing. */
  free(): void {
    if (this.#address === null) return;
    const address = this.#address;
    this.#address = null;
    noteFree(this.#key);
    if (address === 0n) return;
    dropped.unregister(this);
    freeAsync(address, this.stream);
  }

  /** As `free`. */
  [Symbol.dispose](): void {
    this.free();
  }
}

/** Pools that keep what is freed for the next allocation, by the number of the GPU. */
const kept = new Set<number>();

function allocateAsync(stream: Stream, bytes: number): bigint {
  const { symbols } = openCudaRuntime();
  if (!kept.has(stream.device.ordinal)) {
    kept.add(stream.device.ordinal);
    new MemoryPool(stream.device).releaseThreshold = Infinity;
  }
  const out = new BigUint64Array(1);
  let code = symbols.cudaMallocAsync(out, BigInt(bytes), stream.handle);
  if (code === CudaStatus.ErrorMemoryAllocation) {
    // What the pool keeps in pieces may be enough in one: give it back to the driver, and try once more.
    symbols.cudaGetLastError();
    stream.synchronize();
    new MemoryPool(stream.device).trim();
    code = symbols.cudaMallocAsync(out, BigInt(bytes), stream.handle);
  }
  const what =
    `cudaMallocAsync of ${bytes} bytes (free arrays, or distribute them over more GPUs, if there is no memory)`;
  checkCuda(code, what);
  return out[0];
}

function freeAsync(address: bigint, stream: Stream): void {
  checkLetGo(openCudaRuntime().symbols.cudaFreeAsync(address, freeingHandle(stream)), "cudaFreeAsync");
}
