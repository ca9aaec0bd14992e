/**
 * Elementwise functions of arrays, named as in the Array API standard. Numbers of the script stand beside each element;
 * shapes broadcast as NumPy's, and dtypes are promoted ({@linkcode promote}).
 *
 * @module
 */
import type { Scalar } from "../../dtype/dtype.ts";
import { DistributedArray } from "../distributed_array.ts";
import { elementwise, type TargetOptions } from "./elementwise.ts";
import { applied, apply, type Expression, operand } from "./expression.ts";
import type { OperationName } from "./operations.ts";

/** What elementwise functions take: an array, or a number, a bigint or `[re, im]`. At least one is an array. */
export type Operand = DistributedArray | Scalar;

/** Where the result of an elementwise function goes. */
export type ElementwiseOptions = TargetOptions<DistributedArray>;

function evaluate(
  name: string,
  expression: Expression,
  operands: readonly Operand[],
  options: ElementwiseOptions | undefined,
): DistributedArray {
  return DistributedArray.of(elementwise(name, expression, operands, options));
}

function call(name: OperationName, operands: readonly Operand[], options?: ElementwiseOptions): DistributedArray {
  return evaluate(name, applied(name), operands, options);
}

/**
 * Each element as it is: a copy, or what `into` is filled with. Collective.
 */
export function positive(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("positive", [a], options);
}

/**
 * The negative of each element; integers wrap around. Collective.
 */
export function negative(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("negative", [a], options);
}

/**
 * The magnitude of each element: for complex numbers of the real dtype of their parts. Collective.
 */
export function abs(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("abs", [a], options);
}

/**
 * -1, 0 or 1 by the sign of each element, NaN for NaN; z / |z| for complex numbers. Collective.
 */
export function sign(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("sign", [a], options);
}

/**
 * The square of each element; integers wrap around. Collective.
 */
export function square(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("square", [a], options);
}

/**
 * The square root of each element; NaN for negative numbers. Integers give float64, as for all functions of analysis. Collective.
 */
