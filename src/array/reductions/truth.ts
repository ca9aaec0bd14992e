/**
 * Whether all elements of an array are not 0, or any is.
 *
 * @module
 */
import type { BaseArray, Held } from "../base_array.ts";
import { apply } from "../elementwise/expression.ts";
import type { AxisOptions } from "./plan.ts";
import { finished, type Reduced, reduced, X } from "./reduction.ts";
import { extremes, extremesOfAll } from "./sums.ts";

/** Whether all elements are not 0, or any is; or along dimensions. Collective. */
export function truth(method: "all" | "any", array: BaseArray, options?: AxisOptions): Reduced<boolean> {
  return reduced(method, array, "uint8", options, [], ({ plan }) => [
    new Float64Array(plan.size),
    new Float64Array(plan.isLocal ? 0 : plan.all.size),
  ], (prepared) => {
    const { plan, local, shape, made: [own, whole] } = prepared;
    const op = method === "all" ? "min" : "max";
    const isTrue = apply("logicalNot", apply("logicalNot", X));
    extremes(plan, isTrue, [local], shape, op, own);
    const found = extremesOfAll(plan, op, own, whole);
    for (let i = 0; i < found.length; i++) found[i] = Number(found[i] > 0);
    const result = finished(prepared, found);
    return typeof result === "number" ? result === 1 : result as Held;
  });
}
