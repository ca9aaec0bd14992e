/**
 * An epilog on the CPUs of all ranks: each applies it to its part of D, and gradients are completed over the ranks.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { Distribution } from "../../../distribution/mod.ts";
import { agree } from "../../../runtime/agreement.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import {
  applyEpilog,
  type Epilog,
  type EpilogValues,
  gradientName,
  type RealVector,
  vector,
} from "../../matmul/epilog.ts";
import { kept, type MatmulProblem } from "../../matmul/problem.ts";
import { asBlock, prepareGlobalSums, prepareLocalSums, take } from "./bias_gradient.ts";

/** A factor of the canonical problem in the type in which products are summed, as it is distributed. */
export interface SummedFactor {
  /** This rank's part. */
  readonly local: LocalArray;
  /** Who has the others. */
  readonly distribution: Distribution;
}

/**
 * Change D in place from the product to the epilog's result, and return what else the epilog produces, sums over all
 * ranks included. `d` and the factors are in host memory; only gradients of factors ask for these. Collective.
 */
export function applyOnAllRanks(
  runtime: Runtime,
  problem: MatmulProblem,
  epilog: Epilog,
  d: LocalArray,
  inputs: EpilogValues,
  factor: (name: "a" | "b") => SummedFactor,
): EpilogValues {
  const { communicator } = runtime;
  const { transposed, d: { distribution } } = problem;
  const rows = transposed ? 1 : 0;
  let outputs!: EpilogValues;
  let complete: () => RealVector = () => new Float32Array(0);
  agree(runtime, "Matmul.execute", () => {
    outputs = applyEpilog(epilog, asBlock(d, transposed), inputs);
    if (epilog.biasGradient === "none") return;
    if (epilog.biasGradient === "d") {
      const local = outputs[gradientName(epilog)]!.data as RealVector;
      complete = prepareLocalSums(communicator, distribution, rows, local);
      return;
    }
    // The sums over k of a factor of the user's product, for all indices of its other dimension.
    const name = transposed ? epilog.biasGradient === "a" ? "b" : "a" : epilog.biasGradient;
    const { local, distribution: ofFactor } = factor(name);
    complete = prepareGlobalSums(communicator, local, ofFactor, kept(name, problem));
  });
  if (epilog.biasGradient === "d") {
    outputs[gradientName(epilog)] = vector(complete());
  } else if (epilog.biasGradient === "a") {
    outputs.bgrada = vector(take(complete(), distribution.indexSets(communicator.rank)[rows]));
  } else if (epilog.biasGradient === "b") {
    outputs.bgradb = vector(complete());
  }
  return outputs;
}
