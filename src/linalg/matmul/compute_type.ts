/**
 * Which dtypes may be multiplied, what products may be summed in, and what comes out: cuBLASMp's tables.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { DTypeError } from "../../errors.ts";
import type { AccumulatorDType } from "../../dtype/dtype.ts";

/** What products are summed in, the names of `cublasComputeType_t` in lower snake case. */
export type ComputeType =
  | "float16"
  | "float16_pedantic"
  | "float32"
  | "float32_pedantic"
  | "float32_fast_float16"
  | "float32_fast_bfloat16"
  | "float32_fast_tf32"
  | "float32_emulated_16bfx9"
  | "float64"
  | "float64_pedantic"
  | "float64_emulated_fixedpoint"
  | "int32"
  | "int32_pedantic";

/** The type of alpha and beta. */
export type ScaleType = "float16" | "float32" | "float64" | "complex64" | "complex128";

export const COMPUTE_TYPES: readonly ComputeType[] = [
  "float16",
  "float16_pedantic",
  "float32",
  "float32_pedantic",
  "float32_fast_float16",
  "float32_fast_bfloat16",
  "float32_fast_tf32",
  "float32_emulated_16bfx9",
  "float64",
  "float64_pedantic",
  "float64_emulated_fixedpoint",
  "int32",
  "int32_pedantic",
];

export const SCALE_TYPES: readonly ScaleType[] = ["float16", "float32", "float64", "complex64", "complex128"];

/** The compute type of an accumulator, if none is asked for. */
export function defaultComputeType(accumulator: AccumulatorDType): ComputeType {
  return accumulator === "float64" || accumulator === "complex128" ? "float64" : "float32";
}

/** The row of the table for a pair of factor dtypes. */
interface Rule {
  /** The compute types that are accepted, the default first. */
  readonly compute: readonly ComputeType[];
  /** The dtypes that D may have, given the compute type. */
  readonly results: readonly DType[];
}

const FLOAT32: readonly ComputeType[] = ["float32", "float32_pedantic"];
const FLOAT32_FAST: readonly ComputeType[] = [
  ...FLOAT32,
  "float32_fast_float16",
  "float32_fast_bfloat16",
  "float32_fast_tf32",
  "float32_emulated_16bfx9",
];
const FLOAT64: readonly ComputeType[] = ["float64", "float64_pedantic", "float64_emulated_fixedpoint"];

const RULES: Readonly<Record<string, Rule>> = {
  "float16,float16": { compute: [...FLOAT32, "float16", "float16_pedantic"], results: ["float16", "float32"] },
  "bfloat16,bfloat16": { compute: FLOAT32, results: ["bfloat16", "float32"] },
  "float32,float32": { compute: FLOAT32_FAST, results: ["float32"] },
  "complex64,complex64": { compute: FLOAT32_FAST, results: ["complex64"] },
  "float64,float64": { compute: FLOAT64, results: ["float64"] },
  "complex128,complex128": { compute: FLOAT64, results: ["complex128"] },
  "float8_e4m3,float8_e4m3": { compute: ["float32"], results: ["float8_e4m3", "float16", "bfloat16", "float32"] },
  "float8_e4m3,float8_e5m2": {
    compute: ["float32"],
    results: ["float8_e4m3", "float8_e5m2", "float16", "bfloat16", "float32"],
  },
  "float8_e5m2,float8_e4m3": {
    compute: ["float32"],
    results: ["float8_e5m2", "float8_e4m3", "float16", "bfloat16", "float32"],
  },
};

const PAIRS = Object.keys(RULES).map((pair) => pair.replace(",", " x ")).join(", ");

export interface GivenTypes {
  a: DType;
  b: DType;
  /** The dtype of C, or null. */
  c: DType | null;
  /** The dtype of D that was asked for. */
  resultType?: DType | undefined;
  computeType?: ComputeType | undefined;
  scaleType?: ScaleType | undefined;
}

