/**
 * Elementwise functions of arrays, named as in the Array API standard. Numbers of the script stand beside each element;
 * shapes broadcast as NumPy's, and dtypes are promoted ({@linkcode promote}).
 *
 * @module
 */
import type { DType, Scalar } from "../../dtype/dtype.ts";
import type { FloatOf, PromotedOperands, PromotedWith, RealOf } from "../../dtype/element_types.ts";
import { DistributedArray } from "../distributed_array.ts";
import { elementwise, type TargetOptions } from "./elementwise.ts";
import { applied, apply, type Expression, operand } from "./expression.ts";
import type { OperationName } from "./operations.ts";

/** What elementwise functions take: an array, or a number, a bigint or `[re, im]`. At least one is an array. */
export type Operand = DistributedArray | Scalar;

/** Where the result of an elementwise function goes. */
export type ElementwiseOptions<D extends DType = DType> = TargetOptions<DistributedArray<D>>;

function evaluate<T extends DType>(
  name: string,
  expression: Expression,
  operands: readonly Operand[],
  options: ElementwiseOptions<T> | undefined,
): DistributedArray<T> {
  return DistributedArray.of(elementwise(name, expression, operands, options));
}

function call<T extends DType>(
  name: OperationName,
  operands: readonly Operand[],
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return evaluate(name, applied(name), operands, options);
}

/**
 * Each element as it is: a copy, or what `into` is filled with. Collective.
 */
export function positive<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("positive", [a], options);
}

/**
 * The negative of each element; integers wrap around. Collective.
 */
export function negative<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("negative", [a], options);
}

/**
 * The magnitude of each element: for complex numbers of the real dtype of their parts. Collective.
 */
export function abs<D extends DType, T extends DType = RealOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("abs", [a], options);
}

/**
 * -1, 0 or 1 by the sign of each element, NaN for NaN; z / |z| for complex numbers. Collective.
 */
export function sign<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("sign", [a], options);
}

/**
 * The square of each element; integers wrap around. Collective.
 */
export function square<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("square", [a], options);
}

/**
 * The square root of each element; NaN for negative numbers. Integers give float64, as for all functions of analysis. Collective.
 */
export function sqrt<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("sqrt", [a], options);
}

/**
 * e to the power of each element. Collective.
 *
 * @example
 * ```ts
 * import { DistributedArray, exp, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using x = DistributedArray.zeros(runtime, [8], Slab.X, { dtype: "float32" });
 * exp(x, { into: x });
 * console.log(x.sum()); // 8
 * ```
 */
export function exp<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("exp", [a], options);
}

/**
 * exp(x) - 1 for each element, exact also for small ones. Collective.
 */
export function expm1<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("expm1", [a], options);
}

/**
 * The natural logarithm of each element. Collective.
 */
export function log<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("log", [a], options);
}

/**
 * log(1 + x) for each element, exact also for small ones. Collective.
 */
export function log1p<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("log1p", [a], options);
}

/**
 * The logarithm to base 2 of each element. Collective.
 */
export function log2<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("log2", [a], options);
}

/**
 * The logarithm to base 10 of each element. Collective.
 */
export function log10<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("log10", [a], options);
}

/**
 * The sine of each element. Collective.
 */
export function sin<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("sin", [a], options);
}

/**
 * The cosine of each element. Collective.
 */
export function cos<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("cos", [a], options);
}

/**
 * The tangent of each element. Collective.
 */
export function tan<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("tan", [a], options);
}

/**
 * The inverse sine of each element. Collective.
 */
export function asin<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("asin", [a], options);
}

/**
 * The inverse cosine of each element. Collective.
 */
export function acos<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("acos", [a], options);
}

/**
 * The inverse tangent of each element. Collective.
 */
export function atan<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("atan", [a], options);
}

/**
 * The hyperbolic sine of each element. Collective.
 */
export function sinh<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("sinh", [a], options);
}

/**
 * The hyperbolic cosine of each element. Collective.
 */
export function cosh<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("cosh", [a], options);
}

/**
 * The hyperbolic tangent of each element. Collective.
 */
export function tanh<D extends DType, T extends DType = FloatOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("tanh", [a], options);
}

/**
 * The largest whole number up to each element. Collective.
 */
export function floor<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("floor", [a], options);
}

/**
 * The smallest whole number from each element on. Collective.
 */
export function ceil<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("ceil", [a], options);
}

/**
 * Each element without its fraction. Collective.
 */
export function trunc<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("trunc", [a], options);
}

/**
 * The whole number nearest to each element, the even one of two. Collective.
 */
export function round<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("round", [a], options);
}

/**
 * 1 where an element is NaN, else 0; uint8, as all that is true or false. Collective.
 */
export function isNaN<D extends DType, T extends DType = "uint8">(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("isNaN", [a], options);
}

/**
 * 1 where an element is neither infinite nor NaN, else 0. Collective.
 */
export function isFinite<D extends DType, T extends DType = "uint8">(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("isFinite", [a], options);
}

/**
 * 1 where an element is 0, else 0. Collective.
 */
export function logicalNot<D extends DType, T extends DType = "uint8">(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("logicalNot", [a], options);
}

