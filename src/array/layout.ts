/**
 * How n-dimensional arrays lie in memory: strides, and copies between any two layouts.
 *
 * Strides and offsets count elements, not bytes.
 *
 * @module
 */
import { addressOf, type CopyMemory, fastCopy } from "../../ffi/memory.ts";
import { ShapeError, StateError } from "../errors.ts";
import { describe } from "../options.ts";
import type { TypedArray } from "../dtype/dtype.ts";
import { BEYOND_CACHES } from "./compiled_loops.ts";
import { type LineAxis, type LineCopy, prepareLineCopy } from "./line_copy.ts";

/** Memory order: "C" is row-major, the last index runs fastest; "F" is column-major, the first one does. */
export type Order = "C" | "F";

/** The number of elements of an array of this shape; 1 for no dimensions. */
export function sizeOfShape(shape: readonly number[]): number {
  let size = 1;
  for (const extent of shape) size *= extent;
  return size;
}

/** The most dimensions that an array may have: as many as NumPy's. */
export const MOST_DIMENSIONS = 64;

/**
 * A frozen copy of a shape, which is read once: at most 64 extents, whole numbers from 0, and a size below 2^53.
 *
 * @throws {TypeError} if it is not an array of numbers.
 * @throws {ShapeError} if an extent is negative or a fraction, there are too many, or the array is too large to be counted.
 */
export function checkShape(given: readonly number[], what = "The shape"): readonly number[] {
  const shape: readonly number[] = Object.freeze(Array.isArray(given) ? given.slice() : []);
  if (isShape(shape)) return shape;
  if (!Array.isArray(given) || !shape.every((extent) => typeof extent === "number")) {
    throw new TypeError(`${what} must be an array of numbers such as [128, 64], not ${describe(given)}.`);
  }
  if (shape.length === 0 || !shape.every((extent) => Number.isInteger(extent) && extent >= 0)) {
    throw new ShapeError(`${what} is ${describe(shape)}, but needs at least one extent, and whole numbers from 0.`);
  }
  if (shape.length > MOST_DIMENSIONS) {
    throw new ShapeError(
      `${what} has ${shape.length} dimensions; arrays have at most ${MOST_DIMENSIONS}, as in NumPy.`,
    );
  }
  throw new ShapeError(`${what}, ${describe(shape)}, has more than 2^53 elements.`);
}

/** Whether extents are a shape: in one pass, since every new array asks. */
function isShape(extents: readonly number[]): boolean {
  let size = 1;
  for (const extent of extents) {
    if (!Number.isInteger(extent) || extent < 0) return false;
    size *= extent;
  }
  return extents.length > 0 && extents.length <= MOST_DIMENSIONS && Number.isSafeInteger(size);
}

/**
 * Refuse what is not a memory order.
 *
 * @throws {TypeError} if it is neither "C" nor "F".
 */
export function checkOrder(order: unknown): void {
  if (order !== "C" && order !== "F") throw new TypeError(`The order must be "C" or "F", not ${describe(order)}.`);
}

/** The other memory order. */
export function flipOrder(order: Order): Order {
  return order === "C" ? "F" : "C";
}

/** The strides of a dense array. */
export function stridesOf(shape: readonly number[], order: Order): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let i = 0; i < shape.length; i++) {
    const dimension = order === "F" ? i : shape.length - 1 - i;
    strides[dimension] = stride;
    stride *= shape[dimension];
  }
  return strides;
}

/** Whether elements follow each other without gaps in this order. Strides of dimensions of extent 1 do not matter. */
export function isDense(shape: readonly number[], strides: readonly number[], order: Order): boolean {
  if (shape.includes(0)) return true;
  const dense = stridesOf(shape, order);
  return shape.every((extent, dimension) => extent === 1 || strides[dimension] === dense[dimension]);
}

/** A matrix as BLAS takes it: one dimension dense, the other with a stride. */
export interface LeadingDimension {
  /** "F" if columns are dense, "C" if rows are. */
  readonly order: Order;
  /** The stride of the other dimension. */
  readonly leadingDimension: number;
}

/**
 * How BLAS sees a local matrix: its order and leading dimension, or `null` if neither dimension is dense or it is not
 * a matrix. Where both orders fit, as for a single row, the preferred one is taken.
 */
