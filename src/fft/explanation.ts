/**
 * A transform in words.
 *
 * @module
 */
import { describeShare } from "../distribution/communication.ts";
import type { CommunicationMatrix } from "../distribution/mod.ts";
import type { CheckedTransform } from "./checked_transform.ts";
import type { FFTReport } from "./engines/engine.ts";
import { dtypesOf } from "./problem.ts";

/** What a transform is, and how it is computed if that is planned. */
export function explainTransform(
  { problem, norm, inplace, runtime }: CheckedTransform,
  report: FFTReport | null,
  communication: CommunicationMatrix | null,
): string {
  const { type, axes, operand, result, from, to, order } = problem;
  const dtypes = dtypesOf(problem);
  return [
    `${type} along ${axes.length > 1 ? "axes" : "axis"} ${axes.join(", ")}, norm ${norm}${inplace ? ", in place" : ""}`,
    `  operand ${operand.join(" x ")}, ${dtypes.operand}, ${from}, order ${order}`,
    `  result ${result.join(" x ")}, ${dtypes.result}, ${to}`,
    ...report ? planned(report, communication, runtime.rank) : ["not planned yet"],
  ].join("\n");
}

function planned(report: FFTReport, communication: CommunicationMatrix | null, rank: number): string[] {
  return [
    `engine ${report.engine}, algorithm ${report.algorithm}: ${report.variant}`,
    `  ${report.library}`,
    ...report.steps.map((step) => `  ${step}`),
    `  workspace ${report.workspaceBytes} bytes on this rank, ${report.bytesMoved} bytes between ranks an execution`,
    ...communication ? [`  ${describeShare(communication, rank)}`] : [],
    `  no time is predicted: there is no model of engine ${report.engine}`,
    ...report.notes.map((note) => `  note: ${note}`),
  ];
}
