/**
 * The engine for GPUs: local transforms by cuFFT, and this library's redistributions.
 *
 * @module
 */
import { findRoutes } from "../../route.ts";
import type { FFTEngine } from "../engine.ts";
import { STAGED_ALGORITHMS, StagedPlan } from "../staged/plan.ts";
import { cufftTransformer, cufftVersion } from "./transformer.ts";

/** The engine for GPUs. */
export const cufftEngine: FFTEngine<"cufft", typeof STAGED_ALGORITHMS[number]> = {
  name: "cufft",
  device: "gpu",
  algorithms: STAGED_ALGORITHMS,
  open: cufftVersion,
  refusal: () => null,
  algorithmsFor: (problem) => findRoutes(problem, { reflects: false }).map(({ algorithm }) => algorithm),
  plan: (runtime, request) => new StagedPlan(runtime, request, cufftTransformer(runtime, request)),
};
