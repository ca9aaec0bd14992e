/**
 * What happens to the elements of arrays on a GPU: copies, conversions, filling, differences. All of it is put on the
 * stream of the array that is written; only what returns numbers waits for it.
 *
 * @module
 */
import { ShapeError } from "../errors.ts";
import {
  copyKernels,
  ELEMENT_TYPES,
  elementKernels,
  MOST_AXES,
  REDUCTION_BLOCKS,
  reductionKernels,
} from "../gpu/kernels/array_kernels.ts";
import { blocksFor, type Words } from "../gpu/kernels/program.ts";
import { copyFromDevice, copyOnDevice, copyPlaneOnDevice, copyToDevice, type Plane } from "../memory/copy.ts";
import { DeviceBuffer, type DeviceMemory } from "../memory/device_buffer.ts";
import type { Stream } from "../gpu/stream.ts";
import { recorder } from "../runtime/recorder.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { type Axis, isDense, lengthOf, mergeAxes, type Order, type Run, sizeOfShape, stridesOf } from "./layout.ts";
import { type RandomSource, significantBits } from "./random.ts";
import { countOf, type Ranges } from "./traverse.ts";

/** An array on a GPU. */
export interface DeviceArray {
  /** The memory. */
  readonly buffer: DeviceMemory;
  /** The type of the elements. */
  readonly dtype: DType;
  /** The extents. */
  readonly shape: readonly number[];
  /** The distance of neighbours along each dimension, in elements. */
  readonly strides: readonly number[];
  /** The element at index (0, 0, …). */
  readonly offset: number;
}

function addressOf({ buffer, dtype, offset }: DeviceArray): bigint {
  return buffer.address + BigInt(offset * dtypeInfo(dtype).itemSize);
}

/** The number of the numbers' type in the kernels: of the parts of complex elements. */
function typeOf(dtype: DType): bigint {
  return ELEMENT_TYPES[dtypeInfo(dtype).real as keyof typeof ELEMENT_TYPES];
}

function sizeOf({ shape }: DeviceArray): number {
  return sizeOfShape(shape);
}

// ---- copies -----------------------------------------------------------------------------------------------------------

/** Copy all elements to an array of the same shape and dtype; strides of 0 in the source repeat elements. */
export function copyStridedOnDevice(source: DeviceArray, target: DeviceArray): void {
  prepareStridedCopy(source, target)();
}

/** Get ready to do what {@linkcode copyStridedOnDevice} does; what this returns takes no memory. */
export function prepareStridedCopy(source: DeviceArray, target: DeviceArray): () => void {
  const { stream } = target.buffer;
  const runs = source.shape.map((length) => [{ source: 0, target: 0, length }]);
  const { put } = prepareDeviceCopy(source, target, runs, stream);
  return () => {
    stream.wait(source.buffer.stream);
    put(stream);
  };
}

/** Copy the elements whose indices are the product of one list of runs for each dimension; of the same dtype. */
export function copyRunsOnDevice(
  source: DeviceArray,
  target: DeviceArray,
  runs: readonly (readonly Run[])[],
): void {
  if (runs.some((list) => lengthOf(list) === 0)) return;
  const { stream } = target.buffer;
  stream.wait(source.buffer.stream);
  prepareDeviceCopy(source, target, runs, stream).put(stream);
}

/** As {@linkcode copyRunsOnDevice}, of runs that no plan keeps: their index lists are freed. */
export function copyRunsOnce(source: DeviceArray, target: DeviceArray, runs: readonly (readonly Run[])[]): void {
  copyRunsOnDevice(source, target, runs);
  for (const table of prepareRuns(runs, target.buffer.stream)) table.free();
}

/** Of rows and elements beyond, each block of a kernel takes several. */
const MOST_BLOCKS = 65536;

/** A copy that is ready to be put on streams, whose order somebody else keeps. */
export interface DeviceCopy {
  /** Put it on a stream; both ends may begin some bytes, a multiple of 16, further on. */
  put(stream: Stream, sourceShift?: bigint, targetShift?: bigint): void;
  /** The index lists that it needs on the GPU. */
  readonly tables: readonly DeviceBuffer[];
}

