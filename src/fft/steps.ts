/**
 * The steps of a transform, as data.
 *
 * @module
 */
import type { Parts } from "../array/redistribution/plan.ts";
import type { RouteAlgorithm } from "./engines/staged/algorithms.ts";
import type { HalfSpectra } from "./half_spectra.ts";
import type { FFTType } from "./problem.ts";

/** Local transforms along axes that every rank has all of. */
export interface TransformStep {
  readonly kind: "transform";
  /** The type; `r2c` and `c2r` halve the last axis of {@linkcode axes}, or make it whole. */
  readonly type: FFTType;
  /** The axes, the halved one last. */
  readonly axes: readonly number[];
  /** What ranks have before. */
  readonly from: Parts;
  /** What they have afterwards. */
  readonly to: Parts;
  /** Whether the result is written in the other memory order. */
  readonly isTransposed?: boolean;
}

/** Elements go from rank to rank. */
export interface MoveStep {
  readonly kind: "move";
  /** What ranks have before. */
  readonly from: Parts;
  /** What they have afterwards. */
  readonly to: Parts;
  /** Whether the elements are real numbers. */
  readonly isReal: boolean;
}

/** Each element (i, j) is multiplied by exp(-2 pi i (i j) / n), or by the conjugate in the inverse direction. */
export interface TwiddleStep {
  readonly kind: "twiddle";
  /** What ranks have, before and afterwards. */
  readonly from: Parts;
  /** The same. */
  readonly to: Parts;
  /** n */
  readonly length: number;
}

/** Elements of the spectrum of real numbers, as one half of it has them and as another one does: they are conjugates. */
export interface ReflectStep {
  readonly kind: "reflect";
  /** What ranks have before. */
  readonly from: Parts;
  /** What they have afterwards. */
  readonly to: Parts;
  /** The halves. */
  readonly halves: HalfSpectra;
  /** Whether the first half of the vector comes of the first rows of the matrix, or these of that. */
  readonly isToVector: boolean;
}

/** Additions and multiplications of transforms of this length of so many complex numbers, by convention: 5 n log2 n. */
export function operationsOf(numbers: number, length: number): number {
  return 5 * numbers * Math.log2(Math.max(2, length));
}

/** One step of the way; steps follow each other as elements in memory, so that their shapes may differ. */
export type RouteStep = TransformStep | MoveStep | TwiddleStep | ReflectStep;

/** A way from the operand to the result. */
export interface Route {
  /** What kind of way it is. */
  readonly algorithm: RouteAlgorithm;
  /** The steps in words. */
  readonly variant: string;
  /** The steps. */
  readonly steps: readonly RouteStep[];
  /** What is done differently from what could be expected, in words. */
  readonly notes?: readonly string[];
  /** About how long it takes: bytes that the busiest rank reads, writes or receives. */
  readonly cost: number;
}
