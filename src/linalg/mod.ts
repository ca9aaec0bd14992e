/**
 * Distributed matrix products.
 *
 * @module
 */
export { matmul } from "./matmul.ts";
export { type AutotuneOptions, type Auxiliary, Matmul, type Measurement } from "./matmul_plan.ts";
export type {
  AlgorithmName,
  EngineName,
  EpilogInput,
  EpilogInputs,
  ExecuteOptions,
  MatmulOptions,
  PlanOptions,
  ResetOptions,
} from "./options.ts";
export type { ComputeType, ScaleType } from "./compute_type.ts";
export type { AlgorithmReport } from "./engines/engine.ts";
export { EPILOG_NAMES, type EpilogName, geluAuxShape, reluAuxShape } from "./epilog.ts";
export { inferDistribution } from "./inference.ts";
export type { Logger } from "./logger.ts";
export type { Operation } from "./problem.ts";
export {
  type AddendOptions,
  type Diagonal,
  geadd,
  type GeaddOptions,
  herk,
  type RankKOptions,
  type Side,
  symm,
  type SymmOptions,
  syrk,
  tradd,
  type TraddOptions,
  type Transposition,
  type Triangle,
  type TriangularOptions,
  trmm,
  trsm,
} from "./pblas.ts";
export {
  type MatrixQualifier,
  MatrixQualifierRecord,
  MatrixQualifiers,
  matrixQualifiers,
  type Operations,
  packQualifiers,
  type Qualifiers,
  qualifiersObject,
} from "./qualifiers.ts";
export type { QuantizationScale, QuantizationScales } from "./quantization.ts";
