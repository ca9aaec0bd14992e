/**
 * Elementwise functions of arrays, named as in the Array API standard; each one is a method of its first array, too:
 * `exp(a)` is `a.exp()`, `add(a, b, options)` is `a.add(b, options)`. Numbers of the script stand beside each element;
 * shapes broadcast as NumPy's, and dtypes are promoted ({@linkcode promote}). Of large arrays of floats on CPUs MKL's vector
 * mathematics computes what it has, where it is installed; what is not exact may then differ by two units in the last place
 * from what is computed without it (erfc by five).
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import type { PromotedOperands, PromotedWith } from "../../dtype/element_types.ts";
import { DistributedArray, type ElementwiseOptions, type Operand } from "../distributed_array.ts";
import { elementwise } from "./elementwise.ts";
import { applied, type Expression } from "./expression.ts";
import type { BinaryNames, ResultDType, ResultKind, UnaryNames } from "./names.ts";

function evaluate<T extends DType>(
  name: string,
  expression: Expression,
  operands: readonly Operand[],
  options: ElementwiseOptions<T> | undefined,
): DistributedArray<T> {
  return DistributedArray.of(elementwise(name, expression, operands, options));
}

/** A function of each element of an array. */
export type UnaryFunction<Kind extends ResultKind> = <
  D extends DType,
  T extends DType = ResultDType<Kind, D>,
>(a: DistributedArray<D>, options?: ElementwiseOptions<T>) => DistributedArray<T>;

/** A function of each pair of elements; one of both may be a number. */
export type BinaryFunction<Kind extends keyof BinaryNames> = <
  A extends Operand,
  B extends Operand,
  T extends DType = ResultDType<Kind, PromotedOperands<A, B>>,
>(a: A, b: B, options?: ElementwiseOptions<T>) => DistributedArray<T>;

function unary<Kind extends ResultKind>(name: UnaryNames[Kind]): UnaryFunction<Kind> {
  return (a, options) => evaluate(name, applied(name), [a], options);
}

function binary<Kind extends keyof BinaryNames>(name: BinaryNames[Kind]): BinaryFunction<Kind> {
  return (a, b, options) => evaluate(name, applied(name), [a, b], options);
}

/**
 * Each element as it is: a copy, or what `into` is filled with. Collective.
 */
export const positive: UnaryFunction<"same"> = unary("positive");

/**
 * The negative of each element; integers wrap around. Collective.
 */
export const negative: UnaryFunction<"same"> = unary("negative");

/**
 * The magnitude of each element: for complex numbers of the real dtype of their parts. Collective.
 */
export const abs: UnaryFunction<"real"> = unary("abs");

/**
 * -1, 0 or 1 by the sign of each element, NaN for NaN; z / |z| for complex numbers. Collective.
 */
export const sign: UnaryFunction<"same"> = unary("sign");

/**
 * The square of each element; integers wrap around. Collective.
 */
export const square: UnaryFunction<"same"> = unary("square");

/**
 * The square root of each element; NaN for negative numbers. Integers give float64, as for all functions of analysis. Collective.
 */
export const sqrt: UnaryFunction<"float"> = unary("sqrt");

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
export const exp: UnaryFunction<"float"> = unary("exp");

/**
 * exp(x) - 1 for each element, exact also for small ones. Collective.
 */
export const expm1: UnaryFunction<"float"> = unary("expm1");

/**
 * The natural logarithm of each element. Collective.
 */
export const log: UnaryFunction<"float"> = unary("log");

/**
 * log(1 + x) for each element, exact also for small ones. Collective.
 */
export const log1p: UnaryFunction<"float"> = unary("log1p");

/**
 * The logarithm to base 2 of each element. Collective.
 */
export const log2: UnaryFunction<"float"> = unary("log2");

/**
 * The logarithm to base 10 of each element. Collective.
 */
export const log10: UnaryFunction<"float"> = unary("log10");

/**
 * The sine of each element. Collective.
 */
export const sin: UnaryFunction<"float"> = unary("sin");

/**
 * The cosine of each element. Collective.
 */
export const cos: UnaryFunction<"float"> = unary("cos");

/**
 * The tangent of each element. Collective.
 */
export const tan: UnaryFunction<"float"> = unary("tan");

/**
 * The inverse sine of each element. Collective.
 */
export const asin: UnaryFunction<"float"> = unary("asin");

/**
 * The inverse cosine of each element. Collective.
 */
export const acos: UnaryFunction<"float"> = unary("acos");

/**
 * The inverse tangent of each element. Collective.
 */
export const atan: UnaryFunction<"float"> = unary("atan");

/**
 * The hyperbolic sine of each element. Collective.
 */
export const sinh: UnaryFunction<"float"> = unary("sinh");

/**
 * The hyperbolic cosine of each element. Collective.
 */
export const cosh: UnaryFunction<"float"> = unary("cosh");

/**
 * The hyperbolic tangent of each element. Collective.
 */
export const tanh: UnaryFunction<"float"> = unary("tanh");

