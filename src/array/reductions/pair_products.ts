/**
 * Products of the elements of two arrays, and their sum.
 *
 * @module
 */
import { type DType, dtypeInfo, isNarrowFloat } from "../../dtype/dtype.ts";
import type { ElementOf, Promoted } from "../../dtype/element_types.ts";
import { promote } from "../../dtype/promotion.ts";
import { ShapeError } from "../../errors.ts";
import { agree } from "../../runtime/agreement.ts";
import { checkArray, runtimeOf } from "../base_array.ts";
import { DistributedArray } from "../distributed_array.ts";
import { elementwise, named } from "../elementwise/elementwise.ts";
import { apply, cast, operand } from "../elementwise/expression.ts";

/** The type in which products of elements of narrow types are exact, as sums are; if `isWide` those of 32 bits as well. */
function productType(dtype: DType, isWide: boolean): DType {
  if (dtype === "int8" || dtype === "uint8") return "int32";
  if (dtype === "int32") return "int64";
  const { real, isComplex } = dtypeInfo(dtype);
  if (!isNarrowFloat(real) && !(isWide && real === "float32")) return dtype;
  return isComplex ? "complex128" : "float64";
}

/** The products of elements of two arrays that were checked, for sums; with `isConjugated` of the conjugate ones of `a`. */
export function productsOf(
  name: string,
  a: DistributedArray,
  b: DistributedArray,
  isConjugated: boolean,
  isWide = false,
): DistributedArray {
  const dtype = productType(promote(a.dtype, b.dtype), isWide);
  const [left, right] = [operand(0), operand(1)].map((of) => cast(dtype, of));
  const expression = apply("multiply", isConjugated ? apply("conj", left) : left, right);
  return DistributedArray.of(elementwise(name, expression, [a, b], {}, named("a", "b")));
}

/** The sum of the products of two arrays of one shape. Collective. */
export function sumOfPairs<A extends DType, B extends DType>(
  name: string,
  isConjugated: boolean,
  a: DistributedArray<A>,
  b: DistributedArray<B>,
  isWide = false,
): ElementOf<Promoted<A, B>> {
  agree(runtimeOf(a, b), name, () => {
    checkArray(a, `${name}: a`);
    checkArray(b, `${name}: b`);
    if (a.shape.join() === b.shape.join()) return { shape: a.shape };
    throw new ShapeError(`${name} takes arrays of one shape, not of [${a.shape}] and [${b.shape}].`);
  });
  using products = productsOf(name, a, b, isConjugated, isWide);
  const sum = products.sum();
  return (promote(a.dtype, b.dtype) === "int32" ? Number(sum) : sum) as ElementOf<Promoted<A, B>>;
}
