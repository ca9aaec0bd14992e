/**
 * Handles where MPI's functions read and write them.
 *
 * @module
 */
import type { Handle } from "../../ffi/mpi/mod.ts";
import { startMpi } from "./init_finalize.ts";

/** A variable of C that holds a handle. */
export function handleCell(handle: Handle = 0): Int32Array<ArrayBuffer> | BigUint64Array<ArrayBuffer> {
  return startMpi().handle === "i32" ? Int32Array.of(Number(handle)) : BigUint64Array.of(BigInt(handle));
}