/**
 * The complex conjugate of each element; real ones as they are. Collective.
 */
export function conj<D extends DType, T extends DType = D>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("conj", [a], options);
}

/**
 * The real part of each element. Collective.
 */
export function real<D extends DType, T extends DType = RealOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("real", [a], options);
}

/**
 * The imaginary part of each element; 0 for real ones. Collective.
 */
export function imag<D extends DType, T extends DType = RealOf<D>>(
  a: DistributedArray<D>,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("imag", [a], options);
}

/**
 * a + b for each pair of elements; integers wrap around. Collective.
 *
 * @example
 * ```ts
 * import { add, DistributedArray, initialize, Replicated, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 3], Slab.X, 1);
 * using bias = DistributedArray.generate(runtime, [3], Replicated, (j) => 10 * j);
 * using sum = add(a, bias);
 * add(sum, 1, { into: sum });
 * console.log(sum.local.toNumbers()); // 2, 12, 22 in each row
 * ```
 */
export function add<A extends Operand, B extends Operand, T extends DType = PromotedOperands<A, B>>(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("add", [a, b], options);
}

/**
 * a - b for each pair of elements; integers wrap around. Collective.
 */
export function subtract<A extends Operand, B extends Operand, T extends DType = PromotedOperands<A, B>>(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("subtract", [a, b], options);
}

/**
 * a * b for each pair of elements; integers wrap around. Collective.
 */
export function multiply<A extends Operand, B extends Operand, T extends DType = PromotedOperands<A, B>>(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("multiply", [a, b], options);
}

/**
 * a / b for each pair of elements; integers give float64. Collective.
 */
export function divide<A extends Operand, B extends Operand, T extends DType = FloatOf<PromotedOperands<A, B>>>(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("divide", [a, b], options);
}

/**
 * a to the power of b for each pair of elements. Integers wrap around; a negative exponent among integers is a RangeError. Collective.
 */
export function power<A extends Operand, B extends Operand, T extends DType = PromotedOperands<A, B>>(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("power", [a, b], options);
}

/**
 * The smaller of each pair of elements; NaN if one is NaN. Collective.
 */
export function minimum<A extends Operand, B extends Operand, T extends DType = PromotedOperands<A, B>>(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("minimum", [a, b], options);
}

/**
 * The larger of each pair of elements; NaN if one is NaN. Collective.
 */
export function maximum<A extends Operand, B extends Operand, T extends DType = PromotedOperands<A, B>>(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("maximum", [a, b], options);
}

/**
 * The angle of the point (b, a) for each pair of elements, from -pi to pi. Collective.
 */
export function atan2<A extends Operand, B extends Operand, T extends DType = FloatOf<PromotedOperands<A, B>>>(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("atan2", [a, b], options);
}

/**
 * 1 where a = b, else 0: uint8. Collective.
 */
export function equal<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("equal", [a, b], options);
}

/**
 * 1 where a differs from b, else 0. Collective.
 */
export function notEqual<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("notEqual", [a, b], options);
}

/**
 * 1 where a < b, else 0. Collective.
 */
export function less<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("less", [a, b], options);
}

/**
 * 1 where a <= b, else 0. Collective.
 */
export function lessEqual<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("lessEqual", [a, b], options);
}

/**
 * 1 where a > b, else 0. Collective.
 */
export function greater<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("greater", [a, b], options);
}

/**
 * 1 where a >= b, else 0. Collective.
 */
export function greaterEqual<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("greaterEqual", [a, b], options);
}

/**
 * 1 where neither of both is 0, else 0. Collective.
 */
export function logicalAnd<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("logicalAnd", [a, b], options);
}

/**
 * 1 where not both are 0, else 0. Collective.
 */
export function logicalOr<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("logicalOr", [a, b], options);
}

/**
 * 1 where exactly one of both is 0, else 0. Collective.
 */
export function logicalXor<A extends Operand, B extends Operand, T extends DType = "uint8">(
  a: A,
  b: B,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("logicalXor", [a, b], options);
}

/**
 * Elements of b where the condition is not 0, elsewhere those of c. Collective.
 *
 * @example
 * ```ts
 * import { DistributedArray, greater, initialize, Slab, where } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using x = DistributedArray.generate(runtime, [6], Slab.X, (i) => i - 3);
 * using positive = greater(x, 0);
 * using relu = where(positive, x, 0);
 * console.log(relu.sum()); // 3
 * ```
 */
export function where<B extends Operand, C extends Operand, T extends DType = PromotedOperands<B, C>>(
  condition: Operand,
  b: B,
  c: C,
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  return call("where", [condition, b, c], options);
}

/** Elements kept within [low, high]: those outside become the nearer bound, NaN stays. */
const CLIP = apply("minimum", apply("maximum", operand(0), operand(1)), operand(2));

/** Each element, or the bound that it lies beyond; NaN stays. Bounds may be arrays, or infinite for none. Collective. */
export function clip<
  A extends Operand,
  L extends Operand,
  H extends Operand,
  T extends DType = PromotedWith<PromotedOperands<A, L>, H>,
>(a: A, low: L, high: H, options?: ElementwiseOptions<T>): DistributedArray<T> {
  return evaluate("clip", CLIP, [a, low, high], options);
}
