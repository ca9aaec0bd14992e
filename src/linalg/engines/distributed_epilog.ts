/**
 * An epilog on the CPUs of all ranks: each applies it to its part of D, and gradients are completed over the ranks.
 *
 * @module
 */
import type { LocalArray } from "../../array/local_array.ts";
import type { Distribution } from "../../distribution/mod.ts";
import type { Communicator } from "../../runtime/communicator.ts";
import { applyEpilog, type Epilog, type EpilogValues, gradientName, type RealVector, vector } from "../epilog.ts";
import type { MatmulProblem } from "../problem.ts";
import { asBlock, completeLocalSums, globalSums, take } from "./bias_gradient.ts";
import { kept } from "./division.ts";

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
  communicator: Communicator,
  problem: MatmulProblem,
  epilog: Epilog,
  d: LocalArray,
  inputs: EpilogValues,
  factor: (name: "a" | "b") => SummedFactor,
): EpilogValues {
  const { transposed, d: { distribution } } = problem;
  const outputs = applyEpilog(epilog, asBlock(d, transposed), inputs);
  const rows = transposed ? 1 : 0;
  /** The sums over k of a factor of the user's product, for all indices of its other dimension. */
  const sumsOf = (users: "a" | "b"): RealVector => {
    const name = transposed ? users === "a" ? "b" : "a" : users;
    const { local, distribution } = factor(name);
    return globalSums(communicator, local, distribution, kept(name, problem));
  };
  if (epilog.biasGradient === "d") {
    const name = gradientName(epilog);
    const local = outputs[name]!.data as RealVector;
    outputs[name] = vector(completeLocalSums(communicator, distribution, rows, local));
  } else if (epilog.biasGradient === "a") {
    outputs.bgrada = vector(take(sumsOf("a"), distribution.indexSets(communicator.rank)[rows]));
  } else if (epilog.biasGradient === "b") {
    outputs.bgradb = vector(sumsOf("b"));
  }
  return outputs;
}
