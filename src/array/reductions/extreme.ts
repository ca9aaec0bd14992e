/**
 * The largest and smallest elements of an array, and where they are.
 *
 * @module
 */
import { fromFloat64 } from "../../dtype/conversion.ts";
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { DTypeError, ShapeError } from "../../errors.ts";
import type { BaseArray } from "../base_array.ts";
import { accumulate } from "../elementwise/execution.ts";
import { apply, operand } from "../elementwise/expression.ts";
import { isBits } from "../elementwise/javascript_loops.ts";
import type { Elements, Part } from "../elementwise/loops.ts";
import type { LocalArray } from "../local_array.ts";
import { extremesOnDevice } from "./device_sums.ts";
import { type AxisOptions, elementsOf, inStep, ownPart, type ReductionPlan, resultOf, together } from "./plan.ts";
import {
  type BigMemory,
  bigMemory,
  both,
  finished,
  finishedBig,
  finishedOnDevice,
  isBig,
  type Prepared,
  type Reduced,
  reduced,
  withNumber,
  X,
} from "./reduction.ts";
import { better, extremes, extremesOfAll } from "./sums.ts";

function checkOrdered(method: string, { dtype, shape }: BaseArray, { count }: ReductionPlan): void {
  if (dtypeInfo(dtype).isComplex) {
    throw new DTypeError(`${method}: complex numbers have no order. Take abs(), real() or imag() first.`);
  }
  if (count > 0) return;
  throw new ShapeError(
    `${method}: an array of shape [${shape}] has no elements along these dimensions, and so no ${method}.`,
  );
}

/** Memory for extremes: int64 is compared as it is, everything else as float64. */
function extremeMemory(dtype: DType, plan: ReductionPlan): BigMemory | FloatMemory {
  if (dtype === "int64") return bigMemory(plan);
  return { own: new Float64Array(plan.size), whole: new Float64Array(plan.isLocal ? 0 : plan.all.size) };
}

interface FloatMemory {
  readonly own: Float64Array<ArrayBuffer>;
  readonly whole: Float64Array<ArrayBuffer>;
}

/** The extremes of an array's elements: all that this rank needs. Collective, unless each rank has all. */
function extremesOf({ plan, local, shape }: Prepared, op: "max" | "min", memory: BigMemory | FloatMemory) {
  if (!isBig(memory)) {
    extremes(plan, X, [local], shape, op, memory.own);
    return extremesOfAll(plan, op, memory.own, memory.whole);
  }
  const { own, whole } = memory;
  const worst = op === "max" ? -(2n ** 63n) : 2n ** 63n - 1n;
  const better = both(worst, ([value]) => `if (${value} ${op === "max" ? ">" : "<"} a0) a0 = ${value};`);
  inStep(plan, () => accumulate(X, [local], [elementsOf(plan, own, "int64")], shape, better));
  const { communicator } = plan.runtime;
  return together(plan, own, whole.fill(worst), (all) => void communicator.allReduce(all, { op, into: all }));
}

/** The largest or smallest of all elements, or along dimensions; NaN if one is, and 0 for -0. Collective. */
export function extreme(op: "max" | "min", array: BaseArray, options?: AxisOptions): Reduced<number | bigint> {
  return reduced(op, array, array.dtype, options, [], ({ plan }) => {
    checkOrdered(op, array, plan);
    return extremeMemory(array.dtype, plan);
  }, (prepared) => {
    const { plan, local, shape, dtype, memory } = prepared;
    const quick = dtype === "int64" ? null : extremesOnDevice(plan, X, [local], shape, op);
    if (quick !== null) return finishedOnDevice(prepared, withNumber("add", quick, 0)) as Reduced<number>;
    const found = extremesOf(prepared, op, prepared.made);
    if (!(found instanceof Float64Array)) return finishedBig(prepared, found);
    // 0 and -0 are equal: which one was met depends on the number of ranks.
    for (let i = 0; i < found.length; i++) found[i] += 0;
    if (plan.result === null) return found[0];
    return resultOf(plan, dtype, memory, (target) => fromFloat64(dtype, found, target.data));
  });
}

/**
 * Where the largest or smallest element is, the first one of several; NaN counts as one. Over all elements it is the index in C
 * order, along a dimension that along it. Collective.
 */
