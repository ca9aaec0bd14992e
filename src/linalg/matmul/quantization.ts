/**
 * Scales of 8-bit floating point operands: D = scaleD epilog(alpha scaleA scaleB op(A) op(B) + beta scaleC C).
 *
 * A tensor has one scale, or A and B each have an array of them, whose shape tells what shares a scale:
 *
 * | mode | op(A) or op(B) | scales of an A of [k, m] that is transposed |
 * |---|---|---|
 * | `tensor` | all of it | a number |
 * | `outer_vector` | a row of op(A), a column of op(B) | [1, m] |
 * | `vector_128` | 128 elements of it along k | [ceil(k / 128), m] |
 * | `block_128x128` | 128 of those | [ceil(k / 128), ceil(m / 128)] |
 *
 * @module
 */
import { checkAlive } from "../../array/base_array.ts";
import { DistributedArray } from "../../array/distributed_array.ts";
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { DTypeError, ShapeError } from "../../errors.ts";
import { describe, keysOf, readOptions } from "../../options.ts";

/** What shares a scale, see the module's table. */
export type ScaleMode = "tensor" | "outer_vector" | "vector_128" | "block_128x128";

/** One scale a tensor: a number, or an array of one number. The same on all ranks. */
export type QuantizationScale = number | Float32Array | readonly [number];

/**
 * The scales of 8-bit operands. `a` and `b` multiply what is read, `d` what is written.
 *
 * A and B may also have arrays of scales each, of float32 and distributed in any way, which every execution reads: a scale
 * for a row of op(A) and a column of op(B); for 128 elements of those along k; or in one of the two for 128 x 128 elements.
 * The shape tells which: for an A of [k, m] that is transposed [1, m], [ceil(k / 128), m] or [ceil(k / 128), ceil(m / 128)],
 * for one of [m, k] the same turned round, and so for B with n. D is then 16 or 32 bits wide.
 */
export interface QuantizationScales {
  /** The scale of A. Required if A is 8 bits wide. */
  a?: QuantizationScale | DistributedArray;
  /** The scale of B. Required if B is 8 bits wide. */
  b?: QuantizationScale | DistributedArray;
  /** The scale of C. Required if C is 8 bits wide. */
  c?: QuantizationScale;
  /** The scale of D. Required if D is 8 bits wide. */
  d?: QuantizationScale;
}

/** Scales as plain numbers, or arrays of them; a matrix without one is not scaled. */
export interface QuantizationValues {
  readonly a?: number | DistributedArray;
  readonly b?: number | DistributedArray;
  readonly c?: number;
  readonly d?: number;
}

/** What shares a scale in each factor. */
export interface Scaling {
  readonly a: ScaleMode;
  readonly b: ScaleMode;
}

/** The dtypes of the matrices of a product. */
export interface OperandTypes {
  readonly a: DType;
  readonly b: DType;
  /** The type of C, or null. */
  readonly c: DType | null;
  readonly d: DType;
}

/** A factor as it is stored. */
export interface ScaledFactor {
  /** Its global rows and columns. */
  readonly shape: readonly [number, number];
  /** The dimension that is summed over. */
  readonly summed: 0 | 1;
}

export interface ScaledFactors {
  readonly a: ScaledFactor;
  readonly b: ScaledFactor;
}

/** Elements along a dimension that share a scale of a block. */
export const SCALE_BLOCK = 128;

/** The keys of {@linkcode QuantizationScales}: the matrices. */
export const SCALE_KEYS = keysOf<QuantizationScales>({ a: true, b: true, c: true, d: true });

/** Whether a dtype is an 8-bit floating point type, whose operands need scales. */
export function isQuantized(dtype: DType | null): boolean {
  return dtype !== null && dtypeInfo(dtype).itemSize === 1 && !dtypeInfo(dtype).isInteger;
}

/**
 * The scales of a product: numbers, and arrays of A and B, whose mode {@linkcode scalingOf} tells.
 *
 * @throws {DTypeError} if a scale is missing or not allowed.
 * @throws {TypeError} if a scale is neither one number nor an array of scales.
 * @throws {RangeError} if a scale is not positive and finite.
 * @throws {StateError} if an array of scales was freed.
 */
export function quantizationValues(scales: QuantizationScales | undefined, types: OperandTypes): QuantizationValues {
  const given = readOptions("quantizationScales", scales, SCALE_KEYS);
  const needed = SCALE_KEYS.filter((name) => isQuantized(types[name]));
  const missing = needed.filter((name) => given[name] === undefined);
  if (missing.length > 0) {
    throw new DTypeError(
      `quantizationScales needs a scale for ${list(missing, types)}; got ${
        scales ? `{ ${Object.keys(given).join(", ")} }` : "none"
      }. Pass quantizationScales: { ${needed.map((name) => `${name}: 1`).join(", ")} }, with your scales.`,
    );
  }
  const forbidden = SCALE_KEYS.filter((name) => given[name] !== undefined && !needed.includes(name));
  if (forbidden.length > 0) {
    throw new DTypeError(
      `quantizationScales scales 8-bit floating point matrices only; leave out ${list(forbidden, types)}.`,
    );
  }
  const value = (name: typeof SCALE_KEYS[number]) => {
    const scale = given[name]!;
    const isFactor = name === "a" || name === "b";
    return isFactor && scale instanceof DistributedArray
      ? checkArray(`quantizationScales.${name}`, scale)
      : scaleOf(`quantizationScales.${name}`, scale as QuantizationScale);
  };
  return Object.fromEntries(needed.map((name) => [name, value(name)]));
}

function checkArray(name: string, scales: DistributedArray): DistributedArray {
  checkAlive(name, scales);
  if (scales.dtype === "float32") return scales;
  throw new DTypeError(
    `${name} is an array of ${scales.dtype}; scales are float32. Convert it: to({ dtype: "float32" }).`,
  );
}