/**
 * The error function of each element: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to it. Collective.
 */
export const erf: UnaryFunction<"float"> = unary("erf");

/**
 * 1 - erf(x) for each element, exact also where that is small. Collective.
 */
export const erfc: UnaryFunction<"float"> = unary("erfc");

/**
 * The largest whole number up to each element. Collective.
 */
export const floor: UnaryFunction<"same"> = unary("floor");

/**
 * The smallest whole number from each element on. Collective.
 */
export const ceil: UnaryFunction<"same"> = unary("ceil");

/**
 * Each element without its fraction. Collective.
 */
export const trunc: UnaryFunction<"same"> = unary("trunc");

/**
 * The whole number nearest to each element, the even one of two. Collective.
 */
export const round: UnaryFunction<"same"> = unary("round");

/**
 * 1 where an element is NaN, else 0; uint8, as all that is true or false. Collective.
 */
export const isNaN: UnaryFunction<"truth"> = unary("isNaN");

/**
 * 1 where an element is neither infinite nor NaN, else 0. Collective.
 */
export const isFinite: UnaryFunction<"truth"> = unary("isFinite");

/**
 * 1 where an element is 0, else 0. Collective.
 */
export const logicalNot: UnaryFunction<"truth"> = unary("logicalNot");

/**
 * The complex conjugate of each element; real ones as they are. Collective.
 */
export const conj: UnaryFunction<"same"> = unary("conj");

/**
 * The real part of each element. Collective.
 */
export const real: UnaryFunction<"real"> = unary("real");

/**
 * The imaginary part of each element; 0 for real ones. Collective.
 */
export const imag: UnaryFunction<"real"> = unary("imag");

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
export const add: BinaryFunction<"same"> = binary("add");

/**
 * a - b for each pair of elements; integers wrap around. Collective.
 */
export const subtract: BinaryFunction<"same"> = binary("subtract");

/**
 * a * b for each pair of elements; integers wrap around. Collective.
 */
export const multiply: BinaryFunction<"same"> = binary("multiply");

/**
 * a / b for each pair of elements; integers give float64. Collective.
 */
export const divide: BinaryFunction<"float"> = binary("divide");

/**
 * a to the power of b for each pair of elements. Integers wrap around; a negative exponent among integers is a RangeError. Collective.
 */
export const power: BinaryFunction<"same"> = binary("power");

/**
 * The smaller of each pair of elements; NaN if one is NaN. Collective.
 */
export const minimum: BinaryFunction<"same"> = binary("minimum");

/**
 * The larger of each pair of elements; NaN if one is NaN. Collective.
 */
export const maximum: BinaryFunction<"same"> = binary("maximum");

/**
 * The angle of the point (b, a) for each pair of elements, from -pi to pi. Collective.
 */
export const atan2: BinaryFunction<"float"> = binary("atan2");

/**
 * 1 where a = b, else 0: uint8. Collective.
 */
export const equal: BinaryFunction<"truth"> = binary("equal");

/**
 * 1 where a differs from b, else 0. Collective.
 */
export const notEqual: BinaryFunction<"truth"> = binary("notEqual");

/**
 * 1 where a < b, else 0. Collective.
 */
export const less: BinaryFunction<"truth"> = binary("less");

/**
 * 1 where a <= b, else 0. Collective.
 */
export const lessEqual: BinaryFunction<"truth"> = binary("lessEqual");

/**
 * 1 where a > b, else 0. Collective.
 */
export const greater: BinaryFunction<"truth"> = binary("greater");

/**
 * 1 where a >= b, else 0. Collective.
 */
export const greaterEqual: BinaryFunction<"truth"> = binary("greaterEqual");

/**
 * 1 where neither of both is 0, else 0. Collective.
 */
export const logicalAnd: BinaryFunction<"truth"> = binary("logicalAnd");

/**
 * 1 where not both are 0, else 0. Collective.
 */
export const logicalOr: BinaryFunction<"truth"> = binary("logicalOr");

/**
 * 1 where exactly one of both is 0, else 0. Collective.
 */
export const logicalXor: BinaryFunction<"truth"> = binary("logicalXor");

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
  return evaluate("where", applied("where"), [condition, b, c], options);
}

/**
 * Each element, or the bound that it lies beyond; NaN stays. Bounds may be arrays, or infinite for none. Collective.
 *
 * @example
 * ```ts
 * import { clip, DistributedArray, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using x = DistributedArray.generate(runtime, [6], Slab.X, (i) => i - 3);
 * using inside = clip(x, -1, 1);
 * console.log(inside.format()); // [-1. -1. -1.  0.  1.  1.]
 * ```
 */
export function clip<
  A extends Operand,
  L extends Operand,
  H extends Operand,
  T extends DType = PromotedWith<PromotedOperands<A, L>, H>,
>(a: A, low: L, high: H, options?: ElementwiseOptions<T>): DistributedArray<T> {
  return evaluate("clip", applied("clip"), [a, low, high], options);
}
