/**
 * The engine of ScaLAPACK, and all of its files, which Deno meets here first: `src/files.ts` tells why.
 *
 * @module
 */
import "./algorithm.ts";
import "./all_gather_gemm.ts";
import "./descriptor.ts";
import "./gemm_reduce.ts";
import "./local_gemm.ts";
import "./pblas.ts";
import "./pgemm.ts";
import "./process_grids.ts";
import "./strategy.ts";

export { scalapackEngine } from "./engine.ts";