/**
 * Prepare what {@linkcode copyRunsOnDevice} does: index lists go to the GPU on `stream`. To the GPU of another rank (`peer`)
 * copy engines take blocks of long rows: they fill a link, which kernels do not. A kernel has at most `mostBlocks` blocks.
 */
export function prepareDeviceCopy(
  source: DeviceArray,
  target: DeviceArray,
  runs: readonly (readonly Run[])[],
  stream: Stream,
  { peer = null, mostBlocks = MOST_BLOCKS }: { readonly peer?: number | null; readonly mostBlocks?: number } = {},
): DeviceCopy {
  const shape = runs.map(lengthOf);
  if (sizeOfShape(shape) === 0) return { put: () => {}, tables: [] };
  const { put, tables } = prepareUnrecorded(source, target, runs, stream, peer !== null, mostBlocks);
  return {
    put(stream, sourceShift, targetShift) {
      if (recorder === null) return put(stream, sourceShift, targetShift);
      const label = `${shape.join(" x ")} ${source.dtype}${peer === null ? "" : ` to rank ${peer}`}`;
      recorder.span(stream, { kind: "copy", label }, () => put(stream, sourceShift, targetShift));
    },
    tables,
  };
}

/** The same, of which recordings know nothing. */
function prepareUnrecorded(
  source: DeviceArray,
  target: DeviceArray,
  runs: readonly (readonly Run[])[],
  stream: Stream,
  isRemote: boolean,
  mostBlocks: number,
): DeviceCopy {
  const count = sizeOfShape(runs.map(lengthOf));
  const { itemSize } = dtypeInfo(source.dtype);
  const tables = prepareRuns(runs, stream);
  const axes = axesOf(source, target, runs);
  if (axes.length > MOST_AXES) {
    throw new ShapeError(`A GPU copies arrays of at most ${MOST_AXES} dimensions, not of ${axes.length}.`);
  }
  const isAcross = bringSourceInnermostSecond(axes);
  const [from, to] = [startOf(source, axes, "source", itemSize), startOf(target, axes, "target", itemSize)];
  if (isLine(axes)) {
    return {
      put: (stream, sourceShift = 0n, targetShift = 0n) =>
        copyOnDevice(to + targetShift, from + sourceShift, count * itemSize, stream),
      tables,
    };
  }
  const planes = isRemote ? planesOf(axes, itemSize) : null;
  if (planes !== null) {
    return {
      put: (stream, sourceShift = 0n, targetShift = 0n) => {
        for (const [s, t] of planes.starts) {
          copyPlaneOnDevice(to + targetShift + t, from + sourceShift + s, planes, stream);
        }
      },
      tables,
    };
  }
  const factor = widening(axes, from, to, itemSize);
  const words = axes.flatMap(({ runs: list, source: s, target: t }, i) => {
    const table = list.length === 1 ? 0n : tableOf(list, stream).address;
    const [extent, sourceStride, targetStride] = i === 0
      ? [lengthOf(list) / factor, s, t]
      : [lengthOf(list), s / factor, t / factor];
    return [BigInt(extent), BigInt(sourceStride), BigInt(targetStride), table];
  });
  const padding = new Array<bigint>(4 * (MOST_AXES - axes.length)).fill(0n);
  const units = count / factor;
  const row = axes.length === 0 ? 1 : extentOf(axes[0]) / factor;
  const isByRows = !isAcross && row >= WORTH_ROWS && units / row >= WORTH_ROWS;
  const kernel = isAcross ? "copy_across" : isByRows ? "copy_rows" : "copy_along";
  const blocks = Math.min(mostBlocks, isByRows ? units / row : blocksFor(units));
  const program = copyKernels(itemSize * factor);
  const given = [from, to, BigInt(units), BigInt(axes.length), ...words, ...padding];
  const launch = program.prepare(kernel, stream.device, blocks, given);
  return {
    put: (stream, sourceShift = 0n, targetShift = 0n) => {
      launch.words[0] = from + sourceShift;
      launch.words[1] = to + targetShift;
      launch.put(stream);
    },
    tables,
  };
}

