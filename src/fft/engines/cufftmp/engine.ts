/**
 * The engine of cuFFTMp, for GPUs: transforms of all axes at once, in memory of NVSHMEM.
 *
 * @module
 */
import { sizeOfShape } from "../../../array/layout.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { dtypesOf, type FFTProblem } from "../../problem.ts";
import type { FFTEngine, FFTPlace } from "../engine.ts";
import { algorithmsOf, CUFFTMP_ALGORITHMS, refusalOf } from "./layout.ts";
import { CufftMpPlan, cufftMpVersion } from "./plan.ts";

/**
 * Up to so many bytes of the whole operand it is faster than engine cufft between its slabs; on two H100s, where both have
 * elements to copy (bench/results/gpu_transforms_h100.json).
 */
const MOST_BYTES: Readonly<Record<Exclude<FFTPlace, "symmetric">, number>> = { new: 2 ** 24, operand: 2 ** 27 };

/** In symmetric memory it copies nothing; between boxes engine cufft takes longer ways. */
function leads(problem: FFTProblem, place: FFTPlace): boolean {
  if (problem.from.size === 1 || refusalOf(problem) !== null) return false;
  if (place === "symmetric" || algorithmsOf(problem)[0] === "boxes") return true;
  return sizeOfShape(problem.operand) * dtypeInfo(dtypesOf(problem).operand).itemSize <= MOST_BYTES[place];
}

/** The engine of cuFFTMp. */
export const cufftMpEngine: FFTEngine<"cufftmp", typeof CUFFTMP_ALGORITHMS[number]> = {
  name: "cufftmp",
  device: "gpu",
  algorithms: CUFFTMP_ALGORITHMS,
  open: cufftMpVersion,
  refusal: refusalOf,
  algorithmsFor: algorithmsOf,
  leads,
  plan: (runtime, request) => new CufftMpPlan(runtime, request),
};
