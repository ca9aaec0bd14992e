/**
 * Products of all elements of an array.
 *
 * @module
 */
import { dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import type { BaseArray } from "../base_array.ts";
import { accumulate } from "../elementwise/execution.ts";
import { cast } from "../elementwise/expression.ts";
import type { Accumulation, Elements } from "../elementwise/loops.ts";
import { type AxisOptions, elementsOf, inStep, type ReductionPlan, together } from "./plan.ts";
import {
  type BigMemory,
  bigMemory,
  both,
  finished,
  finishedBig,
  isBig,
  type Prepared,
  type Reduced,
  reduced,
  sumDType,
  X,
} from "./reduction.ts";

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