/** Where a copy begins: single runs have no index list. */
function startOf(array: DeviceArray, axes: readonly Axis[], side: "source" | "target", itemSize: number): bigint {
  const skipped = axes.reduce(
    (sum, { runs, ...strides }) => runs.length === 1 ? sum + runs[0][side] * strides[side] : sum,
    0,
  );
  return addressOf(array) + BigInt(skipped * itemSize);
}

/** Whether the elements lie one after the other on both sides. */
function isLine(axes: readonly Axis[]): boolean {
  return axes.length === 1 && axes[0].runs.length === 1 && axes[0].source === 1 && axes[0].target === 1;
}

/** From this many bytes a row, and a copy, copy engines are worth it. */
const WORTH_ENGINE_ROW = 512;
const WORTH_ENGINE_COPY = 2 ** 22;
const MOST_PITCH = 2 ** 31;

/** Blocks of rows that all have the same shape, and where each begins, in bytes. */
interface Planes extends Plane {
  readonly starts: readonly (readonly [source: bigint, target: bigint])[];
}

/** A copy as a few blocks of rows; null if these are short, or many, or there are index lists. */
function planesOf(axes: readonly Axis[], itemSize: number): Planes | null {
  const [inner, ...others] = axes;
  if (inner === undefined || inner.source !== 1 || inner.target !== 1) return null;
  if (axes.some(({ runs }) => runs.length > 1)) return null;
  const longest = others.reduce((best, axis, i) => extentOf(axis) > extentOf(others[best]) ? i : best, 0);
  const [rows] = others.splice(longest, 1);
  const [width, height] = [extentOf(inner) * itemSize, extentOf(rows)];
  const copies = sizeOfShape(others.map(extentOf));
  const pitches = [rows.source * itemSize, rows.target * itemSize];
  if (width < WORTH_ENGINE_ROW || copies > 1 && width * height < WORTH_ENGINE_COPY) return null;
  if (pitches.some((pitch) => pitch < width || pitch >= MOST_PITCH)) return null;
  const starts = others.reduce<(readonly [bigint, bigint])[]>(
    (all, axis) =>
      all.flatMap(([s, t]) =>
        Array.from(
          { length: extentOf(axis) },
          (_, i) => [s + BigInt(i * axis.source * itemSize), t + BigInt(i * axis.target * itemSize)] as const,
        )
      ),
    [[0n, 0n]],
  );
  return { width, height, sourcePitch: pitches[0], targetPitch: pitches[1], starts };
}

/** How many neighbours a thread may copy at once: together they have as many bytes as a GPU moves with one instruction. */
function widening(axes: readonly Axis[], from: bigint, to: bigint, itemSize: number): number {
  const [inner, ...others] = axes;
  if (inner === undefined || inner.runs.length > 1 || inner.source !== 1 || inner.target !== 1) return 1;
  const isMultiple = (factor: number) =>
    (from | to) % BigInt(factor * itemSize) === 0n &&
    inner.runs[0].length % factor === 0 &&
    others.every(({ source, target }) => source % factor === 0 && target % factor === 0);
  for (let factor = MOST_UNIT / itemSize; factor > 1; factor /= 2) if (isMultiple(factor)) return factor;
  return 1;
}

/** Bytes of the largest load. */
const MOST_UNIT = 16;

/** The innermost of the target first. Where there are index tables, joined dimensions would only make them longer. */
function axesOf(source: DeviceArray, target: DeviceArray, runs: readonly (readonly Run[])[]): Axis[] {
  const axes = runs.flatMap((list, dimension): Axis[] => {
    const [from, to] = [source.strides[dimension], target.strides[dimension]];
    const steps = stepsOf(list, runs.length);
    if (steps === null) return [{ runs: list, source: from, target: to }];
    const outer = [{ source: 0, target: 0, length: list.length }];
    return [
      { runs: outer, source: steps.source * from, target: steps.target * to },
      { runs: list.slice(0, 1), source: from, target: to },
    ];
  });
  const isPlain = axes.every(({ runs }) => runs.length === 1);
  return (isPlain ? mergeAxes(axes) : axes.sort((a, b) => b.target - a.target)).reverse();
}

