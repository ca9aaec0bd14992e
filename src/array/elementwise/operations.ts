/**
 * What elementwise operations compute: one line each, from which loops are made.
 *
 * A formula is JavaScript in the operands a, b, c; of complex ones in their parts ar, ai, br, bi. `H` are the functions of
 * helpers.ts, `W` is memory for two numbers.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { floatOf } from "../../dtype/promotion.ts";
import type { OperationName } from "./names.ts";

/** What becomes of the operands' common dtype: in which the operation computes, and that of its result. */
export interface ResultTypes {
  /** Operands are brought into it. */
  readonly compute: DType;
  /** The dtype of the result. */
  readonly result: DType;
}

/** An elementwise operation. */
export interface Operation {
  /** The number of operands. */
  readonly arity: 1 | 2 | 3;
  /** The dtypes, given the common one of the operands that are values. */
  readonly types: (common: DType) => ResultTypes;
  /** How many of the operands, from the first on, are only asked whether they are true: not 0. */
  readonly conditions?: number;
  /** For floats, and for integers of at most 32 bits unless `integer` is there; null if it has no meaning for them. */
  readonly number: string | null;
  /** For integers of at most 32 bits; the result is wrapped. */
  readonly integer?: string;
  /** For int64. */
  readonly bigint?: string;
  /** For complex numbers: both parts, or one of a real result. */
  readonly complex?: readonly [re: string, im: string] | string;
  /** Whether it refuses some values of integers. */
  readonly mayThrow?: boolean;
}

const same = (dtype: DType): ResultTypes => ({ compute: dtype, result: dtype });
const floating = (dtype: DType): ResultTypes => same(floatOf(dtype));
const truth = (dtype: DType): ResultTypes => ({ compute: dtype, result: "uint8" });
const toReal = (dtype: DType): ResultTypes => ({ compute: dtype, result: dtypeInfo(dtype).real });

type Others = Partial<Operation>;

/**
 * One of two numbers, without a branch: where a processor guesses wrong half of the time, a choice in memory takes a fifth
 * of the time of `?:`. `W` are two words.
 */
function select(isFirst: string, first: string, second: string): string {
  return `(W[0] = ${second}, W[1] = ${first}, W[${isFirst}])`;
}

/** An operation on integers, floats and complex numbers alike. */
function arithmetic(arity: 1 | 2, number: string, others: Others = {}): Operation {
  return { arity, types: same, number, bigint: number, ...others };
}

/** A function of real analysis; integers become float64. */
function analysis(name: string, complex?: Operation["complex"]): Operation {
  return { arity: 1, types: floating, number: `Math.${name}(a)`, ...complex === undefined ? {} : { complex } };
}

/** A function that leaves integers as they are. */
function rounding(number: string): Operation {
  return { arity: 1, types: same, number, integer: "a", bigint: "a" };
}

function comparison(operator: string, complex?: string): Operation {
  const formula = `+(a ${operator} b)`;
  return { arity: 2, types: truth, number: formula, bigint: formula, ...complex === undefined ? {} : { complex } };
}

function logical(arity: 1 | 2, formula: string): Operation {
  return { arity, types: truth, conditions: arity, number: formula };
}

/** A test of floats that integers never pass, or always. */
function test(number: string, ofIntegers: 0 | 1, complex: string): Operation {
  return { arity: 1, types: truth, number, integer: `${ofIntegers}`, bigint: `${ofIntegers}`, complex };
}

/** A pair of calls of a helper that computes a complex number. */
function both(name: string, operands: string): readonly [string, string] {
  return [`H.${name}Re(${operands})`, `H.${name}Im(${operands})`];
}

const ONE = "ar, ai";
const TWO = "ar, ai, br, bi";

