import { assertEquals } from "@std/assert";
import { Slab } from "../../../src/distribution/mod.ts";
import { canonicalProblem } from "../../../src/linalg/matmul/problem.ts";
import type { DescribedMatrix } from "../../../src/linalg/operands.ts";
import { problemOf } from "./given_product.ts";

type Complex = readonly [re: number, im: number];
type Element = (row: number, column: number) => Complex;

/** Small integers that differ everywhere. */
const elementOf = (seed: number): Element => (row, column) => [seed + 3 * row - 2 * column, row + seed * column - 1];

const multiply = ([a, b]: Complex, [c, d]: Complex): Complex => [a * c - b * d, a * d + b * c];
const add = ([a, b]: Complex, [c, d]: Complex): Complex => [a + c, b + d];

/** The elements as they lie in memory. */
function store([rows, columns]: readonly [number, number], order: "C" | "F", element: Element): Complex[] {
  const memory: Complex[] = [];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      memory[order === "C" ? row * columns + column : column * rows + row] = element(row, column);
    }
  }
  return memory;
}

/** op(X)(i, j) of a matrix that lies in memory column by column. */
function columnMajor(memory: Complex[], rows: number, operation: { transpose: boolean; conjugate: boolean }): Element {
  return (i, j) => {
    const [re, im] = operation.transpose ? memory[i * rows + j] : memory[j * rows + i];
    return [re, operation.conjugate ? -im : im];
  };
}

const BOTH = [false, true];
const ORDERS = ["C", "F"] as const;

Deno.test("canonicalProblem gives the user's product for all orders, transposes and conjugates", () => {
  const [m, n, k] = [3, 4, 2];
  for (let bits = 0; bits < 128; bits++) {
    const flag = (bit: number) => BOTH[bits >> bit & 1];
    const order = (bit: number) => ORDERS[bits >> bit & 1];
    const operationA = { transpose: flag(0), conjugate: flag(1) };
    const operationB = { transpose: flag(2), conjugate: flag(3) };
    const shapeA: [number, number] = operationA.transpose ? [k, m] : [m, k];
    const shapeB: [number, number] = operationB.transpose ? [n, k] : [k, n];
    const matrix = (shape: [number, number], order: "C" | "F"): DescribedMatrix => (
      { shape, order, distribution: Slab.X.bind(shape, 2), dtype: "complex128" }
    );
    const a = matrix(shapeA, order(4));
    const b = matrix(shapeB, order(5));
    const d = matrix([m, n], order(6));
    const problem = canonicalProblem({ a, b, c: d, d, operationA, operationB, accumulator: "complex128" });

    const [A, B] = [elementOf(1), elementOf(5)];
    const op = (element: Element, { transpose, conjugate }: typeof operationA): Element => (i, j) => {
      const [re, im] = transpose ? element(j, i) : element(i, j);
      return [re, conjugate ? -im : im];
    };
    const [opA, opB] = [op(A, operationA), op(B, operationB)];
    const expected = store([m, n], d.order, (i, j) => {
      let sum: Complex = [0, 0];
      for (let p = 0; p < k; p++) sum = add(sum, multiply(opA(i, p), opB(p, j)));
      return sum;
    });

    const memoryA = store(shapeA, a.order, A);
    const memoryB = store(shapeB, b.order, B);
    const [left, right] = problem.transposed ? [memoryB, memoryA] : [memoryA, memoryB];
    const engineA = columnMajor(left, problem.a.rows, problem.operationA);
    const engineB = columnMajor(right, problem.b.rows, problem.operationB);
    const actual = store([problem.m, problem.n], "F", (i, j) => {
      let sum: Complex = [0, 0];
      for (let p = 0; p < problem.k; p++) sum = add(sum, multiply(engineA(i, p), engineB(p, j)));
      return sum;
    });
    assertEquals(actual, expected, `combination ${bits}`);
    assertEquals(problem.d.rows * problem.d.columns, m * n);
    assertEquals(problem.c, problem.d);
  }
});

Deno.test("canonicalProblem flips the distributions of row-major matrices, and no others", () => {
  const { X } = Slab;
  const problem = problemOf({ size: 2, m: 6, n: 8, k: 4, a: X, b: X, d: X, orders: ["C", "F", "F"] });
  assertEquals(String(problem.a.distribution), "Slab.Y");
  assertEquals(problem.a.distribution.globalShape, [4, 6]);
  assertEquals(problem.operationA.transpose, true);
  assertEquals(String(problem.b.distribution), "Slab.X");
  assertEquals(problem.operationB.transpose, false);
  assertEquals(problem.transposed, false);
  assertEquals(problem.c, null);
});
