/**
 * The runtime: who takes part in the job, and on what device this rank computes.
 *
 * @module
 */
import { type LibraryVersion, openedLibraries } from "../../ffi/library.ts";
import { describe, isObject, noteOwnClass } from "../options.ts";
import { agree, agreeStrictly, type Facts, noRuntime } from "./agreement.ts";
import type { Communicator } from "../mpi/communicator.ts";
import { freeQueued, queueCollectiveFree } from "../mpi/collective_free.ts";
import { finalizeMpi, isMpiFinalized } from "../mpi/init_finalize.ts";
import type { NcclCommunicator } from "../gpu/nccl.ts";
import { connectGpus } from "./connect_gpus.ts";
import { Recording } from "./recording.ts";
import type { Stream } from "../gpu/stream.ts";

export type { LibraryVersion } from "../../ffi/library.ts";

/** A CPU to compute on. */
export interface CpuDescription {
  /** The kind of device. */
  kind: "cpu";
  /** A CPU has no number. */
  ordinal: null;
  /** Its name. */
  name: string;
  /** A CPU has none. */
  computeCapability: null;
  /** Bytes of the machine's memory. */
  memoryBytes: number;
  /** The number of cores that this process may use. */
  cores: number;
}

/** A GPU to compute on. */
export interface GpuDescription {
  /** The kind of device. */
  kind: "gpu";
  /** Its number among those that this process sees. */
  ordinal: number;
  /** Its name. */
  name: string;
  /** Such as `[9, 0]`. */
  computeCapability: readonly [major: number, minor: number];
  /** Bytes of its memory. */
  memoryBytes: number;
  /** What tells it from all other GPUs. */
  uuid: string;
  /** Whether ranks share it, as `NCCL_MULTI_RANK_GPU_ENABLE=1` permits. */
  isShared: boolean;
}

/** What this rank computes on: `kind`, `ordinal`, `name`, `computeCapability` and `memoryBytes`, and what its kind adds. */
export type DeviceDescription = CpuDescription | GpuDescription;

/** What a {@linkcode Runtime} is made of; `initialize` finds it out. */
export interface RuntimeFields {
  /** The ranks that take part. */
  communicator: Communicator;
  /** The number of this rank among those on the same machine. */
  localRank: number;
  /** The number of ranks on the same machine. */
  localSize: number;
  /** What this rank computes on. */
  device: DeviceDescription;
  /** Where a GPU's work is queued; `null` on a CPU. */
  stream: Stream | null;
  /** How preconditions are checked. */
  checks: "collective" | "local";
  /** The limit on waiting for other ranks; `null` for none. */
  timeoutSeconds: number | null;
  /** The number of threads for BLAS. */
  threads: number;
}

const warned = new Set<string>();
/** How often `onCollect` was called, by communicator: all of its ranks call it as often. */
const queued = new Map<string, number>();

/**
 * What `initialize()` returns: the ranks, the device of this rank, and how they check and wait.
 *
 * @example
 * ```ts
 * import { initialize } from "@distmath/distmath";
 * using runtime = initialize({ device: "cpu" });
 * console.assert(runtime.rank < runtime.size && runtime.device.kind === "cpu");
 * ```
 */
export class Runtime implements Disposable {
  static {
    noteOwnClass(this);
  }

  /** The ranks that take part. */
  readonly communicator: Communicator;
  /** The number of this rank, from 0. */
  readonly rank: number;
  /** The number of ranks. */
  readonly size: number;
  /** The number of this rank among those on the same machine. */
  readonly localRank: number;
  /** The number of ranks on the same machine. */
  readonly localSize: number;
  /** What this rank computes on. */
  readonly device: DeviceDescription;
  /** Where a GPU's work is queued unless another stream is named; `null` on a CPU. */
  readonly stream: Stream | null;
  /** Whether preconditions are exchanged between the ranks (`"collective"`) or each rank checks for itself. */
  readonly checks: "collective" | "local";
  /** The limit on waiting for other ranks, in seconds; `null` for none. */
  readonly timeoutSeconds: number | null;
  /** The number of threads that BLAS may use on this rank. */
  readonly threads: number;
  #isClosed = false;

  /** Only what the constructor made is one: no Proxy, and nothing that merely has the prototype. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return isObject(value) && #isClosed in value;
  }

  /** Made by `initialize()`. */
  constructor(fields: RuntimeFields) {
    this.communicator = fields.communicator;
    this.rank = fields.communicator.rank;
    this.size = fields.communicator.size;
    this.localRank = fields.localRank;
    this.localSize = fields.localSize;
    this.device = fields.device;
    this.stream = fields.stream;
    this.checks = fields.checks;
    this.timeoutSeconds = fields.timeoutSeconds;
    this.threads = fields.threads;
  }

