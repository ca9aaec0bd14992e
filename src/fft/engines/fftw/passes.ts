/**
 * Passes by the FFTW3 interface.
 *
 * @module
 */
import { type Fftw, FftwError, FftwFlags, FftwSign } from "../../../../ffi/fft/fftw.ts";
import { copyStrided } from "../../../array/layout.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { allocate, dtypeInfo } from "../../../dtype/dtype.ts";
import type { FFTDirection } from "../../problem.ts";
import type { FFTEffort } from "../engine.ts";
import type { PassLibrary, PassPlan } from "../staged/local_transform.ts";
import { type Dimension, type Pass, shown } from "../staged/passes.ts";

/** MKL takes no more dimensions at once. */
const MOST_DIMENSIONS = 7;

/** Plans of the FFTW3 interface, of some effort and for some threads. */
export function fftwPasses(fftw: Fftw, effort: FFTEffort, threads: number): PassLibrary {
  return {
    limits: { dimensions: MOST_DIMENSIONS, loops: fftw.mostLoops, isNested: false },
    alignment: 1,
    allocate,
    copy: (source, target) => copyStrided(source, target, target.shape, dtypeInfo(target.dtype).parts),
    plan(passes, source, target, direction) {
      const isInPlace = source.address === target.address;
      // What measures writes to the arrays.
      const isTried = fftw.measures && effort !== "estimate";
      const scratch = (array: LocalArray) => isTried ? likeOf(array) : array;
      const to = scratch(target);
      const from = isInPlace ? to : scratch(source);
      fftw.setThreads(threads);
      return passes.map((pass) =>
        create(fftw, effort, pass, (pass.isInPlace ? to : from).address, to.address, direction)
      );
    },
  };
}

function create(
  fftw: Fftw,
  effort: FFTEffort,
  { type, transformed, looped }: Pass,
  source: bigint,
  target: bigint,
  direction: FFTDirection,
): PassPlan {
  const flags = flagsFor(effort, source === target);
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
    execute: (from, to) => execute(plan, from, to),
    [Symbol.dispose]: () => fftw.destroyPlan(plan),
  };
}

function flagsFor(effort: FFTEffort, isInPlace: boolean): number {
  const flag = { estimate: FftwFlags.ESTIMATE, measure: FftwFlags.MEASURE, patient: FftwFlags.PATIENT }[effort];
  return flag | FftwFlags.UNALIGNED | (isInPlace ? 0 : FftwFlags.PRESERVE_INPUT);
}

/** An array that is laid out as another one. */
function likeOf({ dtype, shape, strides }: LocalArray): LocalArray {
  const span = 1 + shape.reduce((sum, extent, d) => sum + (extent - 1) * strides[d], 0);
  return new LocalArray({ data: LocalArray.zeros(dtype, [span]).data, dtype, shape, strides });
}

/** As the library takes dimensions. */
function packed(dimensions: readonly Dimension[]): BigInt64Array<ArrayBuffer> {
  return BigInt64Array.from(dimensions.flatMap(({ extent, source, target }) => [extent, source, target].map(BigInt)));
}
