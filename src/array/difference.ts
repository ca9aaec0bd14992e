/**
 * The largest difference of two parts, in float64; on a GPU if the parts are there.
 *
 * @module
 */
import { largestDifferenceOnDevice } from "./on_device/reducing.ts";
import { toFloat64 } from "../dtype/conversion.ts";
import { dtypeInfo, type Scalar, type TypedArray } from "../dtype/dtype.ts";
import { loadScalar } from "../dtype/scalar.ts";
import type { Order } from "./layout.ts";
import type { LocalArray } from "./local_array.ts";

/** Elements are decoded in blocks of so many numbers. */
const BLOCK = 4096;

/** The elements in one of the two orders, without a copy if they lie so. */
function denseData(local: LocalArray, order: Order): TypedArray {
  return local.isDense(order) ? local.view() : local.copy(order).data;
}

/** Call `visit` with all numbers as float64, in blocks. */
function forEachBlock(
  local: LocalArray,
  data: TypedArray,
  visit: (numbers: Float64Array, start: number) => void,
): void {
  const { real } = dtypeInfo(local.dtype);
  const buffer = new Float64Array(Math.min(BLOCK, data.length));
  for (let start = 0; start < data.length; start += BLOCK) {
    const block = data.subarray(start, Math.min(start + BLOCK, data.length));
    if (block instanceof Float64Array) {
      visit(block, start);
    } else {
      toFloat64(real, block, buffer);
      visit(buffer.subarray(0, block.length), start);
    }
  }
}

/** A function that returns one value after the other, in memory order. */
export function valuesOf(local: LocalArray, order: Order): () => Scalar {
  const data = local.isOnDevice ? local.toTypedArray(order) : denseData(local, order);
  const { dtype } = local;
  let at = 0;
  return () => loadScalar(dtype, data, at++);
}

/** The largest magnitude of the difference of two parts of the same shape; NaN if a difference is NaN. */
export function largestDifference(one: LocalArray, other: LocalArray): number {
  if (one.isOnDevice && other.isOnDevice) return largestDifferenceOnDevice(one, other);
  if (one.isOnDevice || other.isOnDevice) return largestDifference(hostPart(one), hostPart(other));
  const order = one.isDense("F") ? "F" : "C";
  if (one.dtype === "int64" && other.dtype === "int64") {
    return largestBigDifference(denseData(one, order) as BigInt64Array, denseData(other, order) as BigInt64Array);
  }
  const complex = [one, other].map((local) => dtypeInfo(local.dtype).isComplex);
  return complex[0] || complex[1]
    ? largestComplexDifference(numbersOf(one, order, true), numbersOf(other, order, true))
    : largestRealDifference(numbersOf(one, order, false), numbersOf(other, order, false));
}

function hostPart(local: LocalArray): LocalArray {
  return local.isOnDevice ? local.toHost(local.isDense("F") ? "F" : "C") : local;
}

/** All elements as float64; as pairs with imaginary part 0 if complex numbers are wanted and these are real. */
function numbersOf(local: LocalArray, order: Order, isComplex: boolean): Float64Array {
  const { parts } = dtypeInfo(local.dtype);
  const data = denseData(local, order);
  const step = isComplex && parts === 1 ? 2 : 1;
  if (data instanceof Float64Array && step === 1) return data;
  const numbers = new Float64Array(data.length * step);
  forEachBlock(local, data, (block, start) => {
    if (step === 1) numbers.set(block, start);
    else for (let i = 0; i < block.length; i++) numbers[2 * (start + i)] = block[i];
  });
  return numbers;
}

function largestRealDifference(a: Float64Array, b: Float64Array): number {
  let largest = 0;
  for (let i = 0; i < a.length; i++) largest = Math.max(largest, Math.abs(a[i] - b[i]));
  return largest;
}

function largestComplexDifference(a: Float64Array, b: Float64Array): number {
  let largest = 0;
  for (let i = 0; i < a.length; i += 2) {
    const [re, im] = [a[i] - b[i], a[i + 1] - b[i + 1]];
    if (Number.isNaN(re) || Number.isNaN(im)) return NaN;
    largest = Math.max(largest, Math.hypot(re, im));
  }
  return largest;
}

function largestBigDifference(a: BigInt64Array, b: BigInt64Array): number {
  let largest = 0n;
  for (let i = 0; i < a.length; i++) {
    const difference = a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
    if (difference > largest) largest = difference;
  }
  return Number(largest);
}
