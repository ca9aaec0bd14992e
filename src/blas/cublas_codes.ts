/**
 * cuBLAS's numbers for what is done to a factor, and for what products are summed in. Pure.
 *
 * @module
 */
import { CublasComputeType, CublasOperation } from "../../ffi/cuda/cublaslt.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import type { Operation } from "./transposition.ts";

/** `cublasComputeType_t` of each compute type. */
export const COMPUTE_CODES = {
  float16: CublasComputeType["16F"],
  float16_pedantic: CublasComputeType["16F_PEDANTIC"],
  float32: CublasComputeType["32F"],
  float32_pedantic: CublasComputeType["32F_PEDANTIC"],
  float32_fast_float16: CublasComputeType["32F_FAST_16F"],
  float32_fast_bfloat16: CublasComputeType["32F_FAST_16BF"],
  float32_fast_tf32: CublasComputeType["32F_FAST_TF32"],
  float32_emulated_16bfx9: CublasComputeType["32F_EMULATED_16BFX9"],
  float64: CublasComputeType["64F"],
  float64_pedantic: CublasComputeType["64F_PEDANTIC"],
  float64_emulated_fixedpoint: CublasComputeType["64F_EMULATED_FIXEDPOINT"],
  int32: CublasComputeType["32I"],
  int32_pedantic: CublasComputeType["32I_PEDANTIC"],
} as const;

/** `cublasOperation_t`; a real matrix is its own conjugate. */
export function operationCode({ transpose, conjugate }: Operation, dtype: DType): number {
  if (!transpose) return CublasOperation.N;
  return conjugate && dtypeInfo(dtype).isComplex ? CublasOperation.C : CublasOperation.T;
}
