/**
 * An epilog on the CPUs of all ranks: each applies it to its part of D, and gradients are completed over the ranks.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { Distribution } from "../../../distribution/mod.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import {
  type Epilog,
  type EpilogValues,
  gradientName,
  type PreparedEpilog,
  prepareEpilog,
  type RealVector,
  vector,
} from "../../matmul/epilog.ts";
import { kept, type MatmulProblem } from "../../matmul/problem.ts";
import { asBlock, prepareGlobalSums, prepareLocalSums } from "./bias_gradient.ts";

/** A factor of the canonical problem in the type in which products are summed, as it is distributed. */
export interface SummedFactor {
  /** This rank's part. */
  readonly local: LocalArray;
  /** Who has the others. */
  readonly distribution: Distribution;
}

/**
 * Get ready to change D in place from the product to the epilog's result, and to produce what else the epilog gives, sums
 * over all ranks included. `d` and the factors are in host memory; only gradients of factors ask for these. Local; applying
 * it is collective.
 */
export function prepareOnAllRanks(
  { communicator }: Runtime,
  problem: MatmulProblem,
  epilog: Epilog,
  d: LocalArray,
  inputs: EpilogValues,
  factor: (name: "a" | "b") => SummedFactor,
): PreparedEpilog {
  const { transposed, d: { distribution } } = problem;
  const rows = transposed ? 1 : 0;
  const { biasGradient } = epilog;
  const { outputs, apply } = prepareEpilog(epilog, asBlock(d, transposed), inputs);
  const then = (run: () => void) => ({
    outputs,
    apply() {
      apply();
      run();
    },
  });
  if (biasGradient === "none") return { outputs, apply };
  if (biasGradient === "d") {
    const local = outputs[gradientName(epilog)]!.data as RealVector;
    return then(prepareLocalSums(communicator, distribution, rows, local));
  }
  // The sums over k of a factor of the user's product: for the rows of D here, or for all columns.
  const name = transposed ? biasGradient === "a" ? "b" : "a" : biasGradient;
  const { local, distribution: ofFactor } = factor(name);
  const set = biasGradient === "a" ? distribution.indexSets(communicator.rank)[rows] : null;
  const { sums, run } = prepareGlobalSums(communicator, local, ofFactor, kept(name, problem), set);
  outputs[biasGradient === "a" ? "bgrada" : "bgradb"] = vector(sums);
  return then(run);
}
