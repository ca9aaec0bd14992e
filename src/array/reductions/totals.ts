/**
 * Sums and means of arrays.
 *
 * @module
 */
import { type DType, dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { floatOf } from "../../dtype/promotion.ts";
import { exchange } from "../../runtime/agreement.ts";
import type { BaseArray } from "../base_array.ts";
import { bigSumOnDevice } from "../on_device/reducing.ts";
import { accumulate } from "../elementwise/execution.ts";
import { cast } from "../elementwise/expression.ts";
import { type AxisOptions, elementsOf, inStep, type ReductionPlan, together } from "./plan.ts";
import {
  type BigMemory,
  bigMemory,
  both,
  finished,
  finishedBig,
  finishedOnDevice,
  knownOf,
  type Prepared,
  realParts,
  type Reduced,
  reduced,
  sumDType,
  valuesOnDevice,
  withNumber,
  X,
} from "./reduction.ts";
import { sumMemory, sumOf } from "./sums.ts";

/** The sum of all elements, or along dimensions. Collective. */
export function sum(array: BaseArray, options?: AxisOptions): Reduced<Scalar> {
  const sum = reduced("sum", array, sumDType(array.dtype), options, [], ({ plan }, { axis }) => {
    if (array.dtype === "int64") return { big: axis === undefined ? null : bigMemory(plan), sums: [] };
    if (axis !== undefined && mayBeBig(array.dtype, plan)) return { big: bigMemory(plan), sums: [] };
    return { big: null, sums: realParts(array.dtype, X).map(() => sumMemory(plan)) };
  }, (prepared) => {
    const { plan, local, shape, made: { big, sums } } = prepared;
    if (big !== null) return bigSums(prepared, big);
    if (array.dtype === "int64") return null;
    const known = knownOf(array.dtype, "values");
    const { isComplex, isInteger } = dtypeInfo(array.dtype);
    const quick = isComplex || isInteger ? null : valuesOnDevice(prepared);
    if (quick !== null) return finishedOnDevice(prepared, quick);
    const parts = realParts(array.dtype, X).map((part, i) => sumOf(plan, part, [local], shape, sums[i], known));
    return finished(prepared, ...parts);
  });
  return sum ?? bigTotal(array);
}

const ADD_BIG = both(0n, ([value]) => `a0 = BigInt.asIntN(64, a0 + ${value});`);

/** Whether sums of integers may be too large for numbers. */
function mayBeBig(dtype: DType, { count }: ReductionPlan): boolean {
  const { isInteger, itemSize } = dtypeInfo(dtype);
  return isInteger && count * 2 ** (8 * itemSize) > 2 ** 53;
}

/** Sums of integers along dimensions as int64, which wrap around. */
function bigSums(prepared: Prepared, { own, whole }: BigMemory): Reduced<bigint> {
  const { plan, local, shape } = prepared;
  inStep(plan, () => accumulate(cast("int64", X), [local], [elementsOf(plan, own, "int64")], shape, ADD_BIG));
  const sums = together(plan, own, whole, (all) => void plan.runtime.communicator.allReduce(all, { into: all }));
  return finishedBig(prepared, sums);
}

/** The exact sum of all int64 elements. */
function bigTotal(array: BaseArray): bigint {
  let sum = 0n;
  const add = () => {
    const { local } = array;
    if (local.isOnDevice) return String(sum = bigSumOnDevice(local));
    const data = local.isDense("C") || local.isDense("F") ? local.view() : local.copy().data;
    for (const value of data as BigInt64Array) sum += value;
    return String(sum);
  };
  const partials = exchange(array.runtime, "DistributedArray.sum", add);
  return array.distribution.isReplicated ? sum : partials.reduce((total, part) => total + BigInt(part), 0n);
}

/** The mean of all elements, or along dimensions. Collective. */
export function mean(array: BaseArray, options?: AxisOptions): Reduced<Scalar> {
  return reduced(
    "mean",
    array,
    floatOf(array.dtype),
    options,
    [],
    ({ plan }) => realParts(array.dtype, X).map(() => sumMemory(plan)),
    (prepared) => {
      const { plan, local, shape, made } = prepared;
      const known = knownOf(array.dtype, "values");
      const quick = dtypeInfo(array.dtype).isComplex ? null : valuesOnDevice(prepared);
      if (quick !== null) return finishedOnDevice(prepared, withNumber("divide", quick, plan.count));
      const parts = realParts(array.dtype, X).map((part, i) => sumOf(plan, part, [local], shape, made[i], known));
      for (const part of parts) for (let i = 0; i < part.length; i++) part[i] /= plan.count;
      return finished(prepared, ...parts);
    },
  );
}
