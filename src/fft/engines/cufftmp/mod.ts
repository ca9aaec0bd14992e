/**
 * The engine of cuFFTMp, and all of its files, which Deno meets here first: `src/files.ts` tells why.
 *
 * @module
 */
import "./layout.ts";
import "./plan.ts";

export { cufftMpEngine } from "./engine.ts";
