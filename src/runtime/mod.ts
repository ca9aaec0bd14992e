/**
 * Joining an MPI job, and MPI for scripts.
 *
 * @module
 */
export { agree, type Agreeing, exchange, type Facts } from "./agreement.ts";
export * from "../mpi/communicator.ts";
export { currentRuntime } from "./current.ts";
export { initialize, type InitializeOptions } from "./initialize.ts";
export { Device } from "../gpu/device.ts";
export {
  findGpuDriver,
  type GpuDriver,
  type GpuFacts,
  type GpuLink,
  type GpuReport,
  inspectGpus,
} from "../gpu/report.ts";
export { Graph } from "../gpu/graph.ts";
export {
  type CpuDescription,
  type DeviceDescription,
  type GpuDescription,
  Runtime,
  type RuntimeFields,
} from "./runtime.ts";
export { NcclCommunicator, type NcclMembers } from "./nccl.ts";
export { Event, type EventOptions, Stream, type StreamOptions } from "../gpu/stream.ts";
export { type ElementType, type Handle, type Launcher, launcher, MpiError } from "../../ffi/mpi/mod.ts";