export function leadingDimension(
  { shape, strides }: { readonly shape: readonly number[]; readonly strides: readonly number[] },
  preferred: Order = "F",
): LeadingDimension | null {
  if (shape.length !== 2) return null;
  for (const order of [preferred, flipOrder(preferred)]) {
    const [inner, outer] = order === "F" ? [0, 1] : [1, 0];
    const least = Math.max(1, shape[inner]);
    const innerFits = shape[inner] <= 1 || strides[inner] === 1;
    // With at most one row or column its stride is never used; BLAS still checks it.
    if (shape[outer] <= 1 && innerFits || shape.includes(0)) return { order, leadingDimension: least };
    if (innerFits && strides[outer] >= least) return { order, leadingDimension: strides[outer] };
  }
  return null;
}

/** An array in memory: where it starts and how far apart neighbours are. */
export interface Strided {
  /** The memory. */
  readonly data: TypedArray;
  /** The element at index (0, 0, …). */
  readonly offset: number;
  /** The distance of neighbours along each dimension; below 0 in a source that is read backwards. */
  readonly strides: readonly number[];
}

/** Neighbouring indices of one dimension that stay neighbours in a copy. */
export interface Run {
  /** The first index in the source. */
  readonly source: number;
  /** The first index in the target. */
  readonly target: number;
  /** How many. */
  readonly length: number;
}

/** How many indices a list of runs has. */
export function lengthOf(runs: readonly Run[]): number {
  return runs.reduce((sum, run) => sum + run.length, 0);
}

/** Copy all elements of an array of this shape. `parts` is the number of numbers an element. The memories must differ. */
export function copyStrided(source: Strided, target: Strided, shape: readonly number[], parts: 1 | 2 = 1): void {
  copyRuns(source, target, shape.map((length) => [{ source: 0, target: 0, length }]), parts);
}

/**
 * Copy the elements whose indices are the product of one list of runs for each dimension. `parts` is the number of
 * numbers an element. The memories must differ; both must have numbers of the same width.
 */
export function copyRuns(source: Strided, target: Strided, runs: readonly (readonly Run[])[], parts: 1 | 2 = 1): void {
  prepareCopy(source, target, runs, parts)();
}

/** Makes a copy; shifts, in elements, are added to where source and target begin. */
export type Copy = (sourceShift?: number, targetShift?: number) => void;

/**
 * As {@linkcode copyRuns}, for copies that are made often: returns what makes one. It may be a piece of a move of so many
 * `bytes` in all.
 */
export function prepareCopy(
  source: Strided,
  target: Strided,
  runs: readonly (readonly Run[])[],
  parts: 1 | 2 = 1,
  bytes: number = sizeOfShape(runs.map(lengthOf)) * parts * target.data.BYTES_PER_ELEMENT,
): Copy {
  if (runs.some((list) => list.every((run) => run.length === 0))) return () => {};
  if (parts === 2 && isPairOfWords(source.data) && isPairOfWords(target.data)) {
    return prepareCopy(
      { offset: source.offset, strides: source.strides, data: pairs(source.data) },
      { offset: target.offset, strides: target.strides, data: pairs(target.data) },
      runs,
      1,
      bytes,
    );
  }
  const [from, to] = [unitsOf(source.data), unitsOf(target.data)];
  const [a, b] = [source.offset * parts, target.offset * parts];
  const axes = mergeAxes(
    runs.map((list, dimension) => ({
      runs: list,
      source: source.strides[dimension] * parts,
      target: target.strides[dimension] * parts,
    })),
  );
  const inner = axes.pop() ?? { runs: [{ source: 0, target: 0, length: 1 }], source: parts, target: parts };
  const sourceStep = (axis = inner) => Math.abs(axis.source);
  const fastest = axes.reduce((best, axis, i) => sourceStep(axis) < sourceStep(axes[best]) ? i : best, -1);
  if (fastest < 0) {
    const native = prepareNativeCopy(from, to, [...axes, inner], parts, bytes);
    if (native !== null) {
      return (sourceShift = 0, targetShift = 0) => native(a + sourceShift * parts, b + targetShift * parts);
    }
    const line: Visit = (s, t) => copyLine(from, to, s, t, inner, parts);
    return (sourceShift = 0, targetShift = 0) => walk(axes, 0, a + sourceShift * parts, b + targetShift * parts, line);
  }
  const [across] = axes.splice(fastest, 1);
  const [lines, columns] = [offsetsOf(across), offsetsOf(inner)];
  const plane: Visit = (s, t) => copyAcross(from, to, s, t, lines, columns, parts);
  return (sourceShift = 0, targetShift = 0) => walk(axes, 0, a + sourceShift * parts, b + targetShift * parts, plane);
}

