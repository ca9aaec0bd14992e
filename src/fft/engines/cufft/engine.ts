/**
 * The engine for GPUs: local transforms by cuFFT, and this library's redistributions.
 *
 * @module
 */
import type { FFTProblem } from "../../problem.ts";
import { findRoutes } from "../../route.ts";
import type { FFTEngine } from "../engine.ts";
import type { RouteAlgorithm } from "../staged/algorithms.ts";
import { STAGED_ALGORITHMS, StagedPlan } from "../staged/plan.ts";
import { cufftTransformer, cufftVersion } from "./transformer.ts";

/** cuFFT's limits are wider for other precisions than half. */
function refusalOfHalf({ precision, type, axes, operand, result }: FFTProblem): string | null {
  if (precision !== "float16") return null;
  const extents = type === "c2r" ? result : operand;
  const axis = axes.find((d) => !Number.isInteger(Math.log2(extents[d])));
  return axis === undefined
    ? null
    : `cuFFT transforms numbers of half precision where the extents of transformed axes are powers of two, and axis ${axis} ` +
      `has ${extents[axis]}`;
}

/** The engine for GPUs. */
export const cufftEngine: FFTEngine<"cufft", RouteAlgorithm> = {
  name: "cufft",
  device: "gpu",
  isUsual: true,
  algorithms: STAGED_ALGORITHMS,
  open: cufftVersion,
  refusal: refusalOfHalf,
  algorithmsFor: (problem) => findRoutes(problem).map(({ algorithm }) => algorithm),
  plan: (runtime, request) => new StagedPlan(runtime, request, cufftTransformer(runtime, request)),
};
