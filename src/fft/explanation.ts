/**
 * A transform in words.
 *
 * @module
 */
import { explainPlan, type Planned } from "../array/explanation.ts";
import type { CheckedTransform } from "./checked_transform.ts";
import type { FFTPlan } from "./execution.ts";
import { dtypesOf, type FFTProblem } from "./problem.ts";

/** What a transform is, of operands where the problem has them, and how it is computed if that is planned. */
export function explainTransform(
  { norm, inplace, runtime }: CheckedTransform,
  problem: FFTProblem,
  plan: Pick<FFTPlan, "report" | "communication" | "predict"> | null,
): string {
  const { type, axes, operand, result, from, to, order } = problem;
  const dtypes = dtypesOf(problem);
  return [
    `${type} along ${axes.length > 1 ? "axes" : "axis"} ${axes.join(", ")}, norm ${norm}${inplace ? ", in place" : ""}`,
    `  operand ${operand.join(" x ")}, ${dtypes.operand}, ${from}, order ${order}`,
    `  result ${result.join(" x ")}, ${dtypes.result}, ${to}`,
    ...plan ? explainPlan(plannedBy(plan), runtime) : ["not planned yet"],
  ].join("\n");
}

function plannedBy(plan: Pick<FFTPlan, "report" | "communication" | "predict">): Planned {
  const { library, steps, ...report } = plan.report;
  return { ...report, steps: [library, ...steps], communication: plan.communication, times: plan.predict() };
}
