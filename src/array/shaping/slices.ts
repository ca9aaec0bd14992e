/**
 * Slices by negative, partial and stepped ranges.
 *
 * @module
 */
import { everyNth, firstOfEven } from "../../distribution/index_map.ts";
import { type Distribution, type Range, Replicated, Sliced } from "../../distribution/mod.ts";
import type { DType } from "../../dtype/dtype.ts";
import { DistributionError, ShapeError } from "../../errors.ts";
import { describe } from "../../options.ts";
import type { LocalArray } from "../local_array.ts";

/**
 * A range of one dimension: `[start, end]`, half open; negative numbers count from the end, null stands for the first or the
 * end, and null alone for the whole dimension. With a third number, the step, only every so manieth index is in it.
 */
export type SliceRange = readonly [start: number | null, end: number | null, step?: number] | null;

/** The ranges of a slice, and the distances of its indices. */
export interface FullSlice {
  readonly ranges: readonly Range[];
  readonly steps: readonly number[];
}

/**
 * Ranges of all dimensions: those that are left out are whole. What is no range is left to the check of the distribution.
 *
 * @throws {ShapeError} if there are more ranges than dimensions.
 * @throws {RangeError} if a start or an end lies before the first index, or one that counts from the end is inverted.
 */
export function fullSlice(given: readonly SliceRange[], shape: readonly number[]): FullSlice {
  if (!Array.isArray(given)) return { ranges: given as unknown as readonly Range[], steps: [] };
  if (given.length > shape.length) {
    throw new ShapeError(
      `slice was given ${given.length} ranges, but an array of shape [${shape}] has ${shape.length} dimensions.`,
    );
  }
  const all = shape.map((extent, d): { range: Range; step: number } => {
    const range = d < given.length ? given[d] : null;
    if (range === null) return { range: [0, extent], step: 1 };
    if (!Array.isArray(range)) return { range, step: 1 };
    const [start, end, step = 1, ...rest] = range as unknown[];
    const [from, to] = [bound(start, 0, extent, d), bound(end, extent, extent, d)];
    const isFromEnd = from !== start || to !== end;
    if (isFromEnd && Number.isInteger(from) && Number.isInteger(to) && from <= extent && from > to) {
      const given = describe([start, end]);
      throw new RangeError(
        `Range ${d}, ${given}, ends before it begins: of ${extent} indices it is [${from}, ${to}]. Give an end that is ` +
          `not before the start.`,
      );
    }
    return { range: [from, to, ...rest] as unknown as Range, step: checkStep(step, d) };
  });
  return { ranges: all.map(({ range }) => range), steps: all.map(({ step }) => step) };
}

function checkStep(step: unknown, d: number): number {
  if (Number.isSafeInteger(step) && step as number > 0) return step as number;
  const kind = typeof step === "number" ? RangeError : TypeError;
  throw new kind(
    `The step of range ${d} must be a whole number from 1, not ${describe(step)}. Views do not run backwards: take ` +
      `flip(array, ${d}), which makes a new array.`,
  );
}

function bound(value: unknown, instead: number, extent: number, d: number): number {
  if (value === null) return instead;
  if (typeof value !== "number" || !(value < 0)) return value as number;
  if (value >= -extent) return value + extent;
  throw new RangeError(`Range ${d} begins or ends at ${describe(value)}, before the first of ${extent} indices.`);
}

/** The distribution of every so manieth element of each dimension: each rank keeps what it has. */
export function steppedDistribution(part: Distribution, steps: readonly number[]): Distribution {
  const shape = part.globalShape!;
  if (part.isReplicated) return Replicated.bind(shape.map((extent, d) => Math.ceil(extent / steps[d])), part.size!);
  return new Sliced(part, shape.map((extent): Range => [0, extent]), steps);
}

/**
 * A rank's part of it, as a view.
 *
 * @throws {DistributionError} if, on any rank, the elements do not lie at equal distances.
 */
export function steppedPart<D extends DType>(
  local: LocalArray<D>,
  part: Distribution,
  steps: readonly number[],
  rank: number,
): LocalArray<D> {
  for (let other = 0; other < part.size!; other++) {
    const isEven = part.indexSets(other).every((set, d) => firstOfEven(set, steps[d]) !== null);
    if (isEven) continue;
    throw new DistributionError(
      `Steps [${steps}] over ${part} take elements from inside of blocks at unequal distances, which no view has. ` +
        `Redistribute the array before, to Slab.X for instance.`,
    );
  }
  const sets = part.indexSets(rank);
  const shape = sets.map((set, d) => everyNth(set, steps[d]).count);
  if (shape.includes(0)) return local.reshaped(shape, local.strides);
  const first = sets.map((set, d) => firstOfEven(set, steps[d])!);
  const from = local.slice(first, first.map((start, d) => local.shape[d] - start));
  return from.reshaped(shape, local.strides.map((stride, d) => stride * steps[d]));
}