/** The operations by their names. */
export const OPERATIONS: Readonly<Record<OperationName, Operation>> = {
  positive: arithmetic(1, "a", { complex: ["ar", "ai"] }),
  negative: arithmetic(1, "-a", { complex: ["-ar", "-ai"] }),
  add: arithmetic(2, "a + b", { complex: ["ar + br", "ai + bi"] }),
  subtract: arithmetic(2, "a - b", { complex: ["ar - br", "ai - bi"] }),
  multiply: arithmetic(2, "a * b", {
    integer: "Math.imul(a, b)",
    complex: ["ar * br - ai * bi", "ar * bi + ai * br"],
  }),
  divide: { arity: 2, types: floating, number: "a / b", complex: both("divide", TWO) },
  power: arithmetic(2, "H.power(a, b)", {
    integer: "H.integerPower(a, b)",
    bigint: "H.bigPower(a, b)",
    complex: both("power", TWO),
    mayThrow: true,
  }),
  square: arithmetic(1, "a * a", { integer: "Math.imul(a, a)", complex: ["ar * ar - ai * ai", "ar * ai + ai * ar"] }),
  minimum: { arity: 2, types: same, number: select("+(a < b) | +(a !== a)", "a", "b"), bigint: "(a < b ? a : b)" },
  maximum: { arity: 2, types: same, number: select("+(a > b) | +(a !== a)", "a", "b"), bigint: "(a > b ? a : b)" },
  abs: { arity: 1, types: toReal, number: "Math.abs(a)", bigint: "(a < 0n ? -a : a)", complex: "H.hypotenuse(ar, ai)" },
  sign: arithmetic(1, select("+(a !== a)", "a", "+(a > 0) - +(a < 0)"), {
    bigint: "(a > 0n ? 1n : a < 0n ? -1n : 0n)",
    complex: both("sign", ONE),
  }),
  sqrt: analysis("sqrt", both("sqrt", ONE)),
  exp: analysis("exp", both("exp", ONE)),
  expm1: analysis("expm1"),
  log: analysis("log", ["H.logRe(ar, ai)", "H.atan2(ai, ar)"]),
  log1p: analysis("log1p"),
  log2: analysis("log2"),
  log10: analysis("log10"),
  sin: analysis("sin", ["H.coshSin(ai, ar)", "H.sinhCos(ai, ar)"]),
  cos: analysis("cos", ["H.coshCos(ai, ar)", "-H.sinhSin(ai, ar)"]),
  tan: analysis("tan"),
  asin: analysis("asin"),
  acos: analysis("acos"),
  atan: analysis("atan"),
  sinh: analysis("sinh", ["H.sinhCos(ar, ai)", "H.coshSin(ar, ai)"]),
  cosh: analysis("cosh", ["H.coshCos(ar, ai)", "H.sinhSin(ar, ai)"]),
  tanh: analysis("tanh", both("tanh", ONE)),
  erf: { arity: 1, types: floating, number: "H.erf(a)" },
  erfc: { arity: 1, types: floating, number: "H.erfc(a)" },
  atan2: { arity: 2, types: floating, number: "H.atan2(a, b)" },
  floor: rounding("Math.floor(a)"),
  ceil: rounding("Math.ceil(a)"),
  trunc: rounding("Math.trunc(a)"),
  round: rounding("H.roundToEven(a)"),
  equal: comparison("===", "+(ar === br && ai === bi)"),
  notEqual: comparison("!==", "+(ar !== br || ai !== bi)"),
  less: comparison("<"),
  lessEqual: comparison("<="),
  greater: comparison(">"),
  greaterEqual: comparison(">="),
  logicalAnd: logical(2, "+(a) & +(b)"),
  logicalOr: logical(2, "+(a) | +(b)"),
  logicalXor: logical(2, "+(a) ^ +(b)"),
  logicalNot: logical(1, "1 - +(a)"),
  isNaN: test("+(a !== a)", 0, "+(ar !== ar || ai !== ai)"),
  isFinite: test("+(a - a === 0)", 1, "+(ar - ar === 0 && ai - ai === 0)"),
  conj: arithmetic(1, "a", { complex: ["ar", "-ai"] }),
  real: { arity: 1, types: toReal, number: "a", bigint: "a", complex: "ar" },
  imag: { arity: 1, types: toReal, number: "0.0", bigint: "0n", complex: "ai" },
  where: {
    arity: 3,
    types: same,
    conditions: 1,
    number: select("+(a)", "b", "c"),
    bigint: "(a ? b : c)",
    complex: ["(a ? br : cr)", "(a ? bi : ci)"],
  },
};

/** An operation by its name. */
export function operationOf(name: OperationName): Operation {
  return OPERATIONS[name];
}
