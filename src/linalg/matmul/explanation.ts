/**
 * A matmul in words.
 *
 * @module
 */
import { explainPlan, type Planned } from "../../array/explanation.ts";
import type { Scalar } from "../../dtype/dtype.ts";
import type { CheckedProduct, CheckedScalars } from "./checked_product.ts";
import type { DescribedMatrix } from "../operands.ts";
import type { Matrix } from "./problem.ts";
import type { Operation } from "../../blas/operation.ts";

/** What a product is, and how it is computed if that is planned. */
export function explainProduct(
  product: CheckedProduct,
  scalars: CheckedScalars,
  planned: Planned | null,
): string {
  const { a, b, c, d, operations, types, inplace, problem } = product;
  const addend = c ? ` + ${factor(scalars.beta)} C` : "";
  return [
    `D = ${
      factor(scalars.alpha)
    } op(A) op(B)${addend}, summed in ${types.accumulator} (computeType ${types.computeType})`,
    `  A ${matrix(a)}${operation(operations.a)}`,
    `  B ${matrix(b)}${operation(operations.b)}`,
    ...c ? [`  C ${matrix(c)}${inplace ? ", overwritten by D" : ""}`] : [],
    `  D ${matrix(d)}`,
    `column-major, as the engine sees it${problem.transposed ? ": the transpose, with A and B exchanged" : ""}`,
    `  m ${problem.m}, n ${problem.n}, k ${problem.k}`,
    `  A ${stored(problem.a)}${operation(problem.operationA)}`,
    `  B ${stored(problem.b)}${operation(problem.operationB)}`,
    `  D ${stored(problem.d)}`,
    ...planned
      ? explainPlan(planned, product.runtime)
      : ["not planned yet", ...product.notes.map((note) => `  note: ${note}`)],
  ].join("\n");
}

function matrix({ shape, dtype, distribution, order }: DescribedMatrix): string {
  return `${shape[0]} x ${shape[1]}, ${dtype}, ${distribution}, order ${order}`;
}

function stored({ rows, columns, distribution }: Matrix): string {
  return `${rows} x ${columns}, ${distribution}`;
}

function operation({ transpose, conjugate }: Operation): string {
  return `${transpose ? ", transposed" : ""}${conjugate ? ", conjugated" : ""}`;
}

function factor(value: Scalar): string {
  return Array.isArray(value) ? `(${value[0]} + ${value[1]}i)` : String(value);
}
