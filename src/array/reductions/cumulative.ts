/**
 * Sums of all elements up to each one, along a dimension.
 *
 * @module
 */
import { isWhole } from "../../distribution/dimensions.ts";
import { Slab } from "../../distribution/mod.ts";
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import type { SumOf } from "../../dtype/element_types.ts";
import { keysOf, readOptions } from "../../options.ts";
import { agree, makeOnAll } from "../../runtime/agreement.ts";
import { checkArray, factsOf, runtimeOf } from "../base_array.ts";
import type { DistributedArray } from "../distributed_array.ts";
import { checkAxis } from "./plan.ts";

/** Numbers in which sums are kept. */
type Wide = Float64Array<ArrayBuffer> | BigInt64Array<ArrayBuffer>;

/**
 * The sums of the elements up to each one along a dimension, which may be left out of vectors, itself included: a new array of the same shape and distribution.
 * Elements are added one after the other, in float64, and integers in int64, which wraps around; so that the sums are the same
 * for any number of ranks. Where the dimension is divided, each rank waits for the sums of the one before. Arrays on GPUs
 * travel to the host and back. Collective.
 *
 * @throws {RangeError} if there is no such dimension.
 * @throws {TypeError} if it is left out of an array of more dimensions than one.
 *
 * @example
 * ```ts
 * import { arange, cumulativeSum, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = arange(runtime, 1, 5, 1, Slab.X, { dtype: "int32" });
 * console.log(cumulativeSum(a).format()); // [ 1  3  6 10]
 * ```
 */
export function cumulativeSum<D extends DType>(
  array: DistributedArray<D>,
  options: { axis?: number } = {},
): DistributedArray<SumOf<D>> {
  const runtime = runtimeOf(array);
  let axis!: number;
  agree(runtime, "cumulativeSum", () => {
    checkArray(array, "cumulativeSum: the array");
    const given = readOptions("the options of cumulativeSum", options, keysOf<typeof options>({ axis: true }));
    const dimensions = array.shape.length;
    axis = checkAxis(given.axis === undefined && dimensions === 1 ? 0 : given.axis, dimensions);
    return { ...factsOf(array), axis };
  });
  const { distribution, order, memory, dtype } = array;
  const { isInteger, isComplex } = dtypeInfo(dtype);
  const wide = isInteger ? "int64" : isComplex ? "complex128" : "float64";
  const isLocal = isWhole(distribution, axis);
  // Ranks have neighbouring pieces of the dimension, in their order.
  const placed = isLocal ? array : array.redistribute(new Slab(axis));
  using sums = placed.to({ dtype: wide, order: "C", memory: "host" });
  if (placed !== array) placed.free();
  addUp(sums, axis, isLocal);
  const to = { dtype: (isInteger ? "int64" : dtype) as SumOf<D>, order, memory };
  if (isLocal) return sums.to(to);
  using moved = sums.redistribute(distribution);
  return moved.to(to);
}

/** Add up parts in host memory and C order: each after that of the rank before, unless the dimension is whole. Collective. */
function addUp({ local, dtype, runtime }: DistributedArray, axis: number, isWhole: boolean): void {
  const { shape } = local;
  const data = local.view() as Wide;
  const inner = shape.slice(axis + 1).reduce((product, extent) => product * extent, dtypeInfo(dtype).parts);
  const outer = shape.slice(0, axis).reduce((product, extent) => product * extent, 1);
  const extent = shape[axis];
  const length = outer * inner;
  const carry = makeOnAll(
    runtime,
    "cumulativeSum",
    // -0 + x is x for every x.
    () => dtype === "int64" ? new BigInt64Array(length) as unknown as Wide : new Float64Array(length).fill(-0),
  ) as Float64Array<ArrayBuffer>;
  const add = () => addLines(data as Float64Array<ArrayBuffer>, carry, outer, extent, inner);
  if (isWhole) return add();
  for (let rank = 0; rank < runtime.size; rank++) {
    if (rank === runtime.rank) add();
    // A collective, not a message: a script may receive from anyone.
    if (rank < runtime.size - 1) runtime.communicator.broadcast(carry, { root: rank });
  }
}

/** Add the carry to the first lines, each line to the next, and leave the last ones in the carry. */
function addLines(
  data: Float64Array<ArrayBuffer>,
  carry: Float64Array<ArrayBuffer>,
  outer: number,
  extent: number,
  inner: number,
): void {
  for (let block = 0; block < outer; block++) {
    for (let line = 0; line < extent; line++) {
      const at = (block * extent + line) * inner;
      for (let i = 0; i < inner; i++) carry[block * inner + i] = data[at + i] += carry[block * inner + i];
    }
  }
}
