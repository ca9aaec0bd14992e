/**
 * Kernels that distmath compiles itself, and what compiles them.
 *
 * @module
 */
export { cacheFolder, compile, Program, THREADS, type Words } from "./program.ts";
