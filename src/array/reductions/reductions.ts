/**
 * Reductions of arrays: to one number, or along dimensions to a smaller array.
 *
 * All that may fail on one rank, memory too, comes inside the agreement of all ranks; what follows only computes and
 * communicates.
 *
 * @module
 */
import { fromFloat64 } from "../../dtype/conversion.ts";
import { type DType, dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { floatOf } from "../../dtype/promotion.ts";
import { DTypeError, ShapeError } from "../../errors.ts";
import { describe, readOptions } from "../../options.ts";
import { agree, exchange, type Facts } from "../../runtime/agreement.ts";
import { type BaseArray, type Held, runtimeOf } from "../base_array.ts";
import { bigSumOnDevice } from "../device_elements.ts";
import type { Accumulation, Elements, Part } from "../elementwise/loops.ts";
import { checkOwnArray } from "../elementwise/elementwise.ts";
import { accumulate } from "../elementwise/execution.ts";
import { isBits } from "../elementwise/javascript_loops.ts";
import { apply, cast, type Expression, operand } from "../elementwise/expression.ts";
import type { OperationName } from "../elementwise/names.ts";
import { LocalArray } from "../local_array.ts";
import {
  AXIS_KEYS,
  type AxisOptions,
  elementsOf,
  inStep,
  ownPart,
  planReduction,
  type ReductionPlan,
  resultMemory,
  resultOf,
  together,
} from "./plan.ts";
import { ANY, sizesOf } from "./device_slices.ts";
import { computeOnDevice, type DeviceValues, deviceVector, extremesOnDevice, sumOnDevice } from "./device_sums.ts";
import type { Terms } from "./exact_sums.ts";
import {
  better,
  extremes,
  extremesOfAll,
  type Known,
  LEAST_IN_UNITS,
  squaresByGuess,
  squaresOf,
  sumMemory,
  sumOf,
  unitOf,
} from "./sums.ts";

/** What came of a reduction: a number if no dimension was named, else the parts of an array. */
export type Reduced<T> = T | Held;

/** A reduction whose ranks have agreed: what is left is to compute. */
interface Prepared {
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
function reduced<Options extends Partial<AxisOptions>, T, R>(
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
function finished({ plan, dtype, memory }: Prepared, ...parts: readonly Float64Array<ArrayBuffer>[]): Reduced<Scalar> {
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
function finishedOnDevice({ plan, dtype }: Prepared, { expression, parts, free }: DeviceValues): Held {
  const { runtime, stream, size } = plan;
  const { distribution, order } = plan.result!;
  const local = LocalArray.empty(dtype, distribution.localShape(runtime.rank), order, stream);
  computeOnDevice(expression, parts, { storage: local.storage, dtype, offset: local.offset, strides: [1] }, size);
  free();
  return { runtime, local, distribution, order };
}

/** What an operation with a number of the script makes of vectors on a GPU. */
function withNumber(name: OperationName, { expression, parts, free }: DeviceValues, scalar: number): DeviceValues {
  return { expression: apply(name, expression, operand(parts.length)), parts: [...parts, { scalar }], free };
}

/** As {@linkcode finished}, of int64. */
function finishedBig({ plan, dtype, memory }: Prepared, results: BigInt64Array<ArrayBuffer>): Reduced<bigint> {
  if (plan.result === null) return results[0];
  return resultOf(plan, dtype, memory, (target) => void (target.data as BigInt64Array).set(results));
}

/** The parts of an expression of complex elements, or itself. */
function realParts(dtype: DType, expression: Expression): Expression[] {
  return dtypeInfo(dtype).isComplex ? [apply("real", expression), apply("imag", expression)] : [expression];
}

const X = operand(0);

/** An accumulation that takes in other accumulators as it does values. */
function both(start: number | bigint, take: Accumulation["take"]): Accumulation {
  return { start: [start], take, merge: take, isAnyOrder: typeof start === "bigint" };
}

// ---- sums -----------------------------------------------------------------------------------------------------------

/** The dtype of sums along dimensions: integers make int64. */
function sumDType(dtype: DType): DType {
  return dtypeInfo(dtype).isInteger ? "int64" : dtype;
}

/** What is added of an array's elements, of floats. */
function knownOf(dtype: DType, terms: Terms): Known {
  return dtypeInfo(dtype).isComplex ? {} : { terms };
}

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

interface BigMemory {
  readonly own: BigInt64Array<ArrayBuffer>;
  readonly whole: BigInt64Array<ArrayBuffer>;
}

function bigMemory({ size, isLocal, all }: ReductionPlan): BigMemory {
  return { own: new BigInt64Array(size), whole: new BigInt64Array(isLocal ? 0 : all.size) };
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

/** The sums of values along dimensions on the GPU that has all of them. */
function valuesOnDevice({ plan, local, shape }: Prepared): DeviceValues | null {
  return sumOnDevice(plan, X, [local], shape, sizesOf(local, "values"));
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

/** Options of norms. */
export interface NormOptions extends Partial<AxisOptions> {
  /** 2 or "fro" (the default): the root of the sum of squares; 1: the sum, Infinity: the largest of magnitudes. */
  ord?: "fro" | number;
}

/** The norm of all elements as one vector, or along dimensions. Collective. */
export function norm(array: BaseArray, options?: NormOptions): Reduced<number> {
  return reduced(
    "norm",
    array,
    dtypeInfo(floatOf(array.dtype)).real,
    options,
    ["ord"],
    ({ plan }, given) => {
      const ord = given.ord === "fro" ? 2 : given.ord ?? 2;
      if (ord !== 1 && ord !== 2 && ord !== Infinity) {
        throw new RangeError(`ord must be 1, 2, Infinity or "fro", not ${describe(ord)}.`);
      }
      const size = plan.isLocal ? plan.size : plan.all.size;
      const [units, own] = ord === 2
        ? [size, plan.isLocal ? 0 : plan.size].map((length) => new Float64Array(length))
        : [];
      return { ord, sums: sumMemory(plan), largest: new Float64Array(ord === 1 ? 0 : size), units, own };
    },
    (prepared) => {
      const { plan, local, shape, made: { ord, sums, largest, units, own } } = prepared;
      const magnitude = apply("abs", cast(floatOf(array.dtype), X));
      const quick = normOnDevice(prepared, magnitude, ord);
      if (quick !== null) return finishedOnDevice(prepared, quick) as Reduced<number>;
      if (ord === 1) {
        const known = knownOf(array.dtype, "magnitudes");
        return finished(prepared, sumOf(plan, magnitude, [local], shape, sums, known)) as Reduced<number>;
      }
      const guess = ord === 2 ? squaresByGuess(plan, magnitude, local, sums) : null;
      if (guess === null) extremes(plan, magnitude, [local], shape, "max", sums.own[0]);
      largest.set(extremesOfAll(plan, "max", sums.own[0], sums.whole[0]));
      for (let i = 0; i < largest.length; i++) if (largest[i] === -Infinity) largest[i] = 0;
      if (ord === Infinity) return finished(prepared, largest) as Reduced<number>;
      // Squares are taken in units of the largest magnitude, so that they neither overflow nor underflow.
      for (let i = 0; i < units.length; i++) units[i] = unitOf(largest[i]);
      const factors = ownPart(plan, units, own);
      // In their units the largest are about 1, except infinity and the smallest there are.
      const isKnown = largest.every((value) => value < Infinity && (value === 0 || value >= LEAST_IN_UNITS));
      const parts = [local, elementsOf(plan, factors)];
      const known = isKnown ? { bound: 1, isCut: guess !== null && guess(factors[0]) } : {};
      const squares = sumOf(plan, squaresOf(magnitude), parts, shape, sums, known);
      for (let i = 0; i < squares.length; i++) squares[i] = Math.sqrt(squares[i]) / units[i];
      return finished(prepared, squares) as Reduced<number>;
    },
  );
}

/** The norms of vectors along dimensions on the GPU that has all of them. */
function normOnDevice({ plan, local, shape }: Prepared, magnitude: Expression, ord: number): DeviceValues | null {
  if (ord === Infinity) return extremesOnDevice(plan, magnitude, [local], shape, "max");
  if (ord === 1) return sumOnDevice(plan, magnitude, [local], shape, sizesOf(local, "magnitudes"));
  const sums = sumOnDevice(plan, apply("square", cast("float64", magnitude)), [local], shape, ANY, true);
  return sums && { ...sums, expression: apply("sqrt", sums.expression) };
}

// ---- products -------------------------------------------------------------------------------------------------------

const MULTIPLY_BIG = both(1n, ([value]) => `a0 = BigInt.asIntN(64, a0 * ${value});`);

/** What products are multiplied by, or divided, that come near the ends of float64's range. */
const STEP = 2 ** 600;
const [UP, DOWN] = [STEP, 1 / STEP].map(String);
/** Between these are the squares of products whose product with another one is finite, and has all bits. */
const [LEAST, MOST] = [2 ** -1000, 2 ** 1000].map(String);
const factorOf = (square: string) => `${square} > ${MOST} ? ${DOWN} : ${square} < ${LEAST} ? ${UP} : 1.0`;
const STEPS = "(f < 1) - (f > 1) + (g < 1) - (g > 1)";

/**
 * Products whose steps the last accumulator counts: otherwise what becomes infinite or 0 on the way would depend on the order of
 * the factors, and on which rank has them.
 */
const MULTIPLY = multiplying(1, ([x]) => `
  const t = a0 * ${x}, square = t * t;
  if (square >= ${LEAST} && square <= ${MOST}) a0 = t;
  else {
    const f = ${factorOf(`${x} * ${x}`)}, v = a0 * (${x} * f), g = ${factorOf("v * v")};
    a0 = v * g; a1 += ${STEPS};
  }`);
const MULTIPLY_COMPLEX = multiplying(2, ([re, im]) => `
  const t = a0 * ${re} - a1 * ${im}, s = a0 * ${im} + a1 * ${re}, square = t * t + s * s;
  if (square >= ${LEAST} && square <= ${MOST}) { a0 = t; a1 = s; }
  else {
    const f = ${factorOf(`${re} * ${re} + ${im} * ${im}`)}, x = ${re} * f, y = ${im} * f;
    const v = a0 * x - a1 * y, w = a0 * y + a1 * x, g = ${factorOf("v * v + w * w")};
    a0 = v * g; a1 = w * g; a2 += ${STEPS};
  }`);

/** Products of numbers of so many parts. */
function multiplying(parts: 1 | 2, take: Accumulation["take"]): Accumulation {
  const merge = (others: readonly string[]) => `${take(others)} a${parts} += ${others[parts]};`;
  return { start: [1, 0, 0].slice(0, parts + 1), take, merge, isAnyOrder: false };
}

/** Memory for products that are no integers: this rank's accumulators; one after the other those of a rank, and of all. */
function productMemory({ runtime, size, isLocal, all }: ReductionPlan, { start }: Accumulation) {
  const make = (length: number) => new Float64Array(length);
  const length = isLocal ? 0 : start.length * all.size;
  return { own: start.map(() => make(size)), whole: make(length), gathered: make(length * runtime.size) };
}

/** The product of all elements, or along dimensions. Collective. */
export function prod(array: BaseArray, options?: AxisOptions): Reduced<Scalar> {
  const { dtype } = array;
  const { isComplex, isInteger } = dtypeInfo(dtype);
  const accumulation = isComplex ? MULTIPLY_COMPLEX : MULTIPLY;
  return reduced("prod", array, sumDType(dtype), options, [], ({ plan }) => {
    const isExact = dtype === "int64" || isInteger && plan.result !== null;
    return isExact ? bigMemory(plan) : productMemory(plan, accumulation);
  }, (prepared) => {
    const { plan, local, shape, made } = prepared;
    if (isBig(made)) return bigProducts(prepared, made);
    const wide = cast(isComplex ? "complex128" : "float64", X);
    const targets = made.own.map((vector) => elementsOf(plan, vector));
    inStep(plan, () => accumulate(wide, [local], targets, shape, accumulation));
    const found = plan.isLocal ? made.own : productsOfAll(plan, accumulation, made);
    const parts = found.slice(0, -1);
    takeSteps(parts, found.at(-1)!);
    return finished(prepared, ...parts);
  });
}

/** Products of integers as int64, which wrap around. */
function bigProducts(prepared: Prepared, { own, whole }: BigMemory): Reduced<bigint> {
  const { plan, local, shape } = prepared;
  inStep(plan, () => accumulate(cast("int64", X), [local], [elementsOf(plan, own, "int64")], shape, MULTIPLY_BIG));
  const { communicator } = plan.runtime;
  const all = together(plan, own, whole.fill(1n), (all) => void communicator.allReduce(all, { op: "prod", into: all }));
  return finishedBig(prepared, all);
}

/** The products of what all ranks have, in their order, by what MPI cannot do: it knows no steps. Collective. */
function productsOfAll(
  plan: ReductionPlan,
  { start, merge }: Accumulation,
  { own, whole, gathered }: ReturnType<typeof productMemory>,
): Float64Array<ArrayBuffer>[] {
  const { runtime, all: { size } } = plan;
  const vectors = own.map((vector, i) => {
    const part = whole.subarray(i * size, (i + 1) * size).fill(Number(start[i]));
    return together(plan, vector, part, () => {});
  });
  runtime.communicator.allGather(whole, { into: gathered });
  const dtype = "float64";
  const operands = own.map((_, i): Elements => ({
    storage: gathered,
    dtype,
    offset: i * size,
    strides: [whole.length, 1],
  }));
  const targets = vectors.map((storage): Elements => ({ storage, dtype, offset: 0, strides: [0, 1] }));
  const take = ([first]: readonly string[]) => merge([first, ...own.slice(1).map((_, i) => `x${i + 1}`)]);
  accumulate(X, operands, targets, [runtime.size, size], { start, take, merge, isAnyOrder: false });
  return vectors;
}

/** What is left of products when their steps are taken, at most three, beyond which they are infinite or 0. */
function takeSteps(parts: readonly Float64Array<ArrayBuffer>[], steps: Float64Array<ArrayBuffer>): void {
  for (let i = 0; i < steps.length; i++) {
    if (steps[i] === 0) continue;
    const factor = steps[i] > 0 ? STEP : 1 / STEP;
    for (let left = Math.min(3, Math.abs(steps[i])); left > 0; left--) for (const part of parts) part[i] *= factor;
  }
}

// ---- extremes -------------------------------------------------------------------------------------------------------

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

const isBig = (memory: { readonly own: unknown }): memory is BigMemory => memory.own instanceof BigInt64Array;

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

// ---- truth ----------------------------------------------------------------------------------------------------------

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
