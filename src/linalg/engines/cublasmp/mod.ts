/**
 * The engine of cuBLASMp, and all of its files, which Deno meets here first: `src/files.ts` tells why.
 *
 * @module
 */
import "./attributes.ts";
import "./descriptor.ts";
import "./device_epilog.ts";
import "./epilog_arrays.ts";
import "./host_epilog.ts";
import "./log.ts";
import "./native_product.ts";
import "./paths.ts";
import "./pblas.ts";
import "./plan.ts";
import "./product_scales.ts";
import "./resources.ts";
import "./scales.ts";
import "./staging.ts";

export { cublasMpEngine } from "./engine.ts";
