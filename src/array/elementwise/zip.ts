/**
 * Functions of the script on pairs of elements.
 *
 * @module
 */
import type { DType, Scalar } from "../../dtype/dtype.ts";
import { promote, promoteScalar } from "../../dtype/promotion.ts";
import { loadScalar } from "../../dtype/scalar.ts";
import { describe, keysOf, readOptions } from "../../options.ts";
import { agree } from "../../runtime/agreement.ts";
import { BaseArray, type Held, runtimeOf } from "../base_array.ts";
import { LocalArray } from "../local_array.ts";
import { fillByFunction } from "../traverse.ts";
import { alignOperands } from "./elementwise.ts";
import { type Elements, letGoOf } from "./loops.ts";

/** What a function makes of each pair of values and its global index. Collective. */
export function zip(
  one: BaseArray,
  other: BaseArray | Scalar,
  combine: (value: Scalar, other: Scalar, ...index: number[]) => Scalar,
  options: { dtype?: DType },
): Held {
  const runtime = runtimeOf(one);
  let held!: Held;
  agree(runtime, "DistributedArray.zip", () => {
    const { dtype } = readOptions("the options of zip", options, keysOf<typeof options>({ dtype: true }));
    if (typeof combine !== "function") {
      throw new TypeError(`zip takes a function (value, other, i, j) => value, not ${describe(combine)}.`);
    }
    const { distribution, order, localShape, parts, stream, facts } = alignOperands("zip", runtime, [one, other]);
    const common = other instanceof BaseArray ? promote(one.dtype, other.dtype) : promoteScalar(one.dtype, other);
    const target = dtype ?? common;
    const local = LocalArray.empty(target, localShape, order);
    const [first, second] = parts.map((part) =>
      "scalar" in part ? () => part.scalar : valuesOf(part, localShape, order)
    );
    const element = (...index: number[]) => combine(first(), second(), ...index);
    fillByFunction(target, local.data, distribution.ranges(runtime.rank), order, element);
    letGoOf(parts);
    held = { runtime, local: stream === null ? local : local.toDevice(stream, order), distribution, order };
    return { ...facts, dtype: target };
  });
  return held;
}

/** A function that returns one value after the other, in memory order. */
function valuesOf(part: Elements, shape: readonly number[], order: "C" | "F"): () => Scalar {
  const { storage, dtype, offset, strides } = part;
  const { data } = new LocalArray({ data: storage, dtype, shape, strides, offset }).toHost(order);
  let at = 0;
  return () => loadScalar(dtype, data, at++);
}
