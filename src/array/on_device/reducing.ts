/**
 * Sums and largest differences of arrays on GPUs; they wait for the result.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import { REDUCTION_BLOCKS, reductionKernels } from "../../gpu/kernels/array_kernels.ts";
import { blocksFor, type Words } from "../../gpu/kernels/program.ts";
import type { Stream } from "../../gpu/stream.ts";
import { copyFromDevice } from "../../memory/copy.ts";
import { DeviceBuffer } from "../../memory/device_buffer.ts";
import { isDense, type Order, stridesOf } from "../layout.ts";
import { copyStridedOnDevice } from "./copies.ts";
import { addressOf, type DeviceArray, sizeOf, typeOf } from "./device_array.ts";
import { convertOnDevice } from "./filling.ts";

/** Bytes of the partial results of a reduction. */
const PARTIAL_BYTES = 16 * REDUCTION_BLOCKS;

/** The array, or a dense copy in the order; `free` lets go of the copy. */
function dense(array: DeviceArray, order: Order): { array: DeviceArray; free: () => void } {
  if (isDense(array.shape, array.strides, order)) return { array, free: () => {} };
  const { dtype, shape } = array;
  const buffer = new DeviceBuffer(array.buffer.stream, sizeOf(array) * dtypeInfo(dtype).itemSize);
  const copy = { buffer, dtype, shape, strides: stridesOf(shape, order), offset: 0 };
  copyStridedOnDevice(array, copy);
  return { array: copy, free: () => buffer.free() };
}

function anyDense(array: DeviceArray): { array: DeviceArray; free: () => void } {
  return dense(array, isDense(array.shape, array.strides, "F") ? "F" : "C");
}

/** The partial results of a reduction kernel: two a block. */
function partials(
  kernel: string,
  stream: Stream,
  count: number,
  words: (partials: bigint) => Words,
): Float64Array<ArrayBuffer> {
  const results = new Float64Array(2 * Math.min(REDUCTION_BLOCKS, blocksFor(count)));
  if (count === 0) return results;
  using buffer = new DeviceBuffer(stream, PARTIAL_BYTES);
  reductionKernels.launch(kernel, stream, results.length / 2, words(buffer.address));
  copyFromDevice(results, buffer.address, stream);
  return results;
}

/** The exact sum of int64 elements. */
export function bigSumOnDevice(local: DeviceArray): bigint {
  const { array, free } = anyDense(local);
  const count = sizeOf(array);
  const words = (address: bigint): Words => [addressOf(array), BigInt(count), 0n, address];
  const results = partials("sum_int64", array.buffer.stream, count, words);
  free();
  const [low, high] = [new BigUint64Array(results.buffer), new BigInt64Array(results.buffer)];
  let sum = 0n;
  for (let i = 0; i < results.length; i += 2) sum += low[i] + (high[i + 1] << 32n);
  return sum;
}

/** The largest magnitude of the difference of two parts of the same shape; NaN if a difference is NaN. */
export function largestDifferenceOnDevice(one: DeviceArray, other: DeviceArray): number {
  const order = isDense(one.shape, one.strides, "F") ? "F" : "C";
  const { stream } = one.buffer;
  const isComplex = dtypeInfo(one.dtype).isComplex || dtypeInfo(other.dtype).isComplex;
  const [a, b] = [one, other].map((array) => dense(array, order));
  const [left, right] = [a, b].map(({ array }) => isComplex ? spread(array) : { array, free: () => {} });
  stream.wait(other.buffer.stream);
  const count = sizeOf(one);
  const difference = one.dtype === "int64" && other.dtype === "int64"
    ? largestBigDifference(left.array, right.array, stream, count)
    : Math.max(
      0,
      ...partials("difference", stream, count, (address) => [
        addressOf(left.array),
        typeOf(left.array.dtype),
        BigInt(count),
        isComplex ? 1n : 0n,
        addressOf(right.array),
        typeOf(right.array.dtype),
        address,
      ]),
    );
  for (const { free } of [a, b, left, right]) free();
  return difference;
}

function largestBigDifference(a: DeviceArray, b: DeviceArray, stream: Stream, count: number): number {
  const words = (address: bigint): Words => [addressOf(a), BigInt(count), addressOf(b), address];
  const results = new BigUint64Array(partials("difference_int64", stream, count, words).buffer);
  return Number(results.reduce((most, partial) => partial > most ? partial : most, 0n));
}

/** A real array as a complex one of float64 parts. */
function spread(array: DeviceArray): { array: DeviceArray; free: () => void } {
  if (dtypeInfo(array.dtype).isComplex) return { array, free: () => {} };
  const buffer = new DeviceBuffer(array.buffer.stream, sizeOf(array) * 16);
  const { shape, strides } = array;
  const complex: DeviceArray = { buffer, dtype: "complex128", shape, strides, offset: 0 };
  convertOnDevice(array, complex);
  return { array: complex, free: () => buffer.free() };
}
