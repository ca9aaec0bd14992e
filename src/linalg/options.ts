/**
 * The options of matmul: their names, types, and the check that nothing else was passed.
 *
 * @module
 */
import type { DType, Scalar, TypedArray } from "../array/dtype.ts";
import type { DistributedArray } from "../array/distributed_array.ts";
import type { LocalArray } from "../array/local_array.ts";
import type { Distribution } from "../distribution/mod.ts";
import type { Stream } from "../runtime/stream.ts";
import type { ComputeType, ScaleType } from "./compute_type.ts";
import type { EpilogName } from "./epilog.ts";
import type { MatrixQualifiers, Qualifiers } from "./qualifiers.ts";
import type { QuantizationScale, QuantizationScales } from "./quantization.ts";

/** The engines by name; `auto` lets the runtime's device decide. */
export type EngineName = "auto" | "scalapack" | "cublasmp" | "overlap";

/** cuBLASMp's algorithms, then those of the CPU engine. An engine refuses what it does not have. */
export type AlgorithmName =
  | "default"
  | "split_p2p"
  | "split_multicast"
  | "atomic_p2p"
  | "atomic_multicast"
  | "no_overlap"
  | "fused"
  | "local_gemm"
  | "pgemm"
  | "all_gather_gemm"
  | "gemm_reduce_scatter"
  | "gemm_all_reduce";

/** All engines. */
export const ENGINE_NAMES: readonly EngineName[] = ["auto", "scalapack", "cublasmp", "overlap"];

/** All algorithms. */
export const ALGORITHM_NAMES: readonly AlgorithmName[] = [
  "default",
  "split_p2p",
  "split_multicast",
  "atomic_p2p",
  "atomic_multicast",
  "no_overlap",
  "fused",
  "local_gemm",
  "pgemm",
  "all_gather_gemm",
  "gemm_reduce_scatter",
  "gemm_all_reduce",
];

/** What an epilog input may be: this rank's part as a local array or bare typed array, or a distributed array. */
export type EpilogInput = LocalArray | DistributedArray | TypedArray;

/** The inputs of epilogs, this rank's parts. */
export interface EpilogInputs {
  /** One value a local row of D. */
  bias?: EpilogInput;
  /** The bit mask that `relu_aux` returned. */
  reluAux?: EpilogInput;
  /** The matrix that `gelu_aux` returned. */
  geluAux?: EpilogInput;
  /** What an 8-bit gelu aux matrix is multiplied by before it is rounded. */
  auxQuantizationScale?: QuantizationScale;
}

/** Where messages go; `console` is one. */
export interface Logger {
  /** What was decided, in detail. */
  debug(message: string): void;
  /** What was planned and how long it took. */
  info(message: string): void;
  /** What is done differently from what was asked for. */
  warn(message: string): void;
}

/** Options of `Matmul.plan`: each one replaces the constructor's for this plan. */
export interface PlanOptions {
  /** What follows the product; null for nothing, whatever the constructor was told. */
  epilog?: EpilogName | null;
  /** The epilog's inputs. */
  epilogInputs?: EpilogInputs;
  /** The type of gelu's aux matrix. D's type if left out; for an 8-bit D that of C, or `bfloat16`. */
  auxType?: DType;
  /** Return the largest absolute value of gelu's aux matrix as `auxiliary.geluAuxAmax`. */
  auxAmax?: boolean;
  /** The algorithm; `default` lets the engine decide. */
  algorithm?: AlgorithmName;
  /** Multiprocessors of a GPU that are left to communication; no meaning on a CPU. */
  communicationSmCount?: number;
  /**
   * The type in which partial sums travel between GPUs, at least as wide as D's; no meaning on a CPU. float32 for a D of
   * 16 bits if left out: D's own type halves what travels, and rounds the partial sums.
   */
  communicationType?: DType;
  /** Whether algorithms that use NVLink multicast may be asked for by name. False if left out. */
  allowMulticast?: boolean;
}

/** Options of `Matmul.execute` and `Matmul.autotune`. */
export interface ExecuteOptions {
  /**
   * The stream of a GPU to run on, in place of the runtime's; on a CPU null. It waits for what is on the runtime's stream
   * already; what uses D elsewhere has to wait for it.
   */
  stream?: Stream | null;
}

