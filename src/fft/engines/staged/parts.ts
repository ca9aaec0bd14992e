/**
 * How steps go part by part: a transform and the move that follows, so that parts move while others are transformed, and the
 * transform of what has moved.
 *
 * @module
 */
import { type Order, sizeOfShape } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { partLength } from "../../../array/redistribution/pieces.ts";
import type { Parts } from "../../../array/redistribution/plan.ts";
import type { SymmetricArray } from "../../../array/symmetric_array.ts";
import { countOf } from "../../../array/traverse.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import type { Location } from "./locations.ts";
import type { Operation } from "./operations.ts";

/**
 * In how many parts elements are transformed while others move, and the least bytes of a part; those of parts after the second
 * one where a rank sends to several others, which take turns with each part and get out of step; whether they go straight to
 * where the next step reads them, and in how many parts that then transforms the last of them. Measured on two and four H200s
 * (bench/results/gpu_fft_h200.json, gpu_fft_4_h200.json); tests and benchmarks ask for others.
 */
export const cutting = { parts: 8, leastBytes: 2 ** 25, leastBytesInTurn: 2 ** 28, lands: true, uses: 2 };

/**
 * The least bytes of a part in host memory: it is in the caches until it is sent, 4096 x 4096 complex128 on 2 ranks takes an
 * eighth less time so. Of half as many, or four times as many bytes it takes about as long.
 */
export const hostCutting = { leastBytes: 2 ** 20 };

/** How a step and the next one go part by part. */
export interface Cut {
  readonly dimension: number;
  readonly parts: number;
}

/** Steps, and where elements lie between them. */
export interface StepsInPlace {
  readonly operations: readonly Operation[];
  readonly locations: readonly Location[];
  readonly order: Order;
  readonly isOnHost: boolean;
  readonly isInPlace: boolean;
  /** The memory in which elements lie before a step. */
  memoryAt(value: number): SymmetricArray | Location;
  /** Memory of all ranks into which a step before writes straight, if it does. */
  landingAt(value: number): SymmetricArray | undefined;
  /** What {@linkcode findCut} has found. */
  cutOf(i: number): Cut | null;
}

/**
 * Along which dimension a transform and the move that follows can go part by part, and in how many parts; null if along none:
 * the same on all ranks.
 */
export function findCut(plan: StepsInPlace, i: number): Cut | null {
  const { order, isOnHost } = plan;
  const [{ step, target }, next] = [plan.operations[i], plan.operations[i + 1]];
  if (step.kind !== "transform" || step.isTransposed || !next?.move) return null;
  if (!next.move.canMoveWhile(order, dtypeInfo(target).itemSize)) return null;
  // Others write into it, and take it to be dense.
  if (isOnHost && plan.isInPlace && typeof plan.locations[i + 2] === "string") return null;
  // What arrives must not lie where something is still to be transformed.
  if (plan.memoryAt(i) === plan.memoryAt(i + 2)) return null;
  const { axes, from, to } = step;
  const shape = to.globalShape!;
  const bytes = byteLengthOf(shape, target) / to.size!;
  const parts = isOnHost ? Math.floor(bytes / hostCutting.leastBytes) : partsOnGpus(bytes, to.size!);
  if (parts < 2) return null;
  const isWhole = (dimension: number) => {
    const counts = Array.from({ length: to.size! }, (_, rank) => next.step.to.ranges(rank).map(countOf));
    return counts.every((list) => list.includes(0) || list[dimension] === shape[dimension]);
  };
  const dimensions = inOneCall(shape, axes, plan).filter((d) => from.globalShape![d] === shape[d] && isWhole(d));
  const dimension = order === "C" ? dimensions[0] : dimensions.at(-1);
  return dimension === undefined ? null : { dimension, parts };
}

/**
 * Along which dimension what a move brings straight into place is transformed as it arrives, and in how many parts; null if
 * along none: the same on all ranks.
 */
export function findCutOfUse(plan: StepsInPlace, i: number): Cut | null {
  const { order, isOnHost } = plan;
  const [before, move, operation] = [i - 2, i - 1, i].map((at) => plan.operations[at]);
  const [cut, landing] = [before && plan.cutOf(i - 2), plan.landingAt(i)];
  if (!cut || !landing || isOnHost || operation?.step.kind !== "transform") return null;
  const { axes, from, to, isTransposed } = operation.step;
  if (isTransposed || plan.cutOf(i) !== null || !move.move!.goesStraight(landing, order)) return null;
  // What still travels must not lie where results do.
  if (plan.memoryAt(i - 1) === plan.memoryAt(i + 1)) return null;
  const shape = from.globalShape!;
  const bytes = byteLengthOf(shape, move.target) / from.size!;
  if (cutting.uses < 2 || bytes / cut.parts / cutting.uses < cutting.leastBytes) return null;
  const ranges = (parts: Parts) =>
    Array.from({ length: parts.size! }, (_, rank) => parts.ranges(rank).map(countOf)).filter((counts) =>
      !counts.includes(0)
    );
  const isFree = (dimension: number) =>
    dimension !== cut.dimension && to.globalShape![dimension] === shape[dimension] &&
    ranges(move.step.from).every((counts) => counts[dimension] === shape[dimension]) &&
    ranges(from).every((counts) => counts[dimension] >= cutting.uses);
  const dimensions = inOneCall(shape, axes, plan).filter(isFree);
  const dimension = order === "C" ? dimensions[0] : dimensions.at(-1);
  return dimension === undefined ? null : { dimension, parts: cutting.uses };
}

/**
 * The dimensions that are not transformed along which parts can be transformed in one call: around them nothing is looped
 * over.
 */
function inOneCall(
  shape: readonly number[],
  axes: readonly number[],
  { order, isOnHost }: Pick<StepsInPlace, "order" | "isOnHost">,
): number[] {
  return [...shape.keys()].filter((dimension) => {
    if (axes.includes(dimension) || shape[dimension] <= 1) return false;
    const around = [...shape.keys()].filter((d) => shape[d] > 1 && (order === "C" ? d < dimension : d > dimension));
    // From process to process go long pieces.
    return around.length === 0 || !isOnHost && around.length === axes.length && around.every((d) => axes.includes(d));
  });
}

/** In how many parts so many bytes of each rank are transformed while others move. */
export function partsOnGpus(bytes: number, size: number): number {
  const most = Math.min(cutting.parts, Math.floor(bytes / cutting.leastBytes));
  return size === 2 ? most : Math.min(most, Math.max(2, Math.floor(bytes / cutting.leastBytesInTurn)));
}

/** Where each part of an extent begins, and how long it is. */
export function partsOf(extent: number, parts: number): (readonly [start: number, length: number])[] {
  const most = partLength(extent, parts);
  return Array.from({ length: Math.ceil(extent / most) }, (_, i) => [i * most, Math.min(most, extent - i * most)]);
}

/** A part of an array. */
export function partAlong(array: LocalArray, dimension: number, start: number, length: number): LocalArray {
  return array.slice(array.shape.map((_, d) => d === dimension ? start : 0), array.shape.with(dimension, length));
}

/** The bytes of an array. */
export function byteLengthOf(shape: readonly number[], dtype: DType): number {
  return sizeOfShape(shape) * dtypeInfo(dtype).itemSize;
}
