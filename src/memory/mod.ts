/**
 * Memory of GPUs, pinned memory, symmetric memory, and who holds it.
 *
 * @module
 */
export { copyFromDevice, copyToDevice } from "./copy.ts";
export { DeviceBuffer } from "./device_buffer.ts";
export { MemoryPool } from "./memory_pool.ts";
export { PinnedBuffer } from "./pinned.ts";
export type { SymmetricBackend } from "./symmetric_heap.ts";
export { SymmetricBuffer } from "./symmetric_memory.ts";
