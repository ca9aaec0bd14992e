/**
 * The engine of cuFFTMp, for GPUs: transforms of all axes at once, in memory of NVSHMEM.
 *
 * @module
 */
import type { FFTEngine } from "../engine.ts";
import { algorithmsOf, CUFFTMP_ALGORITHMS, refusalOf } from "./layout.ts";
import { CufftMpPlan, cufftMpVersion } from "./plan.ts";

/** The engine of cuFFTMp. */
export const cufftMpEngine: FFTEngine<"cufftmp", typeof CUFFTMP_ALGORITHMS[number]> = {
  name: "cufftmp",
  device: "gpu",
  algorithms: CUFFTMP_ALGORITHMS,
  open: cufftMpVersion,
  refusal: refusalOf,
  algorithmsFor: algorithmsOf,
  plan: (runtime, request) => new CufftMpPlan(runtime, request),
};
