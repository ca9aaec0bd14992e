/**
 * The largest or the smallest of what ranks have; NaN if one of them has that. Of one rank's numbers Math.max does the same.
 *
 * @module
 */
import type { Communicator } from "../mpi/communicator.ts";

/** The largest of these numbers, one a rank; NaN if any is. Collective. */
export function largestOfAll(communicator: Communicator, number: number): number {
  const all = Float64Array.of(number);
  combineExtremes(communicator, "max", all);
  return all[0];
}

/**
 * Put the extremes of all ranks in place of this rank's. Collective.
 *
 * MPI does not promise that a NaN gets through a comparison of floats: their bits are compared, as integers in the same order.
 */
export function combineExtremes(communicator: Communicator, op: "max" | "min", all: Float64Array<ArrayBuffer>): void {
  const integers = new BigInt64Array(all.buffer, all.byteOffset, all.length);
  const halves = new Int32Array(all.buffer, all.byteOffset, 2 * all.length);
  for (let i = 0; i < all.length; i++) {
    if (all[i] === all[i]) continue;
    halves[2 * i] = 0;
    halves[2 * i + 1] = op === "max" ? POSITIVE_NAN : NEGATIVE_NAN;
  }
  turnNegative(halves);
  communicator.allReduce(integers, { op, into: integers });
  turnNegative(halves);
}

/** Upper halves of NaNs: above Infinity, and below -Infinity. */
const POSITIVE_NAN = 0x7ff80000;
const NEGATIVE_NAN = 0xfff80000 | 0;

/** From the bits of floats to integers in their order, and back: the lower bits of negative ones count the other way. */
function turnNegative(halves: Int32Array): void {
  for (let i = 0; i < halves.length; i += 2) {
    if (halves[i + 1] >= 0) continue;
    halves[i] = ~halves[i];
    halves[i + 1] ^= 0x7fffffff;
  }
}
