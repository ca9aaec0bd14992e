/**
 * Arrays in symmetric memory: every rank can address the other ranks' parts.
 *
 * @module
 */
import { StateError } from "../errors.ts";
import type { SymmetricBackend } from "../memory/symmetric_heap.ts";
import { allocateSymmetric, freeSymmetric, type SymmetricBuffer, usualBackend } from "../memory/symmetric_memory.ts";
import { checkBoolean, isObject, keysOf, readOptions } from "../options.ts";
import { lastRuntime } from "../runtime/current.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { DeviceMemory } from "../memory/device_buffer.ts";
import { type DType, dtypeInfo, type TypedArray } from "../dtype/dtype.ts";
import { checkOrder, checkShape, type Order, sizeOfShape, stridesOf } from "./layout.ts";
import { LocalArray } from "./local_array.ts";

/** Options of {@linkcode allocateSymmetricMemory}. */
export interface SymmetricOptions {
  /** The type of the elements; "float64" by default. */
  dtype?: DType;
  /** The memory order; "C" (row-major) by default. */
  order?: Order;
  /** Whether ranks whose parts are smaller get as much memory as the largest needs; else different sizes are an error. */
  makeSymmetric?: boolean;
  /** What makes the memory symmetric; by default "nvshmem" on GPUs, "mpi" (shared memory of one machine) on CPUs. */
  backend?: SymmetricBackend;
}

const SYMMETRIC_KEYS = keysOf<SymmetricOptions>({ dtype: true, order: true, makeSymmetric: true, backend: true });

/** How the elements of one rank lie. */
export interface SymmetricPart {
  /** The extents. */
  readonly shape: readonly number[];
  /** The distances of neighbours, in elements; without gaps if left out. */
  readonly strides?: readonly number[];
}

/**
 * One rank's array in symmetric memory; made by {@linkcode allocateSymmetricMemory}.
 *
 * @example
 * ```ts
 * import { allocateSymmetricMemory, freeSymmetricMemory, initialize } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * const array = allocateSymmetricMemory(runtime, [4], { dtype: "float32" });
 * array.fill(runtime.rank);
 * array.synchronize();
 * const next = (runtime.rank + 1) % runtime.size;
 * console.log(array.peer(next).toNumbers()); // what the next rank wrote
 * freeSymmetricMemory(array);
 * ```
 */
export class SymmetricArray extends LocalArray implements Disposable {
  readonly #symmetric: SymmetricBuffer;
  readonly #parts: readonly SymmetricPart[];
  readonly #order: Order;

  /** Only what the constructor made is one: no Proxy, and nothing that merely has the prototype. */
  static override [Symbol.hasInstance](value: unknown): boolean {
    return isObject(value) && #symmetric in value;
  }

  /** Made by `allocateSymmetricMemory`; `parts` tells how the elements of each rank lie. */
  constructor(symmetric: SymmetricBuffer, dtype: DType, order: Order, parts: readonly SymmetricPart[]) {
    super({
      data: memoryOf(symmetric, dtype),
      dtype,
      ...placed(parts[symmetric.runtime.rank], order),
      memory: "symmetric",
    });
    this.#symmetric = symmetric;
    this.#parts = parts;
    this.#order = order;
  }

  /** The memory, which is the same size on all ranks. */
  get symmetric(): SymmetricBuffer {
    return this.#symmetric;
  }

  /** The memory order. */
  get order(): Order {
    return this.#order;
  }

  /** What made the memory symmetric. */
  get backend(): SymmetricBackend {
    return this.#symmetric.backend;
  }

  /** Whether it was freed or disposed of. */
  get isFreed(): boolean {
    return this.#symmetric.isFreed;
  }

  /** Whether it was freed or disposed of, or its buffer was transferred away. */
  override get isLost(): boolean {
    return this.isFreed || super.isLost;
  }

  /** The memory that holds the elements, on CPUs. */
  override get data(): TypedArray {
    void this.#symmetric.address;
    return super.data;
  }

  /**
   * The address of element (0, 0, …).
   *
   * @throws {StateError} after it was freed.
   */
  override get address(): bigint {
    return this.#symmetric.address;
  }

  /**
   * The address of another rank's element (0, 0, …), valid on this rank: for loads and stores of the CPU or the GPU.
   *
   * @throws {RangeError} if there is no such rank.
   * @throws {ConfigurationError} if there is no direct way to its memory.
   * @throws {StateError} after it was freed.
   */
  peerAddress(rank: number): bigint {
    return this.#symmetric.peerAddress(rank);
  }

