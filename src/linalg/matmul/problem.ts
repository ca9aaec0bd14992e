/**
 * The canonical matmul problem: what an engine sees.
 *
 * Every matrix is column-major. A row-major matrix is a column-major one with rows and columns exchanged, its
 * distribution flipped (Slab.X <-> Slab.Y) and its transpose flag inverted; a row-major D makes the whole product
 * transposed: D^T = op(B)^T op(A)^T. No data is touched by any of this.
 *
 * @module
 */
import type { DescribedMatrix } from "../operands.ts";
import type { Operation } from "../../blas/transposition.ts";
import type { AccumulatorDType, DType } from "../../dtype/dtype.ts";
import type { LocalArray } from "../../array/local_array.ts";
import type { Distribution } from "../../distribution/mod.ts";

/** A global column-major matrix, described without its data. */
export interface Matrix {
  /** Global rows, as stored. */
  readonly rows: number;
  /** Global columns, as stored. */
  readonly columns: number;
  /** Who owns what; bound to `[rows, columns]`. */
  readonly distribution: Distribution;
  readonly dtype: DType;
}

/** D = epilog(alpha opA(A) opB(B) + beta C), with D of m x n and a sum over k; all matrices column-major. */
export interface MatmulProblem {
  /** Rows of D. */
  readonly m: number;
  /** Columns of D. */
  readonly n: number;
  /** The dimension that is summed over. */
  readonly k: number;
  /** The left factor, m x k after `operationA`. */
  readonly a: Matrix;
  /** The right factor, k x n after `operationB`. */
  readonly b: Matrix;
  /** The addend, m x n, or null. */
  readonly c: Matrix | null;
  /** The result, m x n. */
  readonly d: Matrix;
  readonly operationA: Operation;
  readonly operationB: Operation;
  /** What products are summed in. */
  readonly accumulator: AccumulatorDType;
  /** Whether this is the transpose of the user's product: A and B have changed places, m and n too. */
  readonly transposed: boolean;
}

/** Whether there is nothing to multiply, so that D = epilog(beta C), or has no elements. */
export function isEmpty({ m, n, k }: MatmulProblem): boolean {
  return m === 0 || n === 0 || k === 0;
}

/** The dimension of a stored factor that is summed over. */
export function summed(factor: "a" | "b", { operationA, operationB }: MatmulProblem): 0 | 1 {
  return factor === "a" ? operationA.transpose ? 0 : 1 : operationB.transpose ? 1 : 0;
}

/** The dimension of a stored factor that D has too. */
export function kept(factor: "a" | "b", problem: MatmulProblem): 0 | 1 {
  return summed(factor, problem) === 0 ? 1 : 0;
}

/** What the user calls a matrix of the canonical problem. */
export function matrixName({ transposed }: MatmulProblem, name: "a" | "b" | "c" | "d"): string {
  const exchanged = { a: "b", b: "a", c: "c", d: "d" } as const;
  return (transposed ? exchanged[name] : name).toUpperCase();
}

/** The user's names of the dimensions of a matrix of the canonical problem, as it is stored. */
export function dimensionNames(problem: MatmulProblem, name: "a" | "b" | "d"): [string, string] {
  const [m, n] = problem.transposed ? ["n", "m"] : ["m", "n"];
  if (name === "d") return [m, n];
  const names: [string, string] = ["", ""];
  names[summed(name, problem)] = "k";
  names[kept(name, problem)] = name === "a" ? m : n;
  return names;
}

/** A user's product before it is made canonical. */
export interface DescribedProduct {
  /** The left factor as stored. */
  readonly a: DescribedMatrix;
  /** The right factor as stored. */
  readonly b: DescribedMatrix;
  /** The addend, or null. */
  readonly c: DescribedMatrix | null;
  readonly d: DescribedMatrix;
  readonly operationA: Operation;
  readonly operationB: Operation;
  /** What products are summed in. */
  readonly accumulator: AccumulatorDType;
}

/** The same matrix seen column-major. */
function columnMajor({ shape: [rows, columns], order, distribution, dtype }: DescribedMatrix): Matrix {
  return order === "F"
    ? { rows, columns, distribution, dtype }
    : { rows: columns, columns: rows, distribution: distribution.transpose(), dtype };
}

/** What has to be done to the column-major view instead of the array itself, and after `flip` to its transpose. */
function columnMajorOperation(operation: Operation, { order }: DescribedMatrix, flip: boolean): Operation {
  return { ...operation, transpose: operation.transpose !== (order === "C") !== flip };
}

/**
 * Turn a product of arrays in any memory orders into the canonical column-major problem.
 *
 * The shapes must fit already. C, if there is one, must have D's order.
 */
export function canonicalProblem(product: DescribedProduct): MatmulProblem {
  const { a, b, c, d, accumulator } = product;
  const transposed = d.order === "C";
  const left = columnMajor(transposed ? b : a);
  const right = columnMajor(transposed ? a : b);
  const operationA = transposed
    ? columnMajorOperation(product.operationB, b, true)
    : columnMajorOperation(product.operationA, a, false);
  const operationB = transposed
    ? columnMajorOperation(product.operationA, a, true)
    : columnMajorOperation(product.operationB, b, false);
  const result = columnMajor(d);
  return {
    m: result.rows,
    n: result.columns,
    k: operationA.transpose ? left.rows : left.columns,
    a: left,
    b: right,
    c: c && columnMajor(c),
    d: result,
    operationA,
    operationB,
    accumulator,
    transposed,
  };
}

/** The local parts of the matrices of a problem, on this rank, all column-major with a leading dimension. */
export interface LocalOperands {
  /** This rank's part of A. */
  readonly a: LocalArray;
  /** This rank's part of B. */
  readonly b: LocalArray;
  /** This rank's part of C, or null. It may be the same memory as `d`. */
  readonly c: LocalArray | null;
  /** This rank's part of D: where the result goes. */
  readonly d: LocalArray;
}

/**
 * A function of a problem that keeps what it made of the last one, since several engines ask for the same. In a WeakMap V8
 * would keep what belongs to all of them until it collects everything.
 */
export function keepingLast<T>(make: (problem: MatmulProblem) => T): (problem: MatmulProblem) => T {
  let last: { readonly problem: MatmulProblem; readonly made: T } | null = null;
  return (problem) => {
    if (last?.problem !== problem) last = { problem, made: make(problem) };
    return last.made;
  };
}
