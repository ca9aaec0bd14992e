/**
 * Joining an MPI job: the runtime, and how its ranks agree.
 *
 * @module
 */
export { currentRuntime } from "./current.ts";
export { initialize, type InitializeOptions } from "./initialize.ts";
export { type CpuDescription, type DeviceDescription, type GpuDescription, Runtime } from "./runtime.ts";
export { Recording } from "./recording.ts";
export { type Interval, type LaneName, Timeline } from "./timeline.ts";