/** Whether complex elements can be copied as one 8-byte number each. */
function isPairOfWords({ BYTES_PER_ELEMENT, byteOffset }: TypedArray): boolean {
  return BYTES_PER_ELEMENT === 4 && byteOffset % 8 === 0;
}

function pairs({ buffer, byteOffset, length }: TypedArray): TypedArray {
  return new Float64Array(buffer, byteOffset, length / 2);
}

/** One dimension of a copy: the runs of indices, and the distance of neighbours in source and target. */
export interface Axis {
  /** Which indices of the source go where in the target. */
  readonly runs: readonly Run[];
  /** The stride in the source. */
  readonly source: number;
  /** The stride in the target. */
  readonly target: number;
}

type Units = Uint8Array | Uint16Array | Uint32Array | Float64Array;

/** The numbers of an array as bits of their width: four kinds of arrays keep the copying loops fast, and exact. */
function unitsOf({ buffer, byteOffset, length, BYTES_PER_ELEMENT }: TypedArray): Units {
  switch (BYTES_PER_ELEMENT) {
    case 1:
      return new Uint8Array(buffer, byteOffset, length);
    case 2:
      return new Uint16Array(buffer, byteOffset, length);
    case 4:
      return new Uint32Array(buffer, byteOffset, length);
    default:
      return new Float64Array(buffer, byteOffset, length);
  }
}

/** Outermost in the target first; neighbours that lie one after the other in both memories become one. */
export function mergeAxes(axes: Axis[]): Axis[] {
  const merged: Axis[] = [];
  for (const axis of axes.filter((axis) => !isSingle(axis)).sort((a, b) => b.target - a.target)) {
    const outer = merged.at(-1);
    if (outer !== undefined && continues(outer, axis)) merged[merged.length - 1] = join(outer, axis);
    else merged.push(axis);
  }
  return merged;
}

function isSingle({ runs }: Axis): boolean {
  return runs.length === 1 && runs[0].length === 1 && runs[0].source === 0 && runs[0].target === 0;
}

/** Whether the inner dimension is one run from index 0 that the outer one's strides step over exactly. */
function continues(outer: Axis, inner: Axis): boolean {
  const [run] = inner.runs;
  return inner.runs.length === 1 && run.source === 0 && run.target === 0 &&
    outer.source === inner.source * run.length && outer.target === inner.target * run.length;
}

function join(outer: Axis, inner: Axis): Axis {
  const factor = inner.runs[0].length;
  const runs = outer.runs.map(({ source, target, length }) => ({
    source: source * factor,
    target: target * factor,
    length: length * factor,
  }));
  return { runs, source: inner.source, target: inner.target };
}

/** Is given an offset in the source and one in the target. */
type Visit = (s: number, t: number) => void;

/** Call `visit` with the two offsets of every combination of indices of the axes from `depth` on. */
function walk(axes: readonly Axis[], depth: number, s: number, t: number, visit: Visit): void {
  if (depth === axes.length) return visit(s, t);
  const { runs, source, target } = axes[depth];
  for (const run of runs) {
    let from = s + run.source * source;
    let to = t + run.target * target;
    for (let i = 0; i < run.length; i++, from += source, to += target) walk(axes, depth + 1, from, to, visit);
  }
}

/** Below this many bytes in a run a loop in JavaScript is as fast as calls of `memcpy`. */
const LEAST_NATIVE_BYTES = 64;

/**
 * Lines of so many bytes are written past the caches, into arrays of that size: of shorter ones too much is no whole cache line.
 */
const LEAST_PAST_BYTES = 256;

