/**
 * The engine for CPUs: local transforms by the FFTW3 interface, of MKL or FFTW, and this library's redistributions.
 *
 * @module
 */
import { openFftw } from "../../../../ffi/fft/fftw.ts";
import { findRoutes } from "../../route.ts";
import type { FFTEngine } from "../engine.ts";
import { FftwPlan } from "./plan.ts";

const ALGORITHMS = ["local", "transpose", "four_step", "gather"] as const;

/** The engine for CPUs. */
export const fftwEngine: FFTEngine<"fftw", typeof ALGORITHMS[number]> = {
  name: "fftw",
  device: "cpu",
  algorithms: ALGORITHMS,
  open: ({ threads }, { precision }) => openFftw(precision, threads).version,
  algorithmsFor: (problem) => findRoutes(problem).map(({ algorithm }) => algorithm),
  plan: (runtime, request) => new FftwPlan(runtime, request),
};
