/**
 * The NCCL communicator of a runtime's GPUs.
 *
 * @module
 */
import { checkNccl, NCCL_UNIQUE_ID, NcclDataType, NcclResult, openNccl } from "../../ffi/cuda/nccl.ts";
import { StateError } from "../errors.ts";
import type { Stream } from "./stream.ts";

/** What tells a new communicator from all others: one rank makes it, and hands it to all. Source: ncclGetUniqueId. */
export function createNcclId(): Uint8Array<ArrayBuffer> {
  const id = new Uint8Array(NCCL_UNIQUE_ID.size);
  checkNccl(openNccl().symbols.ncclGetUniqueId(id), "ncclGetUniqueId");
  return id;
}

/**
 * The GPUs of all ranks, as NCCL knows them. `runtime.nccl()` makes one; it ends with MPI.
 *
 * @example
 * ```ts no-eval
 * import { initialize } from "@distmath/distmath";
 * using runtime = initialize();
 * const nccl = runtime.nccl();
 * console.log(nccl.handle, nccl.version);
 * ```
 */
export class NcclCommunicator {
  /** This rank. */
  readonly rank: number;
  /** The number of ranks. */
  readonly size: number;
  /** NCCL's version, such as 23007 for 2.30.7. */
  readonly version: number;
  readonly #stream: Stream;
  #handle: bigint | null;

  /** Made by `runtime.nccl()`, on all ranks with the same id. Collective. Source: ncclCommInitRank. */
  constructor(id: Uint8Array<ArrayBuffer>, rank: number, size: number, stream: Stream) {
    const { symbols, version } = openNccl();
    const out = new BigUint64Array(1);
    checkNccl(symbols.ncclCommInitRank(out, size, id, rank), "ncclCommInitRank");
    this.rank = rank;
    this.size = size;
    this.version = version;
    this.#stream = stream;
    this.#handle = out[0];
  }

  /** Whether it has ended. */
  get isFreed(): boolean {
    return this.#handle === null;
  }

  /**
   * The `ncclComm_t`.
   *
   * @throws {StateError} after `free`.
   */
  get handle(): bigint {
    if (this.#handle === null) throw new StateError("The NCCL communicator was freed.");
    return this.#handle;
  }

  /** Put bytes for another rank on a stream. The other rank must receive as many. Source: ncclSend. */
  send(address: bigint, bytes: number, peer: number, stream: Stream = this.#stream): void {
    const { symbols } = openNccl();
    const code = symbols.ncclSend(address, BigInt(bytes), NcclDataType.Uint8, peer, this.handle, stream.handle);
    checkNccl(code, "ncclSend");
  }

  /** Take bytes from another rank. Source: ncclRecv. */
  receive(address: bigint, bytes: number, peer: number, stream: Stream = this.#stream): void {
    const { symbols } = openNccl();
    const code = symbols.ncclRecv(address, BigInt(bytes), NcclDataType.Uint8, peer, this.handle, stream.handle);
    checkNccl(code, "ncclRecv");
  }

  /** Have all calls that `body` makes start as one, so that none waits for another. Source: ncclGroupStart, ncclGroupEnd. */
  group(body: () => void): void {
    const { symbols } = openNccl();
    checkNccl(symbols.ncclGroupStart(), "ncclGroupStart");
    try {
      body();
    } finally {
      checkNccl(symbols.ncclGroupEnd(), "ncclGroupEnd");
    }
  }

  /**
   * Throw what went wrong since the last look, on this or another rank.
   *
   * @throws {NcclError} if something did.
   */
  check(): void {
    const result = new Int32Array(1);
    checkNccl(openNccl().symbols.ncclCommGetAsyncError(this.handle, result), "ncclCommGetAsyncError");
    if (result[0] !== NcclResult.InProgress) checkNccl(result[0], "an NCCL operation");
  }

  /** End it, after all work on its stream; a second call does nothing. Collective. */
  free(): void {
    if (this.#handle === null) return;
    const { symbols } = openNccl();
    const handle = this.#handle;
    this.#handle = null;
    this.#stream.synchronize();
    checkNccl(symbols.ncclCommFinalize(handle), "ncclCommFinalize");
    checkNccl(symbols.ncclCommDestroy(handle), "ncclCommDestroy");
  }
}
