/**
 * Symmetric memory of processes on one machine: windows of MPI in shared memory.
 *
 * @module
 */
import { checkMpi, type Handle } from "../../ffi/mpi/mod.ts";
import { environment } from "../../ffi/library.ts";
import { libcFunctions, toCString, viewOfAddress } from "../../ffi/memory.ts";
import { ConfigurationError } from "../errors.ts";
import { type Agreeing, exchange } from "../runtime/agreement.ts";
import { startMpi } from "../mpi/init_finalize.ts";
import { Communicator } from "../mpi/communicator.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { SymmetricBlock, SymmetricHeap } from "./symmetric_heap.ts";

/**
 * Windows for the ranks of a runtime. Collective.
 *
 * @throws {ConfigurationError} on every rank if they are on several machines.
 */
export function openMpiWindows(runtime: Runtime, subject: Agreeing): SymmetricHeap {
  const { communicator } = runtime;
  const shared = communicator.splitShared();
  const sizes = exchange(subject, "allocateSymmetricMemory", () => shared.size);
  shared.free();
  if (sizes.some((size) => size !== communicator.size)) {
    throw new ConfigurationError(
      `allocateSymmetricMemory: backend "mpi" needs all ${communicator.size} ranks on one machine, whose memory they ` +
        `share, but at most ${Math.max(...sizes)} are. Start them on one machine.`,
    );
  }
  return {
    prepare: (bytes) => {
      checkSpace(communicator.size, bytes);
      return () => new MpiWindow(communicator, bytes);
    },
    close: () => {},
  };
}

/** The folder where Open MPI puts windows; MPICH's are where shm_open has its memory. */
const OPEN_MPI_FOLDER = "OMPI_MCA_osc_sm_backing_directory";
const USUAL_FOLDER = "/dev/shm";

/** What a window takes at most besides its buffers, and what each buffer is rounded up to. */
const OVERHEAD_BYTES = 2 ** 16;
const PAGE_BYTES = 2 ** 12;

/** Open MPI wants this much more than it needs. */
const OPEN_MPI_RESERVE = 1.05;

/**
 * Refuse windows that do not fit into the file system in memory that they lie in: Open MPI would wait for ever, and MPICH
 * die at the first access.
 */
function checkSpace(ranks: number, bytes: number): void {
  const { folder, needed, available } = spaceFor(ranks, bytes);
  if (needed <= available) return;
  const elsewhere = startMpi().vendor === "open_mpi"
    ? `, or set ${OPEN_MPI_FOLDER} to a folder in memory that has more`
    : "";
  throw new ConfigurationError(
    `allocateSymmetricMemory: ${bytes} bytes on each of ${ranks} ranks need ${needed} bytes of shared memory, but ` +
      `${folder} has ${available} left. Free arrays, make it larger (a container: --shm-size; else: mount -o ` +
      `remount,size=… ${folder})${elsewhere}.`,
  );
}

/** What a window of so many bytes a rank takes, and what there is; one rank shares nothing. */
function spaceFor(ranks: number, bytes: number): { folder: string; needed: number; available: number } {
  const isOpenMpi = startMpi().vendor === "open_mpi";
  const folder = (isOpenMpi && environment(OPEN_MPI_FOLDER)) || USUAL_FOLDER;
  const total = ranks * Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES + OVERHEAD_BYTES;
  const needed = ranks === 1 ? 0 : isOpenMpi ? Math.ceil(total * OPEN_MPI_RESERVE) : total;
  return { folder, needed, available: freeBytes(folder) ?? Infinity };
}

/** Whether there is room for a window of so many bytes on each rank. */
export function hasSpaceFor(ranks: number, bytes: number): boolean {
  const { needed, available } = spaceFor(ranks, bytes);
  return needed <= available;
}

let statvfs: ((path: Uint8Array<ArrayBuffer>, out: BigUint64Array<ArrayBuffer>) => number) | undefined;

/** What is free in the file system of a folder; null if it does not tell, or has no limit of its own. Source: statvfs. */
function freeBytes(folder: string): number | null {
  statvfs ??= libcFunctions({ statvfs: { parameters: ["buffer", "buffer"], result: "i32" } }).statvfs;
  // f_bsize, f_frsize, f_blocks, f_bfree, f_bavail, and what does not matter.
  const out = new BigUint64Array(16);
  if (statvfs(toCString(folder), out) !== 0 || out[2] === 0n) return null;
  return Number(out[1] * out[4]);
}

/**
 * Source: MPI_Win_allocate_shared. The window stays locked by all, so that loads and stores need no other call.
 *
 * It is of a communicator of its own, unless that is the world: MPICH and Intel MPI take a window for another one, and crash,
 * if the communicator that it was made for is freed before it, and then one is made that gets the same number.
 */
export class MpiWindow implements SymmetricBlock {
  readonly address: bigint;
  readonly host: ArrayBuffer;
  readonly #communicator: Communicator;
  readonly #window: BigUint64Array | Int32Array;

  /** All ranks have to be on one machine, with room for it. The first `cleared` bytes are 0. Collective. */
  constructor(given: Communicator, bytes: number, cleared = bytes) {
    const { symbols, constants, handle } = startMpi();
    const communicator = given === Communicator.world() ? given : given.duplicate();
    const base = new BigUint64Array(1);
    const window = handle === "i32" ? new Int32Array(1) : new BigUint64Array(1);
    const code = symbols.MPI_Win_allocate_shared(
      BigInt(bytes),
      1,
      constants.nullInfo,
      communicator.handle,
      base,
      window,
    );
    checkMpi(code, "MPI_Win_allocate_shared");
    this.#communicator = communicator;
    this.#window = window;
    checkMpi(symbols.MPI_Win_set_errhandler(this.#handle, constants.errorsReturn), "MPI_Win_set_errhandler");
    checkMpi(symbols.MPI_Win_lock_all(0, this.#handle), "MPI_Win_lock_all");
    this.address = base[0];
    this.host = viewOfAddress(base[0], bytes);
    new Uint8Array(this.host, 0, cleared).fill(0);
    this.synchronize();
  }

  get #handle(): Handle {
    return this.#window[0];
  }

  peerAddress(rank: number): bigint {
    const [size, unit, base] = [new BigInt64Array(1), new Int32Array(1), new BigUint64Array(1)];
    const { symbols } = startMpi();
    checkMpi(symbols.MPI_Win_shared_query(this.#handle, rank, size, unit, base), "MPI_Win_shared_query");
    return base[0];
  }

  synchronize(): void {
    const { symbols } = startMpi();
    checkMpi(symbols.MPI_Win_sync(this.#handle), "MPI_Win_sync");
    this.#communicator.barrier();
    checkMpi(symbols.MPI_Win_sync(this.#handle), "MPI_Win_sync");
  }

  free(): void {
    const { symbols } = startMpi();
    // Detached, so that a typed array that somebody kept is empty, and not somebody else's memory.
    if (!this.host.detached) this.host.transfer();
    checkMpi(symbols.MPI_Win_unlock_all(this.#handle), "MPI_Win_unlock_all");
    checkMpi(symbols.MPI_Win_free(this.#window), "MPI_Win_free");
    if (this.#communicator !== Communicator.world()) this.#communicator.free();
  }
}
