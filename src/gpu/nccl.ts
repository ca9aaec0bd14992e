/**
 * The NCCL communicator of a runtime's GPUs.
 *
 * @module
 */
import { checkNccl, NCCL_UNIQUE_ID, NcclDataType, ncclError, NcclResult, openNccl } from "../../ffi/cuda/nccl.ts";
import { noteMessage } from "../../ffi/mpi/waits.ts";
import { StateError } from "../errors.ts";
import { describe } from "../options.ts";
import type { Stream } from "./stream.ts";
import { watchMeanwhile } from "./watch.ts";

/** What tells a new communicator from all others: one rank makes it, and hands it to all. Source: ncclGetUniqueId. */
export function createNcclId(): Uint8Array<ArrayBuffer> {
  const id = new Uint8Array(NCCL_UNIQUE_ID.size);
  checkNccl(openNccl().symbols.ncclGetUniqueId(id), "ncclGetUniqueId");
  return id;
}

const asyncError = new Int32Array(1);

const HINT =
  "The communicator was aborted, and what was under way is lost: look whether another rank has failed first " +
  "(NCCL_DEBUG=WARN tells more), and start the job again.";

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
  readonly #worldRanks: readonly number[];
  readonly #stream: Stream;
  readonly #watch: Disposable;
  #handle: bigint | null;
  #isAborted = false;
  #isGrouping = false;

  /**
   * Made by `runtime.nccl()`, on all ranks with the same id. `worldRanks` are their numbers in the job. Collective. Source:
   * ncclCommInitRank.
   */
  constructor(id: Uint8Array<ArrayBuffer>, rank: number, worldRanks: readonly number[], stream: Stream) {
    const { symbols, version } = openNccl();
    const out = new BigUint64Array(1);
    checkNccl(symbols.ncclCommInitRank(out, worldRanks.length, id, rank), "ncclCommInitRank");
    this.rank = rank;
    this.size = worldRanks.length;
    this.version = version;
    this.#worldRanks = worldRanks;
    this.#stream = stream;
    this.#handle = out[0];
    this.#watch = watchMeanwhile(() => this.check());
  }

  /** Whether it has ended: it was freed, or aborted after an error. */
  get isFreed(): boolean {
    return this.#handle === null;
  }

  /** Whether it was aborted after an error. */
  get isAborted(): boolean {
    return this.#isAborted;
  }

  /**
   * The `ncclComm_t`.
   *
   * @throws {StateError} after `free`, and after an error for which it was aborted.
   */
  get handle(): bigint {
    if (this.#handle !== null) return this.#handle;
    throw new StateError(
      this.#isAborted
        ? "The NCCL communicator was aborted after an error. Look at the first error, and start the job again."
        : "The NCCL communicator was freed.",
    );
  }

  /**
   * Put bytes for another rank on a stream. The other rank must receive as many. Source: ncclSend.
   *
   * @throws {RangeError} if bytes are no whole number from 0, or there is no such rank.
   */
  send(address: bigint, bytes: number, peer: number, stream: Stream = this.#stream): void {
    this.#put("ncclSend", address, bytes, peer, stream);
  }

  /**
   * Take bytes from another rank. Source: ncclRecv.
   *
   * @throws {RangeError} if bytes are no whole number from 0, or there is no such rank.
   */
  receive(address: bigint, bytes: number, peer: number, stream: Stream = this.#stream): void {
    this.#put("ncclRecv", address, bytes, peer, stream);
  }

  /** The first messages between two ranks connect them, for which NCCL waits at the end of a group, and nowhere else. */
  #put(name: "ncclSend" | "ncclRecv", address: bigint, bytes: number, peer: number, stream: Stream): void {
    this.#checkMessage(name === "ncclSend" ? "send" : "receive", bytes, peer);
    if (!this.#isGrouping) return this.group(() => this.#put(name, address, bytes, peer, stream));
    const put = openNccl().symbols[name];
    checkNccl(put(address, BigInt(bytes), NcclDataType.Uint8, peer, this.handle, stream.handle), name);
    if (peer !== this.rank) noteMessage(this.#worldRanks[peer]);
  }

  /** Refuse what NCCL would take for a huge size, or tell of by a number. */
  #checkMessage(name: string, bytes: number, peer: number): void {
    if (!(Number.isInteger(bytes) && bytes >= 0)) {
      throw new RangeError(`${name}: bytes must be a whole number from 0, not ${describe(bytes)}.`);
    }
    if (Number.isInteger(peer) && peer >= 0 && peer < this.size) return;
    throw new RangeError(`${name}: there is no rank ${describe(peer)}; ranks go from 0 to ${this.size - 1}.`);
  }

  /** Have all calls that `body` makes start as one, so that none waits for another. Source: ncclGroupStart, ncclGroupEnd. */
  group(body: () => void): void {
    const { symbols } = openNccl();
    const outer = this.#isGrouping;
    checkNccl(symbols.ncclGroupStart(), "ncclGroupStart");
    this.#isGrouping = true;
    let hasSucceeded = false;
    try {
      body();
      hasSucceeded = true;
    } finally {
      this.#isGrouping = outer;
      const code = symbols.ncclGroupEnd();
      // After a call that failed it fails as well.
      if (hasSucceeded) checkNccl(code, "ncclGroupEnd");
    }
  }

  /**
   * Throw what went wrong since the last look, on this or another rank, after which nothing can be sent any more. Done by
   * itself while the host waits for a GPU. Source: ncclCommGetAsyncError, ncclCommAbort.
   *
   * @throws {NcclError} if something did.
   */
  check(): void {
    const { symbols } = openNccl();
    const handle = this.handle;
    checkNccl(symbols.ncclCommGetAsyncError(handle, asyncError), "ncclCommGetAsyncError");
    const [code] = asyncError;
    if (code === NcclResult.Success || code === NcclResult.InProgress) return;
    const world = this.#worldRanks[this.rank];
    const error = ncclError(`What NCCL does in the background on rank ${world}`, code, HINT, [world]);
    // Kernels that wait for others, for ever, end with it.
    this.#end();
    this.#isAborted = true;
    symbols.ncclCommAbort(handle);
    throw error;
  }

  #end(): void {
    this.#handle = null;
    this.#watch[Symbol.dispose]();
  }

  /** End it, after all work on its stream; a second call does nothing. Collective. */
  free(): void {
    if (this.#handle === null) return;
    const { symbols } = openNccl();
    const handle = this.#handle;
    this.#stream.synchronize();
    this.#end();
    checkNccl(symbols.ncclCommFinalize(handle), "ncclCommFinalize");
    checkNccl(symbols.ncclCommDestroy(handle), "ncclCommDestroy");
  }
}
