/**
 * The options of matmul: their names and types.
 *
 * @module
 */
import type { DType, Scalar, TypedArray } from "../../dtype/dtype.ts";
import type { DistributedArray } from "../../array/distributed_array.ts";
import type { LocalArray } from "../../array/local_array.ts";
import type { Distribution } from "../../distribution/mod.ts";
import type { Stream } from "../../gpu/stream.ts";
import type { AlgorithmName, EngineName } from "../engines/registry.ts";
import type { ComputeType, ScaleType } from "./compute_type.ts";
import type { EpilogName } from "./epilog.ts";
import type { Logger } from "../../runtime/logger.ts";
import { keysOf } from "../../options.ts";
import type { MatrixQualifiers, Qualifiers } from "./qualifiers.ts";
import type { QuantizationScale, QuantizationScales } from "./quantization.ts";

/** What an epilog input may be: this rank's part as a local array or bare typed array, or a distributed array. */
export type EpilogInput = LocalArray | DistributedArray | TypedArray;

/**
 * The inputs of epilogs, this rank's parts. On CPUs they are read at each execution. On GPUs those that are in host memory, or
 * that cuBLASMp does not take as they are, are copied when they are given: give them to `resetOperands` after a change.
 */
export interface EpilogInputs {
  /** One value a local row of D. */
  bias?: EpilogInput;
  /** One value a local column of D, for the epilogs with `column_bias`. */
  columnBias?: EpilogInput;
  /** The bit mask that `relu_aux` returned. */
  reluAux?: EpilogInput;
  /** The matrix that `gelu_aux` returned. */
  geluAux?: EpilogInput;
  /** What an 8-bit gelu aux matrix is multiplied by before it is rounded. */
  auxQuantizationScale?: QuantizationScale;
}

/** Options of `Matmul.plan`: each one replaces the constructor's for this plan. */
export interface PlanOptions {
  /**
   * What follows the product; null, `none` or `default` for nothing, whatever the constructor was told. `gelu` is the tanh
   * form, `gelu_erf` the exact one, see {@linkcode EpilogName}.
   */
  epilog?: EpilogName | "none" | "default" | null;
  /** The epilog's inputs; those that were given last if left out. */
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
   * The type in which partial sums travel between GPUs, at least as wide as D's; no meaning on a CPU. If left out,
   * cuBLASMp takes float32 for a D of 16 bits; kernels of this library have D's own type alone, which halves what travels
   * and rounds the partial sums, as the report notes: pass float32 to have cuBLASMp take the product.
   */
  communicationType?: DType;
  /** Whether algorithms that use NVLink multicast may be asked for by name. False if left out. */
  allowMulticast?: boolean;
}

/** Options of `matmul` and `new Matmul`. */
export interface MatmulOptions extends PlanOptions {
  /** The matrix that is added; null for none. Needs `beta`. */
  c?: DistributedArray | null;
  /** Scales op(A) op(B). 1 if left out. With 0 an engine may leave A and B alone, and then nothing comes of a NaN in them. */
  alpha?: Scalar;
  /** Scales C. Needs `c`. */
  beta?: Scalar;
  /** What is done to A and B before they are multiplied. */
  qualifiers?: Qualifiers | MatrixQualifiers;
  /** The distribution of D. C's, or inferred (see `inferDistribution`) if left out. */
  distribution?: Distribution;
  /** Scales of 8-bit matrices: numbers, or for A and B arrays of them. */
  quantizationScales?: QuantizationScales;
  /** What products are summed in. The first of the dtype's list if left out. */
  computeType?: ComputeType;
  /** The type of alpha and beta. The compute type's if left out. */
  scaleType?: ScaleType;
  /** The dtype of D. C's, or A's if left out. */
  resultType?: DType;
  /** Return the largest absolute value of an 8-bit D, before it is scaled, as `auxiliary.resultAmax`. */
  resultAmax?: boolean;
  /**
   * 8-bit scales of 32 elements (`mxfp8`, or true) or of 16 (`nvfp4`): formats of GPUs of compute capability 10.0, refused
   * on others. Arrays of float32 scales need no such option, see {@linkcode QuantizationScales}.
   */
  blockScaling?: boolean | "mxfp8" | "nvfp4";
  /** Which engine. */
  engine?: EngineName;
  /** Write D into C's memory and return C. False if left out. */
  inplace?: boolean;
  /**
   * The memory order of D, unless there is a C, whose order D takes. If left out: on GPUs the one that cuBLASMp produces
   * without a copy, if only one is and it takes the product; else `F` if A and B both are, else `C`.
   */
  order?: "C" | "F";
  /** Whether `execute` waits for the result: `auto` waits for CPUs only, true always. A CPU always waits. */
  blocking?: true | "auto";
  /** The stream of a GPU to run on, see {@linkcode ExecuteOptions}. */
  stream?: Stream | null;
  /** Where messages go; warnings to the standard error of rank 0, once, if left out. What it throws is printed once, and the matmul goes on. */
  logger?: Logger;
}

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
export const PLAN_OPTION_KEYS = keysOf<PlanOptions>({
  epilog: true,
  epilogInputs: true,
  auxType: true,
  auxAmax: true,
  algorithm: true,
  communicationSmCount: true,
  communicationType: true,
  allowMulticast: true,
});

/** The keys of {@linkcode MatmulOptions}. */
export const MATMUL_OPTION_KEYS: readonly (keyof MatmulOptions)[] = [
  ...PLAN_OPTION_KEYS,
  ...keysOf<Omit<MatmulOptions, keyof PlanOptions>>({
    c: true,
    alpha: true,
    beta: true,
    qualifiers: true,
    distribution: true,
    quantizationScales: true,
    computeType: true,
    scaleType: true,
    resultType: true,
    resultAmax: true,
    blockScaling: true,
    engine: true,
    inplace: true,
    order: true,
    blocking: true,
    stream: true,
    logger: true,
  }),
];

/** The keys of {@linkcode ResetOptions}. */
export const RESET_OPTION_KEYS = keysOf<ResetOptions>({
  a: true,
  b: true,
  c: true,
  alpha: true,
  beta: true,
  quantizationScales: true,
  epilogInputs: true,
});

/** The keys of {@linkcode EpilogInputs}. */
export const EPILOG_INPUT_KEYS = keysOf<EpilogInputs>({
  bias: true,
  columnBias: true,
  reluAux: true,
  geluAux: true,
  auxQuantizationScale: true,
});
