/**
 * Element types, the typed arrays that hold them, and conversions of narrow ones.
 *
 * @module
 */
export {
  allocate,
  type DType,
  type DTypeInfo,
  dtypeInfo,
  dtypeOf,
  dtypes,
  isNarrowFloat,
  type NarrowFloat,
  type Scalar,
  type TypedArray,
  type TypedArrayConstructor,
} from "./dtype.ts";
export { decode, encode, fromFloat32, toFloat32 } from "./narrow_floats.ts";
export { promote } from "./promotion.ts";
