/**
 * Arrays made by rule: values by index, ones on a diagonal, equal steps.
 *
 * @module
 */
import { ShapeError } from "../../errors.ts";
import type { Distribution } from "../../distribution/mod.ts";
import type { DType } from "../../dtype/dtype.ts";
import { describe } from "../../options.ts";
import { agreeWith, type Runtime } from "../../runtime/runtime.ts";
import { checkShape } from "../layout.ts";
import { DistributedArray } from "../distributed_array.ts";
import { generate } from "../new_array.ts";
import type { ArrayOptions } from "../new_part.ts";
import type { ElementFunction, LinearForm } from "../traverse.ts";

/** As `DistributedArray.generate`, for a function of this name. */
function made<D extends DType>(
  name: string,
  runtime: Runtime,
  shape: readonly number[],
  distribution: Distribution,
  value: ElementFunction | LinearForm,
  options: ArrayOptions<D>,
): DistributedArray<D> {
  return DistributedArray.of<D>({ held: generate(runtime, name, shape, distribution, value, options) });
}

/**
 * An array of the values that a function gives for each global index: `DistributedArray.generate`, which tells more.
 * Collective.
 *
 * @example
 * ```ts
 * import { fromFunction, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using table = fromFunction(runtime, [3, 3], Slab.X, (i, j) => (i + 1) * (j + 1), { dtype: "int32" });
 * console.log(table.sum()); // 36
 * ```
 */
export function fromFunction<D extends DType = "float64">(
  runtime: Runtime,
  shape: readonly number[],
  distribution: Distribution,
  value: ElementFunction | LinearForm,
  options: ArrayOptions<D> = {},
): DistributedArray<D> {
  return made("fromFunction", runtime, shape, distribution, value, options);
}

/**
 * A matrix of ones on the diagonal and zeros elsewhere, square if its extent is one number. Collective; throws as
 * `DistributedArray.zeros` does, and ShapeError for a list of more or fewer than two extents.
 *
 * @example
 * ```ts
 * import { eye, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using identity = eye(runtime, 4, Slab.X, { dtype: "float32" });
 * console.log(identity.sum()); // 4
 * ```
 */
export function eye<D extends DType = "float64">(
  runtime: Runtime,
  extent: number | readonly [rows: number, columns: number],
  distribution: Distribution,
  options: ArrayOptions<D> = {},
): DistributedArray<D> {
  let shape!: readonly number[];
  agreeWith(runtime, "eye", () => {
    shape = checkShape(typeof extent === "number" ? [extent, extent] : extent);
    if (shape.length !== 2) {
      throw new ShapeError(`eye makes a matrix, not an array of shape [${shape}]. Pass [rows, columns], or a number.`);
    }
    return { shape };
  });
  return made("eye", runtime, shape, distribution, (i, j) => i === j ? 1 : 0, options);
}

function checkNumbers(numbers: Record<string, unknown>): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (typeof value === "number" && Number.isFinite(value)) continue;
    throw new TypeError(`${name} must be a finite number, not ${describe(value)}.`);
  }
}

/**
 * The numbers from `start` up to, but not with, `stop`, in steps of `step`. Collective; throws as `DistributedArray.generate`
 * does, also for fractions where integers are asked for, TypeError for what is no finite number, and ShapeError for a step of
 * 0, or one so small that the numbers cannot be counted.
 *
 * @example
 * ```ts
 * import { arange, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = arange(runtime, 0, 10, 2, Slab.X, { dtype: "int32" });
 * console.log(a.format()); // [0 2 4 6 8]
 * ```
 */
export function arange<D extends DType = "float64">(
  runtime: Runtime,
  start: number,
  stop: number,
  step: number,
  distribution: Distribution,
  options: ArrayOptions<D> = {},
): DistributedArray<D> {
  const countOf = () => Math.max(0, Math.ceil((stop - start) / step));
  agreeWith(runtime, "arange", () => {
    checkNumbers({ start, stop, step });
    if (step === 0) throw new ShapeError("arange: a step of 0 never arrives.");
    if (countOf() > Number.MAX_SAFE_INTEGER) {
      const count = Number.isFinite(countOf()) ? countOf() : `more than ${Number.MAX_VALUE}`;
      throw new ShapeError(
        `arange: from ${start} to ${stop} in steps of ${step} there would be ${count} numbers, and an array holds less ` +
          `than 2^53. Take a larger step.`,
      );
    }
    return { start, stop, step };
  });
  const count = countOf();
  return made("arange", runtime, [count], distribution, { factors: [step], offset: start }, options);
}

/**
 * `count` numbers at equal distances, from `start` to `stop`, which is the last; a single one is `start`. Collective; throws as
 * `DistributedArray.generate` does, also for fractions where integers are asked for, TypeError for what is no finite number,
 * and ShapeError for a count that is no whole number from 0.
 *
 * @example
 * ```ts
 * import { initialize, linspace, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = linspace(runtime, 0, 1, 5, Slab.X);
 * console.log(a.format()); // [0.   0.25 0.5  0.75 1.  ]
 * ```
 */
export function linspace<D extends DType = "float64">(
  runtime: Runtime,
  start: number,
  stop: number,
  count: number,
  distribution: Distribution,
  options: ArrayOptions<D> = {},
): DistributedArray<D> {
  agreeWith(runtime, "linspace", () => {
    checkNumbers({ start, stop, count });
    if (!Number.isInteger(count) || count < 0) {
      throw new ShapeError(`linspace: count must be a whole number from 0, not ${describe(count)}.`);
    }
    return { start, stop, count };
  });
  const value = (i: number) => i === count - 1 && count > 1 ? stop : start + i * ((stop - start) / (count - 1 || 1));
  return made("linspace", runtime, [count], distribution, value, options);
}