/**
 * What shares a scale in A and B, or null if each is scaled as a whole.
 *
 * @throws {ShapeError} if an array of scales fits no mode.
 * @throws {DTypeError} if the modes do not go together, or D is 8 bits wide.
 */
export function scalingOf({ a, b }: QuantizationValues, factors: ScaledFactors, types: OperandTypes): Scaling | null {
  const modes = { a: modeOf("a", a, factors.a), b: modeOf("b", b, factors.b) };
  const scaling = { a: beside(modes.a, modes.b, factors.a), b: beside(modes.b, modes.a, factors.b) };
  if (scaling.a === "tensor" && scaling.b === "tensor") return null;
  if (!ALLOWED.includes(`${scaling.a} ${scaling.b}`)) {
    throw new DTypeError(
      `quantizationScales: a scales by ${scaling.a} and b by ${scaling.b}, which do not go together; allowed: ${
        ALLOWED.map((pair) => pair.replace(" ", " with ")).join(", ")
      }. Repeat the coarser scales, or pass both as numbers.`,
    );
  }
  if (isQuantized(types.d)) {
    throw new DTypeError(
      `quantizationScales: arrays of scales need a D of 16 or 32 bits, and D is ${types.d}. Pass resultType: ` +
        `"bfloat16", or one scale a tensor.`,
    );
  }
  return scaling;
}

/** What cuBLASLt multiplies: two blocks of 128 x 128 have no kernel. */
const ALLOWED: readonly string[] = [
  "tensor tensor",
  "outer_vector outer_vector",
  "vector_128 vector_128",
  "vector_128 block_128x128",
  "block_128x128 vector_128",
];

/** A factor's mode beside the other's: with one block along what is summed two modes have the same shape. */
function beside(own: ScaleMode, other: ScaleMode, { shape, summed }: ScaledFactor): ScaleMode {
  const isEither = own === "outer_vector" && shape[summed] <= SCALE_BLOCK;
  return isEither && other === "block_128x128" ? "vector_128" : own;
}

function modeOf(name: "a" | "b", scales: number | DistributedArray | undefined, factor: ScaledFactor): ScaleMode {
  if (scales === undefined || typeof scales === "number") return "tensor";
  const { shape, summed } = factor;
  const kept = summed === 0 ? 1 : 0;
  const shapeFor = (alongSummed: number, alongKept: number) =>
    summed === 0 ? [alongSummed, alongKept] : [alongKept, alongSummed];
  const blocks = (dimension: 0 | 1) => Math.ceil(shape[dimension] / SCALE_BLOCK);
  const shapes: [ScaleMode, number[]][] = [
    ["outer_vector", shapeFor(1, shape[kept])],
    ["vector_128", shapeFor(blocks(summed), shape[kept])],
    ["block_128x128", shapeFor(blocks(summed), blocks(kept))],
  ];
  const found = shapes.find(([, allowed]) => allowed.join() === scales.shape.join());
  if (found) return found[0];
  throw new ShapeError(
    `quantizationScales.${name} has shape [${scales.shape}], but ${name} is [${shape}] and is summed over dimension ` +
      `${summed}; allowed: ${shapes.map(([mode, allowed]) => `[${allowed}] (${mode})`).join(", ")}, or a number.`,
  );
}

/** How many indices of a dimension share a scale, if there are so many scales along it. */
export function indicesPerScale(extent: number, scales: number): number {
  return scales === extent ? 1 : scales === 1 ? extent : SCALE_BLOCK;
}

/**
 * Refuse scales of another mode than those that a product was made with.
 *
 * @throws {ShapeError} naming what differs.
 */
export function checkSameScaling(given: Scaling | null, made: Scaling | null): void {
  for (const name of ["a", "b"] as const) {
    const [now, before] = [given?.[name] ?? "tensor", made?.[name] ?? "tensor"];
    if (now === before) continue;
    throw new ShapeError(
      `quantizationScales.${name} scales by ${now}; this Matmul was made for scales by ${before}. Make a new Matmul.`,
    );
  }
}

/**
 * Refuse arrays of scales that were freed since they were given.
 *
 * @throws {StateError} naming the factor.
 */
export function checkScalesAlive({ a, b }: QuantizationValues): void {
  if (typeof a === "object") checkArray("quantizationScales.a", a);
  if (typeof b === "object") checkArray("quantizationScales.b", b);
}

/** The scales in a form that ranks can compare. */
export function scaleFacts(values: QuantizationValues): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name,
      value instanceof DistributedArray ? `[${value.shape}], ${value.distribution}, order ${value.order}` : value,
    ]),
  );
}

export function scaleOf(name: string, scale: QuantizationScale): number {
  const value = typeof scale === "number" ? scale : scale?.length === 1 ? scale[0] : undefined;
  if (typeof value !== "number") {
    const given = describeScale(scale);
    throw new TypeError(`${name} must be one number a tensor: a number or an array of one; got ${given}.`);
  }
  // GPUs take it as one.
  const rounded = Math.fround(value);
  if (!(rounded > 0 && rounded < Infinity)) {
    throw new RangeError(`${name} must be positive and finite as a float32; got ${value}.`);
  }
  return value;
}

function describeScale(scale: unknown): string {
  if (scale instanceof DistributedArray) return `a DistributedArray of shape [${scale.shape}]`;
  return scale instanceof Float32Array ? `an array of ${scale.length}` : describe(scale);
}

function list(names: readonly ("a" | "b" | "c" | "d")[], types: OperandTypes): string {
  return names.map((name) => `${name} (${types[name] ?? "not there"})`).join(", ");
}
