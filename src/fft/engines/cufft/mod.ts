/**
 * The engine of cuFFT, and all of its files, which Deno meets here first: `src/files.ts` tells why.
 *
 * @module
 */
import "./passes.ts";
import "./transformer.ts";

export { cufftEngine } from "./engine.ts";
