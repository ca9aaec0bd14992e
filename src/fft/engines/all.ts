/**
 * The engines of transforms: a new one is added here, in one line.
 *
 * @module
 */
export { cufftEngine } from "./cufft/mod.ts";
export { cufftMpEngine } from "./cufftmp/mod.ts";
export { fftwEngine } from "./fftw/mod.ts";
