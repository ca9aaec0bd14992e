/**
 * How fast this process multiplies.
 *
 * @module
 */
import type { GemmFunction } from "../../ffi/blas/blas.ts";
import { shortestSeconds } from "../stopwatch.ts";
import { LocalArray } from "../array/local_array.ts";
import { type AccumulatorDType, dtypeInfo } from "../dtype/dtype.ts";
import { scalar } from "./arguments.ts";
import { GemmCall, inMemory } from "./gemm.ts";

/** Rows and columns of the matrices that are multiplied: some milliseconds on a core. */
const EXTENT = 256;

const measured = new Map<AccumulatorDType, number>();

/** Additions and multiplications of real numbers in a second, in products of this type. Measured once. */
export function multiplyRate(gemm: GemmFunction, dtype: AccumulatorDType): number {
  const known = measured.get(dtype);
  if (known !== undefined) return known;
  const plain = { transpose: false, conjugate: false };
  const call = new GemmCall(gemm, plain, plain, { m: EXTENT, n: EXTENT, k: EXTENT });
  const [a, b, d] = [1, 2, 0].map((value) => {
    const local = LocalArray.zeros(dtype, [EXTENT, EXTENT], "F");
    (local.data as Float64Array).fill(value);
    return local;
  });
  const [one, zero] = [scalar(dtype, 1), scalar(dtype, 0)];
  const seconds = shortestSeconds(() => {
    call.setMatrices(inMemory(a), inMemory(b), inMemory(d));
    call.run(one.address, zero.address);
  });
  const rate = operationsOf(dtype) * EXTENT ** 3 / seconds;
  measured.set(dtype, rate);
  return rate;
}

/** Additions and multiplications of real numbers for each that a product sums. */
export function operationsOf(dtype: AccumulatorDType): number {
  return dtypeInfo(dtype).isComplex ? 8 : 2;
}