  /**
   * Another rank's array, to read and write in place: without a copy, and valid as long as this one.
   *
   * @throws as {@linkcode peerAddress} does; so does every use of the result once this array was freed.
   */
  peer(rank: number): LocalArray {
    void this.peerAddress(rank);
    const { dtype } = this;
    const data = this.isOnDevice ? this.#symmetric.peerMemory(rank) : typed(dtype, this.#symmetric.peerHost(rank));
    return new LocalArray({ data, dtype, ...placed(this.#parts[rank], this.#order), memory: "symmetric" });
  }

  /**
   * Wait until what all ranks have written so far can be read by all. Collective.
   *
   * @throws {StateError} on every rank if it was freed on one.
   */
  synchronize(): void {
    this.#symmetric.synchronize();
  }

  /** As disposing: queues the memory to be freed. */
  override release(): void {
    this[Symbol.dispose]();
  }

  /**
   * Queue the memory to be freed at the next point that all ranks reach: the next collective allocation,
   * `runtime.collect()`, or the end. Never communicates, so that `using` is safe while an error unwinds on one rank.
   */
  [Symbol.dispose](): void {
    this.#symmetric[Symbol.dispose]();
  }
}

function placed({ shape, strides }: SymmetricPart, order: Order) {
  return { shape, strides: strides ?? stridesOf(shape, order) };
}

function memoryOf(symmetric: SymmetricBuffer, dtype: DType): TypedArray | DeviceMemory {
  return symmetric.host === null ? symmetric : typed(dtype, symmetric.host);
}

function typed(dtype: DType, buffer: ArrayBuffer): TypedArray {
  const { array, itemSize, parts } = dtypeInfo(dtype);
  return new array(buffer, 0, Math.floor(buffer.byteLength / itemSize) * parts);
}

/**
 * Allocate an array of zeros in symmetric memory: every rank has one and can address those of the others. `shape` is that of
 * this rank's array. Collective.
 *
 * @throws {TypeError} if an option is not known.
 * @throws {ShapeError} if the sizes of ranks differ, unless `makeSymmetric` is set.
 * @throws {CollectiveError} if ranks ask for different dtypes, orders or backends.
 * @throws {ConfigurationError} if the backend is missing or does not serve this runtime, or has not so much memory left:
 * that of a machine (backend "mpi") is what is free in /dev/shm, of which containers have little. Each is thrown on every
 * rank.
 *
 * @example
 * ```ts
 * import { allocateSymmetricMemory, initialize } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using workspace = allocateSymmetricMemory(runtime, [1024, 1024], { dtype: "float32" });
 * console.log(workspace.peerAddress(0));
 * ```
 */
export function allocateSymmetricMemory(
  runtime: Runtime,
  shape: readonly number[],
  options: SymmetricOptions = {},
): SymmetricArray {
  const { buffer, offers } = allocateSymmetric(runtime, () => {
    const given = readOptions("the options of allocateSymmetricMemory", options, SYMMETRIC_KEYS);
    const { dtype = "float64", order = "C", makeSymmetric = false, backend = usualBackend(runtime) } = given;
    const extents = checkShape(shape, "The local shape");
    checkOrder(order);
    checkBoolean("allocateSymmetricMemory: makeSymmetric", makeSymmetric);
    const offer = { dtype, order, shape: extents };
    const bytes = sizeOfShape(extents) * dtypeInfo(dtype).itemSize;
    return { bytes, backend, makeSymmetric, offer, facts: { dtype, order } };
  });
  const [{ dtype, order }] = offers;
  return new SymmetricArray(buffer, dtype, order, offers);
}

/**
 * Free arrays in symmetric memory now, in the order given. Collective: all ranks free the same arrays in the same order.
 *
 * @throws {StateError} if one was freed or disposed of before, is a view, or was not made by `allocateSymmetricMemory`.
 * @throws {CollectiveError} if ranks free different arrays, or in another order. Each is thrown on every rank, and then
 * nothing is freed.
 *
 * @example
 * ```ts
 * import { allocateSymmetricMemory, freeSymmetricMemory, initialize } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * const [a, b] = [allocateSymmetricMemory(runtime, [8]), allocateSymmetricMemory(runtime, [8])];
 * freeSymmetricMemory(a, b);
 * ```
 */
export function freeSymmetricMemory(...arrays: readonly (LocalArray | SymmetricOwner)[]): void {
  freeSymmetric(lastRuntime(), () => {
    const buffers = arrays.map(bufferOf);
    const twice = buffers.findIndex((buffer, i) => buffers.indexOf(buffer) !== i);
    if (twice < 0) return buffers;
    throw new StateError(
      `freeSymmetricMemory: argument ${twice} is the same memory as argument ${buffers.indexOf(buffers[twice])}, ` +
        `which can be freed once only.`,
    );
  });
}

/** An array whose local part is in symmetric memory: a `DistributedArray`. */
export interface SymmetricOwner {
  /** The part of this rank. */
  readonly local: LocalArray;
  /** Whether it shares another array's memory. */
  readonly isView: boolean;
}

function bufferOf(array: LocalArray | SymmetricOwner, position: number): SymmetricBuffer {
  const what = `freeSymmetricMemory: argument ${position}`;
  const isLocal = array instanceof LocalArray;
  if (!isLocal && !(array?.local instanceof LocalArray)) {
    throw new TypeError(`${what} is no array: pass what allocateSymmetricMemory returned.`);
  }
  const local = isLocal ? array : array.local;
  if (!(local instanceof SymmetricArray) || !isLocal && array.isView) {
    throw new StateError(
      local.memory === "symmetric"
        ? `${what} is a view of symmetric memory. Free the array that it is a view of.`
        : `${what} is in ${local.memory} memory, which allocateSymmetricMemory did not make. Free only what it returned.`,
    );
  }
  const { symmetric } = local;
  if (!symmetric.isFreed) return symmetric;
  throw new StateError(
    `${what}, allocated at ${symmetric.place}, was freed ${symmetric.isGone ? "" : "by its using block "}already. ` +
      `Free it once.`,
  );
}
