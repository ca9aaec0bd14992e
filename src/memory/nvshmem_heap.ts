/**
 * Symmetric memory of GPUs: NVSHMEM's heap.
 *
 * @module
 */
import {
  checkNvshmem,
  createNvshmemInitAttr,
  createNvshmemUniqueId,
  NvshmemInitFlags,
  NvshmemInitStatus,
  openNvshmem,
} from "../../ffi/cuda/nvshmem.ts";
import { ConfigurationError, StateError } from "../errors.ts";
import { type Agreeing, agreeStrictly, exchange } from "../runtime/agreement.ts";
import { callJointly } from "../runtime/joint_call.ts";
import { setIfUnset } from "../environment.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { clearOnDevice } from "./copy.ts";
import { freeBytesFor } from "./memory_pool.ts";
import { meetOnGpus, type SymmetricBlock, type SymmetricHeap } from "./symmetric_heap.ts";

/** What NVSHMEM takes of a GPU when it starts: 2276 MiB on each of two to four, and some room. */
const START_BYTES = 2.5 * 2 ** 30;

/** What there is else. */
const WITHOUT = `symmetric memory by backend "nccl", and products by cuBLASMp, do without NVSHMEM`;

/** Whether NVSHMEM was ended; it does not start twice in a process. */
let hasEnded = false;

/**
 * Start NVSHMEM on the GPUs of a runtime, by a unique id that goes through MPI; one that runs already is taken. Collective.
 *
 * @throws {ConfigurationError} on every rank if NVSHMEM is missing, or runs on other ranks.
 */
export function openNvshmemHeap(runtime: Runtime, subject: Agreeing): SymmetricHeap {
  const { rank, size } = runtime;
  const operation = "allocateSymmetricMemory";
  if (runtime.localSize === size) setIfUnset("NVSHMEM_REMOTE_TRANSPORT", "none");
  const ids = exchange(subject, operation, () => {
    if (hasEnded) throw new StateError("NVSHMEM was ended in this process and cannot start again.");
    const { symbols } = openNvshmem();
    const isRunning = hasStarted();
    if (!isRunning) checkMemory(runtime);
    const id = createNvshmemUniqueId();
    if (rank === 0 && !isRunning) checkNvshmem(symbols.nvshmemx_get_uniqueid(id), "nvshmemx_get_uniqueid");
    return { id: Array.from(id), isRunning };
  });
  const mine = !ids[0].isRunning;
  // The id has to stay alive while NVSHMEM starts.
  const id = Uint8Array.from(ids[0].id);
  if (mine) start(id, rank, size, subject);
  exchange(subject, operation, () => {
    const { symbols } = openNvshmem();
    const [peers, self] = [symbols.nvshmem_n_pes(), symbols.nvshmem_my_pe()];
    if (peers === size && self === rank) return null;
    throw new ConfigurationError(
      `allocateSymmetricMemory: NVSHMEM runs as number ${self} of ${peers}, but this is rank ${rank} of ${size}.`,
    );
  });
  return {
    prepare: (bytes) => () => new NvshmemBlock(runtime, bytes),
    close: () => {
      if (!mine) return;
      hasEnded = true;
      openNvshmem().symbols.nvshmemx_hostlib_finalize();
    },
  };
}

function hasStarted(): boolean {
  return openNvshmem().symbols.nvshmemx_init_status() >= NvshmemInitStatus.IS_INITIALIZED;
}

/** Without so much memory NVSHMEM waits for ever, ends the process, or says that it has started. */
function checkMemory({ stream }: Runtime): void {
  const freeBytes = freeBytesFor(START_BYTES, stream!);
  if (freeBytes >= START_BYTES) return;
  throw new ConfigurationError(
    `allocateSymmetricMemory: NVSHMEM takes up to ${START_BYTES} bytes of a GPU when it starts, but on ` +
      `${stream!.device} only ${freeBytes} are free. Free arrays, or see which other process has its memory ` +
      `(nvidia-smi); ${WITHOUT}.`,
  );
}

function start(id: Uint8Array<ArrayBuffer>, rank: number, size: number, subject: Agreeing): void {
  const { symbols } = openNvshmem();
  const attributes = createNvshmemInitAttr();
  const [setting, starting] = ["nvshmemx_set_attr_uniqueid_args", "nvshmemx_hostlib_init_attr"] as const;
  agreeStrictly(subject, setting, () => checkNvshmem(symbols[setting](rank, size, id, attributes), setting));
  const flags = NvshmemInitFlags.WITH_UNIQUEID;
  callJointly(subject, starting, () => {
    checkNvshmem(symbols[starting](flags, attributes), starting);
    if (!hasStarted()) {
      throw new ConfigurationError(
        `allocateSymmetricMemory: NVSHMEM has not started on this rank. See what it has printed; ${WITHOUT}.`,
      );
    }
  });
}

/** Source: nvshmem_malloc, nvshmem_ptr, nvshmem_free. */
class NvshmemBlock implements SymmetricBlock {
  readonly address: bigint;
  readonly host = null;
  readonly #runtime: Runtime;

  constructor(runtime: Runtime, bytes: number) {
    const { symbols } = openNvshmem();
    this.address = symbols.nvshmem_malloc(BigInt(bytes));
    if (this.address === 0n) {
      throw new ConfigurationError(
        `allocateSymmetricMemory: NVSHMEM has no ${bytes} bytes left on its heap. Free arrays, or set ` +
          `NVSHMEM_SYMMETRIC_SIZE to more bytes before the start.`,
      );
    }
    this.#runtime = runtime;
    clearOnDevice(this.address, bytes, runtime.stream!);
    runtime.stream!.synchronize();
  }

  peerAddress(rank: number): bigint {
    return openNvshmem().symbols.nvshmem_ptr(this.address, rank);
  }

  synchronize(): void {
    meetOnGpus(this.#runtime);
  }

  /** NVSHMEM frees at once, not in the order of a stream. */
  free(): void {
    this.synchronize();
    openNvshmem().symbols.nvshmem_free(this.address);
  }
}
