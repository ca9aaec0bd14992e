/**
 * What all reductions of arrays have in common: to one number, or along dimensions to a smaller array.
 *
 * All that may fail on one rank, memory too, comes inside the agreement of all ranks; what follows only computes and
 * communicates.
 *
 * @module
 */
import { fromFloat64 } from "../../dtype/conversion.ts";
import { type DType, dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { readOptions } from "../../options.ts";
import { agree, type Facts } from "../../runtime/agreement.ts";
import { type BaseArray, type Held, runtimeOf } from "../base_array.ts";
import { checkOwnArray } from "../elementwise/elementwise.ts";
import { apply, type Expression, operand } from "../elementwise/expression.ts";
import type { Accumulation } from "../elementwise/loops.ts";
import type { OperationName } from "../elementwise/names.ts";
import { LocalArray } from "../local_array.ts";
import { sizesOf } from "./device_slices.ts";
import { computeOnDevice, type DeviceValues, sumOnDevice } from "./device_sums.ts";
import type { Terms } from "./exact_sums.ts";
import { AXIS_KEYS, type AxisOptions, planReduction, type ReductionPlan, resultMemory, resultOf } from "./plan.ts";
import type { Known } from "./sums.ts";

/** What came of a reduction: a number if no dimension was named, else the parts of an array. */
export type Reduced<T> = T | Held;

/** A reduction whose ranks have agreed: what is left is to compute. */
export interface Prepared {
  readonly plan: ReductionPlan;
  readonly local: LocalArray;
  readonly shape: readonly number[];
  /** The dtype of results that are an array, and memory for them. */
  readonly dtype: DType;
  readonly memory: LocalArray | null;
}

/**
 * Agree on a reduction of an array, and do it; results that are an array have this dtype. `prepare` allocates what it needs in
 * host memory; on a GPU `compute` takes more. Where each rank computes on its own that is part of the agreement; where ranks
 * go on together they agree on each step.
 */
export function reduced<Options extends Partial<AxisOptions>, T, R>(
  method: string,
  array: BaseArray,
  dtype: DType,
  options: Options | undefined,
  keys: readonly (keyof Options & string)[],
  prepare: (prepared: Prepared, options: Options) => T,
  compute: (prepared: Prepared & { readonly made: T }) => R,
): R {
  const runtime = runtimeOf(array);
  const name = `DistributedArray.${method}`;
  let prepared!: Prepared & { readonly made: T };
  let alone: { readonly result: R } | null = null;
  agree(runtime, name, (): Facts => {
    void array.local;
    checkOwnArray(method, "the array", array, runtime);
    const given = readOptions<Options>(`the options of ${method}`, options, [...AXIS_KEYS, ...keys] as typeof keys);
    const { axis, keepDims } = given;
    if (axis === undefined && keepDims !== undefined) {
      throw new TypeError(`keepDims goes with axis. Pass the dimensions too, or leave keepDims out for a number.`);
    }
    const plan = planReduction(
      array,
      axis === undefined ? null : { axis, ...keepDims === undefined ? {} : { keepDims } },
    );
    const own = { plan, local: array.local, shape: array.local.shape, dtype, memory: resultMemory(plan, dtype) };
    prepared = { ...own, made: prepare(own, given) };
    if (plan.isLocal) alone = { result: compute(prepared) };
    const { shape, distribution } = array;
    const result = plan.result === null ? null : plan.result.shape;
    const others = Object.fromEntries(keys.map((key) => [key, given[key] ?? null]));
    return { shape, dtype: array.dtype, distribution: String(distribution), axes: plan.axes, result, ...others };
  });
  return alone === null ? compute(prepared) : (alone as { readonly result: R }).result;
}

/** The results, of one or two parts, as a number, or as an array rounded to the dtype. */
export function finished(
  { plan, dtype, memory }: Prepared,
  ...parts: readonly Float64Array<ArrayBuffer>[]
): Reduced<Scalar> {
  if (plan.result === null) {
    if (parts.length === 2) return [parts[0][0], parts[1][0]];
    // Of integers there is no -0, which products of their float64 may be.
    return dtypeInfo(dtype).isInteger ? parts[0][0] + 0 : parts[0][0];
  }
  return resultOf(plan, dtype, memory, (target) => {
    if (parts.length === 1) return fromFloat64(dtype, parts[0], target.data);
    parts.forEach((part, i) => part.forEach((value, k) => target.data[2 * k + i] = value));
  });
}

/** The results as an expression of vectors on the GPU that has all of them. */
export function finishedOnDevice({ plan, dtype }: Prepared, { expression, parts, free }: DeviceValues): Held {
  const { runtime, stream, size } = plan;
  const { distribution, order } = plan.result!;
  const local = LocalArray.empty(dtype, distribution.localShape(runtime.rank), order, stream);
  computeOnDevice(expression, parts, { storage: local.storage, dtype, offset: local.offset, strides: [1] }, size);
  free();
  return { runtime, local, distribution, order };
}

/** What an operation with a number of the script makes of vectors on a GPU. */
export function withNumber(
  name: OperationName,
  { expression, parts, free }: DeviceValues,
  scalar: number,
): DeviceValues {
  return { expression: apply(name, expression, operand(parts.length)), parts: [...parts, { scalar }], free };
}

/** As {@linkcode finished}, of int64. */
export function finishedBig({ plan, dtype, memory }: Prepared, results: BigInt64Array<ArrayBuffer>): Reduced<bigint> {
  if (plan.result === null) return results[0];
  return resultOf(plan, dtype, memory, (target) => void (target.data as BigInt64Array).set(results));
}

/** The parts of an expression of complex elements, or itself. */
export function realParts(dtype: DType, expression: Expression): Expression[] {
  return dtypeInfo(dtype).isComplex ? [apply("real", expression), apply("imag", expression)] : [expression];
}

/** The elements of the array. */
export const X = operand(0);

/** An accumulation that takes in other accumulators as it does values. */
export function both(start: number | bigint, take: Accumulation["take"]): Accumulation {
  return { start: [start], take, merge: take, isAnyOrder: typeof start === "bigint" };
}

/** The dtype of sums along dimensions: integers make int64. */
export function sumDType(dtype: DType): DType {
  return dtypeInfo(dtype).isInteger ? "int64" : dtype;
}

/** What is added of an array's elements, of floats. */
export function knownOf(dtype: DType, terms: Terms): Known {
  return dtypeInfo(dtype).isComplex ? {} : { terms };
}

/** The sums of values along dimensions on the GPU that has all of them. */
export function valuesOnDevice({ plan, local, shape }: Prepared): DeviceValues | null {
  return sumOnDevice(plan, X, [local], shape, sizesOf(local, "values"));
}

/** Memory for results that are int64. */
export interface BigMemory {
  readonly own: BigInt64Array<ArrayBuffer>;
  readonly whole: BigInt64Array<ArrayBuffer>;
}

/** Allocate it. */
export function bigMemory({ size, isLocal, all }: ReductionPlan): BigMemory {
  return { own: new BigInt64Array(size), whole: new BigInt64Array(isLocal ? 0 : all.size) };
}

/** Whether memory is for int64. */
export function isBig(memory: { readonly own: unknown }): memory is BigMemory {
  return memory.own instanceof BigInt64Array;
}
