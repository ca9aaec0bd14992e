/**
 * The overlap engine, on GPUs and on CPUs, and all of its files, which Deno meets here first: `src/files.ts` tells why.
 *
 * @module
 */
import "./copy_plan.ts";
import "./copy_products.ts";
import "./copy_strategy.ts";
import "./copy_waves.ts";
import "./host_strategy.ts";
import "./shared_windows.ts";
import "./tile_engine.ts";
import "./tile_epilog.ts";
import "./tile_operands.ts";
import "./tile_products.ts";
import "./tile_strategy.ts";
import "./tile_variants.ts";

export { overlapGpuEngine } from "./gpu_engine.ts";
export { overlapHostEngine } from "./host_engine.ts";
