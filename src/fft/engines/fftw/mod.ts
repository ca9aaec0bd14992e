/**
 * The engine of the FFTW3 interface, and all of its files, which Deno meets here first: `src/files.ts` tells why.
 *
 * @module
 */
import "./blocks.ts";
import "./passes.ts";
import "./rate.ts";
import "./reflect.ts";
import "./transformer.ts";
import "./twiddle.ts";

export { fftwEngine } from "./engine.ts";
