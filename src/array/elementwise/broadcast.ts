/**
 * NumPy's broadcasting between arrays on several ranks: the shape and distribution of a result, and what each rank needs of
 * each operand for its part. Nothing moves: a rank that has not what it needs is an error.
 *
 * @module
 */
import { withDimensions } from "../../distribution/dimensions.ts";
import type { Distribution } from "../../distribution/mod.ts";
import { Replicated } from "../../distribution/mod.ts";
import { sameSet } from "../../distribution/index_map.ts";
import { dtypeInfo } from "../../dtype/dtype.ts";
import { DistributionError, ShapeError } from "../../errors.ts";
import type { Stream } from "../../gpu/stream.ts";
import { copyRuns, lengthOf, type Run } from "../layout.ts";
import { copyRunsOnce } from "../on_device/copies.ts";
import { LocalArray } from "../local_array.ts";
import type { Elements } from "./loops.ts";

/**
 * The shape that operands make together: dimensions are aligned at the last one, and an extent of 1 stands for any.
 *
 * @throws {ShapeError} if they do not fit.
 */
export function broadcastShapes(name: string, shapes: readonly (readonly number[])[]): number[] {
  const dimensions = Math.max(0, ...shapes.map((shape) => shape.length));
  return Array.from({ length: dimensions }, (_, d) => {
    const extents = shapes.map((shape) => shape[d - dimensions + shape.length] ?? 1);
    const extent = extents.find((other) => other !== 1) ?? 1;
    if (extents.every((other) => other === 1 || other === extent)) return extent;
    throw new ShapeError(
      `${name}: shapes ${shapes.map((shape) => `[${shape}]`).join(" and ")} do not fit together. Aligned at the last ` +
        `dimension, extents must be equal, or 1.`,
    );
  });
}

/**
 * The distribution of the result: that of the first operand with the whole shape which is divided among the ranks, or one
 * made from a smaller operand's; `Replicated` if all are.
 */
export function resultDistribution(
  shape: readonly number[],
  distributions: readonly Distribution[],
  size: number,
): Distribution {
  const divided = distributions.filter((distribution) => !distribution.isReplicated);
  const whole = divided.find(({ globalShape }) => globalShape!.join() === shape.join());
  if (whole !== undefined) return whole;
  const [largest] = divided.toSorted((a, b) => b.globalShape!.length - a.globalShape!.length);
  if (largest === undefined) return Replicated.bind(shape, size);
  const own = largest.globalShape!;
  const shift = shape.length - own.length;
  const sources = shape.map((extent, d) => d >= shift && own[d - shift] === extent ? d - shift : null);
  return withDimensions(largest, shape, sources);
}

/** An operand as a message names it. */
function show(distribution: Distribution): string {
  return `${distribution} of shape [${distribution.globalShape}]`;
}

/** Which dimensions of a result an operand lacks, or has but once. */
function repetition(own: Distribution, result: Distribution) {
  const shift = result.globalShape!.length - own.globalShape!.length;
  const isRepeated = (d: number) => d < shift || own.globalShape![d - shift] !== result.globalShape![d];
  return { shift, isRepeated };
}

/** Whether each rank holds the elements of an operand that it needs for its part of a result of the same or more dimensions. */
export function holdsNeeded(own: Distribution, result: Distribution): boolean {
  const { shift, isRepeated } = repetition(own, result);
  for (let rank = 0; rank < result.size!; rank++) {
    const needed = result.indexSets(rank);
    if (needed.some(({ count }) => count === 0)) continue;
    const hasAll = own.indexSets(rank).every((set, d) =>
      set.count === own.globalShape![d] || !isRepeated(d + shift) && sameSet(set, needed[d + shift])
    );
    if (!hasAll) return false;
  }
  return true;
}

/**
 * The elements of an operand that this rank needs for its part of the result, as an array of the result's shape: strides of
 * dimensions that are repeated are 0. Without a copy unless a replicated operand is needed in several pieces; on a GPU that is
 * made on the stream.
 *
 * @throws {DistributionError} if this rank, or any other, does not hold what it needs.
 */
export function operandPart(
  name: string,
  local: LocalArray,
  own: Distribution,
  result: Distribution,
  rank: number,
  stream: Stream | null,
): Elements {
  const isAlike = own === result || own.equals(result);
  if (isAlike) return local;
  if (!holdsNeeded(own, result)) throw unlike(name, own, result);
  const { shift, isRepeated } = repetition(own, result);
  const needed = result.indexSets(rank);
  if (needed.some(({ count }) => count === 0)) {
    return { storage: local.storage, dtype: local.dtype, offset: 0, strides: needed.map(() => 0) };
  }
  const there = own.indexSets(rank);
  const runs = there.map((set, d): Run[] => {
    if (isRepeated(d + shift)) return [{ source: 0, target: 0, length: 1 }];
    if (set.count === needed[d + shift].count) return [{ source: 0, target: 0, length: set.count }];
    let target = 0;
    return needed[d + shift].ranges().map(([start, end]) => {
      const run = { source: start, target, length: end - start };
      target += run.length;
      return run;
    });
  });
  const isOnePiece = runs.every((list) => list.length === 1);
  const from = isOnePiece ? local : gathered(local, runs, stream);
  const strides = needed.map((_, d) => isRepeated(d) ? 0 : from.strides[d - shift]);
  const skipped = isOnePiece ? runs.reduce((sum, [run], d) => sum + run.source * local.strides[d], 0) : 0;
  const letGo = () => {
    if (from !== local) from.release();
  };
  return { storage: from.storage, dtype: local.dtype, offset: from.offset + skipped, strides, letGo };
}

/** The pieces of a replicated operand, side by side. */
function gathered(local: LocalArray, runs: readonly (readonly Run[])[], stream: Stream | null): LocalArray {
  const copy = LocalArray.empty(local.dtype, runs.map(lengthOf), "C", stream);
  if (local.isOnDevice) copyRunsOnce(local, copy, runs);
  else copyRuns(local, copy, runs, dtypeInfo(local.dtype).parts);
  return copy;
}

function unlike(name: string, own: Distribution, result: Distribution): DistributionError {
  const isAsLarge = own.globalShape?.join() === result.globalShape?.join();
  const remedy = isAsLarge
    ? "Bring them together with redistribute() (elementwise functions do with { redistribute: true })."
    : "Have the one that is repeated on all ranks: operand.redistribute(Replicated).";
  const [there, here] = [show(result), show(own)];
  return new DistributionError(
    `${name}: the operands are distributed differently, ${there} and ${here}, so that ranks lack elements that they need. ` +
      remedy,
  );
}
