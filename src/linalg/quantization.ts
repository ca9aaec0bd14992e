/**
 * Scales of 8-bit floating point operands: D = scaleD epilog(alpha scaleA scaleB op(A) op(B) + beta scaleC C).
 *
 * @module
 */
import { type DType, dtypeInfo } from "../array/dtype.ts";
import { DTypeError } from "../errors.ts";
import { checkKeys } from "../options.ts";

/** One scale a tensor: a number, or an array of one number. The same on all ranks. */
export type QuantizationScale = number | Float32Array | readonly [number];

/** The scales of 8-bit operands. `a` and `b` multiply what is read, `d` what is written. */
export interface QuantizationScales {
  /** The scale of A. Required if A is 8 bits wide. */
  a?: QuantizationScale;
  /** The scale of B. Required if B is 8 bits wide. */
  b?: QuantizationScale;
  /** The scale of C. Required if C is 8 bits wide. */
  c?: QuantizationScale;
  /** The scale of D. Required if D is 8 bits wide. */
  d?: QuantizationScale;
}

/** Scales as plain numbers; a matrix without one is not scaled. */
export interface QuantizationValues {
  /** The scale of A. */
  readonly a?: number;
  /** The scale of B. */
  readonly b?: number;
  /** The scale of C. */
  readonly c?: number;
  /** The scale of D. */
  readonly d?: number;
}

/** The dtypes of the matrices of a product. */
export interface OperandTypes {
  /** The type of A. */
  readonly a: DType;
  /** The type of B. */
  readonly b: DType;
  /** The type of C, or null. */
  readonly c: DType | null;
  /** The type of D. */
  readonly d: DType;
}

const MATRICES = ["a", "b", "c", "d"] as const;

/** Whether a dtype is an 8-bit floating point type, whose operands need scales. */
export function isQuantized(dtype: DType | null): boolean {
  return dtype !== null && dtypeInfo(dtype).itemSize === 1 && !dtypeInfo(dtype).isInteger;
}

/**
 * The scales of a product as numbers.
 *
 * @throws {DTypeError} if a scale is missing or not allowed.
 * @throws {TypeError} if a scale is not one number.
 * @throws {RangeError} if a scale is not positive and finite.
 */
export function quantizationValues(scales: QuantizationScales | undefined, types: OperandTypes): QuantizationValues {
  checkKeys("quantizationScales", scales, MATRICES);
  const given = scales ?? {};
  const needed = MATRICES.filter((name) => isQuantized(types[name]));
  const missing = needed.filter((name) => given[name] === undefined);
  if (missing.length > 0) {
    throw new DTypeError(
      `quantizationScales needs a scale for ${list(missing, types)}; got ${
        scales ? `{ ${Object.keys(scales).join(", ")} }` : "none"
      }. Pass quantizationScales: { ${needed.map((name) => `${name}: 1`).join(", ")} }, with your scales.`,
    );
  }
  const forbidden = MATRICES.filter((name) => given[name] !== undefined && !needed.includes(name));
  if (forbidden.length > 0) {
    throw new DTypeError(
      `quantizationScales scales 8-bit floating point matrices only; leave out ${list(forbidden, types)}.`,
    );
  }
  return Object.fromEntries(needed.map((name) => [name, scaleOf(`quantizationScales.${name}`, given[name]!)]));
}

/** One scale as a number. */
export function scaleOf(name: string, scale: QuantizationScale): number {
  const value = typeof scale === "number" ? scale : scale.length === 1 ? scale[0] : undefined;
  if (typeof value !== "number") {
    throw new TypeError(`${name} must be one number a tensor: a number or an array of one; got ${describe(scale)}.`);
  }
  if (!(value > 0 && value < Infinity)) {
    throw new RangeError(`${name} must be positive and finite; got ${value}.`);
  }
  return value;
}

function describe(value: unknown): string {
  return ArrayBuffer.isView(value) || Array.isArray(value)
    ? `an array of ${(value as unknown as ArrayLike<unknown>).length}`
    : String(value);
}

function list(names: readonly ("a" | "b" | "c" | "d")[], types: OperandTypes): string {
  return names.map((name) => `${name} (${types[name] ?? "not there"})`).join(", ");
}