export function argumentOfExtreme(
  method: "argmax" | "argmin",
  array: BaseArray,
  options?: AxisOptions,
): Reduced<number> {
  const op = method === "argmax" ? "max" : "min";
  return reduced(method, array, "int32", options, [], ({ plan }, { axis }) => {
    checkOrdered(method, array, plan);
    if (Array.isArray(axis)) throw new TypeError(`${method} goes along one axis, a number, or over all: leave it out.`);
    const places = extremeMemory("float64", plan) as FloatMemory;
    const indices = canLookThrough(plan, array.local) ? null : indicesAlong(array, plan);
    return { values: extremeMemory(array.dtype, plan), places, indices };
  }, (prepared) => {
    const { plan, local, shape, made: { values, places, indices } } = prepared;
    if (indices === null) {
      const { own, whole } = values as FloatMemory;
      const place = firstExtreme(local, op, own);
      const [best] = extremesOfAll(plan, op, own, whole);
      places.own[0] = place !== null && (own[0] === best || own[0] !== own[0]) ? globalPlace(array, place) : Infinity;
      return finished(prepared, extremesOfAll(plan, "min", places.own, places.whole)) as Reduced<number>;
    }
    const isBest = apply("logicalOr", apply("equal", X, operand(1)), apply("isNaN", X));
    const place = indices.map((_, i) => operand(i + 2)).reduce((sum, index) => apply("add", sum, index));
    const where = apply("where", isBest, place, operand(2 + indices.length));
    const quick = isBig(values) ? null : extremesOnDevice(plan, X, [local], shape, op);
    if (quick !== null) {
      const [most] = quick.parts as [Elements];
      const beside = [local, { ...most, strides: plan.strides }, ...indices, { scalar: Infinity }];
      const found = extremesOnDevice(plan, where, beside, shape, "min")!;
      quick.free();
      return finishedOnDevice(prepared, found) as Reduced<number>;
    }
    const best = ownPart(plan, extremesOf(prepared, op, values), values.own);
    const parts: Part[] = [local, elementsOf(plan, best, isBig(values) ? "int64" : "float64"), ...indices, {
      scalar: Infinity,
    }];
    extremes(plan, where, parts, shape, "min", places.own);
    return finished(prepared, extremesOfAll(plan, "min", places.own, places.whole)) as Reduced<number>;
  });
}

/** Whether one place is wanted, among numbers that lie in C order in host memory. */
function canLookThrough({ result, stream }: ReductionPlan, local: LocalArray): boolean {
  return result === null && stream === null && local.isDense("C") && local.dtype !== "int64" && !isBits(local.dtype);
}

/** Elements among which one is looked for. */
const BLOCK = 4096;

/** The first extreme of a dense part, by its local place, and in `into` its value; null if there are no elements. */
function firstExtreme(local: LocalArray, op: "max" | "min", into: Float64Array<ArrayBuffer>): number | null {
  const { size, offset, dtype } = local;
  const data = local.data as Float64Array<ArrayBuffer>;
  const ofBlocks = (first: number, shape: readonly number[]): Float64Array => {
    const found = new Float64Array(shape[0]);
    const elements: Elements = { storage: data, dtype, offset: offset + first, strides: [shape[1], 1] };
    accumulate(X, [elements], [{ storage: found, dtype: "float64", offset: 0, strides: [1, 0] }], shape, better(op));
    return found;
  };
  const [whole, rest] = [Math.floor(size / BLOCK), size % BLOCK];
  const found = [...ofBlocks(0, [whole, BLOCK]), ...ofBlocks(whole * BLOCK, [rest > 0 ? 1 : 0, rest])];
  const isAhead = (value: number, best: number) =>
    best === best && (op === "max" ? !(value <= best) : !(value >= best));
  const block = found.reduce((best, value, i) => isAhead(value, found[best]) ? i : best, 0);
  into[0] = found[block] ?? (op === "max" ? -Infinity : Infinity);
  for (let i = block * BLOCK; i < size; i++) {
    const value = data[offset + i];
    if (value === into[0] || value !== value) return i;
  }
  return null;
}

/** The index in C order over all elements of one of this rank's, by its local one. */
function globalPlace({ shape, distribution, runtime, local }: BaseArray, place: number): number {
  let rest = place;
  const index = local.shape.toReversed().map((extent) => {
    const at = rest % extent;
    rest = Math.floor(rest / extent);
    return at;
  }).toReversed();
  return distribution.toGlobal(runtime.rank, index).reduce((sum, at, d) => sum * shape[d] + at, 0);
}

/** The contributions of the indices of the reduced dimensions to a place, each an array along its dimension. */
function indicesAlong(array: BaseArray, plan: ReductionPlan): Elements[] {
  const { shape, distribution, runtime } = array;
  const sets = distribution.indexSets(runtime.rank);
  const reduced = [...shape.keys()].filter((d) => plan.axes.includes(d));
  let factor = 1;
  return reduced.toReversed().map((d): Elements => {
    const data = new Float64Array(sets[d].count);
    let at = 0;
    for (const [start, end] of sets[d].ranges()) for (let i = start; i < end; i++) data[at++] = i * factor;
    factor *= shape[d];
    return { storage: data, dtype: "float64", offset: 0, strides: shape.map((_, other) => other === d ? 1 : 0) };
  });
}
