/**
 * MPI for scripts.
 *
 * @module
 */
export * from "./communicator.ts";
export { type ElementType, type Handle, type Launcher, launcher, MpiError } from "../../ffi/mpi/mod.ts";
