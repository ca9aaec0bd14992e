/**
 * Sums along dimensions on a GPU that has all elements of its results: nothing of them comes to the host.
 *
 * A sample of each result's elements tells where all are probably to be cut. Beside the slices it is found between which sizes
 * the elements are; where one says that the slices may lack bits, the host does all of it with more care (see sums.ts).
 *
 * @module
 */
import type { Stream } from "../../gpu/stream.ts";
import { DeviceBuffer } from "../../memory/device_buffer.ts";
import { CUDA } from "../elementwise/cuda.ts";
import { prepareOnDevice } from "../elementwise/device_kernel.ts";
import { accumulate } from "../elementwise/execution.ts";
import { apply, cast, compile, type Expression, formula, operand } from "../elementwise/expression.ts";
import { type Elements, type Part, typeOf } from "../elementwise/loops.ts";
import { cuttingAndMeasuring, reachOf, type Sizes } from "./device_slices.ts";
import { SLICES } from "./exact_sums.ts";
import type { ReductionPlan } from "./plan.ts";
import { better, bitsFor, MARGIN } from "./sums.ts";

/** What an expression of vectors on a GPU is made of. */
export interface DeviceValues {
  readonly expression: Expression;
  readonly parts: readonly Part[];
  /** Gives the memory of the parts back, in the order of the stream. */
  readonly free: () => void;
}

/** A vector of float64 for each result of this rank, on its GPU. */
export function deviceVector(stream: Stream, size: number): Elements & { readonly storage: DeviceBuffer } {
  return { storage: new DeviceBuffer(stream, 8 * size), dtype: "float64", offset: 0, strides: [1] };
}

/** Write an expression of vectors into one. */
export function computeOnDevice(expression: Expression, parts: readonly Part[], target: Elements, size: number): void {
  prepareOnDevice(compile(expression, parts.map(typeOf), CUDA), parts, target, [size])();
}

/** The extremes of an expression along dimensions, on a GPU that has all elements of its results; null elsewhere. */
export function extremesOnDevice(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  op: "max" | "min",
): DeviceValues | null {
  if (!isAllOnDevice(plan, shape)) return null;
  const found = deviceVector(plan.stream!, plan.size);
  accumulate(expression, parts, [{ ...found, strides: plan.strides }], shape, better(op));
  return { expression: operand(0), parts: [found], free: () => found.storage.free() };
}

/** Whether a GPU has all elements of vectors of results, and there are some. */
function isAllOnDevice({ stream, isLocal, result, size }: ReductionPlan, shape: readonly number[]): boolean {
  return stream !== null && isLocal && result !== null && size > 0 && !shape.includes(0);
}

/** Elements along the reduced dimensions that a sample has, at least, and how many over all results. */
const SAMPLE = { each: 16, all: 16384 };

/** The first indices along the reduced dimensions, the last one's most. */
function sampleAlong({ axes, size }: ReductionPlan, shape: readonly number[]): number[] {
  let left = Math.max(SAMPLE.each, Math.floor(SAMPLE.all / size));
  return shape.map((extent, d) => ({ extent, d })).toReversed().map(({ extent, d }) => {
    if (!axes.includes(d)) return extent;
    const taken = Math.min(extent, Math.max(1, left));
    left = Math.floor(left / taken);
    return taken;
  }).toReversed();
}

/** Squares are taken of these sizes, so that they neither overflow nor underflow. */
const SQUARES = { least: 2 ** -600, most: 2 ** 600 };

/**
 * The sums of an expression along dimensions, rounded once, as a formula of vectors on the GPU; null if some are not to be had
 * like this.
 */
export function sumOnDevice(
  plan: ReductionPlan,
  expression: Expression,
  parts: readonly Part[],
  shape: readonly number[],
  sizes: Sizes,
  ofSquares = false,
): DeviceValues | null {
  if (!isAllOnDevice(plan, shape)) return null;
  const { size, strides } = plan;
  const bits = bitsFor(plan);
  const real: Expression = cast("float64", expression);
  const vectors = Array.from({ length: 1 + SLICES + 2 }, () => deviceVector(plan.stream!, size));
  const free = () => vectors.forEach(({ storage }) => storage.free());
  const [cuts, ...others] = vectors;
  const along = (vector: Elements): Elements => ({ ...vector, strides });
  const [slices, [most, least]] = [others.slice(0, sizes.slices), others.slice(SLICES)];
  accumulate(apply("abs", real), parts, [along(most)], sampleAlong(plan, shape), better("max"));
  computeOnDevice(formula(`H.cutOf(a, ${MARGIN * 2 ** bits})`, operand(0)), [most], cuts, size);
  accumulate(
    real,
    [...parts, along(cuts)],
    [...slices, most, least].map(along),
    shape,
    cuttingAndMeasuring(parts.length, bits, sizes, (value) => `Math.abs(${value})`),
  );
  const worst = new Float64Array(1);
  const isIn = ofSquares ? `&& b >= ${SQUARES.least} && b <= ${SQUARES.most}` : "";
  const doubt = formula(
    `+!(b <= a * ${2 ** -bits} && c >= a * ${reachOf(bits, sizes)} ${isIn})`,
    ...[0, 1, 2].map(operand),
  );
  accumulate(
    doubt,
    [cuts, most, least],
    [{ storage: worst, dtype: "float64", offset: 0, strides: [0] }],
    [size],
    better("max"),
  );
  if (worst[0] !== 0) {
    free();
    return null;
  }
  const totals = Array.from({ length: SLICES }, (_, i) => i < sizes.slices ? operand(i) : null);
  const code = `H.roundedSum(${totals.map((total, i) => total === null ? "0.0" : "abcd"[i]).join(", ")})`;
  return { expression: formula(code, ...totals.filter((total) => total !== null)), parts: slices, free };
}
