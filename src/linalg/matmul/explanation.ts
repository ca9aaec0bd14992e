/**
 * A matmul in words.
 *
 * @module
 */
import { explainPlan, type Planned } from "../../array/explanation.ts";
import type { Scalar } from "../../dtype/dtype.ts";
import type { CheckedProduct, CheckedScalars } from "./checked_product.ts";
import type { DescribedMatrix } from "../operands.ts";
import type { Epilog } from "./epilog.ts";
import type { Matrix } from "./problem.ts";
import type { QuantizationValues } from "./quantization.ts";
import type { Operation } from "../../blas/transposition.ts";

/** What a product is, with what follows it, and how it is computed if that is planned. */
export function explainProduct(
  product: CheckedProduct,
  scalars: CheckedScalars,
  { name }: Epilog,
  planned: Planned | null,
): string {
  const { a, b, c, d, operations, types, inplace, problem } = product;
  const { alpha, beta, scales } = scalars;
  const sum = `${factor(alpha)} op(A) op(B)${c ? ` + ${factor(beta)} C` : ""}`;
  const formula = name === "none" ? sum : `${name}(${sum})`;
  return [
    `D = ${formula}, summed in ${types.accumulator} (computeType ${types.computeType})`,
    `  A ${matrix(a)}${operation(operations.a)}${scaled(scales.a)}`,
    `  B ${matrix(b)}${operation(operations.b)}${scaled(scales.b)}`,
    ...c ? [`  C ${matrix(c)}${scaled(scales.c)}${inplace ? ", overwritten by D" : ""}`] : [],
    `  D ${matrix(d)}${scaled(scales.d)}`,
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

function scaled(scale: QuantizationValues["a"]): string {
  if (scale === undefined) return "";
  return `, scaled by ${typeof scale === "number" ? scale : `${scale.shape.join(" x ")} numbers`}`;
}

function factor(value: Scalar): string {
  return Array.isArray(value) ? `(${value[0]} + ${value[1]}i)` : String(value);
}
