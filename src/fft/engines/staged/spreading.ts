/**
 * Elements of a buffer that lie at a distance of whole pages push each other out of the caches: a cache line further apart
 * they may take less time to transform.
 *
 * @module
 */
import { type Order, sizeOfShape, stridesOf } from "../../../array/layout.ts";
import type { Parts } from "../../../array/redistribution/plan.ts";
import { countOf } from "../../../array/traverse.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { Location } from "./locations.ts";
import type { Operation } from "./operations.ts";

const [PAGE_BYTES, LINE_BYTES] = [2 ** 12, 64];

/** The share of the time that they may take then; tests and benchmarks ask for others. */
export const spreading = { worth: 0.9 };

/** Not more numbers are tried: twelve times their transform is what that takes. */
const MOST_TRIED = 2 ** 20;

/** An array with some strides longer by a cache line; so many indices along one of its dimensions are enough to be tried. */
export interface Apart {
  readonly shape: readonly number[];
  readonly strides: readonly number[];
  readonly across: number;
  readonly enough: number;
}

/** How an array would lie whose elements along a transformed axis are at no distance of whole pages; null if they are not. */
export function apartAt(
  i: number,
  operations: readonly Operation[],
  locations: readonly Location[],
  rank: number,
  order: Order,
): Apart | null {
  const [before, operation, after] = [i - 1, i, i + 1].map((at) => operations[at]);
  if (!before?.move || !after?.move) return null;
  const { step, target } = operation;
  const isInBuffer = typeof locations[i] === "number" && locations[i] === locations[i + 1];
  if (!isInBuffer || step.kind !== "transform" || step.type !== "c2c") return null;
  const shape = step.from.ranges(rank).map(countOf);
  // Steps may take the same elements for an array of another shape.
  const isSame = (parts: Parts) => parts.ranges(rank).map(countOf).join() === shape.join();
  if (!isSame(before.step.to) || !isSame(after.step.from)) return null;
  const axis = order === "C" ? 0 : shape.length - 1;
  const strides = stridesOf(shape, order);
  const { itemSize } = dtypeInfo(target);
  const isFar = strides[axis] * itemSize % PAGE_BYTES === 0 && strides[axis] > 1 && shape[axis] > 1;
  if (!isFar || sizeOfShape(shape) === 0 || step.axes.join() !== String(axis)) return null;
  const across = order === "C" ? 1 : axis - 1;
  return {
    shape,
    strides: strides.with(axis, strides[axis] + LINE_BYTES / itemSize),
    across,
    enough: Math.max(1, Math.floor(shape[across] * Math.min(1, MOST_TRIED / sizeOfShape(shape)))),
  };
}
