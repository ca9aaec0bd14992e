/** What travels in a product of a kind, and along which axes it may be divided. */
import type { Axis, MatrixName, Partition } from "../../../src/overlap/partition.ts";

export const TRAVELLERS: readonly (readonly [Partition["kind"], MatrixName, Axis])[] = [
  ["gather", "a", "m"],
  ["gather", "a", "k"],
  ["gather", "b", "n"],
  ["gather", "b", "k"],
  ["reduce", "d", "m"],
  ["reduce", "d", "n"],
  ["all_reduce", "d", "m"],
  ["all_reduce", "d", "n"],
];

/** The axis along which what stays is divided. */
export function fixedAxisOf(travels: MatrixName): Axis {
  return travels === "d" ? "k" : travels === "a" ? "n" : "m";
}
