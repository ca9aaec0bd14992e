/**
 * The engine for CPUs: local transforms by the FFTW3 interface, of MKL or FFTW, whichever is the faster for each, and this
 * library's redistributions.
 *
 * @module
 */
import { openFftw } from "../../../../ffi/fft/fftw.ts";
import { findRoutes } from "../../route.ts";
import type { FFTEngine } from "../engine.ts";
import type { RouteAlgorithm } from "../staged/algorithms.ts";
import { STAGED_ALGORITHMS, StagedPlan } from "../staged/plan.ts";
import { fftwTransformer, precisionOf, versionsOf } from "./transformer.ts";

/** The engine for CPUs. */
export const fftwEngine: FFTEngine<"fftw", RouteAlgorithm> = {
  name: "fftw",
  device: "cpu",
  isUsual: true,
  algorithms: STAGED_ALGORITHMS,
  open: ({ threads }, problem) => versionsOf(openFftw(precisionOf(problem), threads)),
  refusal: ({ precision }) => precision === "float16" ? "numbers of half precision are transformed on GPUs only" : null,
  algorithmsFor: (problem) => findRoutes(problem, { isOnHost: true }).map(({ algorithm }) => algorithm),
  plan: (runtime, request) => new StagedPlan(runtime, request, fftwTransformer(runtime, request)),
};
