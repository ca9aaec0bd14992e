/**
 * Arrays in reverse order along a dimension.
 *
 * @module
 */
import { Box, type Corners, type Distribution, Slab } from "../../distribution/mod.ts";
import { isContiguous } from "../../distribution/index_map.ts";
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { agree, makeOnAll } from "../../runtime/agreement.ts";
import { checkArray, factsOf, runtimeOf } from "../base_array.ts";
import { copyStridedOnDevice } from "../on_device/copies.ts";
import { DistributedArray } from "../distributed_array.ts";
import { copyStrided, type Order } from "../layout.ts";
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
    return DistributedArray.wrap(
      runtime,
      makeOnAll(runtime, "flip", () => reversed(array.local, along, order)),
      distribution,
      order,
    );
  }
  const { turned, result } = mirroredParts(array, along);
  using source = turned;
  source.redistribute(result);
  return result;
}

/** The array's elements where they are in reverse order, and memory for where they shall be. Collective. */
function mirroredParts<D extends DType>(
  array: DistributedArray<D>,
  axis: number,
): { turned: DistributedArray<D>; result: DistributedArray<D> } {
  const { runtime, distribution, dtype, order } = array;
  const isInPieces = !Array.from({ length: runtime.size }, (_, rank) => distribution.indexSets(rank)).flat()
    .every(isContiguous);
  using moved = isInPieces ? array.redistribute(Slab.X) : null;
  const source = moved ?? array;
  const stream = array.local.isOnDevice ? runtime.stream : null;
  const mirror = mirrored(source.distribution, axis);
  const { from, to } = makeOnAll(runtime, "flip", () => ({
    from: reversed(source.local, axis, order),
    to: LocalArray.empty(dtype, array.local.shape, order, stream),
  }));
  return {
    turned: DistributedArray.wrap(runtime, from, mirror, order),
    result: DistributedArray.wrap(runtime, to, distribution, order),
  };
}

/** A dense copy of a part, in reverse order along a dimension, along which it is read from the last index on. */
function reversed<D extends DType>(local: LocalArray<D>, axis: number, order: Order): LocalArray<D> {
  const { dtype, shape, isOnDevice } = local;
  const copy = LocalArray.empty(dtype, shape, order, isOnDevice ? local.buffer.stream : null);
  if (shape.includes(0)) return copy;
  const step = local.strides[axis];
  const strides = local.strides.with(axis, -step);
  const offset = local.offset + (shape[axis] - 1) * step;
  if (isOnDevice) copyStridedOnDevice({ buffer: local.buffer, dtype, shape, strides, offset }, copy);
  else copyStrided({ data: local.data, strides, offset }, copy, shape, dtypeInfo(dtype).parts);
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
