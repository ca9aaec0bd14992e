/**
 * Symmetric memory of GPUs: NCCL's windows.
 *
 * @module
 */
import { checkNccl, NcclConstant, NcclWindowFlags, openNccl } from "../../ffi/cuda/nccl.ts";
import { taskCommand } from "../../ffi/task_command.ts";
import { ConfigurationError } from "../errors.ts";
import { agree, type Agreeing, freeUnlessAgreed } from "../runtime/agreement.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { NcclCommunicator } from "../gpu/nccl.ts";
import { clearOnDevice } from "./copy.ts";
import { meetOnGpus, type SymmetricBlock, type SymmetricHeap } from "./symmetric_heap.ts";

/** Windows begin and end at multiples of this many bytes. */
const ALIGNMENT = NcclConstant.WIN_REQUIRED_ALIGNMENT;

/**
 * Windows for the GPUs of a runtime. Collective.
 *
 * @throws {ConfigurationError} on every rank if NCCL is missing or too old.
 */
export function openNcclWindows(runtime: Runtime, subject: Agreeing): SymmetricHeap {
  const nccl = runtime.nccl();
  agree(subject, "allocateSymmetricMemory", () => {
    if (openNccl().symbols.ncclCommWindowRegister !== null) return;
    throw new ConfigurationError(
      `allocateSymmetricMemory: backend "nccl" needs NCCL 2.27.3 or newer, not ${nccl.version}. ` +
        `To install it: ${taskCommand("native install cuda")}.`,
    );
  });
  return {
    prepare: (bytes) => {
      const address = allocate(bytes);
      return () => new NcclWindow(runtime, nccl, bytes, address);
    },
    close: () => {},
  };
}

/** Memory that a window can be made of. */
function allocate(bytes: number): bigint {
  const { symbols } = openNccl();
  const address = new BigUint64Array(1);
  checkNccl(symbols.ncclMemAlloc(address, BigInt(sizeOf(bytes))), `ncclMemAlloc of ${bytes} bytes`);
  freeUnlessAgreed({ [Symbol.dispose]: () => void symbols.ncclMemFree(address[0]) });
  return address[0];
}

function sizeOf(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

/** Memory of ncclMemAlloc, registered. Source: ncclCommWindowRegister. */
class NcclWindow implements SymmetricBlock {
  readonly address: bigint;
  readonly host = null;
  readonly #runtime: Runtime;
  readonly #nccl: NcclCommunicator;
  readonly #window: bigint;

  constructor(runtime: Runtime, nccl: NcclCommunicator, bytes: number, address: bigint) {
    const { symbols } = openNccl();
    const size = BigInt(sizeOf(bytes));
    const window = new BigUint64Array(1);
    const flags = NcclWindowFlags.COLL_SYMMETRIC;
    const code = symbols.ncclCommWindowRegister!(nccl.handle, address, size, window, flags);
    if (code !== 0 || window[0] === 0n) {
      symbols.ncclMemFree(address);
      checkNccl(code, "ncclCommWindowRegister");
      throw new ConfigurationError(
        `allocateSymmetricMemory: NCCL has no symmetric memory on these GPUs: it needs direct access between all of ` +
          `them, and NCCL_CUMEM_ENABLE and NCCL_WIN_ENABLE not 0. Use backend "nvshmem".`,
      );
    }
    this.address = address;
    this.#runtime = runtime;
    this.#nccl = nccl;
    this.#window = window[0];
    clearOnDevice(this.address, bytes, runtime.stream!);
    runtime.stream!.synchronize();
  }

  peerAddress(rank: number): bigint {
    if (rank === this.#nccl.rank) return this.address;
    const { ncclGetPeerDevicePointer } = openNccl().symbols;
    if (ncclGetPeerDevicePointer === null) {
      throw new ConfigurationError(`peerAddress: NCCL ${this.#nccl.version} does not tell addresses; 2.30 does.`);
    }
    const address = new BigUint64Array(1);
    checkNccl(ncclGetPeerDevicePointer(this.#window, 0n, rank, address), "ncclGetPeerDevicePointer");
    return address[0];
  }

  synchronize(): void {
    meetOnGpus(this.#runtime);
  }

  free(): void {
    const { symbols } = openNccl();
    this.synchronize();
    // With NCCL's communicator its windows have ended.
    if (this.#nccl.isAborted) return;
    checkNccl(symbols.ncclCommWindowDeregister!(this.#nccl.handle, this.#window), "ncclCommWindowDeregister");
    checkNccl(symbols.ncclMemFree(this.address), "ncclMemFree");
  }
}
