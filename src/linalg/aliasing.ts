/**
 * Whether a result would be written over what it is computed from.
 *
 * @module
 */
import { dtypeInfo } from "../dtype/dtype.ts";
import type { LocalArray } from "../array/local_array.ts";

/** A local matrix in memory: lines of neighbours, at equal distances. */
interface Lines {
  readonly count: number;
  /** The elements of a line. */
  readonly length: number;
  /** Elements from one line to the next. */
  readonly distance: number;
  /** Elements from the first to the last one, gaps included. */
  readonly span: number;
  /** Whether the elements of a line follow each other without gaps. */
  readonly isDense: boolean;
}

function linesOf({ shape, strides }: LocalArray): Lines {
  const [inner, outer] = strides[0] < strides[1] ? [0, 1] : [1, 0];
  const [length, count, distance] = [shape[inner], shape[outer], strides[outer]];
  const span = (count - 1) * distance + (length - 1) * strides[inner] + 1;
  return { count, length, distance, span, isDense: length === 1 || strides[inner] === 1 };
}

/**
 * Whether two local matrices share an element. Parts of one array may lie between each other's lines without sharing any;
 * of lines with gaps or at unequal distances that is not looked into, and the answer is yes.
 */
export function sharesElements(one: LocalArray, other: LocalArray): boolean {
  if (one.size === 0 || other.size === 0 || one.isOnDevice !== other.isOnDevice) return false;
  const [a, b] = [linesOf(one), linesOf(other)];
  const [sizeA, sizeB] = [dtypeInfo(one.dtype).itemSize, dtypeInfo(other.dtype).itemSize];
  const bytes = Number(other.address - one.address);
  if (bytes >= a.span * sizeA || -bytes >= b.span * sizeB) return false;
  const distance = a.count > 1 ? a.distance : b.distance;
  const isOneGrid = a.isDense && b.isDense && (a.count === 1 || b.count === 1 || a.distance === b.distance) &&
    Math.max(a.length, b.length) <= distance;
  if (sizeA !== sizeB || bytes % sizeA !== 0 || !isOneGrid) return true;
  // B begins so many lines and elements after A; its last elements may also stand in A's next line.
  const lines = Math.floor(bytes / sizeA / distance);
  const elements = bytes / sizeA - lines * distance;
  const meet = (lines: number, elements: number) =>
    -b.count < lines && lines < a.count && -b.length < elements && elements < a.length;
  return meet(lines, elements) || meet(lines + 1, elements - distance);
}
