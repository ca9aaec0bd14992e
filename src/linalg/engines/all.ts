/**
 * The engines of products: a new one is added here, in one line.
 *
 * @module
 */
export { cublasMpEngine } from "./cublasmp/mod.ts";
export { overlapGpuEngine, overlapHostEngine } from "./overlap/mod.ts";
export { scalapackEngine } from "./scalapack/mod.ts";
