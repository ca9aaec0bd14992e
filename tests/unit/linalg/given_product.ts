/** Products as engines get them, out of what tests say of them. */
import type { Order } from "../../../src/array/layout.ts";
import type { DType } from "../../../src/dtype/dtype.ts";
import type { Distribution } from "../../../src/distribution/mod.ts";
import { canonicalProblem, type MatmulProblem } from "../../../src/linalg/matmul/problem.ts";

/** An m x n product on `size` ranks, of matrices that are column-major and of float64 unless said otherwise. */
export interface GivenProduct {
  size: number;
  m: number;
  n: number;
  k: number;
  a: Distribution;
  b: Distribution;
  c?: Distribution;
  d: Distribution;
  /** Whether A and B are stored transposed. */
  transposes?: readonly [boolean, boolean];
  conjugates?: readonly [boolean, boolean];
  /** Of A, of B, and of C and D. */
  orders?: readonly [Order, Order, Order];
  dtype?: DType;
  /** Of D, and of C, where it differs. */
  resultType?: DType;
  addendType?: DType;
}

/** What products of a dtype are summed in. */
export function accumulatorOf(dtype: DType): MatmulProblem["accumulator"] {
  return dtype === "float64" || dtype === "complex64" || dtype === "complex128" ? dtype : "float32";
}

export function problemOf(given: GivenProduct): MatmulProblem {
  const { size, m, n, k, dtype = "float64", resultType = dtype, addendType = resultType } = given;
  const { transposes = [false, false], conjugates = [false, false], orders = ["F", "F", "F"] } = given;
  const matrix = (distribution: Distribution, shape: readonly [number, number], order: Order, dtype: DType) => (
    { shape, order, dtype, distribution: distribution.bind(shape, size) }
  );
  return canonicalProblem({
    a: matrix(given.a, transposes[0] ? [k, m] : [m, k], orders[0], dtype),
    b: matrix(given.b, transposes[1] ? [n, k] : [k, n], orders[1], dtype),
    c: given.c ? matrix(given.c, [m, n], orders[2], addendType) : null,
    d: matrix(given.d, [m, n], orders[2], resultType),
    operationA: { transpose: transposes[0], conjugate: conjugates[0] },
    operationB: { transpose: transposes[1], conjugate: conjugates[1] },
    accumulator: accumulatorOf(dtype),
  });
}
