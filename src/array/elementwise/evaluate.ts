/**
 * Several elementwise operations at once: the elements are read and written once, on a GPU by one kernel.
 *
 * @module
 */
import type { DType, Scalar } from "../../dtype/dtype.ts";
import { isPair } from "../../dtype/scalar.ts";
import { describe, isObject, readList } from "../../options.ts";
import { DistributedArray, type ElementwiseOptions, type Operand } from "../distributed_array.ts";
import { expressed } from "./elementwise.ts";
import { type Expression, FUNCTIONS, operand } from "./expression.ts";

import type { ElementwiseName } from "./names.ts";

/**
 * What stands for the elements of an array in {@linkcode evaluate}: its methods are the elementwise functions, and take other
 * terms or numbers.
 */
export type Term = { readonly [Name in ElementwiseName]: (...others: readonly (Term | Scalar)[]) => Term };

/** The expression of a term, and where numbers of the script are collected that stand in it. */
interface Meaning {
  readonly expression: Expression;
  readonly numbers: Scalar[];
  readonly first: number;
}

const meanings = new WeakMap<object, Meaning>();

/** The expression of a term of one evaluate(); null if the value is none. */
function termOf(value: unknown, { numbers }: Meaning): Expression | null {
  const known = isObject(value) ? meanings.get(value) : undefined;
  return known !== undefined && known.numbers === numbers ? known.expression : null;
}

function expressionOf(name: string, value: unknown, meaning: Meaning): Expression {
  const known = termOf(value, meaning);
  if (known !== null) return known;
  const { numbers, first } = meaning;
  if (typeof value === "number" || typeof value === "bigint" || isPair(value)) {
    return operand(first + numbers.push(value) - 1);
  }
  throw new TypeError(`evaluate: ${name} takes terms of the same evaluate() and numbers, not ${describe(value)}.`);
}

const methods = Object.fromEntries(
  Object.entries(FUNCTIONS).map(([name, { arity, of }]) => [name, function (this: Term, ...others: unknown[]): Term {
    const own = meanings.get(this)!;
    if (others.length !== arity - 1) {
      throw new TypeError(`evaluate: ${name} takes ${arity - 1} operands beside its own, not ${others.length}.`);
    }
    return term({ ...own, expression: of(own.expression, ...others.map((other) => expressionOf(name, other, own))) });
  }]),
);

function term(meaning: Meaning): Term {
  const made = Object.create(methods) as Term;
  meanings.set(made, meaning);
  return made;
}

/**
 * Compute an expression of several elementwise operations in one pass: the function gets a {@linkcode Term} for each operand,
 * and returns the result's. What stands between is kept in float64 (complex numbers in two), and rounded once, in the end; on
 * a GPU, and of large arrays on a CPU with a C compiler, the whole expression is one kernel, compiled at its first use and kept
 * on disk. Collective; throws as the single functions do, and TypeError if the function returns no term.
 *
 * @example
 * ```ts
 * import { DistributedArray, evaluate, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using x = DistributedArray.random(runtime, [100], Slab.X);
 * using y = DistributedArray.random(runtime, [100], Slab.X);
 * using swish = evaluate((x, y) => x.multiply(y).divide(x.negative().exp().add(1)), [x, y]);
 * console.log(swish.shape);
 * ```
 */
export function evaluate<T extends DType = DType>(
  make: (...terms: Term[]) => Term,
  operands: readonly Operand[],
  options?: ElementwiseOptions<T>,
): DistributedArray<T> {
  const { items, check } = readList(operands);
  const given = items ?? [];
  return DistributedArray.of(expressed("evaluate", given, options, () => {
    check();
    if (typeof make !== "function" || items === null || items.length === 0) {
      throw new TypeError(
        `evaluate takes a function of terms and a list of operands, such as evaluate((a, b) => a.add(b), [x, y]).`,
      );
    }
    const numbers: Scalar[] = [];
    const meaning = (index: number): Meaning => ({ expression: operand(index), numbers, first: given.length });
    const result: unknown = make(...given.map((_, i) => term(meaning(i))));
    const expression = termOf(result, meaning(0));
    if (expression === null) {
      throw new TypeError(
        `evaluate: the function must return a term of the same evaluate(), such as a.add(b), not ${describe(result)}.`,
      );
    }
    return { expression, numbers };
  }));
}
