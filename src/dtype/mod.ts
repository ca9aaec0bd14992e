/**
 * Element types, the typed arrays that hold them, and conversions of narrow ones.
 *
 * @module
 */
export { type DType, type DTypeInfo, dtypeInfo, dtypes, type Scalar, type TypedArray } from "./dtype.ts";
export { decode, encode, fromFloat32, toFloat32 } from "./narrow_floats.ts";
export { promote } from "./promotion.ts";
export type {
  ComplexDType,
  ComplexOf,
  DataOf,
  DTypeOfData,
  DTypeOfPart,
  ElementOf,
  FloatDType,
  FloatOf,
  IntegerDType,
  Promoted,
  PromotedByNumber,
  PromotedOne,
  PromotedOperands,
  PromotedWith,
  RealOf,
  SumOf,
  ValueOf,
} from "./element_types.ts";