/** An axis in bytes, as 64-bit integers: the start, the end and the place in the target of each run. */
interface ByteAxis {
  readonly runs: readonly {
    readonly source: bigint;
    readonly target: bigint;
    readonly length: number;
    readonly bytes: bigint;
  }[];
  readonly source: bigint;
  readonly target: bigint;
}

/**
 * Copies lines natively, given the first numbers of source and target; `null` if lines are short, or not dense, or nothing
 * native may be called.
 */
function prepareNativeCopy(
  from: Units,
  to: Units,
  axes: readonly Axis[],
  parts: 1 | 2,
  bytes: number,
): ((s: number, t: number) => void) | null {
  const inner = axes.at(-1)!;
  const width = from.BYTES_PER_ELEMENT;
  const isDenseLine = inner.source === parts && inner.target === parts;
  const lineBytes = lengthOf(inner.runs) * parts * width / inner.runs.length;
  const isShared = [from, to].some(({ buffer }) => !(buffer instanceof ArrayBuffer));
  if (!isDenseLine || lineBytes < LEAST_NATIVE_BYTES || isShared) return null;
  const isPast = to.byteLength >= BEYOND_CACHES && lineBytes >= LEAST_PAST_BYTES;
  const lines = axes.map(({ runs, source, target }): LineAxis => (
    { runs, source: source * width, target: target * width }
  ));
  const copy = (bytes >= BEYOND_CACHES ? prepareLineCopy(lines, isPast) : null) ?? prepareMemcpy(lines);
  if (copy === null) return null;
  const [sourceAddress, targetAddress] = [addressOf(from as BufferSource), addressOf(to as BufferSource)];
  const [sourceSpan, targetSpan] = [spanOf(axes, "source", parts), spanOf(axes, "target", parts)];
  const isWithin = (at: number, [start, end]: Span, length: number) => at + start >= 0 && at + end <= length;
  return (s, t) => {
    // Native functions look at nothing.
    if (!isWithin(s, sourceSpan, from.length) || !isWithin(t, targetSpan, to.length)) {
      throw new StateError("The memory of an array is gone, or too short, that elements move between.");
    }
    copy(sourceAddress + BigInt(s * width), targetAddress + BigInt(t * width));
  };
}

/** Copies lines by `memcpy`; `null` if it may not be called. */
function prepareMemcpy(axes: readonly LineAxis[]): LineCopy | null {
  const memcpy = fastCopy();
  if (memcpy === null) return null;
  const byteAxes = axes.map(({ runs, source, target }, depth): ByteAxis => ({
    runs: (depth === axes.length - 1 ? shortened(runs, PIECE_BYTES / source) : runs).map((run) => ({
      source: BigInt(run.source * source),
      target: BigInt(run.target * target),
      length: run.length,
      bytes: BigInt(run.length * source),
    })),
    source: BigInt(source),
    target: BigInt(target),
  }));
  return (source, target) => copyLines(memcpy, byteAxes, 0, source, target);
}

type Span = readonly [start: number, end: number];

/** The first number that a copy reads or writes, and the one behind the last, from where it begins. */
function spanOf(axes: readonly Axis[], side: "source" | "target", parts: 1 | 2): Span {
  return axes.reduce<Span>(([start, end], axis) => {
    const far = axis.runs.reduce((most, run) => Math.max(most, run.length === 0 ? 0 : run[side] + run.length - 1), 0);
    return axis[side] < 0 ? [start + far * axis[side], end] : [start, end + far * axis[side]];
  }, [0, parts]);
}

function copyLines(memcpy: CopyMemory, axes: readonly ByteAxis[], depth: number, s: bigint, t: bigint): void {
  const { runs, source, target } = axes[depth];
  if (depth === axes.length - 1) {
    for (let i = 0; i < runs.length; i++) {
      const run = runs[i];
      memcpy(BigInt.asUintN(64, t + run.target), BigInt.asUintN(64, s + run.source), run.bytes);
    }
    return;
  }
  for (const run of runs) {
    let from = s + run.source;
    let to = t + run.target;
    for (let i = 0; i < run.length; i++) {
      copyLines(memcpy, axes, depth + 1, from, to);
      from += source;
      to += target;
    }
  }
}

