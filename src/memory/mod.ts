/**
 * Memory of GPUs, pinned memory, symmetric memory, and who holds it.
 *
 * @module
 */
export { copyFromDevice, copyToDevice } from "./copy.ts";
export { DeviceBuffer, type DeviceMemory, MemoryPool } from "./device.ts";
export { type Allocation, liveAllocations, type MemoryKind } from "./holders.ts";
export { PinnedBuffer } from "./pinned.ts";
export { type SymmetricBackend, type SymmetricBlock, SymmetricBuffer } from "./symmetric_memory.ts";
