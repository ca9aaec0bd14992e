/**
 * The engine of cuFFTMp, for GPUs: transforms of all axes at once, in memory of NVSHMEM.
 *
 * @module
 */
import { sizeOfShape } from "../../../array/layout.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { inShape } from "../../pass_places.ts";
import { dtypesOf, type FFTProblem } from "../../problem.ts";
import type { FFTEngine, FFTPlace } from "../engine.ts";
import { algorithmsOf, CUFFTMP_ALGORITHMS, isBetweenSlabs, refusalOf } from "./layout.ts";
import { CufftMpPlan, cufftMpVersion } from "./plan.ts";

/** Up to so many bytes of the whole operand it is the faster one, too, where the result goes back to the operand's distribution. */
const MOST_BYTES_BACK = 2 ** 24;

/**
 * In symmetric memory it copies nothing, and between boxes engine cufft takes longer ways: there it took up to half of that
 * one's time on two H100s. Where it copies, between slabs, now one and now the other is the faster by some percent; to the
 * same distribution and back it moves more (bench/results/gpu_transforms_h100.json).
 */
function leads(problem: FFTProblem, place: FFTPlace): boolean {
  const { from, to, operand, result } = problem;
  if (from.size === 1 || refusalOf(problem) !== null) return false;
  const isBack = inShape(from, result)?.coincidesWith(to) ?? false;
  if (isBack) return sizeOfShape(operand) * dtypeInfo(dtypesOf(problem).operand).itemSize <= MOST_BYTES_BACK;
  return place === "symmetric" || !isBetweenSlabs(problem);
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
