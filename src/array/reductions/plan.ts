/**
 * Along which dimensions an array is reduced: where each rank's partial results lie, how those of all ranks come together, and
 * what array they make.
 *
 * Results over dimensions that each rank holds as a whole need no communication and stay where they are; others end on all
 * ranks.
 *
 * @module
 */
import { isWhole, withDimensions } from "../../distribution/dimensions.ts";
import { type Distribution, Replicated } from "../../distribution/mod.ts";
import type { DType, TypedArray } from "../../dtype/dtype.ts";
import { DistributionError, ShapeError } from "../../errors.ts";
import { checkBoolean, describe, keysOf } from "../../options.ts";
import type { Stream } from "../../gpu/stream.ts";
import { makeOnAll } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { BaseArray, Held } from "../base_array.ts";
import type { Elements } from "../elementwise/loops.ts";
import { copyRuns, type Order, type Run, sizeOfShape, stridesOf } from "../layout.ts";
import { LocalArray } from "../local_array.ts";

/** Along which dimensions a reduction goes. */
export interface AxisOptions {
  /** The dimension that disappears, or several; negative ones count from the last, -1. */
  axis: number | readonly number[];
  /** Whether the dimensions stay, with extent 1, so that the result broadcasts against the array. */
  keepDims?: boolean;
}

/** The names of {@linkcode AxisOptions}. */
export const AXIS_KEYS = keysOf<AxisOptions>({ axis: true, keepDims: true });

/** A reduction of an array, planned on this rank. */
export interface ReductionPlan {
  readonly runtime: Runtime;
  /** The stream of the GPU where the array is; null for an array in host memory. */
  readonly stream: Stream | null;
  /** The dimensions that are reduced. */
  readonly axes: readonly number[];
  /** How many elements make one result, over all ranks. */
  readonly count: number;
  /** How many results this rank has a part in. */
  readonly size: number;
  /** The strides of these results along the dimensions of the array: 0 along those that are reduced. */
  readonly strides: readonly number[];
  /** Whether each rank has all elements of its results. */
  readonly isLocal: boolean;
  /** Where this rank's results lie among all, when ranks have only parts of them. */
  readonly all: {
    readonly size: number;
    readonly strides: readonly number[];
    readonly runs: readonly (readonly Run[])[];
  };
  /** The array of the results; null if all dimensions are reduced to a number. */
  readonly result:
    | { readonly shape: readonly number[]; readonly distribution: Distribution; readonly order: Order }
    | null;
}

/**
 * A dimension of an array by its number, or by its negative one from the end.
 *
 * @throws {RangeError | TypeError} if there is none.
 */
export function checkAxis(axis: unknown, dimensions: number, what = "The axis"): number {
  if (Number.isInteger(axis) && axis as number >= -dimensions && axis as number < dimensions) {
    return axis as number < 0 ? axis as number + dimensions : axis as number;
  }
  const kind = typeof axis === "number" ? RangeError : TypeError;
  throw new kind(`${what} must be a whole number from ${-dimensions} to ${dimensions - 1}, not ${describe(axis)}.`);
}

/** The dimensions that options name, without what is negative, in order. */
export function checkAxes(axis: unknown, dimensions: number): number[] {
  const given = Array.isArray(axis) ? [...axis] : [axis];
  const axes = given.map((one) => checkAxis(one, dimensions)).sort((a, b) => a - b);
  if (given.length === 0 || new Set(axes).size < axes.length) {
    throw new RangeError(`axis must name one or more dimensions, each once, not ${describe(axis)}.`);
  }
  return axes;
}

