/**
 * The slices of sums on GPUs, which are taken in one pass with the sizes of the values: how many they have to be, and the code.
 *
 * @module
 */
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import type { Accumulation } from "../elementwise/loops.ts";
import { SLICES, type Terms } from "./exact_sums.ts";

/** What the sums of values are told of them. */
export interface Sizes {
  /** How many slices hold all bits of those that are not much smaller than the largest. */
  readonly slices: number;
  /** The bits of their significands. */
  readonly significand: number;
}

/** Bits that a slice takes from a value, at most. */
const BITS = 53;

/**
 * Cuts values as sums.ts does, the cut being operand `at`; and takes the largest and the smallest of `size`, code of their
 * magnitudes, but for 0. Accumulators are the slices, the largest and the smallest.
 */
export function cuttingAndMeasuring(
  at: number,
  bits: number,
  { slices }: Sizes,
  size: (value: string) => string,
): Accumulation {
  const next = 2 ** (bits - BITS);
  const cuts = Array.from({ length: slices }, (_, i) => `
    ${i === 0 ? "" : `const y${i} = y${i - 1} - q${i - 1}; const c${i} = c${i - 1} * ${next};`}
    const q${i} = (c${i} + y${i}) - c${i}; a${i} += q${i};`);
  const [most, least] = [`a${slices}`, `a${slices + 1}`];
  const larger = (value: string) => `if (!(${value} <= ${most})) ${most} = ${most} !== ${most} ? ${most} : ${value};`;
  const smaller = (value: string) => `${least} = ${value} < ${least} ? ${value} : ${least};`;
  return {
    start: [...cuts.map(() => 0), 0, Infinity],
    take: ([value]) =>
      `const c0 = x${at}; const y0 = ${value};${cuts.join("")}
    const size = ${size(value)}; ${larger("size")} if (size > 0) ${smaller("size")}`,
    merge: (others) =>
      [
        ...others.slice(0, slices).map((other, i) => `a${i} += ${other};`),
        larger(others[slices]),
        smaller(others[slices + 1]),
      ].join(" "),
    isAnyOrder: true,
  };
}

/** The smallest size of which the slices of a cut hold all bits, beside that cut. */
export function reachOf(bits: number, { slices, significand }: Sizes): number {
  return 2 ** ((bits - BITS) * (slices - 1) + significand - BITS);
}

/** Of any values. */
export const ANY: Sizes = { slices: SLICES, significand: BITS };

/** Of the elements of an array, or what of them is added. */
export function sizesOf({ dtype }: { readonly dtype: DType }, terms: Terms | undefined): Sizes {
  const { isComplex, isInteger, itemSize } = dtypeInfo(dtype);
  const isFloat = !isComplex && !isInteger;
  return terms !== undefined && terms !== "squares" && isFloat && itemSize <= 4 ? { slices: 2, significand: 24 } : ANY;
}
