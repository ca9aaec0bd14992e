/**
 * Where the elements lie between the steps of a transform: as few buffers as its speed permits, and no copy that a step could
 * do without.
 *
 * @module
 */
import type { RouteStep } from "../../steps.ts";

/** The memory of the operand, that of the result, or one of two buffers. */
export type Location = "operand" | "result" | 0 | 1;

/** Whether a step can write its result over what it reads. */
export function worksInPlace(step: RouteStep): boolean {
  return step.kind === "twiddle" || step.kind === "transform" && step.type === "c2c" && !step.isTransposed;
}

/**
 * Where the elements are before the first step and after each one. The result's memory is the operand's if `inplace`; if
 * the elements are not in it in the end, they have to be copied there. The operand is written to only then.
 *
 * With `movesWhileMade` what a first transform makes of the operand is brought elsewhere, so that parts of it can arrive while
 * others are still to be made of the operand: that takes another buffer.
 */
export function locationsOf(steps: readonly RouteStep[], inplace: boolean, movesWhileMade = false): Location[] {
  const locations: Location[] = ["operand"];
  for (const [i, step] of steps.entries()) {
    const here = locations[i];
    const canStay = worksInPlace(step);
    const isShared = inplace && here === "operand";
    const others = steps.slice(i + 1);
    const isApart = movesWhileMade && inplace && step.kind === "move" && locations[i - 1] === "operand" &&
      others.length > 0;
    const canFinish = others.every(worksInPlace) && !isApart;
    if (here === "result" || canFinish && (canStay || !isShared)) locations.push("result");
    else if (canStay && (isShared || here !== "operand")) locations.push(here);
    else locations.push(here === 0 ? 1 : 0);
  }
  return locations;
}