/** The same runs, none longer than `most`. */
function shortened(runs: readonly Run[], most: number): readonly Run[] {
  if (runs.every(({ length }) => length <= most)) return runs;
  return runs.flatMap(({ source, target, length }) =>
    Array.from({ length: Math.ceil(length / most) }, (_, i) => ({
      source: source + i * most,
      target: target + i * most,
      length: Math.min(most, length - i * most),
    }))
  );
}

/** Below this many numbers a loop is faster than the call of `set`. */
const SHORT = 48;

/**
 * Pieces that fit the second-level cache: 16 MiB copied in them take two thirds of the time of one `set` on AMD EPYC,
 * since glibc copies longer ones by slower instructions.
 */
const PIECE_BYTES = 2 ** 18;

function copyDense(from: Units, to: Units, a: number, b: number, length: number): void {
  const piece = PIECE_BYTES / to.BYTES_PER_ELEMENT;
  for (let i = 0; i < length; i += piece) to.set(from.subarray(a + i, a + Math.min(i + piece, length)), b + i);
}

function copyLine(from: Units, to: Units, s: number, t: number, axis: Axis, parts: 1 | 2): void {
  const [sourceStride, targetStride] = [axis.source, axis.target];
  const isContiguous = sourceStride === parts && targetStride === parts;
  for (const run of axis.runs) {
    let a = s + run.source * sourceStride;
    let b = t + run.target * targetStride;
    if (isContiguous) {
      const length = run.length * parts;
      if (length >= SHORT) copyDense(from, to, a, b, length);
      else for (let i = 0; i < length; i++) to[b + i] = from[a + i];
    } else if (parts === 1) {
      for (let i = 0; i < run.length; i++, a += sourceStride, b += targetStride) to[b] = from[a];
    } else {
      for (let i = 0; i < run.length; i++, a += sourceStride, b += targetStride) {
        to[b] = from[a];
        to[b + 1] = from[a + 1];
      }
    }
  }
}

/** The offsets of all indices of one dimension, in both memories. */
interface Offsets {
  readonly source: Uint32Array | Float64Array;
  readonly target: Uint32Array | Float64Array;
}

function offsetsOf({ runs, source, target }: Axis): Offsets {
  const count = lengthOf(runs);
  const farthest = runs.reduce((most, run) => {
    return Math.max(most, (run.source + run.length) * source, (run.target + run.length) * target);
  }, 0);
  const integers = source >= 0 && farthest < 2 ** 32 ? Uint32Array : Float64Array;
  const offsets = { source: new integers(count), target: new integers(count) };
  let at = 0;
  for (const run of runs) {
    for (let i = 0; i < run.length; i++, at++) {
      offsets.source[at] = (run.source + i) * source;
      offsets.target[at] = (run.target + i) * target;
    }
  }
  return offsets;
}

/** Rows and columns of a square that the first-level cache holds twice. */
const TILE = 32;

/** A transposing copy: `lines` is dense in the source, `columns` in the target; square by square. */
function copyAcross(
  from: Units,
  to: Units,
  s: number,
  t: number,
  lines: Offsets,
  columns: Offsets,
  parts: 1 | 2,
): void {
  const [lineCount, columnCount] = [lines.source.length, columns.source.length];
  for (let top = 0; top < lineCount; top += TILE) {
    const bottom = Math.min(top + TILE, lineCount);
    for (let left = 0; left < columnCount; left += TILE) {
      const right = Math.min(left + TILE, columnCount);
      copyTile(from, to, s, t, lines, columns, top, bottom, left, right);
      if (parts === 2) copyTile(from, to, s + 1, t + 1, lines, columns, top, bottom, left, right);
    }
  }
}

function copyTile(
  from: Units,
  to: Units,
  s: number,
  t: number,
  lines: Offsets,
  columns: Offsets,
  top: number,
  bottom: number,
  left: number,
  right: number,
): void {
  const [columnSource, columnTarget] = [columns.source, columns.target];
  for (let line = top; line < bottom; line++) {
    const a = s + lines.source[line];
    const b = t + lines.target[line];
    for (let column = left; column < right; column++) to[b + columnTarget[column]] = from[a + columnSource[column]];
  }
}
