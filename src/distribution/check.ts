/**
 * Checks of arguments, shared by the files of this folder.
 *
 * @module
 */
import { DistributionError, ShapeError } from "../errors.ts";
import { describe } from "../options.ts";

/** An integer within `[minimum, maximum]`, or a TypeError or RangeError that names it. */
export function checkInteger(name: string, value: unknown, minimum: number, maximum = Number.MAX_SAFE_INTEGER): number {
  if (typeof value !== "number") {
    throw new TypeError(`${name} must be a number, got ${describe(value)} (${typeof value})`);
  }
  if (!Number.isSafeInteger(value) || value < minimum || value > maximum) {
    const upTo = maximum === Number.MAX_SAFE_INTEGER ? "" : ` and at most ${maximum}`;
    throw new RangeError(`${name} must be an integer of at least ${minimum}${upTo}, got ${value}`);
  }
  return value;
}

/** A frozen copy of a list of integers of at least `minimum`. */
export function checkIntegers(name: string, values: unknown, minimum: number): readonly number[] {
  if (!Array.isArray(values)) throw new TypeError(`${name} must be an array of integers, got ${describe(values)}`);
  return Object.freeze(values.map((value, index) => checkInteger(`${name}[${index}]`, value, minimum)));
}

/** A list must have one entry a dimension. */
export function checkLength(name: string, values: readonly unknown[], dimensions: number, what: string): void {
  if (values.length === dimensions) return;
  throw new ShapeError(
    `${name} has ${values.length} entries, but ${what} has ${dimensions} dimensions; give one entry a dimension`,
  );
}

/** A permutation of the dimensions; left out, it reverses them. */
export function checkAxes(axes: readonly number[] | undefined, dimensions: number): readonly number[] {
  if (axes === undefined) return Array.from({ length: dimensions }, (_, index) => dimensions - 1 - index);
  const checked = checkIntegers("axes", axes, 0);
  const isPermutation = checked.length === dimensions && checked.every((_, axis) => checked.includes(axis));
  if (isPermutation) return checked;
  throw new DistributionError(
    `axes must name each of the ${dimensions} dimensions 0..${dimensions - 1} once, got [${checked.join(", ")}]`,
  );
}

/** The values in the order that `axes` names. */
export function permute<T>(values: readonly T[], axes: readonly number[]): T[] {
  return axes.map((axis) => values[axis]);
}

/** A shape, index or list of blocks as a message shows it: `[4, 6]`. */
export function list(values: readonly number[]): string {
  return `[${values.join(", ")}]`;
}