export function sqrt(a: Operand, options?: ElementwiseOptions): DistributedArray {
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
export function exp(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("exp", [a], options);
}

/**
 * exp(x) - 1 for each element, exact also for small ones. Collective.
 */
export function expm1(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("expm1", [a], options);
}

/**
 * The natural logarithm of each element. Collective.
 */
export function log(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("log", [a], options);
}

/**
 * log(1 + x) for each element, exact also for small ones. Collective.
 */
export function log1p(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("log1p", [a], options);
}

/**
 * The logarithm to base 2 of each element. Collective.
 */
export function log2(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("log2", [a], options);
}

/**
 * The logarithm to base 10 of each element. Collective.
 */
export function log10(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("log10", [a], options);
}

/**
 * The sine of each element. Collective.
 */
export function sin(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("sin", [a], options);
}

/**
 * The cosine of each element. Collective.
 */
export function cos(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("cos", [a], options);
}

/**
 * The tangent of each element. Collective.
 */
export function tan(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("tan", [a], options);
}

/**
 * The inverse sine of each element. Collective.
 */
export function asin(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("asin", [a], options);
}

/**
 * The inverse cosine of each element. Collective.
 */
export function acos(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("acos", [a], options);
}

/**
 * The inverse tangent of each element. Collective.
 */
export function atan(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("atan", [a], options);
}

/**
 * The hyperbolic sine of each element. Collective.
 */
export function sinh(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("sinh", [a], options);
}

/**
 * The hyperbolic cosine of each element. Collective.
 */
export function cosh(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("cosh", [a], options);
}

/**
 * The hyperbolic tangent of each element. Collective.
 */
export function tanh(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("tanh", [a], options);
}

/**
 * The largest whole number up to each element. Collective.
 */
export function floor(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("floor", [a], options);
}

/**
 * The smallest whole number from each element on. Collective.
 */
export function ceil(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("ceil", [a], options);
}

/**
 * Each element without its fraction. Collective.
 */
export function trunc(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("trunc", [a], options);
}

/**
 * The whole number nearest to each element, the even one of two. Collective.
 */
export function round(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("round", [a], options);
}

/**
 * 1 where an element is NaN, else 0; uint8, as all that is true or false. Collective.
 */
export function isNaN(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("isNaN", [a], options);
}

/**
 * 1 where an element is neither infinite nor NaN, else 0. Collective.
 */
export function isFinite(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("isFinite", [a], options);
}

/**
 * 1 where an element is 0, else 0. Collective.
 */
export function logicalNot(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("logicalNot", [a], options);
}

/**
 * The complex conjugate of each element; real ones as they are. Collective.
 */
export function conj(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("conj", [a], options);
}

/**
 * The real part of each element. Collective.
 */
export function real(a: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("real", [a], options);
}

/**
 * The imaginary part of each element; 0 for real ones. Collective.
 */
export function imag(a: Operand, options?: ElementwiseOptions): DistributedArray {
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
export function add(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("add", [a, b], options);
}

/**
 * a - b for each pair of elements; integers wrap around. Collective.
 */
export function subtract(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("subtract", [a, b], options);
}

/**
 * a * b for each pair of elements; integers wrap around. Collective.
 */
export function multiply(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("multiply", [a, b], options);
}

/**
 * a / b for each pair of elements; integers give float64. Collective.
 */
export function divide(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("divide", [a, b], options);
}

/**
 * a to the power of b for each pair of elements. Integers wrap around; a negative exponent among integers is a RangeError. Collective.
 */
export function power(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("power", [a, b], options);
}

/**
 * The smaller of each pair of elements; NaN if one is NaN. Collective.
 */
export function minimum(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("minimum", [a, b], options);
}

/**
 * The larger of each pair of elements; NaN if one is NaN. Collective.
 */
export function maximum(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("maximum", [a, b], options);
}

/**
 * The angle of the point (b, a) for each pair of elements, from -pi to pi. Collective.
 */
export function atan2(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("atan2", [a, b], options);
}

/**
 * 1 where a = b, else 0: uint8. Collective.
 */
export function equal(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("equal", [a, b], options);
}

/**
 * 1 where a differs from b, else 0. Collective.
 */
export function notEqual(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("notEqual", [a, b], options);
}

/**
 * 1 where a < b, else 0. Collective.
 */
export function less(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("less", [a, b], options);
}

/**
 * 1 where a <= b, else 0. Collective.
 */
export function lessEqual(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("lessEqual", [a, b], options);
}

/**
 * 1 where a > b, else 0. Collective.
 */
export function greater(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("greater", [a, b], options);
}

/**
 * 1 where a >= b, else 0. Collective.
 */
export function greaterEqual(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("greaterEqual", [a, b], options);
}

/**
 * 1 where neither of both is 0, else 0. Collective.
 */
export function logicalAnd(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("logicalAnd", [a, b], options);
}

/**
 * 1 where not both are 0, else 0. Collective.
 */
export function logicalOr(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("logicalOr", [a, b], options);
}

/**
 * 1 where exactly one of both is 0, else 0. Collective.
 */
export function logicalXor(a: Operand, b: Operand, options?: ElementwiseOptions): DistributedArray {
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
export function where(condition: Operand, b: Operand, c: Operand, options?: ElementwiseOptions): DistributedArray {
  return call("where", [condition, b, c], options);
}

/** Elements kept within [low, high]: those outside become the nearer bound, NaN stays. */
const CLIP = apply("minimum", apply("maximum", operand(0), operand(1)), operand(2));

/** Each element, or the bound that it lies beyond; NaN stays. Bounds may be arrays, or infinite for none. Collective. */
export function clip(a: Operand, low: Operand, high: Operand, options?: ElementwiseOptions): DistributedArray {
  return evaluate("clip", CLIP, [a, low, high], options);
}
