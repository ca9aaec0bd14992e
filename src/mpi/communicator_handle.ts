/**
 * MPI's handle of a communicator.
 *
 * @module
 */
import { checkMpi, type Handle } from "../../ffi/mpi/mod.ts";
import { StateError } from "../errors.ts";
import { isObject } from "../options.ts";
import { startMpi } from "./init_finalize.ts";

/** MPI_Comm_free. */
export let freeHandle: (communicator: CommunicatorHandle) => void;

/** What a communicator is to MPI: its handle, and the numbers of its ranks. */
export abstract class CommunicatorHandle {
  /** The number of this process, from 0. */
  readonly rank: number;
  /** The number of ranks. */
  readonly size: number;
  readonly #handle: Handle;
  #isFreed = false;

  /** Only what the constructor made is one: no Proxy, and nothing that merely has the prototype. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return isObject(value) && #handle in value;
  }

  static {
    freeHandle = (communicator) => {
      const { symbols, handle } = startMpi();
      const out = handle === "i32"
        ? new Int32Array([Number(communicator.#handle)])
        : new BigUint64Array([BigInt(communicator.#handle)]);
      communicator.#isFreed = true;
      checkMpi(symbols.MPI_Comm_free(out), "MPI_Comm_free");
    };
  }

  /** Made of what MPI made. */
  protected constructor(handle: Handle) {
    const { symbols } = startMpi();
    const out = new Int32Array(2);
    checkMpi(symbols.MPI_Comm_rank(handle, out), "MPI_Comm_rank");
    checkMpi(symbols.MPI_Comm_size(handle, out.subarray(1)), "MPI_Comm_size");
    this.rank = out[0];
    this.size = out[1];
    this.#handle = handle;
  }

  /** MPI's handle, for native calls. */
  get handle(): Handle {
    if (this.#isFreed) refuseFreed(this, "handle");
    return this.#handle;
  }

  /** The C type of {@linkcode Communicator.handle}: a number for `i32`, a bigint for `u64`. */
  get handleType(): "i32" | "u64" {
    return startMpi().handle;
  }

  /** Whether `free()` was called. */
  get isFreed(): boolean {
    return this.#isFreed;
  }

  /** The handle as Fortran, BLACS and ScaLAPACK know it. Not collective. Source: MPI_Comm_c2f, MPI 5's MPI_Comm_toint. */
  fortranHandle(): number {
    refuseFreed(this, "fortranHandle");
    const { symbols, abi } = startMpi();
    if (abi === "mpich") return Number(this.#handle);
    return abi === "standard" ? symbols.MPI_Comm_toint(this.#handle) : symbols.MPI_Comm_c2f(this.#handle);
  }
}

export function refuseFreed(communicator: CommunicatorHandle, method: string): void {
  if (communicator.isFreed) throw new StateError(`${method}: this communicator was freed.`);
}
