/**
 * What a backend of symmetric memory is, and gives.
 *
 * @module
 */

import { RunOrder } from "../gpu/run_order.ts";
import { agreeWithin } from "../runtime/agreement.ts";
import type { Runtime } from "../runtime/runtime.ts";

/**
 * What makes memory symmetric: NVSHMEM's heap, NCCL's registered windows (both on GPUs), or a window of MPI in the memory
 * that the processes of one machine share.
 */
export type SymmetricBackend = "nvshmem" | "nccl" | "mpi";

/** One rank's buffer, as a backend gives it. */
export interface SymmetricBlock {
  /** Where it lies. */
  readonly address: bigint;
  /** It as host memory; `null` on a GPU. */
  readonly host: ArrayBuffer | null;
  /** Where another rank's buffer lies for this rank. */
  peerAddress(rank: number): bigint;
  /** Have what was written so far be seen by all ranks that do the same. Collective. */
  synchronize(): void;
  /** Free it. Collective, in the same order on all ranks. */
  free(): void;
}

/**
 * Wait until all that was put on the streams of the runtime on all ranks has been done, and products on others. Collective.
 *
 * @throws what a GPU's work has thrown on any rank, on every rank.
 */
export function meetOnGpus({ communicator, stream }: Runtime): void {
  agreeWithin({ communicator, checks: "collective" }, "synchronize", () => {
    RunOrder.of(stream!).settle();
    stream!.synchronize();
  });
}

/** A backend that is open. */
export interface SymmetricHeap {
  /**
   * Make sure that this rank can have a buffer of so many bytes, which all ranks ask for. Local. Returns what allocates it,
   * of zeros, when all ranks are sure: collective, and over when the ranks have agreed that all of them have it.
   */
  prepare(bytes: number): () => SymmetricBlock;
  /** Close it, after all buffers were freed. Collective. */
  close(): void;
}
