/**
 * What no engine can multiply in the memory of the host.
 *
 * @module
 */
import { dtypeInfo, isNarrowFloat } from "../../../dtype/dtype.ts";
import { type Epilog, needsRealNumbers } from "../../matmul/epilog.ts";
import { isEmpty, type MatmulProblem, type Matrix } from "../../matmul/problem.ts";
import type { EngineRequest, Refusal } from "../engine.ts";

/** BLAS and ScaLAPACK count rows and columns in 32 bits. */
const LARGEST_EXTENT = 2 ** 31 - 1;

function refuseMatrices(problem: MatmulProblem): Refusal | null {
  const { a, b, c, d, m, n, k, accumulator } = problem;
  for (const { dtype } of [a, b, c, d].filter((matrix): matrix is Matrix => matrix !== null)) {
    if (dtypeInfo(dtype).isInteger) {
      return { reason: `integers (${dtype}) cannot be multiplied`, instead: "Convert to float32 or float64." };
    }
    if (dtype !== accumulator && !(accumulator === "float32" && isNarrowFloat(dtype))) {
      return {
        reason: `${dtype} cannot be summed in ${accumulator}`,
        instead: "Give all matrices one dtype; only 16-bit and 8-bit floats are widened, to float32.",
      };
    }
  }
  const largest = Math.max(m, n, k);
  if (largest > LARGEST_EXTENT && !isEmpty(problem)) {
    return {
      reason: `a matrix of extent ${largest} cannot be multiplied: BLAS counts in 32 bits, up to ${LARGEST_EXTENT}`,
      instead: "Multiply it in slices.",
    };
  }
  return null;
}

/** The sums of a factor that is multiplied by an array of scales would be with them, and by a number without it. */
export function refuseScaledSums(epilog: Epilog, scaling: EngineRequest["scaling"]): Refusal | null {
  if (!scaling || epilog.biasGradient !== "a" && epilog.biasGradient !== "b") return null;
  return {
    reason: `the epilog ${epilog.name} sums a factor without its scales`,
    instead: "Pass quantizationScales as numbers, or another epilog.",
  };
}

/** Null if BLAS and epilogs in host memory have what a product asks for. */
export function refuseOnHost({ problem, epilog, scaling }: EngineRequest): Refusal | null {
  const refusal = refuseMatrices(problem) ?? refuseScaledSums(epilog, scaling);
  if (refusal) return refusal;
  if (!(needsRealNumbers(epilog) && dtypeInfo(problem.accumulator).isComplex)) return null;
  return { reason: `the epilog ${epilog.name} is for real numbers only`, instead: "Use a real dtype, or no epilog." };
}
