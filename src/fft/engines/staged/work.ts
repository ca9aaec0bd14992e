/**
 * What the busiest rank does in a transform, for predictions.
 *
 * @module
 */
import { sizeOfShape } from "../../../array/layout.ts";
import type { Parts } from "../../../array/redistribution/plan.ts";
import { countOf } from "../../../array/traverse.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { operationsOf, type RouteStep } from "../../steps.ts";
import type { Operation } from "./operations.ts";

/** How many numbers the rank with the most of them has. */
function mostNumbers(parts: Parts, size: number): number {
  return Math.max(...Array.from({ length: size }, (_, rank) => sizeOfShape(parts.ranges(rank).map(countOf))));
}

/** What the busiest rank computes in a step. Real numbers take half of what complex ones do. */
export function operationsOfStep(step: RouteStep, size: number): number {
  if (step.kind !== "transform") return 0;
  const { from, to, axes, type } = step;
  const most = Math.max(mostNumbers(from, size), mostNumbers(to, size));
  const length = axes.reduce((n, axis) => n * Math.max(from.globalShape![axis], to.globalShape![axis]), 1);
  return operationsOf(type === "c2c" ? most : most / 2, length);
}

/** Bytes that it reads and writes on a GPU, once an axis; moves are taken to go straight into place. */
export function passedBytes({ step, source, target }: Operation, size: number): number {
  if (step.kind === "move") return 0;
  const bytes = mostNumbers(step.from, size) * dtypeInfo(source).itemSize +
    mostNumbers(step.to, size) * dtypeInfo(target).itemSize;
  return step.kind === "transform" ? step.axes.length * bytes : bytes;
}
