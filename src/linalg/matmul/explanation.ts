/**
 * A matmul in words.
 *
 * @module
 */
import { describeShare } from "../../distribution/communication.ts";
import type { CommunicationMatrix } from "../../distribution/mod.ts";
import type { Scalar } from "../../dtype/dtype.ts";
import type { CheckedProduct, CheckedScalars } from "./checked_product.ts";
import type { AlgorithmReport, AlgorithmTimes } from "../engines/engine.ts";
import type { DescribedMatrix } from "../operands.ts";
import type { Matrix } from "./problem.ts";
import type { Operation } from "../../blas/operation.ts";

/** What a product is, and how it is computed if that is planned. */
export function explainProduct(
  product: CheckedProduct,
  scalars: CheckedScalars,
  report: AlgorithmReport | null,
  communication: CommunicationMatrix | null,
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
    ...report
      ? planned(report, communication, product.runtime.rank)
      : ["not planned yet", ...product.notes.map((note) => `  note: ${note}`)],
  ].join("\n");
}

function planned(report: AlgorithmReport, communication: CommunicationMatrix | null, rank: number): string[] {
  return [
    `engine ${report.engine}, algorithm ${report.algorithm}: ${report.variant}`,
    `  workspace ${report.workspaceBytes} bytes on this rank, ${report.bytesMoved} bytes between ranks an execution`,
    ...communication ? [communication.notes, describeShare(communication, rank)].flat().map((line) => `  ${line}`) : [],
    report.times
      ? `  ${timesOf(report.times)}`
      : `  no time is predicted: there is no model of engine ${report.engine}`,
    ...report.copies.map((copy) => `  copy: ${copy}`),
    ...report.notes.map((note) => `  note: ${note}`),
  ];
}

function timesOf({ predicted, measured, limit }: AlgorithmTimes): string {
  const time = (seconds: number) =>
    `${(1e6 * seconds).toFixed(1)} us, ${(100 * limit / seconds).toFixed(0)} % of the limit`;
  const seen = measured === undefined ? "not measured" : `measured ${time(measured)}`;
  return `predicted ${time(predicted)} (${(1e6 * limit).toFixed(1)} us); ${seen}`;
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