/** Options of `new Matmul`. */
export interface MatmulPlanOptions extends PlanOptions {
  /** The matrix that is added. Needs `beta`. */
  c?: DistributedArray;
  /** Scales op(A) op(B). 1 if left out. */
  alpha?: Scalar;
  /** Scales C. Needs `c`. */
  beta?: Scalar;
  /** What is done to A and B before they are multiplied. */
  qualifiers?: Qualifiers | MatrixQualifiers;
  /** The distribution of D. C's, or inferred (see `inferDistribution`) if left out. */
  distribution?: Distribution;
  /** Scales of 8-bit matrices. */
  quantizationScales?: QuantizationScales;
  /** What products are summed in. The first of the dtype's list if left out. */
  computeType?: ComputeType;
  /** The type of alpha and beta. The compute type's if left out. */
  scaleType?: ScaleType;
  /** The dtype of D. C's, or A's if left out. */
  resultType?: DType;
  /** Return the largest absolute value of an 8-bit D, before it is scaled, as `auxiliary.resultAmax`. */
  resultAmax?: boolean;
  /** Scales a block instead of scales a tensor; GPUs of compute capability 10.0 only. */
  blockScaling?: boolean;
  /** Which engine. */
  engine?: EngineName;
  /** Write D into C's memory and return C. False if left out. */
  inplace?: boolean;
  /** The memory order of D. C's if there is one; else `F` if A and B both are, else `C`. */
  order?: "C" | "F";
  /** Whether `execute` waits for the result: `auto` waits for CPUs only, true always. A CPU always waits. */
  blocking?: true | "auto";
  /** The stream of a GPU to run on, see {@linkcode ExecuteOptions}. */
  stream?: Stream | null;
  /** Where messages go; nowhere if left out. */
  logger?: Logger;
}

/** Options of `matmul`. */
export type MatmulOptions = MatmulPlanOptions;

/** What `Matmul.resetOperands` replaces; what is left out stays. */
export interface ResetOptions {
  /** A new A of the same shape, dtype, order and distribution. */
  a?: DistributedArray;
  /** A new B. */
  b?: DistributedArray;
  /** A new C. */
  c?: DistributedArray;
  /** A new alpha. */
  alpha?: Scalar;
  /** A new beta. */
  beta?: Scalar;
  /** New scales; those left out stay. */
  quantizationScales?: QuantizationScales;
  /** New inputs of the epilog; those left out stay. */
  epilogInputs?: EpilogInputs;
}

/** The keys of {@linkcode PlanOptions}. */
export const PLAN_OPTION_KEYS: readonly string[] = [
  "epilog",
  "epilogInputs",
  "auxType",
  "auxAmax",
  "algorithm",
  "communicationSmCount",
  "communicationType",
  "allowMulticast",
];

/** The keys of {@linkcode MatmulOptions}. */
export const MATMUL_OPTION_KEYS: readonly string[] = [
  ...PLAN_OPTION_KEYS,
  "c",
  "alpha",
  "beta",
  "qualifiers",
  "distribution",
  "quantizationScales",
  "computeType",
  "scaleType",
  "resultType",
  "resultAmax",
  "blockScaling",
  "engine",
  "inplace",
  "order",
  "blocking",
  "stream",
  "logger",
];

/** The keys of {@linkcode ExecuteOptions}. */
export const EXECUTE_OPTION_KEYS: readonly string[] = ["stream"];

/** The keys of {@linkcode ResetOptions}. */
export const RESET_OPTION_KEYS: readonly string[] = [
  "a",
  "b",
  "c",
  "alpha",
  "beta",
  "quantizationScales",
  "epilogInputs",
];

/** The keys of {@linkcode EpilogInputs}. */
export const EPILOG_INPUT_KEYS: readonly string[] = ["bias", "reluAux", "geluAux", "auxQuantizationScale"];

/**
 * Check that an options object has only known keys.
 *
 * @throws {TypeError} naming the nearest allowed key.
 */
export function checkKeys(what: string, options: unknown, allowed: readonly string[]): void {
  if (options === undefined) return;
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new TypeError(`${what} must be an object; got ${options === null ? "null" : typeof options}.`);
  }
  for (const key of Object.keys(options)) {
    if (!allowed.includes(key)) {
      throw new TypeError(
        `${what} has no key "${key}"; did you mean "${nearest(key, allowed)}"? Allowed: ${allowed.join(", ")}.`,
      );
    }
  }
}

/**
 * Check that a value is one of the allowed names.
 *
 * @throws {TypeError} naming the nearest allowed name.
 */
export function checkName(what: string, value: unknown, allowed: readonly string[]): void {
  if (value === undefined || allowed.includes(value as string)) return;
  const hint = typeof value === "string" ? ` Did you mean "${nearest(value, allowed)}"?` : "";
  throw new TypeError(`${what} must be one of ${allowed.join(", ")}; got ${JSON.stringify(value) ?? value}.${hint}`);
}

/** Check that a value is true, false or left out. */
export function checkBoolean(what: string, value: unknown): void {
  if (value !== undefined && typeof value !== "boolean") {
    throw new TypeError(`${what} must be true or false; got ${String(value)}.`);
  }
}

/** The word that takes the fewest edits to become another; without regard to case and underscores. */
export function nearest(word: string, candidates: readonly string[]): string {
  const plain = (text: string) => text.toLowerCase().replaceAll("_", "");
  let best = candidates[0];
  let fewest = Infinity;
  for (const candidate of candidates) {
    const edits = editDistance(plain(word), plain(candidate));
    if (edits < fewest) [best, fewest] = [candidate, edits];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const substitution = previous[j - 1] + Number(a[i - 1] !== b[j - 1]);
      current.push(Math.min(substitution, previous[j] + 1, current[j - 1] + 1));
    }
    previous = current;
  }
  return previous[b.length];
}
