/**
 * Passes by the FFTW3 interface.
 *
 * @module
 */
import { type Fftw, FftwError, FftwFlags, FftwSign } from "../../../../ffi/fft/fftw.ts";
import { copyStrided } from "../../../array/layout.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import type { FFTDirection } from "../../problem.ts";
import type { FFTEffort } from "../engine.ts";
import type { PassLibrary, PassPlan } from "../staged/local_transform.ts";
import { type Dimension, type Pass, shown } from "../staged/passes.ts";

/** Where MKL is there too, FFTW measures a pass for about this long at most, unless it shall be patient. */
const MOST_SECONDS = 1;

/** MKL takes no more dimensions at once. */
const MOST_DIMENSIONS = 7;

/** FFTW takes two paths: for arrays that begin at multiples of this, and for others. Source: `fftw_alignment_of`. */
const VECTOR_BYTES = 16;

/** The libraries, in reports. */
const LIBRARIES = { mkl: "MKL", fftw: "FFTW" } as const;

/**
 * Passes of fewer numbers go to the first library: they take less time than to find out which is the faster. Calls of more
 * than enough numbers are no faster, but take as much longer to be measured.
 */
export const comparing = { leastNumbers: 2 ** 15, enoughNumbers: 2 ** 19 };

/**
 * Plans of the FFTW3 interface, of some effort and for some threads. Where there are several libraries, and plans may
 * measure, each pass takes the one that was the faster.
 */
export function fftwPasses(libraries: readonly Fftw[], effort: FFTEffort, threads: number): PassLibrary {
  const [first] = libraries;
  const mayTry = effort !== "estimate";
  return {
    limits: {
      dimensions: MOST_DIMENSIONS,
      loops: Math.min(...libraries.map(({ mostLoops }) => mostLoops)),
      enough: comparing.enoughNumbers,
      isNested: false,
    },
    alignment: 1,
    alignedAt: VECTOR_BYTES,
    // What begins between cache lines, as plain memory does, takes vectors of 64 bytes up to a fifth longer.
    allocate: (dtype, count) => LocalArray.empty(dtype, [count]).data,
    copy: (source, target) => copyStrided(source, target, target.shape, dtypeInfo(target.dtype).parts),
    plan(passes, source, target, direction) {
      const isInPlace = source.address === target.address;
      const candidates = mayTry && source.size >= comparing.leastNumbers ? libraries : [first];
      // What measures writes to the arrays.
      const isTried = candidates.length > 1 || mayTry && first.measures;
      const scratch = (array: LocalArray, side: "source" | "target") =>
        isTried ? scratchFor(passes, array, side) : array;
      const to = scratch(target, "target");
      const from = isInPlace ? to : scratch(source, "source");
      const isAligned = [source, target, from, to].every(({ address }) => address % BigInt(VECTOR_BYTES) === 0n);
      return passes.map((pass) => {
        const start = pass.isInPlace ? to : from;
        const plans = candidates.map((fftw) => {
          fftw.setThreads(threads);
          fftw.limitSeconds(candidates.length > 1 && effort !== "patient" ? MOST_SECONDS : -1);
          return create(fftw, effort, pass, start, to, direction, isAligned);
        });
        return fastest(plans, start.address, to.address);
      });
    },
  };
}

/** How often each plan is timed, one after the other in turns, so that whatever else the machine does hits all alike. */
const ROUNDS = 5;

/** The plan that takes the least time; the others are freed. */
function fastest(plans: readonly PassPlan[], from: bigint, to: bigint): PassPlan {
  if (plans.length === 1) return plans[0];
  const shortest = plans.map(() => Infinity);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, plan] of plans.entries()) {
      const start = performance.now();
      plan.execute(from, to);
      shortest[i] = Math.min(shortest[i], performance.now() - start);
    }
  }
  const best = plans[shortest.indexOf(Math.min(...shortest))];
  for (const plan of plans) if (plan !== best) plan[Symbol.dispose]();
  return best;
}

function create(
  fftw: Fftw,
  effort: FFTEffort,
  pass: Pass,
  { address: source, dtype: from }: LocalArray,
  { address: target, dtype: to }: LocalArray,
  direction: FFTDirection,
  isAligned: boolean,
): PassPlan {
  const { type, transformed, looped } = pass;
  const flags = flagsFor(effort, source === target, isAligned && staysAligned(pass, from, to));
  const [dims, loops] = [packed(transformed), packed(looped)];
  const [rank, count] = [transformed.length, looped.length];
  const sign = direction === "forward" ? FftwSign.FORWARD : FftwSign.BACKWARD;
  const plan = type === "c2c"
    ? fftw.planComplex(rank, dims, count, loops, source, target, sign, flags)
    : type === "r2c"
    ? fftw.planRealToComplex(rank, dims, count, loops, source, target, flags)
    : fftw.planComplexToReal(rank, dims, count, loops, source, target, flags);
  if (plan === 0n) {
    throw new FftwError({
      functionName: `fftw_plan_guru64_dft${type === "c2c" ? "" : `_${type}`}`,
      code: 0,
      symbol: "NULL",
      text: `${fftw.version} has no plan for ${shown(transformed)}, ${looped.length} loops of ${shown(looped)}`,
    });
  }
  const { executeComplex, executeRealToComplex, executeComplexToReal } = fftw;
  const execute = { c2c: executeComplex, r2c: executeRealToComplex, c2r: executeComplexToReal }[type];
  return {
    library: LIBRARIES[fftw.vendor],
    execute: (from, to) => execute(plan, from, to),
    [Symbol.dispose]: () => fftw.destroyPlan(plan),
  };
}

/** Whether all calls of a pass begin where vectors do if the first one does. */
function staysAligned({ called }: Pass, source: DType, target: DType): boolean {
  const isWhole = (elements: number, dtype: DType) => elements * dtypeInfo(dtype).itemSize % VECTOR_BYTES === 0;
  return called.every((loop) => isWhole(loop.source, source) && isWhole(loop.target, target));
}

function flagsFor(effort: FFTEffort, isInPlace: boolean, isAligned: boolean): number {
  const flag = { estimate: FftwFlags.ESTIMATE, measure: FftwFlags.MEASURE, patient: FftwFlags.PATIENT }[effort];
  return flag | (isAligned ? 0 : FftwFlags.UNALIGNED) | (isInPlace ? 0 : FftwFlags.PRESERVE_INPUT);
}

/** Memory for one call of each pass, written to: reading what never was costs less. */
function scratchFor(passes: readonly Pass[], { dtype }: LocalArray, side: "source" | "target"): LocalArray {
  const spans = passes.map(({ transformed, looped, isInPlace }) =>
    [...transformed, ...looped].reduce(
      (span, dimension) => span + (dimension.extent - 1) * dimension[isInPlace ? "target" : side],
      1,
    )
  );
  const span = Math.max(...spans);
  const { data } = LocalArray.zeros(dtype, [span]);
  (data as Float64Array).fill(0);
  return new LocalArray({ data, dtype, shape: [span], strides: [1] });
}

/** As the library takes dimensions. */
function packed(dimensions: readonly Dimension[]): BigInt64Array<ArrayBuffer> {
  return BigInt64Array.from(dimensions.flatMap(({ extent, source, target }) => [extent, source, target].map(BigInt)));
}
