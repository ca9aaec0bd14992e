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
import { type Agreeing, exchange } from "../runtime/agreement.ts";
import { setIfUnset } from "../environment.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { clearOnDevice } from "./copy.ts";
import { meetOnGpus, type SymmetricBlock, type SymmetricHeap } from "./symmetric_heap.ts";

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
    const isRunning = symbols.nvshmemx_init_status() >= NvshmemInitStatus.IS_INITIALIZED;
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

function start(id: Uint8Array<ArrayBuffer>, rank: number, size: number, subject: Agreeing): void {
  const { symbols } = openNvshmem();
  const attributes = createNvshmemInitAttr();
  let code = symbols.nvshmemx_set_attr_uniqueid_args(rank, size, id, attributes);
  exchange(subject, "nvshmemx_set_attr_uniqueid_args", () => checkNvshmem(code, "nvshmemx_set_attr_uniqueid_args"));
  code = symbols.nvshmemx_hostlib_init_attr(NvshmemInitFlags.WITH_UNIQUEID, attributes);
  exchange(subject, "nvshmemx_hostlib_init_attr", () => checkNvshmem(code, "nvshmemx_hostlib_init_attr"));
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
