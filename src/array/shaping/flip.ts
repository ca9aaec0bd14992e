/**
 * Arrays in reverse order along a dimension.
 *
 * @module
 */
import { Box, type Corners, type Distribution, Slab } from "../../distribution/mod.ts";
import { isContiguous } from "../../distribution/index_map.ts";
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { agree } from "../../runtime/agreement.ts";
import { checkArray, factsOf, runtimeOf } from "../base_array.ts";
import { copyRunsOnDevice } from "../device_elements.ts";
import { DistributedArray } from "../distributed_array.ts";
import { copyRuns } from "../layout.ts";
import { LocalArray } from "../local_array.ts";
import { checkAxis } from "../reductions/plan.ts";

/**
 * A new array whose elements run backwards along a dimension, in the same distribution. Elements move. Collective.
 *
 * @throws {RangeError} if there is no such dimension.
 *
 * @example
 * ```ts
 * import { arange, flip, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = arange(runtime, 0, 4, 1, Slab.X, { dtype: "int32" });
 * console.log(flip(a, 0).format()); // [3 2 1 0]
 * ```
 */
export function flip<D extends DType>(array: DistributedArray<D>, axis: number): DistributedArray<D> {
  let along!: number;
  agree(runtimeOf(array), "flip", () => {
    checkArray(array, "flip: the array");
    along = checkAxis(axis, array.shape.length);
    return { ...factsOf(array), axis: along };
  });
  const { runtime, distribution, order } = array;
  if (distribution.isReplicated) {
    return DistributedArray.wrap(runtime, reversed(array.local, along), distribution, order);
  }
  const isInPieces = !Array.from({ length: runtime.size }, (_, rank) => distribution.indexSets(rank)).flat()
    .every(isContiguous);
  const source = isInPieces ? array.redistribute(Slab.X) : array;
  const mirror = mirrored(source.distribution, along);
  using turned = DistributedArray.wrap(runtime, reversed(source.local, along), mirror, order);
  if (source !== array) source.free();
  const result = DistributedArray.wrap(
    runtime,
    LocalArray.empty(array.dtype, array.local.shape, order, array.local.isOnDevice ? runtime.stream : null),
    distribution,
    order,
  );
  turned.redistribute(result);
  return result;
}

/** A copy of a part, in reverse order along a dimension. */
function reversed<D extends DType>(local: LocalArray<D>, axis: number): LocalArray<D> {
  const { dtype, shape } = local;
  const order = local.isDense("F") ? "F" : "C";
  const copy = LocalArray.empty(dtype, shape, order, local.isOnDevice ? local.buffer.stream : null);
  const runs = shape.map((extent, d) =>
    d === axis
      ? Array.from({ length: extent }, (_, i) => ({ source: i, target: extent - 1 - i, length: 1 }))
      : [{ source: 0, target: 0, length: extent }]
  );
  if (local.isOnDevice) copyRunsOnDevice(local, copy, runs);
  else copyRuns(local, copy, runs, dtypeInfo(dtype).parts);
  return copy;
}

/** Where the elements of boxes are, once each box was reversed along a dimension. */
function mirrored(distribution: Distribution, axis: number): Distribution {
  const { globalShape, size } = distribution;
  const boxes = Array.from({ length: size! }, (_, rank): Corners => {
    const ranges = distribution.ranges(rank).map(([range = [0, 0]], d) => {
      const [start, end] = range;
      return d === axis ? [globalShape![d] - end, globalShape![d] - start] : [start, end];
    });
    return [ranges.map(([start]) => start), ranges.map(([, end]) => end)];
  });
  return new Box(boxes).bind(globalShape!, size!);
}
