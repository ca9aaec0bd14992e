/**
 * Steps in words.
 *
 * @module
 */
import type { Parts } from "../../../array/redistribution/plan.ts";
import type { RouteStep } from "../../steps.ts";

/** One step, in words. */
export function inWords(step: RouteStep, bytes: number): string {
  if (step.kind === "move") return `redistribute ${brief(step.from)} -> ${brief(step.to)}: ${bytes} bytes`;
  if (step.kind === "twiddle") return `multiply by roots of unity of ${step.length}`;
  if (step.kind === "reflect") return `conjugates: ${brief(step.from)} -> ${brief(step.to)}`;
  const axes = `${step.axes.length > 1 ? "axes" : "axis"} ${step.axes.join(", ")}`;
  return `transform ${axes} in ${brief(step.from)}, ${step.type}`;
}

/** A distribution in few letters: boxes are many. */
function brief(parts: Parts): string {
  const text = String(parts);
  return text.length <= 80 ? text : `${text.slice(0, 78)} …`;
}
