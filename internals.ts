/**
 * What tools around distmath need besides the public page, `mod.ts`: its command line, its tests, its benchmarks, and other
 * libraries on top of it. These names may change with any version.
 *
 * @module
 */

// Ranks that agree
export { agree, type Agreeing, exchange, type Facts } from "./src/runtime/agreement.ts";
export type { RuntimeFields } from "./src/runtime/runtime.ts";

// Native libraries: where they are looked for, and which are in use
export {
  environment,
  type LibraryAttempt,
  type LibraryRequest,
  nativePrefix,
  openedLibraries,
  type SearchFolder,
  searchFolders,
} from "./ffi/library.ts";
export type { DistmathErrorOptions, NativeFailure } from "./ffi/errors.ts";

// How messages name tasks, on this machine and from a URL
export { taskCommand } from "./ffi/task_command.ts";

// The C compiler that makes loops for this CPU
export { type Compiler, findCompiler } from "./ffi/compiler.ts";

// The launcher, MPI's handles and types
export { type ElementType, type Handle, type Launcher, launcher } from "./ffi/mpi/mod.ts";

// What the ranks of a job that was started wait for
export { PRESENCE_VARIABLE } from "./ffi/mpi/presence.ts";
export { isHeld } from "./ffi/mpi/segment_folder.ts";
export { LongWaits } from "./src/runtime/long_waits.ts";
export {
  makePresencePage,
  type PresencePage,
  processesInMpi,
  type ToldEnd,
  toldEnds,
  whereRanksAre,
} from "./src/runtime/onlooker.ts";

// What GPUs there are, NCCL, and what is allocated
export {
  findGpuDriver,
  type GpuDriver,
  type GpuFacts,
  type GpuLink,
  type GpuReport,
  inspectGpus,
} from "./src/gpu/report.ts";
export { NcclCommunicator } from "./src/gpu/nccl.ts";
export { roomOnGpus } from "./src/gpu/sharing.ts";
export { type Allocation, liveAllocations, type MemoryKind } from "./src/memory/allocations.ts";
export type { DeviceMemory } from "./src/memory/device_buffer.ts";
export type { SymmetricBlock } from "./src/memory/symmetric_heap.ts";

// Element types
export { allocate, dtypeOf, isNarrowFloat, type NarrowFloat, type TypedArrayConstructor } from "./src/dtype/dtype.ts";

// Distributions of one's own
export type { DistributionClass, Ownership } from "./src/distribution/distribution.ts";

// NumPy's files
export { type NpyHeader, parseNpyHeader } from "./src/array/npy_header.ts";

// Options of products as C has them, and what was probably meant by an unknown name
export { EPILOG_NAMES } from "./src/linalg/matmul/epilog.ts";
export type { Operation } from "./src/blas/transposition.ts";
export { type Operations, packQualifiers, qualifiersObject } from "./src/linalg/matmul/qualifiers.ts";
export { nearest } from "./src/options.ts";
