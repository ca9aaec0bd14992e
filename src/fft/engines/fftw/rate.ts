/**
 * How fast this process transforms.
 *
 * @module
 */
import { type Fftw, FftwFlags, type FftwPrecision, FftwSign } from "../../../../ffi/fft/fftw.ts";
import { shortestSeconds } from "../../../stopwatch.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { complexOf } from "../../../dtype/promotion.ts";
import { operationsOf } from "../../steps.ts";

/** Transforms of this length, of which so many lie one after the other: a millisecond on a core. */
const [LENGTH, COUNT] = [1024, 64];

const measured = new Map<string, number>();

/** Additions and multiplications in a second, counted as {@linkcode operationsOf} does. Measured once. */
export function transformRate(
  { planComplex, executeComplex, destroyPlan, version }: Fftw,
  precision: FftwPrecision,
): number {
  const key = `${version} ${precision}`;
  const known = measured.get(key);
  if (known !== undefined) return known;
  const local = LocalArray.zeros(complexOf(precision), [COUNT, LENGTH]);
  const [extents, loops] = [BigInt64Array.of(BigInt(LENGTH), 1n, 1n), BigInt64Array.of(BigInt(COUNT), ...STEPS)];
  const { address } = local;
  const plan = planComplex(1, extents, 1, loops, address, address, FftwSign.FORWARD, FftwFlags.ESTIMATE);
  const seconds = shortestSeconds(() => executeComplex(plan, local.address, local.address));
  destroyPlan(plan);
  const rate = operationsOf(COUNT * LENGTH, LENGTH) / seconds;
  measured.set(key, rate);
  return rate;
}

const STEPS = [BigInt(LENGTH), BigInt(LENGTH)] as const;
