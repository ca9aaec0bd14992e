/**
 * Arrays: local parts, distributed arrays, moving them between distributions, NumPy's files.
 *
 * @module
 */
export type { FromLocalOptions } from "./given_data.ts";
export type { ArrayOptions } from "./new_part.ts";
export * from "./distributed_array.ts";
export type { ElementAccess, GatherOptions } from "./element_access.ts";
export type { ScatterArrayOptions } from "./new_array.ts";
export type { Order, Strided } from "./layout.ts";
export { LocalArray, type LocalArrayOptions, type Memory } from "./local_array.ts";
export { loadNpy, type LoadNpyOptions, saveNpy } from "./npy.ts";
export { loadNpz, saveNpz } from "./npz.ts";
export type { RandomOptions } from "./random.ts";
export * from "./redistribution/redistribution.ts";
export type { RedistributionAlgorithm } from "./redistribution/redistributor.ts";
export * from "./symmetric_array.ts";
export type { ElementFunction, LinearForm } from "./traverse.ts";
export * from "./elementwise/functions.ts";
export * from "./elementwise/evaluate.ts";
export type { BinaryNames, ElementwiseName, ResultDType, ResultKind, UnaryNames } from "./elementwise/names.ts";
export type { TargetOptions } from "./elementwise/elementwise.ts";
export type { BaseArray } from "./base_array.ts";
export type { AxisOptions } from "./reductions/plan.ts";
export type { NormOptions } from "./reductions/norm.ts";
export type { VarianceOptions } from "./reductions/variance.ts";
export type { FormatOptions } from "./format.ts";
export type { SliceRange } from "./shaping/slices.ts";
export * from "./shaping/shaping.ts";
export * from "./shaping/making.ts";
export * from "./shaping/flip.ts";
export * from "./reductions/products.ts";
export * from "./reductions/cumulative.ts";
export * from "./interop.ts";
