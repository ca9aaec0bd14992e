/**
 * Joining an MPI job, and MPI for scripts.
 *
 * @module
 */
export { agree, type Agreeing, exchange, type Facts } from "./agreement.ts";
export * from "./communicator.ts";
export { currentRuntime } from "./current.ts";
export { initialize, type InitializeOptions } from "./initialize.ts";
export { Device } from "./device.ts";
export {
  findGpuDriver,
  type GpuDriver,
  type GpuFacts,
  type GpuLink,
  type GpuReport,
  inspectGpus,
} from "./gpu_report.ts";
export { Graph } from "./graph.ts";
export {
  type CpuDescription,
  type DeviceDescription,
  type GpuDescription,
  Runtime,
  type RuntimeFields,
} from "./runtime.ts";
export { NcclCommunicator, type NcclMembers } from "./runtime_nccl.ts";
export { Event, type EventOptions, Stream, type StreamOptions } from "./stream.ts";
export { type ElementType, type Handle, type Launcher, launcher, MpiError } from "../../ffi/mpi/mod.ts";
