/**
 * The elementwise functions by the dtype of their results. All of them are functions, methods of arrays, and of terms.
 *
 * @module
 */
import type { DType } from "../../dtype/dtype.ts";
import type { FloatOf, RealOf } from "../../dtype/element_types.ts";

/** Which dtype results have: the operands', a float, that of magnitudes and parts, that of what is true or false. */
export type ResultKind = "same" | "float" | "real" | "truth";

/** The dtype of results of a kind. */
export type ResultDType<Kind extends ResultKind, D extends DType> = Kind extends "float" ? FloatOf<D>
  : Kind extends "real" ? RealOf<D>
  : Kind extends "truth" ? "uint8"
  : D;

/** The functions of one array. */
export interface UnaryNames {
  /** Results have the array's dtype. */
  same: "positive" | "negative" | "sign" | "square" | "floor" | "ceil" | "trunc" | "round" | "conj";
  /** Results are real. */
  real: "abs" | "real" | "imag";
  /** Results are floats; of integers float64. */
  float:
    | ("sqrt" | "exp" | "expm1" | "log" | "log1p" | "log2" | "log10" | "erf" | "erfc")
    | ("sin" | "cos" | "tan" | "asin" | "acos" | "atan" | "sinh" | "cosh" | "tanh");
  /** Results are 1 and 0, uint8. */
  truth: "isNaN" | "isFinite" | "logicalNot";
}

/** The functions of two arrays, or of an array and a number. */
export interface BinaryNames {
  /** Results have the operands' common dtype. */
  same: "add" | "subtract" | "multiply" | "power" | "minimum" | "maximum";
  /** Results are floats; of integers float64. */
  float: "divide" | "atan2";
  /** Results are 1 and 0, uint8. */
  truth:
    | ("equal" | "notEqual" | "less" | "lessEqual" | "greater" | "greaterEqual")
    | ("logicalAnd" | "logicalOr" | "logicalXor");
}

/**
 * The name of an elementwise function: that of the Array API standard, in camel case, but for `power`, which is `pow` there;
 * `erf` and `erfc` are SciPy's.
 */
export type ElementwiseName = UnaryNames[keyof UnaryNames] | BinaryNames[keyof BinaryNames] | "where" | "clip";

/** Those that are one operation, not several. */
export type OperationName = Exclude<ElementwiseName, "clip">;
