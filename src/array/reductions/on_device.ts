/**
 * Reductions of whole arrays to one number on GPUs.
 *
 * @module
 */
import { dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { exchange } from "../../runtime/agreement.ts";
import { agreeOn, type BaseArray } from "../base_array.ts";
import { bigSumOnDevice, largestOnDevice, squaresOnDevice, sumOnDevice } from "../device_elements.ts";
import type { LocalArray } from "../local_array.ts";
import { largestOfAll } from "../reduction.ts";

/** Known also when the memory is gone. */
export function isOnDevice({ memory, runtime }: BaseArray): boolean {
  return memory === "device" || memory === "symmetric" && runtime.stream !== null;
}

/** The sum of all elements. Collective. */
export function totalOnDevice(array: BaseArray): Scalar {
  const { runtime, dtype, distribution } = array;
  if (dtype === "int64") {
    const partial = reduced(array, "sum", bigSumOnDevice);
    if (distribution.isReplicated) return partial;
    const partials = exchange(runtime, "sum", () => String(partial));
    return partials.reduce((sum, part) => sum + BigInt(part), 0n);
  }
  const total = overRanks(array, reduced(array, "sum", sumOnDevice));
  return dtypeInfo(dtype).isComplex ? [total[0], total[1]] : total[0];
}

/** The norm of all elements. Collective. */
export function normOnDevice(array: BaseArray): number {
  const squaresIn = (unit: number) =>
    overRanks(array, reduced(array, "norm", (local) => squaresOnDevice(local, unit)))[0];
  const squares = squaresIn(1);
  if (squares > 1e-280 && squares < Infinity) return Math.sqrt(squares);
  // Squares went beyond the range of float64, or there is nothing but zeros: measure in units of the largest value.
  const largest = largestOfAll(array.runtime.communicator, reduced(array, "norm", largestOnDevice));
  return largest === 0 || !Number.isFinite(largest) ? largest : largest * Math.sqrt(squaresIn(largest));
}

/** What a function makes of this rank's part, once it has on every rank. Collective. */
function reduced<T>(array: BaseArray, method: string, reduce: (local: LocalArray) => T): T {
  let partial!: T;
  agreeOn(array, method, () => void (partial = reduce(array.local)));
  return partial;
}

/** Sum float64 numbers over the ranks; what every rank has anyway counts once. */
function overRanks({ distribution, runtime }: BaseArray, partial: Float64Array<ArrayBuffer>): Float64Array {
  return distribution.isReplicated ? partial : runtime.communicator.allReduce(partial, { op: "sum" });
}
