/** What several tests of products and PBLAS routines on GPUs share: tables of slabs, and matrices placed on them. */
import { type DistributedArray, type Distribution, type DType, type Runtime, Slab } from "../../mod.ts";
import { type Dense, distribute } from "../cluster/matmul_oracle.ts";

const { X, Y } = Slab;

/** Numbers of ranks that have something to communicate. */
export const SEVERAL = [2, 3, 4, 8];

/** Whether A and B are transposed, in all combinations. */
export const TRANSPOSES = [[false, false], [true, false], [false, true], [true, true]] as const;

/** A pair of transpositions in BLAS's letters: the key of GATHER and REDUCE. */
export function lettersOf(isTransposedA: boolean, isTransposedB: boolean): "NN" | "TN" | "NT" | "TT" {
  return `${isTransposedA ? "T" : "N"}${isTransposedB ? "T" : "N"}`;
}

/** Where column-major A, B and D are divided if parts of a factor are gathered, for each pair of transpositions. */
export const GATHER = { NN: [X, Y, X], TN: [Y, Y, X], NT: [X, X, X], TT: [Y, X, X] } as const;

/** The same if partial sums are reduced and scattered. */
export const REDUCE = { NN: [Y, X, Y], TN: [X, X, Y], NT: [Y, Y, Y], TT: [X, Y, Y] } as const;

/** A function that distributes matrices column by column, as cuBLASMp wants them. */
export function columnMajor(
  runtime: Runtime,
  dtype: DType = "float32",
): (matrix: Dense, distribution: Distribution) => DistributedArray {
  return (matrix, distribution) => distribute(runtime, matrix, { distribution, dtype, order: "F" });
}
