/**
 * What a transform computes: its type, its axes, its shapes, how it is scaled.
 *
 * @module
 */
import type { Order } from "../array/layout.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { complexOf } from "../dtype/promotion.ts";
import type { Distribution } from "../distribution/mod.ts";
import { ShapeError } from "../errors.ts";

/** From complex to complex numbers, from real to complex ones, or back. */
export type FFTType = "c2c" | "r2c" | "c2r";

/** Forward has the exponent -2 pi i j k / n, inverse its conjugate. */
export type FFTDirection = "forward" | "inverse";

/**
 * What the result is multiplied by, N being the number of elements that are transformed together: `backward` 1/N in the
 * inverse, `forward` 1/N forward, `ortho` 1/sqrt(N) in both, `none` nothing.
 */
export type FFTNorm = "backward" | "ortho" | "forward" | "none";

/** Whether the last axis of what `c2r` returns has an even or an odd number of elements. */
export type LastAxisParity = "even" | "odd";

/** The types of transforms. */
export const FFT_TYPES: readonly FFTType[] = ["c2c", "r2c", "c2r"];

/** The directions. */
export const FFT_DIRECTIONS: readonly FFTDirection[] = ["forward", "inverse"];

/** The norms. */
export const FFT_NORMS: readonly FFTNorm[] = ["backward", "ortho", "forward", "none"];

/** The parities. */
export const PARITIES: readonly LastAxisParity[] = ["even", "odd"];

/** What is transformed, wherever it lies. */
export interface FFTShape {
  /** The type. */
  readonly type: FFTType;
  /** The axes that are transformed, ascending. */
  readonly axes: readonly number[];
  /** The axis of which `r2c` keeps only the first half; `c2r` makes it whole again. Null for `c2c`. */
  readonly halved: number | null;
  /** The shape of the operand. */
  readonly operand: readonly number[];
  /** The shape of the result. */
  readonly result: readonly number[];
}

/** The types of real numbers, and of the parts of complex ones, that are transformed. */
export type FFTPrecision = "float16" | "float32" | "float64";

/** A transform of an array that is distributed. */
export interface FFTProblem extends FFTShape {
  /** The type of the real numbers, and of the parts of complex ones. */
  readonly precision: FFTPrecision;
  /** The memory order of operand and result. */
  readonly order: Order;
  /** The distribution of the operand, bound. */
  readonly from: Distribution;
  /** The distribution of the result, bound. */
  readonly to: Distribution;
}

/** What the spectrum of as many real numbers has: the others are conjugates of these. */
export function halfOf(extent: number): number {
  return Math.floor(extent / 2) + 1;
}

/**
 * What a transform of an array of this shape is. The last of the axes is the one that is halved, or made whole again.
 *
 * @throws {ShapeError} if there is nothing to transform along an axis.
 */
export function shapeOf(
  type: FFTType,
  axes: readonly number[],
  operand: readonly number[],
  parity: LastAxisParity = "even",
): FFTShape {
  const last = axes[axes.length - 1];
  const result = type === "c2c"
    ? operand
    : operand.with(last, type === "r2c" ? halfOf(operand[last]) : 2 * (operand[last] - 1) + (parity === "odd" ? 1 : 0));
  for (const axis of axes) {
    if (operand[axis] > 0 && result[axis] > 0) continue;
    const problem = operand[axis] === 0
      ? `has no elements along axis ${axis}, so that nothing can be transformed.`
      : `has one element along axis ${axis}, of which no even number of elements is made. Pass lastAxisParity: "odd".`;
    throw new ShapeError(`The operand of shape [${operand.join(", ")}] ${problem}`);
  }
  return { type, axes: axes.toSorted((a, b) => a - b), halved: type === "c2c" ? null : last, operand, result };
}

/** The elements that are transformed together. */
export function transformSize({ type, axes, operand, result }: FFTShape): number {
  const real = type === "c2r" ? result : operand;
  return axes.reduce((product, axis) => product * real[axis], 1);
}

/** What the result is multiplied by. */
export function scaleOf(shape: FFTShape, direction: FFTDirection, norm: FFTNorm): number {
  if (norm === "ortho") return 1 / Math.sqrt(transformSize(shape));
  const isScaled = norm === "backward" ? direction === "inverse" : norm === "forward" && direction === "forward";
  return isScaled ? 1 / transformSize(shape) : 1;
}

/** Bytes of a real number. */
export function itemSizeOf({ precision }: Pick<FFTProblem, "precision">): number {
  return dtypeInfo(precision).itemSize;
}

/** The dtypes of operand and result. */
export function dtypesOf({ type, precision }: Pick<FFTProblem, "type" | "precision">): {
  operand: DType;
  result: DType;
} {
  const complex = complexOf(precision);
  return { operand: type === "r2c" ? precision : complex, result: type === "c2r" ? precision : complex };
}
