/**
 * Joining an MPI job, and MPI for scripts.
 *
 * @module
 */
export * from "./agreement.ts";
export * from "./communicator.ts";
export { type Counts } from "./counts.ts";
export { type ElementName, type NumericArray } from "./elements.ts";
export { currentRuntime, initialize, type InitializeOptions } from "./initialize.ts";
export { Request, type Status } from "./request.ts";
export { type DeviceDescription, Runtime, type RuntimeFields } from "./runtime.ts";
export { type ElementType, type Handle, type Launcher, launcher, MpiError } from "../../ffi/mpi/mod.ts";
