/**
 * The options of transforms.
 *
 * @module
 */
import type { Order } from "../array/layout.ts";
import type { Memory } from "../array/local_array.ts";
import type { DType } from "../dtype/dtype.ts";
import type { Distribution } from "../distribution/mod.ts";
import type { Stream } from "../gpu/stream.ts";
import { keysOf } from "../options.ts";
import type { Logger } from "../runtime/logger.ts";
import type { ExecuteOptions } from "../runtime/operation.ts";
import type { FFTEffort } from "./engines/engine.ts";
import type { FFTAlgorithmName, FFTEngineName } from "./engines/registry.ts";
import type { FFTDirection, FFTNorm, FFTType, LastAxisParity } from "./problem.ts";

/** Options of `FFT.plan`: each one replaces the constructor's for this plan. */
export interface FFTPlanOptions {
  /**
   * How the array moves while it is transformed: not at all, between distributions in which some axes are whole, to one
   * rank and back, or, for one long vector, as a matrix. `default` takes the one that should be the fastest; report
   * `algorithm` tells which, and a message which others there are.
   */
  algorithm?: FFTAlgorithmName;
  /**
   * How long planning may take: `measure` and `patient` try out how to transform, where the library does (FFTW does, up to
   * eight times, of which the fastest is taken; MKL and cuFFT have one way), and on CPUs whether to copy what is transformed
   * to the caches first: some seconds for large arrays, the first time, of `patient` minutes; on GPUs they make memory that
   * parts go straight to; what is made of real numbers in place has as much before it moves. cuFFTMp plans in one way,
   * whatever it says; so do CPUs where the result is replicated, so that ranks with as many threads have the same bits.
   * `measure` for class FFT, `estimate` for functions, if left out.
   */
  effort?: FFTEffort;
}

/** Options that say what is transformed, and where the result goes. */
export interface TransformOptions extends FFTPlanOptions {
  /** The axes that are transformed, from 0, negative ones from the end; all if left out. */
  axes?: readonly number[];
  /** The distribution of the result; the natural one if left out, see {@linkcode FFT}. */
  distribution?: Distribution;
  /** Whether the result has the distribution of the operand; not beside `distribution`. False if left out. */
  redistribute?: boolean;
  /** What the result is multiplied by; `backward` if left out. */
  norm?: FFTNorm;
  /** Write the result into the operand's memory. False if left out. */
  inplace?: boolean;
  /**
   * Which engine; `auto` takes `fftw` on CPUs, `cufft` on GPUs, where class FFT takes `cufftmp` for what that was measured to
   * be faster in. `cufftmp` leaves all of a transform to cuFFTMp, which works in
   * symmetric memory: in place in an operand in such memory, else with copies there and back.
   */
  engine?: FFTEngineName;
  /** Whether `execute` waits for the result: `auto` waits for CPUs only, true always. A CPU always waits. */
  blocking?: true | "auto";
  /** The stream of a GPU to run on; null on CPUs. */
  stream?: Stream | null;
  /** Where messages go; warnings to the standard error of rank 0, once, if left out. */
  logger?: Logger;
}

/** Options of `irfft`. */
export interface RealTransformOptions extends TransformOptions {
  /** Whether the last of the axes of a real result has an even or an odd number of elements. `even` if left out. */
  lastAxisParity?: LastAxisParity;
}

/** Options of class `FFT`. */
export interface FFTOptions extends RealTransformOptions {
  /** The type; `r2c` for real operands and `c2c` for complex ones if left out. */
  fftType?: FFTType;
}

/** Options of `FFT.execute`. */
export interface FFTExecuteOptions extends ExecuteOptions {
  /** `forward` or `inverse`. For `c2c` forward if left out; `r2c` is forward, `c2r` inverse. */
  direction?: FFTDirection;
}

/** Options of `FFT.autotune`. */
export interface FFTAutotuneOptions {
  /** How often each algorithm is measured; the fastest counts. 3 if left out. */
  repetitions?: number;
}

/** Options of `allocateOperand`: what they say of the transform has to be what the transform is told. */
export interface OperandOptions<D extends DType = DType> {
  /** The type of the elements; `complex128`, or `float64` for `r2c`, if left out. */
  dtype?: D;
  /** The memory order; "C" if left out. */
  order?: Order;
  /** Where the elements are: that of the runtime's device, if left out, or "symmetric". */
  memory?: Memory;
  /** The type; `r2c` for a real dtype and `c2c` for a complex one if left out. */
  fftType?: FFTType;
  /** The axes that are transformed; all if left out. */
  axes?: readonly number[];
  /** The distribution of the result; the natural one if left out. */
  resultDistribution?: Distribution;
  /** Whether the result has the distribution of the operand. */
  redistribute?: boolean;
  /** The parity of the last axis of a real result. */
  lastAxisParity?: LastAxisParity;
}

/** The keys of {@linkcode FFTPlanOptions}. */
export const FFT_PLAN_KEYS = keysOf<FFTPlanOptions>({ algorithm: true, effort: true });

/** The keys of {@linkcode TransformOptions}. */
export const TRANSFORM_KEYS: readonly (keyof TransformOptions)[] = [
  ...FFT_PLAN_KEYS,
  ...keysOf<Omit<TransformOptions, keyof FFTPlanOptions>>({
    axes: true,
    distribution: true,
    redistribute: true,
    norm: true,
    inplace: true,
    engine: true,
    blocking: true,
    stream: true,
    logger: true,
  }),
];

/** The keys of {@linkcode RealTransformOptions}. */
export const REAL_TRANSFORM_KEYS: readonly (keyof RealTransformOptions)[] = [
  ...TRANSFORM_KEYS,
  ...keysOf<Omit<RealTransformOptions, keyof TransformOptions>>({ lastAxisParity: true }),
];

/** The keys of {@linkcode FFTOptions}. */
export const FFT_OPTION_KEYS: readonly (keyof FFTOptions)[] = [
  ...REAL_TRANSFORM_KEYS,
  ...keysOf<Omit<FFTOptions, keyof RealTransformOptions>>({ fftType: true }),
];

/** The keys of {@linkcode FFTExecuteOptions}. */
export const FFT_EXECUTE_KEYS = keysOf<FFTExecuteOptions>({ direction: true, stream: true });

/** The keys of {@linkcode OperandOptions}. */
export const OPERAND_KEYS = keysOf<OperandOptions>({
  dtype: true,
  order: true,
  memory: true,
  fftType: true,
  axes: true,
  resultDistribution: true,
  redistribute: true,
  lastAxisParity: true,
});
