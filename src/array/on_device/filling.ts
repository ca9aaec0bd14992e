/**
 * Making the elements of arrays on GPUs: one element, random and linear ones, those of another dtype.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import { ShapeError } from "../../errors.ts";
import { elementKernels } from "../../gpu/kernels/array_kernels.ts";
import { MOST_AXES } from "../../gpu/kernels/copy_kernels.ts";
import { blocksFor, type Words } from "../../gpu/kernels/program.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import { type Order, stridesOf } from "../layout.ts";
import { type RandomSource, significantBits } from "../random.ts";
import { countOf, type Ranges } from "../traverse.ts";
import { copyStridedOnDevice } from "./copies.ts";
import { addressOf, type DeviceArray, sizeOf, typeOf, upload } from "./device_array.ts";

/** Overwrite all elements with one, given by its bytes. */
export function fillOnDevice(target: DeviceArray, element: Uint8Array<ArrayBuffer>): void {
  const { dtype, shape } = target;
  using buffer = upload(element, target.buffer.stream);
  // Strides of 0 repeat the one element.
  copyStridedOnDevice({ buffer, dtype, shape, strides: shape.map(() => 0), offset: 0 }, target);
}

/** Convert elements to another dtype; both arrays are dense, in the same order. */
export function convertOnDevice(source: DeviceArray, target: DeviceArray): void {
  const { stream } = target.buffer;
  stream.wait(source.buffer.stream);
  const [from, to] = [dtypeInfo(source.dtype), dtypeInfo(target.dtype)];
  const numbers = sizeOf(source) * from.parts;
  if (numbers === 0) return;
  elementKernels.launch("convert", stream, blocksFor(numbers), [
    addressOf(source),
    typeOf(source.dtype),
    addressOf(target),
    typeOf(target.dtype),
    BigInt(numbers),
    from.parts < to.parts ? 1n : 0n,
  ]);
}

/** The numbers of so many dimensions, the inner ones of the order first. */
function innerFirst(count: number, order: Order): number[] {
  return Array.from({ length: count }, (_, i) => order === "F" ? i : count - 1 - i);
}

/** `struct Part` of the kernels, and what its index tables need to stay alive for the launch. */
function partOf(target: DeviceArray, ranges: Ranges, order: Order): { words: bigint[]; tables: DeviceBuffer[] } {
  const { stream } = target.buffer;
  const { parts } = dtypeInfo(target.dtype);
  if (ranges.length > MOST_AXES) {
    throw new ShapeError(`A GPU fills arrays of at most ${MOST_AXES} dimensions, not of ${ranges.length}.`);
  }
  const used: DeviceBuffer[] = [];
  const words = innerFirst(ranges.length, order).flatMap((dimension) => {
    const list = ranges[dimension];
    if (list.length === 1) return [BigInt(list[0][1] - list[0][0]), BigInt(list[0][0]), 0n];
    const indices = new BigInt64Array(countOf(list));
    let at = 0;
    for (const [start, end] of list) for (let i = start; i < end; i++) indices[at++] = BigInt(i);
    const table = upload(indices, stream);
    used.push(table);
    return [BigInt(indices.length), 0n, table.address];
  });
  const padding = new Array<bigint>(3 * MOST_AXES - words.length).fill(0n);
  const head = [addressOf(target), typeOf(target.dtype), parts, sizeOf(target), ranges.length].map(BigInt);
  return { words: [...head, ...words, ...padding], tables: used };
}

function launchOnPart(
  kernel: string,
  target: DeviceArray,
  ranges: Ranges,
  order: Order,
  rest: Words,
): void {
  if (sizeOf(target) === 0) return;
  const { words, tables } = partOf(target, ranges, order);
  const numbers = sizeOf(target) * dtypeInfo(target.dtype).parts;
  elementKernels.launch(kernel, target.buffer.stream, blocksFor(numbers), [...words, ...rest]);
  for (const table of tables) table.free();
}

/** One number for each dimension of the kernels, the inner ones of the order first. */
function perDimension<T>(values: readonly T[], order: Order, none: T): T[] {
  const ordered = innerFirst(values.length, order).map((dimension) => values[dimension]);
  return [...ordered, ...new Array<T>(MOST_AXES - values.length).fill(none)];
}

/** Fill a dense part of a global array of `shape` with uniform random numbers: the same as on a CPU. */
export function fillRandomOnDevice(
  target: DeviceArray,
  ranges: Ranges,
  order: Order,
  shape: readonly number[],
  { seed, low, high, least, most }: RandomSource,
): void {
  launchOnPart("random", target, ranges, order, [
    ...perDimension(stridesOf(shape, "C").map(BigInt), order, 0n),
    BigInt(seed | 0),
    BigInt(Math.floor(seed / 2 ** 32) | 0),
    BigInt(significantBits[target.dtype]),
    dtypeInfo(target.dtype).isInteger ? 1n : 0n,
    low,
    high - low,
    least,
    most,
  ]);
}

/** Fill a dense part with a linear function of the global index, taken modulo a number other than 0. */
export function fillLinearOnDevice(
  target: DeviceArray,
  ranges: Ranges,
  order: Order,
  { offset, factors, modulus }: { offset: number; factors: readonly number[]; modulus: number },
): void {
  launchOnPart("linear", target, ranges, order, [offset, modulus, ...perDimension(factors, order, 0)]);
}
