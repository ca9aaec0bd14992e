/**
 * Expressions of elementwise operations: which dtypes they have, and the code that computes one element.
 *
 * @module
 */
import { type DType, dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { dtypeOfScalar, promote, promoteScalar } from "../../dtype/promotion.ts";
import { DTypeError } from "../../errors.ts";
import type { ElementwiseName, OperationName } from "./names.ts";
import { type Operation, operationOf, OPERATIONS } from "./operations.ts";

/** A tree of operations, whose leaves are operands by their number. */
export type Expression =
  | { readonly kind: "operand"; readonly index: number }
  | { readonly kind: "cast"; readonly dtype: DType; readonly of: Expression }
  | Application
  | { readonly kind: "formula"; readonly code: string; readonly of: readonly Expression[] };

/** An operation of expressions; errors name the function that it is a part of, `title`, if it is one. */
interface Application {
  readonly kind: "apply";
  readonly name: OperationName;
  readonly of: readonly Expression[];
  readonly title?: string;
}

/** What an operand is for the types: elements of a dtype, or a number of the script, which takes the dtype of others. */
export type OperandType = { readonly dtype: DType } | { readonly scalar: Scalar };

/** An operand by its number. */
export function operand(index: number): Expression {
  return { kind: "operand", index };
}

/** An operation of expressions. */
export function apply(name: OperationName, ...of: readonly Expression[]): Expression {
  return { kind: "apply", name, of };
}

/** As {@linkcode apply}, in a function of another name. */
function part(title: string, name: OperationName, ...of: readonly Expression[]): Expression {
  return { kind: "apply", name, of, title };
}

/** A formula of float64 in a, b, c, d that is no operation of its own. */
export function formula(code: string, ...of: readonly Expression[]): Expression {
  return { kind: "formula", code, of };
}

/** An elementwise function: how many operands it takes, and what it makes of them. */
export interface ElementwiseFunction {
  /** The number of operands. */
  readonly arity: number;
  /** The expression. */
  readonly of: (...operands: Expression[]) => Expression;
}

const operations = Object.entries(OPERATIONS).map(([name, { arity }]): [string, ElementwiseFunction] => [
  name,
  { arity, of: (...operands) => apply(name as OperationName, ...operands) },
]);

/** The elementwise functions by their names. */
export const FUNCTIONS = {
  ...Object.fromEntries(operations),
  clip: { arity: 3, of: (a, low, high) => part("clip", "minimum", part("clip", "maximum", a, low), high) },
} as Readonly<Record<ElementwiseName, ElementwiseFunction>>;

/** A function of operands 0, 1, … */
export function applied(name: ElementwiseName): Expression {
  const { arity, of } = FUNCTIONS[name];
  return of(...Array.from({ length: arity }, (_, index) => operand(index)));
}

/** An expression in a wider dtype. */
export function cast(dtype: DType, of: Expression): Expression {
  return { kind: "cast", dtype, of };
}

/** A number of the script in the dtype in which it is used. */
export interface Parameter {
  /** Which operand it is. */
  readonly index: number;
  /** Its dtype where it is used. */
  readonly dtype: DType;
}

/**
 * A language in which programs are written. Formulas are JavaScript, most of which is C++ as well, given objects of the
 * names that it uses.
 */
export interface Language {
  /** A formula, or statements, in this language. */
  readonly translate: (code: string) => string;
  /** Code of a real number, in the form that another dtype is computed in. */
  readonly cast: (code: string, from: DType, to: DType) => string;
  /** A result as it is stored in its dtype: integers wrap around. */
  readonly wrap: (code: string, dtype: DType) => string;
}

/** What runs on the CPU. */
export const JAVASCRIPT: Language = {
  translate: (code) => code,
  cast: (code, from, to) => {
    if (from === "int64" && to !== "int64") return `Number(${code})`;
    return from !== "int64" && to === "int64" ? `BigInt(${code})` : code;
  },
  wrap: (code, dtype) => {
    switch (dtype) {
      case "int8":
        return `(${code}) << 24 >> 24`;
      case "uint8":
        return `(${code}) & 255`;
      case "int32":
        return `(${code}) | 0`;
      case "int64":
        return `BigInt.asIntN(64, ${code})`;
      default:
        return code;
    }
  },
};

/** The code that computes one element. */
export interface ElementProgram {
  /** What it computes. */
  readonly expression: Expression;
  /** What it is written in. */
  readonly language: Language;
  /** The dtype of the result. */
  readonly dtype: DType;
  /** Statements that compute it from variables `x0`, `x1` … of arrays (`x0r`, `x0i` of complex ones) and `s0` … of numbers. */
  readonly statements: readonly string[];
  /** The result: one expression, or the two parts of a complex number. */
  readonly result: readonly string[];
  /** The numbers of the script, `s0` … in this order. */
  readonly parameters: readonly Parameter[];
  /** Whether it refuses some values. */
  readonly mayThrow: boolean;
}

/** A value in the code. */
interface Value {
  readonly dtype: DType;
  /** One expression, or two for a complex number. */
  readonly parts: readonly string[];
}

type Typed = Value | { readonly index: number; readonly scalar: Scalar };

/**
 * The dtype of an expression, and the code for one element. Errors name the function that was called, `title`, or else the
 * operation.
 *
 * @throws {DTypeError} if an operation has no meaning for its operands.
 * @throws {RangeError} if a number of the script lies outside the range of the integers beside it.
 */
export function compile(
  expression: Expression,
  operands: readonly OperandType[],
  language: Language = JAVASCRIPT,
  title?: string,
): ElementProgram {
  const statements: string[] = [];
  const parameters: Parameter[] = [];
  let mayThrow = false;

  const store = (code: string): string => {
    const name = `v${statements.length}`;
    statements.push(language.translate(`const ${name} = ${code};`));
    return name;
  };

  const parameter = (index: number, dtype: DType): Value => {
    let at = parameters.findIndex((other) => other.index === index && other.dtype === dtype);
    if (at < 0) at = parameters.push({ index, dtype }) - 1;
    return { dtype, parts: dtypeInfo(dtype).isComplex ? [`s${at}r`, `s${at}i`] : [`s${at}`] };
  };

  const value = (typed: Typed, dtype: DType): Value =>
    "scalar" in typed ? parameter(typed.index, dtype) : { dtype, parts: widened(language, typed, dtype) };

  const applyTo = (name: OperationName, given: readonly Typed[], own: string = name): Value => {
    if (isSquare(name, given)) return applyTo("square", [given[0]], own);
    const operation = operationOf(name);
    const { conditions = 0 } = operation;
    const called = title ?? own;
    const common = commonDType(called, conditions === operation.arity ? given : given.slice(conditions));
    const { compute, result } = operation.types(common);
    const truths = given.slice(0, conditions).map((typed) => {
      if ("scalar" in typed) checkScalars(called, ownDType(typed), [typed]);
      return truthOf(value(typed, ownDType(typed)));
    });
    const values = given.slice(conditions).map((typed) => value(typed, compute).parts);
    mayThrow ||= operation.mayThrow === true && dtypeInfo(compute).isInteger;
    const formulas = formulasOf(called, operation, conditions === operation.arity ? "uint8" : compute);
    const names = namesOf([...truths.map((truth) => [truth]), ...values]);
    const parts = formulas.map((formula) => {
      return store(language.wrap(withNames(formula, names), result));
    });
    return { dtype: result, parts };
  };

  // What an expression uses twice is computed once.
  const visited = new Map<Expression, Typed>();
  const visit = (node: Expression): Typed => {
    const known = visited.get(node);
    if (known !== undefined) return known;
    const typed = typedOf(node);
    visited.set(node, typed);
    return typed;
  };

  const typedOf = (node: Expression): Typed => {
    if (node.kind === "apply") return applyTo(node.name, node.of.map(visit), node.title);
    if (node.kind === "cast") return value(visit(node.of), node.dtype);
    if (node.kind === "formula") {
      const names = namesOf(node.of.map((one) => value(visit(one), "float64").parts));
      return { dtype: "float64", parts: [store(withNames(node.code, names))] };
    }
    const operand = operands[node.index];
    if ("scalar" in operand) return { index: node.index, scalar: operand.scalar };
    const x = `x${node.index}`;
    return { dtype: operand.dtype, parts: dtypeInfo(operand.dtype).isComplex ? [`${x}r`, `${x}i`] : [x] };
  };

  const typed = visit(expression);
  const { dtype, parts } = value(typed, ownDType(typed));
  return { expression, language, dtype, statements, result: parts, parameters, mayThrow };
}

/** Whether a power of floats is a square: one product, instead of a function that is called for each element. */
function isSquare(name: OperationName, [base, exponent]: readonly Typed[]): boolean {
  return name === "power" && "scalar" in exponent && exponent.scalar === 2 && "dtype" in base &&
    !dtypeInfo(base.dtype).isInteger;
}

function ownDType(typed: Typed): DType {
  return "scalar" in typed ? dtypeOfScalar(typed.scalar) : typed.dtype;
}

/** The dtype that all operands are brought into; numbers of the script take that of the others. */
function commonDType(name: string, given: readonly Typed[]): DType {
  const dtypes = given.flatMap((typed) => "scalar" in typed ? [] : [typed.dtype]);
  if (dtypes.length === 0) {
    const common = given.map(ownDType).reduce(promote);
    checkScalars(name, common, given);
    return common;
  }
  try {
    return given.reduce(
      (dtype, typed) => "scalar" in typed ? promoteScalar(dtype, typed.scalar) : dtype,
      dtypes.reduce(promote),
    );
  } catch (error) {
    throw withTitle(error, name);
  }
}

/** Refuse numbers of the script that a dtype does not hold. */
function checkScalars(name: string, dtype: DType, given: readonly Typed[]): void {
  try {
    for (const typed of given) if ("scalar" in typed) promoteScalar(dtype, typed.scalar);
  } catch (error) {
    throw withTitle(error, name);
  }
}

function withTitle(error: unknown, name: string): unknown {
  if (error instanceof RangeError) return new RangeError(`${name}: ${error.message}`);
  return error instanceof DTypeError ? new DTypeError(`${name}: ${error.message}`) : error;
}

/** The formulas of an operation for a dtype: one for each part of the result. */
function formulasOf(name: string, operation: Operation, dtype: DType): readonly string[] {
  const { isComplex, isInteger } = dtypeInfo(dtype);
  const formula = isComplex
    ? operation.complex
    : dtype === "int64"
    ? operation.bigint
    : isInteger
    ? operation.integer ?? operation.number
    : operation.number;
  if (formula !== undefined && formula !== null) return typeof formula === "string" ? [formula] : formula;
  const able = isComplex
    ? Object.entries(OPERATIONS).filter(([, other]) => "complex" in other).map(([other]) => other)
    : [];
  throw new DTypeError(
    `${name} has no meaning for ${dtype} here. ` +
      (isComplex
        ? `Take real(), imag() or abs() first; complex numbers have ${able.join(", ")}.`
        : `Convert with to({ dtype: "float64" }).`),
  );
}

function withNames(formula: string, names: ReadonlyMap<string, string>): string {
  return formula.replace(/\b[abcd][ri]?\b/g, (letter) => names.get(letter) ?? letter);
}

/** The names of the operands in a formula: a, b, c, d, and with r and i behind them the parts of complex ones. */
function namesOf(values: readonly (readonly string[])[]): Map<string, string> {
  const names = new Map<string, string>();
  values.forEach((parts, position) => {
    const letter = "abcd"[position];
    if (parts.length === 1) names.set(letter, parts[0]);
    parts.forEach((part, i) => names.set(letter + "ri"[i], part));
  });
  return names;
}

/** Whether a value is not 0, as code. */
function truthOf({ dtype, parts }: Value): string {
  const zero = dtype === "int64" ? "0n" : "0";
  return `(${parts.map((part) => `${part} !== ${zero}`).join(" || ")})`;
}

/** A value as one of a wider dtype. */
function widened(language: Language, { dtype, parts }: Value, to: DType): readonly string[] {
  if (dtype === to) return parts;
  const real = dtypeInfo(to).real;
  const converted = parts.map((part) => language.cast(part, dtypeInfo(dtype).real, real));
  return dtypeInfo(to).isComplex && parts.length === 1 ? [...converted, "0.0"] : converted;
}
