/**
 * A few elements of an array, brought to every rank.
 *
 * @module
 */
import { allocate, type DType, dtypeInfo, isNarrowFloat, type Scalar } from "../dtype/dtype.ts";
import { loadScalar, storeScalar } from "../dtype/scalar.ts";
import type { BaseArray } from "./base_array.ts";
import { sizeOfShape } from "./layout.ts";

/**
 * Get ready to bring the elements at all combinations of indices, a list for each dimension, to every rank. Local. Returns
 * what does it, which is collective.
 */
export function prepareElements(array: BaseArray, indices: readonly (readonly number[])[]): () => Scalar[] {
  const { distribution, runtime, local } = array;
  // Which has all their values: written in their own dtype, infinities of float8 would be finite.
  const dtype = isNarrowFloat(array.dtype) ? "float32" : array.dtype;
  const count = sizeOfShape(indices.map((list) => list.length));
  const { data, words } = buffer(dtype, count);
  const sets = distribution.indexSets(runtime.rank);
  const owned = indices.map((list, d) =>
    list.map((index) => sets[d].before(index + 1) > sets[d].before(index) ? sets[d].before(index) : -1)
  );
  const visit = (d: number, at: number, index: readonly number[]): void => {
    if (d === owned.length) return storeScalar(dtype, data, at, local.at(...index));
    owned[d].forEach((place, i) => {
      if (place >= 0) visit(d + 1, at * owned[d].length + i, [...index, place]);
    });
  };
  if (count > 0) visit(0, 0, []);
  return () => {
    // One rank has each element, and zeros everywhere else: the bits add up to themselves.
    if (!distribution.isReplicated) runtime.communicator.allReduce(words, { into: words });
    return Array.from({ length: count }, (_, i) => loadScalar(dtype, data, i));
  };
}

/** Memory for some elements, and the same as 32-bit words. */
function buffer(dtype: DType, count: number) {
  const { itemSize } = dtypeInfo(dtype);
  const elements = Math.ceil(count * itemSize / 8) * 8 / itemSize;
  const data = allocate(dtype, elements);
  return { data, words: new Int32Array(data.buffer) };
}
