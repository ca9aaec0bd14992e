/**
 * Variances and standard deviations of arrays.
 *
 * @module
 */
import { dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { floatOf } from "../../dtype/promotion.ts";
import { describe } from "../../options.ts";
import type { BaseArray } from "../base_array.ts";
import { apply, cast, operand } from "../elementwise/expression.ts";
import { ANY } from "./device_slices.ts";
import { computeOnDevice, type DeviceValues, deviceVector, sumOnDevice } from "./device_sums.ts";
import { type AxisOptions, elementsOf, ownPart } from "./plan.ts";
import {
  finished,
  finishedOnDevice,
  knownOf,
  type Prepared,
  realParts,
  type Reduced,
  reduced,
  valuesOnDevice,
  withNumber,
  X,
} from "./reduction.ts";
import { sumMemory, sumOf } from "./sums.ts";

/** Options of variances and standard deviations. */
export interface VarianceOptions extends Partial<AxisOptions> {
  /** What is taken off the number of elements that the sum of squares is divided by: 0, or 1 for a sample. */
  correction?: number;
}

/** The variance of all elements, or along dimensions. Collective. */
export function variance(method: "var" | "std", array: BaseArray, options?: VarianceOptions): Reduced<Scalar> {
  return reduced(
    method,
    array,
    dtypeInfo(floatOf(array.dtype)).real,
    options,
    ["correction"],
    ({ plan }, { correction = 0 }) => {
      if (typeof correction !== "number" || !(correction >= 0)) {
        throw new RangeError(`correction must be a number of at least 0, not ${describe(correction)}.`);
      }
      const parts = realParts(array.dtype, X);
      const means = parts.map(() => new Float64Array(plan.size));
      return { sums: [...parts, X].map(() => sumMemory(plan)), means, correction };
    },
    (prepared) => {
      const { plan, local, shape, made: { sums, means, correction } } = prepared;
      const quick = dtypeInfo(array.dtype).isComplex ? null : varianceOnDevice(prepared, correction);
      if (quick !== null) {
        const { expression } = quick;
        return finishedOnDevice(
          prepared,
          method === "var" ? quick : { ...quick, expression: apply("sqrt", expression) },
        );
      }
      const parts = realParts(array.dtype, X);
      const squares = parts.map((part, i) => {
        const totals = sumOf(plan, part, [local], shape, sums[i], knownOf(array.dtype, "values"));
        for (let k = 0; k < totals.length; k++) totals[k] /= plan.count;
        if (plan.isLocal) means[i].set(totals);
        else ownPart(plan, totals, means[i]);
        return apply("square", apply("subtract", cast("float64", part), operand(i + 1)));
      });
      const deviations = squares.length === 1 ? squares[0] : apply("add", squares[0], squares[1]);
      const operands = [local, ...means.map((mean) => elementsOf(plan, mean))];
      const total = sumOf(plan, deviations, operands, shape, sums.at(-1)!);
      const divisor = Math.max(0, plan.count - correction);
      for (let k = 0; k < total.length; k++) {
        total[k] /= divisor;
        if (method === "std") total[k] = Math.sqrt(total[k]);
      }
      return finished(prepared, total);
    },
  );
}

/** The variances of real numbers along dimensions on the GPU that has all of them. */
function varianceOnDevice(prepared: Prepared, correction: number): DeviceValues | null {
  const { plan, local, shape } = prepared;
  const sums = valuesOnDevice(prepared);
  if (sums === null) return null;
  const means = deviceVector(plan.stream!, plan.size);
  const { expression, parts, free } = withNumber("divide", sums, plan.count);
  computeOnDevice(expression, parts, means, plan.size);
  free();
  const squares = apply("square", apply("subtract", cast("float64", X), operand(1)));
  const total = sumOnDevice(plan, squares, [local, { ...means, strides: plan.strides }], shape, ANY);
  means.storage.free();
  return total && withNumber("divide", total, Math.max(0, plan.count - correction));
}
