/**
 * Symmetric memory: every rank has a buffer of the same size, and can address those of the others.
 *
 * Allocating and freeing are collective. What was disposed of by `using` waits for the next collective allocation; what
 * the garbage collector finds is never freed, but reported when MPI ends.
 *
 * @module
 */
import { mayViewAddresses, viewOfAddress } from "../../ffi/memory.ts";
import { ConfigurationError, NativeError, ShapeError, StateError } from "../errors.ts";
import { agree, type Agreeing, agreeStrictly, exchange, type Facts } from "../runtime/agreement.ts";
import { callJointly } from "../runtime/joint_call.ts";
import { describe } from "../options.ts";
import { queueCollectiveFree } from "../mpi/collective_free.ts";
import { beforeMpiEnds } from "../mpi/init_finalize.ts";
import type { Communicator } from "../mpi/communicator.ts";
import { checkRuntime, type Runtime } from "../runtime/runtime.ts";
import type { Stream } from "../gpu/stream.ts";
import type { DeviceMemory } from "./device_buffer.ts";
import { type AllocationKey, noteAllocation, noteFree, Origin } from "./allocations.ts";
import { openMpiWindows } from "./mpi_window.ts";
import { openNcclWindows } from "./nccl_window.ts";
import { openNvshmemHeap } from "./nvshmem_heap.ts";
import type { SymmetricBackend, SymmetricBlock, SymmetricHeap } from "./symmetric_heap.ts";

/** Buffers begin and end at multiples of this many bytes. */
const GRANULE = 256;

/** The buffers of one backend on the ranks of one communicator. */
interface Pool {
  readonly heap: SymmetricHeap;
  readonly live: Map<number, SymmetricBuffer>;
  made: number;
}

const pools = new WeakMap<Communicator, Map<SymmetricBackend, Pool>>();

/** How a runtime checks calls that are collective whatever `checks` says. */
function strictly({ communicator }: Runtime): Agreeing {
  return { communicator, checks: "collective" };
}

/** The backend that is used unless another is named. */
export function usualBackend(runtime: Runtime): SymmetricBackend {
  return runtime.stream ? "nvshmem" : "mpi";
}

/** One rank's part of symmetric memory. Made by `allocateSymmetricMemory`. */
export class SymmetricBuffer {
  /** The ranks. */
  readonly runtime: Runtime;
  /** What made it symmetric. */
  readonly backend: SymmetricBackend;
  /** Whether a plan holds it, and nobody has to free it. */
  readonly isOfPlan: boolean;
  /** Its number among the runtime's buffers of this backend: the same on all ranks. */
  readonly id: number;
  /** Its size, the same on all ranks. */
  readonly byteLength: number;
  readonly #block: SymmetricBlock;
  readonly #origin = new Origin();
  readonly #key: AllocationKey;
  readonly #beforeEnd: (() => void)[] = [];
  readonly #peers = new Map<number, ArrayBuffer>();
  #state: "live" | "disposed" | "freed" = "live";

  /** Made by `allocateSymmetric`. */
  constructor(
    runtime: Runtime,
    id: number,
    bytes: number,
    block: SymmetricBlock,
    { backend, isOfPlan = false }: Pick<SymmetricRequest<unknown>, "backend" | "isOfPlan">,
  ) {
    this.runtime = runtime;
    this.backend = backend;
    this.isOfPlan = isOfPlan;
    this.id = id;
    this.byteLength = bytes;
    this.#block = block;
    this.place = this.#origin.place;
    this.#key = noteAllocation("symmetric", bytes, this.#origin);
  }

  /** Where it was allocated. */
  readonly place: string;

  /** Whether it was freed, or disposed of and will be. */
  get isFreed(): boolean {
    return this.#state !== "live";
  }

  /** Whether its memory was given back. */
  get isGone(): boolean {
    return this.#state === "freed";
  }

  /**
   * Where it lies.
   *
   * @throws {StateError} after it was freed.
   */
  get address(): bigint {
    return this.#use().address;
  }

  /** It as host memory; `null` on a GPU. */
  get host(): ArrayBuffer | null {
    return this.#use().host;
  }

  /** The stream in whose order it is used, on a GPU. */
  get stream(): Stream {
    const { stream } = this.runtime;
    if (stream === null) throw new StateError("This symmetric memory is in host memory and has no stream.");
    return stream;
  }

  /** Where another rank's buffer lies for this rank. */
  peerAddress(rank: number): bigint {
    const { size } = this.runtime;
    if (!(Number.isInteger(rank) && rank >= 0 && rank < size)) {
      throw new RangeError(`peerAddress: there is no rank ${rank}; ranks go from 0 to ${size - 1}.`);
    }
    const address = this.#use().peerAddress(rank);
    if (address !== 0n) return address;
    throw new ConfigurationError(
      `Rank ${this.runtime.rank} cannot address the memory of rank ${rank}: there is no direct link between their GPUs. ` +
        `Put the ranks on GPUs of one machine that reach each other (nvidia-smi topo -p2p r).`,
    );
  }

