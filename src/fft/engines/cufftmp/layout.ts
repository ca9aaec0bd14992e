/**
 * What cuFFTMp can transform, and how it is told where the elements lie. Pure, so that all ranks find the same.
 *
 * @module
 */
import { CufftMpFormat } from "../../../../ffi/cuda/cufftmp.ts";
import { sizeOfShape, stridesOf } from "../../../array/layout.ts";
import { type Distribution, Slab } from "../../../distribution/mod.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { dtypesOf, type FFTDirection, type FFTProblem, halfOf } from "../../problem.ts";

/**
 * What cuFFTMp can be told: `slabs` along the first and the second axis, for which it is made, or any `boxes`.
 */
export const CUFFTMP_ALGORITHMS = ["slabs", "boxes"] as const;

/** The algorithms' names. */
export type CufftMpAlgorithm = typeof CUFFTMP_ALGORITHMS[number];

/** Extents are 32-bit integers there. */
const MOST = 2 ** 31;

/** Dimensions, the outermost in memory first. */
function outermostFirst({ operand, order }: FFTProblem): number[] {
  const dimensions = operand.map((_, d) => d);
  return order === "C" ? dimensions : dimensions.reverse();
}

/** The extents of the array in space, which of real numbers are those before they are halved, the outermost first. */
export function extentsOf(problem: FFTProblem): number[] {
  const shape = problem.type === "c2r" ? problem.result : problem.operand;
  return outermostFirst(problem).map((d) => shape[d]);
}

/** Why cuFFTMp cannot transform this, and what can be done; null if it can. */
export function refusalOf(problem: FFTProblem): string | null {
  const { operand, axes, halved, from, to, precision } = problem;
  if (precision === "float16") return "cuFFTMp has no numbers of half precision";
  const dimensions = outermostFirst(problem);
  if (operand.length < 2 || operand.length > 3 || axes.length < operand.length) {
    const which = axes.length === operand.length ? "" : ` of which the axes ${axes.join(", ")} are transformed`;
    return `it transforms all axes of arrays of 2 or 3 dimensions, and this one has ${operand.length}${which}`;
  }
  const inner = dimensions.at(-1)!;
  if (halved !== null && halved !== inner) {
    return `it halves the axis whose elements are neighbours in memory, here ${inner}, and this transform axis ${halved}`;
  }
  const extents = extentsOf(problem);
  if (extents.slice(0, 2).some((extent) => extent < from.size!)) {
    return `of both outer axes there must be an index for each of ${from.size} ranks, and their extents are ` +
      extents.slice(0, 2).join(" and ");
  }
  if (extents.some((extent) => extent >= MOST)) {
    return `its extents are below 2^31, and these are ${extents.join(", ")}`;
  }
  for (const distribution of [from, to]) {
    const bounds = distribution.isReplicated && distribution.size! > 1 ? null : distribution.bounds();
    if (bounds === null) return `it takes one box of elements from each rank, which ${distribution} does not have`;
    if (bounds.some(([lower, upper]) => lower.some((start, d) => start === upper[d]))) {
      return `every rank must have elements, and ${distribution} leaves some without`;
    }
  }
  return null;
}

/** The algorithms for a problem that it can transform. */
export function algorithmsOf(problem: FFTProblem): CufftMpAlgorithm[] {
  return isBetweenSlabs(problem) ? ["slabs", "boxes"] : ["boxes"];
}

/** Whether it goes between cuFFTMp's own slabs. */
export function isBetweenSlabs(problem: FFTProblem): boolean {
  return slabFormats(problem) !== null;
}

/** The formats of operand and result if these are cuFFTMp's slabs; else null. */
function slabFormats(problem: FFTProblem): { readonly from: CufftMpFormat; readonly to: CufftMpFormat } | null {
  const { from, to, type, operand } = problem;
  const [first, second] = outermostFirst(problem);
  const isSlab = (distribution: Distribution, axis: number) =>
    distribution.coincidesWith(new Slab(axis).bind(distribution.globalShape!, distribution.size!));
  const [x, y] = [CufftMpFormat.INPLACE, CufftMpFormat.INPLACE_SHUFFLED];
  // Of two dimensions the second is the one that is halved: real numbers are in slabs along the first.
  const isFixed = operand.length === 2;
  if (isSlab(from, first) && isSlab(to, second) && !(isFixed && type === "c2r")) return { from: x, to: y };
  if (isSlab(from, second) && isSlab(to, first) && !(isFixed && type === "r2c")) return { from: y, to: x };
  return null;
}

/** One side of a transform on one rank: the corners of its box, and how its elements lie, the outermost dimension first. */
export interface MpSide {
  readonly lower: readonly number[];
  readonly upper: readonly number[];
  readonly strides: readonly number[];
}

/** What a plan is told, of what it takes in the forward direction, and of what it gives. */
export interface MpLayout {
  /** The formats. */
  readonly formats: readonly [input: CufftMpFormat, output: CufftMpFormat];
  /** The boxes; null for slabs, which it knows. */
  readonly boxes: readonly [input: MpSide, output: MpSide] | null;
}

/** What to tell a plan for one direction on one rank. */
export function layoutOf(
  problem: FFTProblem,
  algorithm: CufftMpAlgorithm,
  direction: FFTDirection,
  rank: number,
): MpLayout {
  const inTurn = <T>(from: T, to: T): readonly [T, T] => direction === "forward" ? [from, to] : [to, from];
  if (algorithm === "slabs") {
    const { from, to } = slabFormats(problem)!;
    return { formats: inTurn(from, to), boxes: null };
  }
  const dimensions = outermostFirst(problem);
  const side = (which: "from" | "to"): MpSide => {
    const [lower, upper] = problem[which].bounds()![rank];
    const strides = stridesIn(problem, which, rank);
    const ordered = (list: readonly number[]) => dimensions.map((d) => list[d]);
    return { lower: ordered(lower), upper: ordered(upper), strides: ordered(strides) };
  };
  const { DISTRIBUTED_INPUT, DISTRIBUTED_OUTPUT } = CufftMpFormat;
  return { formats: [DISTRIBUTED_INPUT, DISTRIBUTED_OUTPUT], boxes: inTurn(side("from"), side("to")) };
}

/**
 * The distances of neighbours where cuFFTMp works, in the order of the dimensions: it works in place, so that rows of real
 * numbers are padded to whole complex ones.
 */
export function stridesIn(problem: FFTProblem, which: "from" | "to", rank: number): number[] {
  const { type, order } = problem;
  const shape = problem[which].localShape(rank);
  if (type !== (which === "from" ? "r2c" : "c2r")) return stridesOf(shape, order);
  const inner = outermostFirst(problem).at(-1)!;
  return stridesOf(shape.with(inner, 2 * halfOf(shape[inner])), order);
}

/** The bytes that the part of any rank takes there, as operand or as result. */
export function bytesOf(problem: FFTProblem): number {
  const dtypes = dtypesOf(problem);
  const sides = [["from", dtypes.operand], ["to", dtypes.result]] as const;
  const bytes = sides.flatMap(([which, dtype]) =>
    Array.from({ length: problem.from.size! }, (_, rank) => {
      const shape = problem[which].localShape(rank);
      const strides = stridesIn(problem, which, rank);
      const span = sizeOfShape(shape) === 0 ? 0 : Math.max(...shape.map((extent, d) => extent * strides[d]));
      return span * dtypeInfo(dtype).itemSize;
    })
  );
  return Math.max(...bytes);
}