/** Plan a reduction along some dimensions; to a number if `options` is null. */
export function planReduction(array: BaseArray, options: AxisOptions | null): ReductionPlan {
  const { runtime, shape, distribution, order } = array;
  const dimensions = shape.length;
  const axes = options === null ? [...shape.keys()] : checkAxes(options.axis, dimensions);
  checkBoolean("keepDims", options?.keepDims);
  const keepDims = options?.keepDims ?? false;
  if (options !== null && !keepDims && axes.length === dimensions) {
    throw new ShapeError(
      `All ${dimensions} dimensions would disappear. Leave axis out for a number, or pass keepDims: true for an array.`,
    );
  }
  const isReduced = (d: number) => axes.includes(d);
  const own = array.local.shape.map((extent, d) => isReduced(d) ? 1 : extent);
  const all = shape.map((extent, d) => isReduced(d) ? 1 : extent);
  const count = axes.reduce((product, axis) => product * shape[axis], 1);
  const isEverywhere = distribution.isReplicated || runtime.size === 1;
  const mayStay = isEverywhere || count > 0 && axes.every((axis) => isWhole(distribution, axis));
  const kept = [...shape.keys()].filter((d) => keepDims || !isReduced(d));
  const resultShape = kept.map((d) => all[d]);
  const there = options !== null && mayStay
    ? counterpart(distribution, resultShape, kept.map((d) => isReduced(d) ? null : d))
    : null;
  const isLocal = isEverywhere || there !== null;
  const runs = distribution.ranges(runtime.rank).map((ranges, d): Run[] => {
    if (isReduced(d)) return [{ source: 0, target: 0, length: 1 }];
    let source = 0;
    return ranges.map(([start, end]) => {
      const run = { source, target: start, length: end - start };
      source += run.length;
      return run;
    });
  });
  return {
    runtime,
    stream: array.local.isOnDevice ? runtime.stream : null,
    axes,
    count,
    // A rank without elements has no results either, unless all ranks have all of them.
    size: isLocal && !isEverywhere && array.local.size === 0 ? 0 : sizeOfShape(own),
    strides: masked(stridesOf(own, order), isReduced),
    isLocal,
    all: { size: sizeOfShape(all), strides: stridesOf(all, order), runs },
    result: options === null
      ? null
      : { shape: resultShape, distribution: there ?? Replicated.bind(resultShape, runtime.size), order },
  };
}

/** The distribution with other dimensions; null if it has no counterpart, as a slice that begins within a block. */
function counterpart(
  distribution: Distribution,
  shape: readonly number[],
  dimensions: readonly (number | null)[],
): Distribution | null {
  try {
    return withDimensions(distribution, shape, dimensions);
  } catch (error) {
    if (error instanceof DistributionError) return null;
    throw error;
  }
}

function masked(strides: readonly number[], isReduced: (d: number) => boolean): number[] {
  return strides.map((stride, d) => isReduced(d) ? 0 : stride);
}

/** Results as an array of the loops. */
export function elementsOf(plan: ReductionPlan, data: TypedArray, dtype: DType = "float64"): Elements {
  return { storage: data, dtype, offset: 0, strides: plan.strides };
}

/** What the ranks have of each result, brought together: `combine` is collective and gets what each rank has, or `empty`. */
export function together<T extends Float64Array<ArrayBuffer> | BigInt64Array<ArrayBuffer>>(
  plan: ReductionPlan,
  own: T,
  whole: T,
  combine: (whole: T) => void,
): T {
  if (plan.isLocal) return own;
  const { strides, runs } = plan.all;
  copyRuns({ data: own, offset: 0, strides: plan.strides }, { data: whole, offset: 0, strides }, runs);
  combine(whole);
  return whole;
}

/** This rank's part of what all ranks have together, for another round. */
export function ownPart<T extends Float64Array<ArrayBuffer> | BigInt64Array<ArrayBuffer>>(
  plan: ReductionPlan,
  whole: T,
  own: T,
): T {
  if (plan.isLocal) return whole;
  const { strides, runs } = plan.all;
  const back = runs.map((list) =>
    list.map(({ source, target, length }) => ({ source: target, target: source, length }))
  );
  copyRuns({ data: whole, offset: 0, strides }, { data: own, offset: 0, strides: plan.strides }, back);
  return own;
}

/** Do what takes memory of a GPU: where ranks go on together they learn whether all have it. Local on CPUs. */
export function inStep<T>({ runtime, stream, isLocal }: ReductionPlan, body: () => T): T {
  return stream === null || isLocal ? body() : makeOnAll(runtime, "a reduction on GPUs", body);
}

/** Memory for the results; null where they are a number, or are made on a GPU, by {@linkcode resultOf}. */
export function resultMemory(plan: ReductionPlan, dtype: DType): LocalArray | null {
  if (plan.result === null || plan.stream !== null) return null;
  const { distribution, order } = plan.result;
  return LocalArray.empty(dtype, distribution.localShape(plan.runtime.rank), order);
}

/** The results as the parts of an array. Collective, unless each rank has all of them. */
export function resultOf(
  plan: ReductionPlan,
  dtype: DType,
  memory: LocalArray | null,
  fill: (target: LocalArray) => void,
): Held {
  const { runtime, stream } = plan;
  const { distribution, order } = plan.result!;
  const local = inStep(plan, () => {
    const made = memory ?? LocalArray.empty(dtype, distribution.localShape(runtime.rank), order);
    fill(made);
    return stream === null ? made : made.toDevice(stream, order);
  });
  return { runtime, local, distribution, order };
}