export interface ProductTypes {
  readonly d: DType;
  readonly computeType: ComputeType;
  /** The type of alpha and beta. */
  readonly scaleType: ScaleType;
  /** In what a CPU sums: the compute type's full precision, never less. */
  readonly accumulator: AccumulatorDType;
}

/**
 * The types of a product, with defaults for those that were left out.
 *
 * @throws {DTypeError} saying what is allowed.
 */
export function resolveTypes(given: GivenTypes): ProductTypes {
  const { a, b, c } = given;
  const rule = RULES[`${a},${b}`];
  if (!rule) throw new DTypeError(`matmul cannot multiply ${a} by ${b}. ${advice(a, b)}Allowed pairs: ${PAIRS}.`);
  const computeType = given.computeType ?? rule.compute[0];
  if (!rule.compute.includes(computeType)) {
    throw new DTypeError(
      `computeType ${computeType} does not fit ${a} x ${b}; allowed: ${rule.compute.join(", ")}.`,
    );
  }
  const accumulator = accumulatorOf(computeType, dtypeInfo(a).isComplex);
  const scaleType = scaleTypeOf(computeType, accumulator);
  if (given.scaleType !== undefined && given.scaleType !== scaleType) {
    throw new DTypeError(
      `scaleType ${given.scaleType} does not fit computeType ${computeType} for ${a}; allowed: ${scaleType}.`,
    );
  }
  const d = given.resultType ?? c ?? a;
  const results = computeType.startsWith("float16") ? ["float16"] : rule.results;
  if (!results.includes(d)) {
    const from = given.resultType ? "resultType" : c ? "c's dtype" : "a's dtype";
    throw new DTypeError(
      `${from} ${d} is no result of ${a} x ${b} with computeType ${computeType}; allowed: ${results.join(", ")}.`,
    );
  }
  if (c) {
    const addends = dtypeInfo(d).itemSize === 1 ? ["float16", "bfloat16"] : [d];
    if (!addends.includes(c)) {
      throw new DTypeError(
        `c is ${c}, but a result of ${d} needs c of ${addends.join(" or ")}. Convert c with c.to({ dtype: "${
          addends[0]
        }" }), or change resultType.`,
      );
    }
  }
  return { d, computeType, scaleType, accumulator };
}

/** The type of alpha and beta. */
export function scaleTypeOf(computeType: ComputeType, accumulator: AccumulatorDType): ScaleType {
  return computeType.startsWith("float16") ? "float16" : accumulator;
}

function accumulatorOf(computeType: ComputeType, isComplex: boolean): AccumulatorDType {
  if (computeType.startsWith("float64")) return isComplex ? "complex128" : "float64";
  return isComplex ? "complex64" : "float32";
}

function advice(a: DType, b: DType): string {
  if (dtypeInfo(a).isInteger || dtypeInfo(b).isInteger) {
    return 'No engine multiplies integers: convert them with a.to({ dtype: "float32" }) (exact up to 2^24) or ' +
      '"float64" (exact up to 2^53). ';
  }
  if (a === "complex32" || b === "complex32") {
    return 'No engine multiplies complex32: convert with to({ dtype: "complex64" }), which holds the same numbers. ';
  }
  if (a === b) return "One of the two must be float8_e4m3. ";
  return `Convert one of them, as in b.to({ dtype: "${a}" }). `;
}

const FULL_PRECISION: readonly ComputeType[] = ["float32", "float32_pedantic", "float64", "float64_pedantic"];

/** What a CPU does differently from what a compute type asks for, or null. */
export function computeTypeNote(computeType: ComputeType): string | null {
  if (FULL_PRECISION.includes(computeType)) return null;
  const runsAs = computeType.startsWith("float64") ? "float64" : "float32";
  return `computeType ${computeType} runs as ${runsAs}: CPUs have no such arithmetic, and ${runsAs} is more accurate`;
}
