/**
 * Arrays: local parts, distributed arrays, moving them between distributions, NumPy's files.
 *
 * @module
 */
export type { FromLocalOptions } from "./given_data.ts";
export type { ArrayOptions } from "./new_part.ts";
export { DistributedArray } from "./distributed_array.ts";
export type { ElementAccess, GatherOptions } from "./element_access.ts";
export type { ScatterArrayOptions } from "./new_array.ts";
export type { Order, Strided } from "./layout.ts";
export { LocalArray, type LocalArrayOptions, type Memory } from "./local_array.ts";
export { loadNpy, type LoadNpyOptions, saveNpy } from "./npy.ts";
export { type NpyHeader, parseNpyHeader } from "./npy_header.ts";
export type { RandomOptions } from "./random.ts";
export {
  redistribute,
  Redistribution,
  type RedistributionOperands,
  type RedistributionPlanOptions,
  type RedistributionReport,
} from "./redistribution/redistribution.ts";
export type { RedistributionAlgorithm } from "./redistribution/redistributor.ts";
export {
  allocateSymmetricMemory,
  freeSymmetricMemory,
  SymmetricArray,
  type SymmetricOptions,
  type SymmetricOwner,
} from "./symmetric_array.ts";
export type { ElementFunction, LinearForm } from "./traverse.ts";
export {
  abs,
  acos,
  add,
  asin,
  atan,
  atan2,
  ceil,
  clip,
  conj,
  cos,
  cosh,
  divide,
  type ElementwiseOptions,
  equal,
  exp,
  expm1,
  floor,
  greater,
  greaterEqual,
  imag,
  isFinite,
  isNaN,
  less,
  lessEqual,
  log,
  log10,
  log1p,
  log2,
  logicalAnd,
  logicalNot,
  logicalOr,
  logicalXor,
  maximum,
  minimum,
  multiply,
  negative,
  notEqual,
  type Operand,
  positive,
  power,
  real,
  round,
  sign,
  sin,
  sinh,
  sqrt,
  square,
  subtract,
  tan,
  tanh,
  trunc,
  where,
} from "./elementwise/functions.ts";
export type { TargetOptions } from "./elementwise/elementwise.ts";
export type { BaseArray } from "./base_array.ts";
export type { AxisOptions } from "./reductions/plan.ts";
export type { NormOptions, VarianceOptions } from "./reductions/reductions.ts";
export type { FormatOptions } from "./format.ts";
export type { SliceRange } from "./shaping/slices.ts";
export {
  broadcastTo,
  concatenate,
  expandDims,
  type JoinOptions,
  type PlacedOptions,
  reshape,
  roll,
  squeeze,
  stack,
} from "./shaping/shaping.ts";
export { arange, eye, linspace } from "./shaping/making.ts";
export { axpy, diagonal, dot, outer, scale, trace, vdot } from "./reductions/products.ts";
