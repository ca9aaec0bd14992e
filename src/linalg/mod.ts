/**
 * Distributed matrix products.
 *
 * @module
 */
export { type AutotuneOptions, Matmul, matmul, type Measurement } from "./matmul/matmul.ts";
export type { Auxiliary } from "./matmul/execution.ts";
export type { EpilogInput, EpilogInputs, MatmulOptions, PlanOptions, ResetOptions } from "./matmul/options.ts";
export type { ComputeType, ScaleType } from "./matmul/compute_type.ts";
export type { AlgorithmTimes } from "../array/host_model.ts";
export type { AlgorithmReport } from "./engines/engine.ts";
export type { AlgorithmName, EngineName } from "./engines/registry.ts";
export { type EpilogName, geluAuxShape, reluAuxShape } from "./matmul/epilog.ts";
export { inferDistribution } from "./matmul/inference.ts";
export type { Logger } from "../runtime/logger.ts";
export type { ExecuteOptions } from "../runtime/operation.ts";
export * from "./pblas/routines.ts";
export { explain } from "./pblas/explanation.ts";
export * from "./solver/solver.ts";
export {
  type MatrixQualifier,
  MatrixQualifierRecord,
  MatrixQualifiers,
  matrixQualifiers,
  type Qualifiers,
} from "./matmul/qualifiers.ts";
export type { QuantizationScale, QuantizationScales } from "./matmul/quantization.ts";
export { cg, type CgOptions, type CgResult, type LinearOperator } from "./solver/conjugate_gradients.ts";