  /** Another rank's buffer as host memory, which is empty once it was freed. */
  peerHost(rank: number): ArrayBuffer {
    const address = this.peerAddress(rank);
    if (rank === this.runtime.rank) return this.host!;
    const host = this.#peers.get(rank) ?? viewOfAddress(address, this.byteLength);
    this.#peers.set(rank, host);
    return host;
  }

  /** Another rank's buffer in the memory of its GPU, whose address is refused once it was freed. */
  peerMemory(rank: number): DeviceMemory {
    if (rank === this.runtime.rank) return this;
    const [address, { byteLength, stream }] = [this.peerAddress(rank), this];
    const use = () => this.#use();
    return {
      get address() {
        use();
        return address;
      },
      byteLength,
      stream,
    };
  }

  /**
   * Have what was written so far be seen by all ranks. Collective.
   *
   * @throws {StateError} on every rank if it was freed on one.
   */
  synchronize(): void {
    agree(this.runtime, "synchronize", () => {
      void this.#use();
      return { backend: this.backend, id: this.id };
    });
    this.#block.synchronize();
  }

  /** Queue it to be freed at the next point that all ranks reach. Never communicates. */
  [Symbol.dispose](): void {
    if (this.#state !== "live") return;
    this.#state = "disposed";
    const { communicator, size } = this.runtime;
    const key = `symmetric/${communicator.name}/${this.backend}/${this.id}`;
    queueCollectiveFree(key, size, () => this.end());
  }

  /** Free it at once. Collective; `freeSymmetric` has checked that all ranks do. */
  end(): void {
    if (this.#state === "freed") return;
    this.#state = "freed";
    noteFree(this.#key);
    pools.get(this.runtime.communicator)?.get(this.backend)?.live.delete(this.id);
    for (const action of this.#beforeEnd) action();
    // Detached, so that what somebody kept is empty, and not somebody else's memory.
    for (const host of this.#peers.values()) if (!host.detached) host.transfer();
    this.#block.free();
  }

  /** Have something done before the memory is given back: on all ranks, in the same order. */
  beforeEnd(action: () => void): void {
    this.#beforeEnd.push(action);
  }

  #use(): SymmetricBlock {
    if (this.#state === "live") return this.#block;
    throw new StateError(`This symmetric memory, allocated at ${this.place}, was freed.`);
  }
}

/** What a rank asks for. */
export interface SymmetricRequest<T> {
  /** Bytes that this rank needs. */
  bytes: number;
  backend: SymmetricBackend;
  /** Whether ranks that need less get as much as the one that needs most. */
  makeSymmetric: boolean;
  /** What else has to be the same on all ranks. */
  facts: Facts;
  /** What every rank shall know of this one. */
  offer: T;
  /** Whether a plan holds it, and not the user. */
  isOfPlan?: boolean;
}

/**
 * Allocate symmetric memory. Collective; `request` says what this rank asks for, and throws what is wrong with it.
 *
 * @throws {ShapeError} on every rank if sizes differ and may not.
 * @throws {CollectiveError} on every rank if backends differ.
 * @throws {ConfigurationError} on every rank if the backend cannot serve this runtime, or has not so much memory left.
 */
export function allocateSymmetric<T>(
  runtime: Runtime,
  request: () => SymmetricRequest<T>,
): { buffer: SymmetricBuffer; offers: T[] } {
  const operation = "allocateSymmetricMemory";
  let wish!: SymmetricRequest<T>;
  agreeStrictly(runtime, operation, () => {
    checkRuntime(operation, runtime);
    wish = request();
    checkBackend(runtime, wish.backend);
    return { backend: wish.backend, makeSymmetric: wish.makeSymmetric, ...wish.facts };
  });
  runtime.collect();
  const wishes = exchange(strictly(runtime), operation, () => ({ bytes: wish.bytes, offer: wish.offer }));
  const sizes = wishes.map(({ bytes }) => bytes);
  const largest = Math.max(...sizes);
  if (!wish.makeSymmetric && sizes.some((bytes) => bytes !== largest)) {
    const list = sizes.map((bytes, rank) => `${bytes} on rank ${rank}`).join(", ");
    throw new ShapeError(
      `${operation}: symmetric memory has the same size on all ranks, but these are the bytes asked for: ${list}. ` +
        `Pass { makeSymmetric: true } to give every rank as much as the largest part needs.`,
      { ranks: sizes.flatMap((bytes, rank) => bytes === largest ? [] : [rank]) },
    );
  }
  const pool = poolOf(runtime, wish.backend);
  const bytes = Math.max(GRANULE, Math.ceil(largest / GRANULE) * GRANULE);
  let allocate!: () => SymmetricBlock;
  agree(strictly(runtime), operation, () => {
    allocate = preparedIn(pool.heap, bytes);
  });
  let block!: SymmetricBlock;
  callJointly(runtime, operation, () => {
    block = allocate();
  });
  const id = ++pool.made;
  const buffer = new SymmetricBuffer(runtime, id, bytes, block, wish);
  pool.live.set(id, buffer);
  return { buffer, offers: wishes.map(({ offer }) => offer) };
}

/** As {@linkcode allocateSymmetric}, as much as the rank needs that needs most, for a plan, which frees it. Collective. */
export function allocateForPlan(runtime: Runtime, backend: SymmetricBackend, bytes: number): SymmetricBuffer {
  const wish = { bytes, backend, makeSymmetric: true, isOfPlan: true, facts: {}, offer: null };
  return allocateSymmetric(runtime, () => wish).buffer;
}

/** What allocates so many bytes; what a library says if there are not so many does not travel to other ranks by its class. */
function preparedIn(heap: SymmetricHeap, bytes: number): () => SymmetricBlock {
  try {
    return heap.prepare(bytes);
  } catch (error) {
    if (!(error instanceof NativeError)) throw error;
    throw new ConfigurationError(
      `allocateSymmetricMemory: there are no ${bytes} bytes of it: ${error.message} Free arrays, or distribute them over ` +
        `more GPUs.`,
      { cause: error },
    );
  }
}

/**
 * Free symmetric memory now. Collective; `choose` says what this rank wants to free, and throws what is wrong with it.
 *
 * @throws {StateError} on every rank if something is not to be freed.
 * @throws {CollectiveError} on every rank if they free different memory, or in different order.
 */
export function freeSymmetric(runtime: Runtime, choose: () => readonly SymmetricBuffer[]): void {
  let buffers!: readonly SymmetricBuffer[];
  agreeStrictly(runtime, "freeSymmetricMemory", () => {
    buffers = choose();
    return {
      arrays: buffers.map(({ backend, id, runtime: { communicator } }) => `${backend} ${id} of ${communicator.name}`),
    };
  });
  for (const buffer of buffers) buffer.end();
}

function checkBackend(runtime: Runtime, backend: SymmetricBackend): void {
  if (backend === "mpi" && runtime.stream === null) return checkViews();
  if ((backend === "nvshmem" || backend === "nccl") && runtime.stream !== null) return;
  if (backend !== "mpi" && backend !== "nvshmem" && backend !== "nccl") {
    throw new TypeError(
      `allocateSymmetricMemory: the backend must be "nvshmem", "nccl" or "mpi", not ${describe(backend)}.`,
    );
  }
  throw new ConfigurationError(
    `allocateSymmetricMemory: backend "${backend}" does not serve a ${runtime.device.kind.toUpperCase()} ` +
      `(${runtime.device.name}). ` + (runtime.stream ? `Use "nvshmem" or "nccl".` : `Use "mpi", or leave backend out.`),
  );
}

/** On CPUs the elements are viewed where they lie, those of other ranks too. */
function checkViews(): void {
  if (mayViewAddresses()) return;
  throw new ConfigurationError(
    "allocateSymmetricMemory: on CPUs it views memory by its address, which a list of folders in --allow-ffi=<folders> " +
      "does not permit. Start the script with --allow-ffi, without a list.",
  );
}

/** The pool of a backend, opened at its first allocation. Collective then. */
function poolOf(runtime: Runtime, backend: SymmetricBackend): Pool {
  const ofRuntime = pools.get(runtime.communicator) ?? new Map<SymmetricBackend, Pool>();
  pools.set(runtime.communicator, ofRuntime);
  let pool = ofRuntime.get(backend);
  if (pool === undefined) {
    pool = { heap: openHeap(runtime, backend), live: new Map(), made: 0 };
    ofRuntime.set(backend, pool);
    const opened = pool;
    beforeMpiEnds(() => endPool(runtime, opened));
  }
  return pool;
}

function openHeap(runtime: Runtime, backend: SymmetricBackend): SymmetricHeap {
  const subject = strictly(runtime);
  switch (backend) {
    case "mpi":
      return openMpiWindows(runtime, subject);
    case "nccl":
      return openNcclWindows(runtime, subject);
    case "nvshmem":
      return openNvshmemHeap(runtime, subject);
  }
}

/** Report what the user never freed, on rank 0; then free all, as all ranks are here. */
function endPool({ rank }: Runtime, { heap, live }: Pool): void {
  for (const buffer of [...live.values()].sort((a, b) => a.id - b.id)) {
    if (!buffer.isFreed && !buffer.isOfPlan && rank === 0) {
      console.error(
        `distmath: ${buffer.byteLength} bytes of symmetric memory a rank (${buffer.backend}), allocated at ` +
          `${buffer.place}, were never freed. Call freeSymmetricMemory(array) on all ranks, or declare it by using.`,
      );
    }
    buffer.end();
  }
  heap.close();
}
