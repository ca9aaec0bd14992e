/**
 * A strategy in words, in the coordinates and under the names of the user's matrices.
 *
 * @module
 */
import type { MatmulProblem } from "../matmul/problem.ts";
import { asBlocks, kept, splitAlong, summed } from "./division.ts";
import type { Strategy } from "./scalapack/strategy.ts";

/** What the user calls a matrix of the canonical problem. */
export function matrixName({ transposed }: MatmulProblem, name: "a" | "b" | "c" | "d"): string {
  const exchanged = { a: "b", b: "a", c: "c", d: "d" } as const;
  return (transposed ? exchanged[name] : name).toUpperCase();
}

/** The user's names of the dimensions of a matrix of the canonical problem, as it is stored. */
function dimensionNames(problem: MatmulProblem, name: "a" | "b" | "d"): [string, string] {
  const [m, n] = problem.transposed ? ["n", "m"] : ["m", "n"];
  if (name === "d") return [m, n];
  const names: [string, string] = ["", ""];
  names[summed(name, problem)] = "k";
  names[kept(name, problem)] = name === "a" ? m : n;
  return names;
}

/** Where a matrix is when it is multiplied, such as `divided along k`. */
export function placeOf(problem: MatmulProblem, strategy: Strategy, name: "a" | "b" | "d"): string {
  const distribution = strategy[name];
  const names = dimensionNames(problem, name);
  if (distribution.size === 1) return "on one rank";
  if (distribution.isReplicated) return "on every rank";
  for (const dimension of strategy.grid ? [] : [0, 1] as const) {
    if (splitAlong(distribution, dimension)) return `divided along ${names[dimension]}`;
  }
  const blocks = asBlocks(distribution);
  if (!blocks) return `as ${distribution}`;
  const [rows, columns] = blocks.blockSizes;
  return `in blocks of ${rows} (${names[0]}) x ${columns} (${names[1]})`;
}

/** What an algorithm does with the matrices. */
export function describeStrategy(problem: MatmulProblem, strategy: Strategy): string {
  const called = (name: "a" | "b" | "d") => `${matrixName(problem, name)} ${placeOf(problem, strategy, name)}`;
  const size = strategy.d.size!;
  switch (strategy.algorithm) {
    case "none":
      return "nothing to multiply";
    case "local_gemm":
      return size === 1 ? "one rank" : `no communication: ${called("a")}, ${called("b")}, ${called("d")}`;
    case "all_gather_gemm": {
      const [travels, stays] = strategy.gathered === "a" ? ["a", "b"] as const : ["b", "a"] as const;
      return `${called(stays)}, ${called("d")}; the blocks of ${called(travels)}, go to all ${size} ranks`;
    }
    case "gemm_reduce_scatter":
      return `${called("a")}, ${called("b")}; the partial products are summed into ${called("d")}`;
    case "gemm_all_reduce":
      return `${called("a")}, ${called("b")}; the partial products are summed on every rank`;
    case "pgemm": {
      const grid = problem.transposed ? strategy.grid!.transpose() : strategy.grid!;
      return `p?gemm on the grid ${grid}: ${called("a")}, ${called("b")}, ${called("d")}`;
    }
  }
}
