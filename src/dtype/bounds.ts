/**
 * The numbers of a float dtype that are next to any number.
 *
 * @module
 */
import { type DType, dtypeInfo, type TypedArray } from "./dtype.ts";
import { loadScalar, roundedTo, storeScalar } from "./scalar.ts";

/** The smallest number of a real float dtype that is not below a bound; NaN or Infinity if there is none. */
export function smallestFrom(dtype: DType, bound: number): number {
  const rounded = numberOf(dtype, bound);
  return rounded >= bound ? rounded : numberAfter(dtype, rounded);
}

/** The largest number of a real float dtype that is below a bound; NaN or -Infinity if there is none. */
export function largestBelow(dtype: DType, bound: number): number {
  const rounded = numberOf(dtype, bound);
  return rounded < bound ? rounded : -numberAfter(dtype, -rounded);
}

const code = new BigUint64Array(1);

/** The element of a dtype whose bits are `code`. */
function element(dtype: DType): TypedArray {
  return new (dtypeInfo(dtype).array as Float64ArrayConstructor)(code.buffer, 0, 1);
}

/** A number rounded to the dtype. */
const numberOf = (dtype: DType, value: number) => roundedTo(dtype, value) as number;

/** The number that follows one of the dtype: codes without their sign stand in the order of magnitudes. */
function numberAfter(dtype: DType, value: number): number {
  const one = element(dtype);
  code[0] = 0n;
  storeScalar(dtype, one, 0, value);
  if (value === 0) code[0] = 1n;
  else code[0] += value > 0 ? 1n : -1n;
  return loadScalar(dtype, one, 0) as number;
}