/** How far runs of the same length are apart, if they all are as far. */
type Steps = Pick<Run, "source" | "target">;

const knownSteps = new WeakMap<readonly Run[], Steps | null>();

/**
 * Runs that lie regularly are two axes, and need no index table; null of others, of a single run, and of so many dimensions
 * that there might be too many axes.
 */
function stepsOf(runs: readonly Run[], dimensions: number): Steps | null {
  if (runs.length < 2 || 2 * dimensions > MOST_AXES) return null;
  let steps = knownSteps.get(runs);
  if (steps === undefined) knownSteps.set(runs, steps = findSteps(runs));
  return steps;
}

function findSteps(runs: readonly Run[]): Steps | null {
  const [first, second] = runs;
  const [source, target] = [second.source - first.source, second.target - first.target];
  const isRegular = runs.every((run, i) =>
    run.length === first.length && run.source === first.source + i * source && run.target === first.target + i * target
  );
  return isRegular ? { source, target } : null;
}

/** From this many rows of so many elements on, a block of threads takes whole rows. */
const WORTH_ROWS = 128;

/** From a few columns and rows on, copying by squares is worth it. */
const WORTH_TILES = 8;

/** Put the axis that is innermost in the source behind the one that is in the target; whether they are two. */
function bringSourceInnermostSecond(axes: Axis[]): boolean {
  if (axes.length < 2) return false;
  const innermost = axes.reduce((best, axis, i) => axis.source < axes[best].source && axis.source > 0 ? i : best, 0);
  if (innermost === 0 || axes[0].source === 0) return false;
  const [axis] = axes.splice(innermost, 1);
  axes.splice(1, 0, axis);
  return extentOf(axes[0]) >= WORTH_TILES && extentOf(axes[1]) >= WORTH_TILES;
}

function extentOf({ runs }: Axis): number {
  return lengthOf(runs);
}

/** Index tables on the GPU live as long as the plan whose runs they are, unless it frees them. */
const tables = new WeakMap<readonly Run[], DeviceBuffer>();

/** Bring the index tables that copies of such runs need to the GPU, so that they allocate nothing; returns them. */
export function prepareRuns(runs: readonly (readonly Run[])[], stream: Stream): DeviceBuffer[] {
  if (runs.some((list) => lengthOf(list) === 0)) return [];
  const needsTable = (list: readonly Run[]) => list.length > 1 && stepsOf(list, runs.length) === null;
  return runs.filter(needsTable).map((list) => tableOf(list, stream));
}

/** Pairs of positions (source, target). */
function tableOf(runs: readonly Run[], stream: Stream): DeviceBuffer {
  const known = tables.get(runs);
  if (known !== undefined && !known.isFreed) return known;
  // In halves, since a bigint for each of perhaps millions of elements takes seconds.
  const halves = new Int32Array(4 * lengthOf(runs));
  let at = 0;
  for (const run of runs) {
    for (let i = 0; i < run.length; i++) {
      const [source, target] = [run.source + i, run.target + i];
      halves[at++] = source;
      halves[at++] = Math.floor(source / 2 ** 32);
      halves[at++] = target;
      halves[at++] = Math.floor(target / 2 ** 32);
    }
  }
  const table = upload(new BigInt64Array(halves.buffer), stream);
  tables.set(runs, table);
  return table;
}

function upload(data: BigInt64Array<ArrayBuffer> | Uint8Array<ArrayBuffer>, stream: Stream): DeviceBuffer {
  const buffer = new DeviceBuffer(stream, data.byteLength);
  copyToDevice(buffer.address, data, stream);
  return buffer;
}

/** Overwrite all elements with one, given by its bytes. */
export function fillOnDevice(target: DeviceArray, element: Uint8Array<ArrayBuffer>): void {
  const { dtype, shape } = target;
  using buffer = upload(element, target.buffer.stream);
  // Strides of 0 repeat the one element.
  copyStridedOnDevice({ buffer, dtype, shape, strides: shape.map(() => 0), offset: 0 }, target);
}

// ---- making elements ----------------------------------------------------------------------------------------------------

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

// ---- reductions ---------------------------------------------------------------------------------------------------------

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
