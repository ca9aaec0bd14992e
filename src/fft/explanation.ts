/**
 * A transform in words.
 *
 * @module
 */
import type { CheckedTransform } from "./checked_transform.ts";
import type { FFTReport } from "./engines/engine.ts";
import { dtypesOf } from "./problem.ts";

/** What a transform is, and how it is computed if that is planned. */
export function explainTransform({ problem, norm, inplace }: CheckedTransform, report: FFTReport | null): string {
  const { type, axes, operand, result, from, to, order } = problem;
  const dtypes = dtypesOf(problem);
  return [
    `${type} along ${axes.length > 1 ? "axes" : "axis"} ${axes.join(", ")}, norm ${norm}${inplace ? ", in place" : ""}`,
    `  operand ${operand.join(" x ")}, ${dtypes.operand}, ${from}, order ${order}`,
    `  result ${result.join(" x ")}, ${dtypes.result}, ${to}`,
    ...report ? planned(report) : ["not planned yet"],
  ].join("\n");
}

function planned(report: FFTReport): string[] {
  return [
    `engine ${report.engine}, algorithm ${report.algorithm}: ${report.variant}`,
    `  ${report.library}`,
    ...report.steps.map((step) => `  ${step}`),
    `  workspace ${report.workspaceBytes} bytes on this rank, ${report.bytesMoved} bytes between ranks an execution`,
    ...report.notes.map((note) => `  note: ${note}`),
  ];
}
