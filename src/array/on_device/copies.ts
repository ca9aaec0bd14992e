/**
 * Copies between layouts on GPUs: on the stream of the array that is written, or on those that the caller names.
 *
 * @module
 */
import { dtypeInfo } from "../../dtype/dtype.ts";
import { ShapeError } from "../../errors.ts";
import { copyKernels, type CopyWords, MOST_AXES } from "../../gpu/kernels/copy_kernels.ts";
import { blocksFor, MOST_BLOCKS } from "../../gpu/kernels/program.ts";
import type { Stream } from "../../gpu/stream.ts";
import { copyOnDevice, copyPlaneOnDevice, type Plane } from "../../memory/copy.ts";
import type { DeviceBuffer } from "../../memory/device_buffer.ts";
import { recorder } from "../../runtime/recorder.ts";
import { type Axis, lengthOf, mergeAxes, type Run, sizeOfShape } from "../layout.ts";
import { addressOf, type DeviceArray, upload } from "./device_array.ts";

/** Bytes of the largest load. */
const MOST_UNIT = 16;

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

/** A copy between layouts: its axes, and where it begins at both ends. */
interface Laid {
  readonly count: number;
  readonly itemSize: number;
  readonly axes: readonly Axis[];
  readonly from: bigint;
  readonly to: bigint;
  /** Whether the second axis is the innermost of the source, and both are worth squares. */
  readonly isAcross: boolean;
}

function layOut(source: DeviceArray, target: DeviceArray, runs: readonly (readonly Run[])[]): Laid {
  const { itemSize } = dtypeInfo(source.dtype);
  const axes = axesOf(source, target, runs);
  if (axes.length > MOST_AXES) {
    throw new ShapeError(`A GPU copies arrays of at most ${MOST_AXES} dimensions, not of ${axes.length}.`);
  }
  const isAcross = bringSourceInnermostSecond(axes);
  const [from, to] = [startOf(source, axes, "source", itemSize), startOf(target, axes, "target", itemSize)];
  return { count: sizeOfShape(runs.map(lengthOf)), itemSize, axes, from, to, isAcross };
}

/** What a kernel is told of a copy; index lists go to the GPU on the stream. A thread copies at most so many bytes at once. */
function inWords({ count, itemSize, axes, from, to, isAcross }: Laid, stream: Stream, mostBytes: number): CopyWords {
  const factor = widening(axes, from, to, itemSize, mostBytes);
  const words = axes.flatMap(({ runs: list, source: s, target: t }, i) => {
    const table = list.length === 1 ? 0n : tableOf(list, stream).address;
    const [extent, sourceStride, targetStride] = i === 0
      ? [lengthOf(list) / factor, s, t]
      : [lengthOf(list), s / factor, t / factor];
    return [BigInt(extent), BigInt(sourceStride), BigInt(targetStride), table];
  });
  const units = count / factor;
  const row = axes.length === 0 ? 1 : extentOf(axes[0]) / factor;
  const isByRows = !isAcross && row >= WORTH_ROWS && units / row >= WORTH_ROWS;
  return {
    words: [from, to, BigInt(units), BigInt(axes.length), ...words],
    way: isAcross ? "across" : isByRows ? "rows" : "along",
    unitBytes: itemSize * factor,
    blocks: isByRows ? units / row : blocksFor(units),
  };
}

/** No elements at all, of so many bytes. */
const nothing = (unitBytes: number): CopyWords => ({ words: [0n, 0n, 0n, 0n], way: "along", unitBytes, blocks: 1 });

/** Copies that one kernel makes. */
export interface KernelCopies {
  /** Each of them, in units of the same size. */
  readonly copies: readonly CopyWords[];
  /** The index lists that they need on the GPU. */
  readonly tables: readonly DeviceBuffer[];
}

/** Lay out copies for one kernel; index lists go to the GPU on the stream. */
export function layOutCopies(
  given: readonly { source: DeviceArray; target: DeviceArray; runs: readonly (readonly Run[])[] }[],
  stream: Stream,
): KernelCopies {
  const all = given.map(({ source, target, runs }) =>
    runs.some((list) => lengthOf(list) === 0) ? null : layOut(source, target, runs)
  );
  const inUnits = (most: number) => all.map((laid) => laid === null ? nothing(most) : inWords(laid, stream, most));
  const unit = Math.min(...inUnits(MOST_UNIT).map(({ unitBytes }) => unitBytes));
  return { copies: inUnits(unit), tables: given.flatMap(({ runs }) => prepareRuns(runs, stream)) };
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
  const tables = prepareRuns(runs, stream);
  const laid = layOut(source, target, runs);
  const { count, itemSize, axes, from, to } = laid;
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
  const { words, way, unitBytes, blocks } = inWords(laid, stream, MOST_UNIT);
  const padding = new Array<bigint>(4 * (MOST_AXES - axes.length)).fill(0n);
  const program = copyKernels(unitBytes);
  const launch = program.prepare(`copy_${way}`, stream.device, Math.min(mostBlocks, blocks), [...words, ...padding]);
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
function widening(axes: readonly Axis[], from: bigint, to: bigint, itemSize: number, mostBytes: number): number {
  const [inner, ...others] = axes;
  if (inner === undefined || inner.runs.length > 1 || inner.source !== 1 || inner.target !== 1) return 1;
  const isMultiple = (factor: number) =>
    (from | to) % BigInt(factor * itemSize) === 0n &&
    inner.runs[0].length % factor === 0 &&
    others.every(({ source, target }) => source % factor === 0 && target % factor === 0);
  for (let factor = mostBytes / itemSize; factor > 1; factor /= 2) if (isMultiple(factor)) return factor;
  return 1;
}

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
