/**
 * Slices by negative, partial and stepped ranges.
 *
 * @module
 */
import type { Range } from "../../distribution/mod.ts";
import { ShapeError } from "../../errors.ts";
import { describe } from "../../options.ts";

/**
 * A range of one dimension: `[start, end]`, half open; negative numbers count from the end, null stands for the first or the
 * end, and null alone for the whole dimension.
 */
export type SliceRange = readonly [start: number | null, end: number | null] | null;

/**
 * Ranges of all dimensions: those that are left out are whole. What is no range is left to the check of the distribution.
 *
 * @throws {ShapeError} if there are more ranges than dimensions.
 * @throws {RangeError} if a start or an end lies before the first index.
 */
export function fullRanges(given: readonly SliceRange[], shape: readonly number[]): readonly Range[] {
  if (!Array.isArray(given)) return given as unknown as readonly Range[];
  if (given.length > shape.length) {
    throw new ShapeError(
      `slice was given ${given.length} ranges, but an array of shape [${shape}] has ${shape.length} dimensions.`,
    );
  }
  return shape.map((extent, d): Range => {
    const range = d < given.length ? given[d] : null;
    if (range === null) return [0, extent];
    if (!Array.isArray(range)) return range;
    const [start, end, ...rest] = range as unknown[];
    return [bound(start, 0, extent, d), bound(end, extent, extent, d), ...rest] as unknown as Range;
  });
}

function bound(value: unknown, instead: number, extent: number, d: number): number {
  if (value === null) return instead;
  if (typeof value !== "number" || value >= 0) return value as number;
  if (value >= -extent) return value + extent;
  throw new RangeError(`Range ${d} begins or ends at ${describe(value)}, before the first of ${extent} indices.`);
}
