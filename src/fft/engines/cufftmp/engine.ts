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

/**
 * In symmetric memory, up to so many bytes of the whole operand it is the faster one, too, where the result goes back to the
 * operand's distribution: beyond it moves more. Of two dimensions between slabs so few take engine cufft less time.
 */
const LITTLE = 2 ** 24;

/** Beyond, complex numbers of three dimensions take engine cufft less time between slabs in symmetric memory, too. */
const MOST_BYTES_BETWEEN = 2 ** 27;

/**
 * In symmetric memory it copies nothing, and between boxes engine cufft takes longer ways: there it took 0.75 to 1 and 0.5 to
 * 0.95 of that one's time on two H200s. Where it copies, between slabs, it took longer, at 32^3 as at 512^3
 * (bench/results/gpu_transforms_h200.json).
 */
function leads(problem: FFTProblem, place: FFTPlace): boolean {
  const { type, from, to, operand, result } = problem;
  if (from.size === 1 || refusalOf(problem) !== null) return false;
  const bytes = sizeOfShape(operand) * dtypeInfo(dtypesOf(problem).operand).itemSize;
  if (inShape(from, result)?.coincidesWith(to)) return place === "symmetric" && bytes <= LITTLE;
  if (!isBetweenSlabs(problem)) return true;
  const isFaster = operand.length === 3
    ? type !== "r2c" && (type === "c2r" || bytes <= MOST_BYTES_BETWEEN)
    : bytes > LITTLE;
  return place === "symmetric" && isFaster;
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