  /**
   * The NCCL communicator of all ranks' GPUs, made by the first call and ended with MPI. The first call is collective.
   *
   * @throws {ConfigurationError} on every rank on CPUs, or if NCCL is missing.
   */
  nccl(): NcclCommunicator {
    return connectGpus(this);
  }

  /**
   * Write to the standard output on rank 0 alone, as `console.log` does. What is printed is computed on every rank, so that
   * collective calls may stand in it; behind `if (rank === 0)` they would wait for ever. Not collective.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   * using runtime = initialize();
   * using ones = DistributedArray.full(runtime, [4, 4], Slab.X, 1);
   * runtime.print(`sum ${ones.sum()}`); // sum 16
   * ```
   */
  print(...values: unknown[]): void {
    this.communicator.print(...values);
  }

  /** Every native library that this process has opened: version, path, and how it was found. */
  versions(): LibraryVersion[] {
    return openedLibraries();
  }

  /**
   * Begin to record what this rank does: a timeline, and how often collective functions are called. Local; all ranks record,
   * or none, for a timeline to have all of them.
   *
   * @throws {StateError} if a recording is going on.
   */
  record(): Recording {
    return new Recording(this);
  }

  /**
   * Free what waits for being freed by all ranks together: what `using` disposed of, what `onCollect` has queued. So does
   * each collective operation on arrays (with `checks: "local"` one in sixteen, and no execution of a plan), and the end of MPI. Collective; also
   * possible after the runtime was closed.
   *
   * @throws {CollectiveError} on every rank if some are in another operation.
   * @throws what a function that `onCollect` has queued throws on any rank, on every rank, after all others were called.
   * @throws {StateError} if MPI has ended.
   */
  collect(): void {
    const { communicator } = this;
    const subject = { communicator, checks: "collective" } as const;
    agreeStrictly(subject, "Runtime.collect", () => {});
    const { errors } = freeQueued(communicator);
    agreeStrictly(subject, "Runtime.collect", () => {
      if (errors.length > 0) throw errors[0];
    });
  }

  /**
   * Have something freed at the next point that all ranks reach, as `collect()` is one. Every rank has to queue it, in the
   * same order; it is freed once all have. Not collective.
   *
   * @throws {TypeError} if it is no function.
   */
  onCollect(free: () => void): void {
    if (typeof free !== "function") {
      throw new TypeError(`onCollect takes a function that frees, not ${describe(free)}.`);
    }
    const { name } = this.communicator;
    const count = queued.get(name) ?? 0;
    queued.set(name, count + 1);
    queueCollectiveFree(`runtime/${name}/${count}`, this.size, free);
  }

  /** Print a warning on rank 0, once a process for each key. Not collective. */
  warnOnce(key: string, message: string): void {
    if (this.rank !== 0 || warned.has(key)) return;
    warned.add(key);
    console.warn(`distmath: ${message}`);
  }

  /** Whether MPI has ended. */
  get isFinalized(): boolean {
    return isMpiFinalized();
  }

  /** Whether the runtime was disposed of or finalized. */
  get isClosed(): boolean {
    return this.#isClosed || this.isFinalized;
  }

  /**
   * End MPI now, for good; a second call does nothing. Collective over all ranks of the job. Without it, MPI ends when the
   * process does. A rank that calls it while another waits for this one elsewhere ends the job after 10 seconds. Source:
   * MPI_Finalize.
   */
  finalize(): void {
    this.#isClosed = true;
    finalizeMpi();
  }

  /** Mark the runtime as closed. Never communicates: MPI ends with the process. */
  [Symbol.dispose](): void {
    this.#isClosed = true;
  }
}

/**
 * Refuse what is no runtime.
 *
 * @throws {TypeError} if it is none.
 */
export function checkRuntime(operation: string, runtime: unknown): asserts runtime is Runtime {
  if (!(runtime instanceof Runtime)) throw noRuntime(operation, runtime);
}

/**
 * As `agree`, on a call that was given this runtime: what is none is an error on all ranks of the current one.
 *
 * @throws {TypeError} if it is no runtime.
 */
export function agreeWith(runtime: Runtime, operation: string, check: () => Facts | void): void {
  agree(runtime, operation, () => {
    checkRuntime(operation, runtime);
    return check();
  });
}
