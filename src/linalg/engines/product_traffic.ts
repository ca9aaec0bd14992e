/**
 * Which rank sends how much to which other one in a product. Pure functions.
 *
 * @module
 */
import { sizeOfShape } from "../../array/layout.ts";
import { elementsBetween } from "../../array/redistribution/plan.ts";
import { addBytes, noBytes } from "../../distribution/communication.ts";
import type { Distribution } from "../../distribution/mod.ts";
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import type { MatmulProblem } from "../matmul/problem.ts";
import { isWindow } from "../matrix_division.ts";
import { type Candidate, exchangeOf } from "./host/strategy.ts";

/**
 * What travels while a product is multiplied by an algorithm of matrices that are divided along one dimension, if it is so
 * many bytes over all ranks: a part of the factor to all others; partial sums to the rank whose part of D they are. Those
 * that all ranks want are summed by as many parts, which then go to all.
 */
function trafficBetween(strategy: Candidate, traffic: number): number[][] {
  const size = strategy.d.size!;
  const exchange = exchangeOf(strategy);
  const travelling = strategy[strategy.travels!];
  const bytes = (rank: number) => {
    if (exchange === "all-reduce") return traffic / size / (size - 1);
    return traffic / (size - 1) * sizeOfShape(travelling.localShape(rank)) / sizeOfShape(travelling.globalShape!);
  };
  const isGathered = exchange === "all-gather";
  // Rounded so that all of them together are the traffic: sums may not divide evenly.
  let [sum, told] = [0, 0];
  return noBytes(size).map((row, from) =>
    row.map((_, to) => {
      if (from === to) return 0;
      sum += bytes(isGathered ? from : to);
      const own = Math.round(sum) - told;
      told += own;
      return own;
    })
  );
}

/** What travels to bring matrices where they are multiplied, and the product where it is wanted. */
function movesBetween({ a, b, c, d, accumulator }: MatmulProblem, strategy: Candidate): number[][] {
  const sum = noBytes(strategy.d.size!);
  const add = (from: Distribution, to: Distribution, dtype: DType) => {
    if (from.coincidesWith(to) || isWindow(from, to)) return;
    addBytes(sum, elementsBetween(from, to), dtypeInfo(dtype).itemSize);
  };
  add(a.distribution, strategy.a, a.dtype);
  add(b.distribution, strategy.b, b.dtype);
  if (c) add(c.distribution, strategy.d, c.dtype);
  add(strategy.d, d.distribution, accumulator);
  return sum;
}

/** The bytes from rank to rank of a product that is computed so, of which so many travel while it is multiplied. */
export function bytesBetween(problem: MatmulProblem, strategy: Candidate, traffic: number): number[][] {
  const sum = movesBetween(problem, strategy);
  if (traffic > 0) addBytes(sum, trafficBetween(strategy, traffic));
  return sum;
}
