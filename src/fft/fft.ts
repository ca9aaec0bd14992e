/**
 * Discrete Fourier transforms of distributed arrays: class `FFT`, checked once, planned once, executed often; and `fft`,
 * `ifft`, `rfft`, `irfft`, all in one call.
 *
 * @module
 */
import { checkAlive, runtimeOf } from "../array/base_array.ts";
import type { DistributedArray } from "../array/distributed_array.ts";
import { LocalArray } from "../array/local_array.ts";
import type { CommunicationMatrix } from "../distribution/mod.ts";
import type { DType } from "../dtype/dtype.ts";
import type { ComplexOf, RealOf } from "../dtype/element_types.ts";
import { ConfigurationError, DistributionError, DTypeError, ShapeError } from "../errors.ts";
import { checkName, readOptions } from "../options.ts";
import { autotune, type Tuning } from "../runtime/autotune.ts";
import { CollectiveOperation, runOnce } from "../runtime/operation.ts";
import {
  type Asked,
  type CheckedTransform,
  checkOperand,
  checkPlanOptions,
  checkTransform,
  planFacts,
} from "./checked_transform.ts";
import type { FFTEngine, FFTReport } from "./engines/engine.ts";
import { ableEngines, chooseFFTEngine, type FFTAlgorithmName, type FFTEngineName } from "./engines/registry.ts";
import {
  bindOperand,
  type BoundOperand,
  directionsOf,
  FFTPlan,
  inPlaceOf,
  prepareTransform,
  problemOn,
  type Side,
} from "./execution.ts";
import { explainTransform } from "./explanation.ts";
import {
  FFT_EXECUTE_KEYS,
  FFT_OPTION_KEYS,
  FFT_PLAN_KEYS,
  type FFTAutotuneOptions,
  type FFTExecuteOptions,
  type FFTOptions,
  type FFTPlanOptions,
  REAL_TRANSFORM_KEYS,
  type RealTransformOptions,
  TRANSFORM_KEYS,
  type TransformOptions,
} from "./options.ts";
import { dtypesOf, type FFTDirection, type FFTType } from "./problem.ts";
import { checkRoom } from "./operand_room.ts";

/** What {@linkcode FFT.autotune} measured. */
export interface FFTMeasurement {
  /** The engine. */
  readonly engine: FFTEngineName;
  /** The algorithm. */
  readonly algorithm: FFTAlgorithmName;
  /** The time of an execution on the slowest rank, in seconds. */
  readonly seconds: number;
}

/** An engine, by one of its algorithms. */
interface FFTTrial {
  readonly engine: FFTEngine;
  readonly algorithm: FFTAlgorithmName;
}

const RESET = "Pass an array that is alive to resetOperands().";

/**
 * A discrete Fourier transform of a distributed array, as an object: checked at construction, planned once, executed as
 * often as wanted, with other operands if they are alike.
 *
 * An axis is transformed where every rank has all of it, so that the array moves on the way. Without `distribution` and
 * `redistribute` the result stays where that is natural: where the operand is, if all axes are whole there; of `Slab.X` in
 * `Slab.Y`, of other slabs in the slab that takes the fewest moves, unless that would leave ranks without elements; else
 * where the cheapest way ends. `result.distribution` tells. `distribution` may be any, such as the second of a pair of
 * pencils.
 *
 * Half precision, float16 and complex32, is transformed on GPUs, by cuFFT, where the extents of the transformed axes
 * are powers of two. What lies beyond 65504 becomes infinite: the first element of a spectrum is the sum of all that is
 * transformed together. Where `norm` scales the result, it is the operand that is multiplied, so that nothing is larger on
 * the way than the result may be; what is below 6e-8 of it then is lost, in results about 3e-8 sqrt(N) of N elements.
 *
 * All methods are collective unless they say otherwise, and fail on every rank or on none (with `checks: "local"`
 * each rank only checks itself).
 *
 * @example
 * ```ts
 * import { DistributedArray, FFT, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using field = DistributedArray.random(runtime, [32, 24, 16], Slab.X, { dtype: "complex128" });
 * using transform = new FFT(field);
 * transform.plan();
 * using spectrum = transform.execute(); // in Slab.Y
 * transform.resetOperands(spectrum);
 * using again = transform.execute({ direction: "inverse" }); // in Slab.X again
 * console.log(transform.algorithm.variant, again.maxAbsDifference(field) < 1e-12);
 * ```
 */
export class FFT<D extends DType = DType, T extends FFTType | undefined = undefined> implements Disposable {
  readonly #operation: CollectiveOperation<BoundOperand, FFTPlan>;
  #checked!: CheckedTransform;
  #options!: FFTOptions;

  /**
   * Check everything that is known before planning. Collective.
   *
   * @throws {TypeError} if an option is unknown or of the wrong type
   * @throws {RangeError} if there is no such axis
   * @throws {ShapeError | DTypeError | DistributionError} if the operand does not fit the transform
   * @throws {StateError} if the operand was freed
   * @throws {ConfigurationError} if no engine on this machine can do what is asked
   * @throws {CollectiveError} if ranks differ in what they ask for
   */
  constructor(operand: DistributedArray<D>, options: FFTOptions & { fftType?: T } = {}) {
    const runtime = runtimeOf(operand);
    this.#operation = new CollectiveOperation(runtime, "FFT", () => {
      const given = this.#options = readOptions("the options of FFT", options, FFT_OPTION_KEYS);
      const checked = this.#checked = checkTransform(runtime, { name: "FFT" }, operand, given);
      return {
        operands: bindOperand(checked, operand, "from"),
        facts: checked.facts,
        settings: given,
        explain: (plan) => explainPlanned(checked, plan),
      };
    });
  }

  /** Whether {@linkcode free} was called, or the object was disposed. */
  get isFreed(): boolean {
    return this.#operation.isFreed;
  }

  /**
   * Which algorithm runs, through which distributions, and what it moves. Local.
   *
   * @throws {StateError} before {@linkcode plan}
   */
  get algorithm(): FFTReport {
    return this.#operation.planFor("algorithm").report;
  }

  /**
   * The bytes that each rank sends to each other one in an execution, as planned. Local.
   *
   * @throws {StateError} before {@linkcode plan}
   * @throws {ConfigurationError} if the engine's library does not tell
   */
  get communication(): CommunicationMatrix {
    const plan = this.#operation.planFor("communication");
    if (plan.communication !== null) return plan.communication;
    throw new ConfigurationError(
      `engine ${plan.report.engine} does not tell which rank sends what to whom; algorithm.bytesMoved has the least sum.`,
    );
  }

  /**
   * Choose how to transform, and prepare it. Collective. Planning again replaces the earlier plan; what is left out is as
   * the constructor was told.
   *
   * @throws {TypeError | ConfigurationError} if there is no such algorithm, or it cannot do what is asked
   * @throws {StateError} after `free`
   */
  plan(options?: FFTPlanOptions): void {
    this.#operation.plan("plan", (operands) => {
      const given = { ...this.#options, ...readOptions("the options of plan", options, FFT_PLAN_KEYS) };
      return this.#planned(given, operands, this.#engineFor(given));
    });
  }

  /**
   * Transform. Collective. Returns the result in new memory, or, if the transform is `inplace`, a view of the
   * operand, which stays when the result is freed.
   *
   * @throws {TypeError} if the type of the transform does not have that direction
   * @throws {StateError} before `plan`, after `releaseOperands` or `free`, or if the operand was freed
   */
  execute(options?: FFTExecuteOptions): DistributedArray<T extends "c2r" ? RealOf<D> : ComplexOf<D>> {
    const { problem } = this.#checked;
    const result: DistributedArray = this.#operation.execute(
      "execute",
      options,
      (plan, bound, stream, { direction }) => {
        checkAlive("The operand", bound.array, RESET);
        const possible = directionsOf(problem);
        checkName("direction", direction, ["forward", "inverse"]);
        if (direction !== undefined && !possible.includes(direction)) {
          throw new TypeError(
            `A transform of type ${problem.type} is ${possible[0]}; direction was "${direction}". Leave direction out.`,
          );
        }
        return prepareTransform(this.#checked, plan, bound, direction ?? possible[0], stream);
      },
      FFT_EXECUTE_KEYS,
    );
    return result as ReturnType<this["execute"]>;
  }

  /**
   * Try the engines that are there, unless the options name one, with each of their algorithms that can run the transform,
   * keep the fastest (by the slowest rank's time), and return the times, the fastest first. Collective; it takes a few
   * executions of each, in place if they will be, and leaves the operand as it is. The choice holds until the next `plan`.
   *
   * @throws {TypeError | RangeError} if an option is unknown, or repetitions are no whole number from 1
   * @throws {StateError} before `plan`, after `releaseOperands` or `free`
   */
  autotune(options?: FFTAutotuneOptions): FFTMeasurement[] {
    const measured = autotune(this.#operation, options, (_, bound) => {
      checkAlive("The operand", bound.array, RESET);
      return this.#tuning(bound);
    });
    return measured.map((one) => ({ ...one, engine: one.engine.name as FFTEngineName }));
  }

  /**
   * Take another operand of the same shape, dtype and order, in the same distribution. Collective. For `c2c` it may also be
   * in the distribution of the results: then results have the first operand's.
   *
   * @throws {ShapeError | DTypeError | DistributionError} if it is unlike the one that it replaces
   * @throws {StateError} after `free`, or if the operand was freed
   */
  resetOperands(operand: DistributedArray): void {
    this.#operation.reset("resetOperands", () => {
      const operands = this.#replacement(operand);
      const { side } = operands;
      const plan = this.#operation.currentPlan;
      // Whatever another side needs is planned now.
      plan?.on(side);
      return { operands, facts: { operand: String(operand), side }, commit: () => plan?.turnTo(side) };
    });
    this.#operation.currentPlan?.open();
  }

  /**
   * As {@linkcode resetOperands}, but the ranks do not agree. Local: the caller answers for operands that replace each other
   * on every rank, or on none.
   *
   * @throws {ShapeError | DTypeError | DistributionError} if it is unlike the one that it replaces
   * @throws {StateError} after `free`, or if the operand was freed
   */
  resetOperandsUnchecked(operand: DistributedArray): void {
    const operands = this.#replacement(operand);
    this.#operation.currentPlan?.turnTo(operands.side);
    this.#operation.resetUnchecked(operands);
  }

  /** Let go of the operand, so that its memory can be used otherwise; the plan stays. Local. */
  releaseOperands(): void {
    this.#operation.release();
  }

  /**
   * What will happen, in words: the transform, the algorithm, its steps and what they move. Local.
   *
   * @throws {StateError} after `free`
   */
  explain(): string {
    this.#operation.checkAlive("explain()");
    const { currentPlan, operands, history } = this.#operation;
    return `${explainPlanned(this.#checked, currentPlan, operands?.side)}\n${history}`;
  }

  /** The type, the shape, and what runs: `FFT(c2c, 256 x 256, complex128, transpose)`. Local. */
  toString(): string {
    const { problem } = this.#checked;
    const state = this.isFreed ? "freed" : this.#operation.currentPlan?.report.algorithm ?? "not planned";
    return `FFT(${problem.type}, ${problem.operand.join(" x ")}, ${dtypesOf(problem).operand}, ${state})`;
  }

  /** Free the plan and everything native that it holds. Collective; a second call does nothing. */
  free(): void {
    this.#operation.free();
  }

  /** As {@linkcode free}, but local. */
  [Symbol.dispose](): void {
    this.#operation[Symbol.dispose]();
  }

  /** An algorithm is asked for of the engine that was named, or of the first. */
  #engineFor({ algorithm = "default", engine }: FFTOptions): FFTEngine {
    return algorithm === "default" ? this.#checked.engine : chooseFFTEngine(this.#checked.runtime, engine);
  }

  #planned(options: FFTPlanOptions, operands: BoundOperand | null, engine: FFTEngine) {
    const checked = { ...this.#checked, engine };
    checkPlanOptions(checked.engine, checked.problem, options);
    if (operands) checkAlive("The operand", operands.array, RESET);
    const side = operands?.side ?? "from";
    const directions = directionsOf(checked.problem);
    const plan = new FFTPlan(checked, options, directions, side);
    // What measures does it now, not in the first execution. On GPUs nothing measures, and results take memory.
    if (operands && checked.runtime.stream === null) prepareTransform(checked, plan, operands, directions[0]);
    return { plan, operands, facts: { ...planFacts(options), side } };
  }

  /**
   * How transforms of an operand are tuned. All executions write to the same part, of the operand itself if they are in place;
   * each of them may run often. Local; allocates.
   */
  #tuning(bound: BoundOperand): Tuning<BoundOperand, FFTPlan, FFTTrial> {
    const { problem, runtime } = this.#checked;
    const { side, array: { local } } = bound;
    const result = inPlaceOf(this.#checked, bound);
    const asked = problemOn(problem, side);
    const directions = directionsOf(problem).slice(0, 1);
    const engines = ableEngines(runtime, asked, this.#options.engine);
    const kept = result === null ? null : local.copy();
    let target: LocalArray | null = null;
    const targetOf = (): LocalArray => {
      if (result !== null) return result.local;
      // Ranks that did not agree have freed what they had allocated.
      if (target === null || target.isLost) {
        const part = asked.to.localShape(runtime.rank);
        target = LocalArray.empty(dtypesOf(problem).result, part, asked.order, runtime.stream);
      }
      return target;
    };
    return {
      facts: { side, engines: engines.map(({ name }) => name) },
      trials: engines.flatMap((engine) =>
        engine.algorithmsFor(asked).map((name) => ({ engine, algorithm: name as FFTAlgorithmName }))
      ),
      titleOf: ({ engine, algorithm }) => `${engine.name}'s ${algorithm}`,
      make: ({ engine, algorithm }) => ({
        plan: new FFTPlan({ ...this.#checked, engine }, { ...this.#options, algorithm }, directions, side),
      }),
      prepare: (plan) => plan.on(side).prepare(local, targetOf(), directions[0], 1),
      release: () => {
        if (kept !== null) local.set(kept);
        for (const part of [kept, target]) part?.release();
      },
      replan: ({ engine, algorithm }, operands) => this.#planned({ ...this.#options, algorithm }, operands, engine),
    };
  }

  #replacement(operand: DistributedArray): BoundOperand {
    const { problem, runtime, inplace } = this.#checked;
    const side = this.#checkReplacement(operand);
    if (inplace) checkRoom(operand, problemOn(problem, side), runtime);
    return bindOperand(this.#checked, operand, side);
  }

  #checkReplacement(operand: unknown): Side {
    const { problem, runtime } = this.#checked;
    checkOperand(operand, runtime);
    const { dtype, shape, order, distribution } = operand;
    const expected = dtypesOf(problem).operand;
    if (dtype !== expected) {
      throw new DTypeError(
        `The operand is ${dtype}; this FFT was made for ${expected}. Convert it with to({ dtype: "${expected}" }).`,
      );
    }
    if (shape.join() !== problem.operand.join() || order !== problem.order) {
      throw new ShapeError(
        `The operand has shape [${shape.join(", ")}] and order "${order}"; this FFT was made for ` +
          `[${problem.operand.join(", ")}] and "${problem.order}". ` +
          (order === problem.order
            ? "Make a new FFT for other shapes."
            : `Convert it with to({ order: "${problem.order}" }).`),
      );
    }
    if (distribution.coincidesWith(problem.from)) return "from";
    if (problem.type === "c2c" && distribution.coincidesWith(problem.to)) return "to";
    const other = problem.type === "c2c" && !problem.to.coincidesWith(problem.from) ? ` or ${problem.to}` : "";
    throw new DistributionError(
      `The operand is distributed as ${distribution}; this FFT was made for ${problem.from}${other}. Convert it with ` +
        `redistribute().`,
    );
  }
}

function explainPlanned(checked: CheckedTransform, plan: FFTPlan | null, side = plan?.side ?? "from"): string {
  return explainTransform(checked, problemOn(checked.problem, side), plan);
}

/** A whole life in one call. */
function transformOnce<Result extends DType>(
  asked: Asked,
  direction: FFTDirection,
  operand: DistributedArray,
  options: RealTransformOptions,
  keys: readonly (keyof RealTransformOptions)[] = TRANSFORM_KEYS,
): DistributedArray<Result> {
  const runtime = runtimeOf(operand);
  return runOnce(runtime, asked.name, () => {
    const given = readOptions(`the options of ${asked.name}`, options, keys);
    const checked = checkTransform(runtime, asked, operand, given);
    const plan = new FFTPlan(checked, { effort: "estimate", ...given }, [direction]);
    const { run } = prepareTransform(checked, plan, bindOperand(checked, operand, "from"), direction, given.stream);
    return {
      facts: checked.facts,
      settings: given,
      plan,
      run: run as () => DistributedArray<Result>,
      explain: () => explainPlanned(checked, plan),
    };
  });
}

/**
 * The discrete Fourier transform of an array of complex numbers, along all axes or those of `axes`. Collective.
 *
 * As making an {@linkcode FFT}, planning, executing and disposing it, but the ranks agree once. The class is the way to go
 * when more than one such transform is needed.
 *
 * @example
 * ```ts
 * import { DistributedArray, fft, ifft, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using field = DistributedArray.random(runtime, [64, 48], Slab.X, { dtype: "complex64" });
 * using spectrum = fft(field, { norm: "ortho" });
 * console.log(spectrum.distribution.toString(), spectrum.norm() / field.norm()); // Slab.Y, 1
 * using rows = fft(field, { axes: [1] }); // 64 transforms of 48, nothing moves
 * using again = ifft(rows, { axes: [1] });
 * ```
 *
 * @throws {TypeError} if an option is unknown or of the wrong type
 * @throws {RangeError} if there is no such axis
 * @throws {ShapeError | DTypeError | DistributionError} if the operand does not fit the transform
 * @throws {StateError} if the operand was freed
 * @throws {ConfigurationError} if no engine on this machine can do what is asked
 * @throws {CollectiveError} if ranks differ in what they ask for
 */
export function fft<D extends DType>(
  operand: DistributedArray<D>,
  options: TransformOptions = {},
): DistributedArray<ComplexOf<D>> {
  return transformOnce({ name: "fft", type: "c2c" }, "forward", operand, options);
}

/**
 * The inverse of {@linkcode fft}; with the norm `backward` it divides by the number of elements. Collective; throws as
 * {@linkcode fft} does.
 *
 * @example
 * ```ts
 * import { DistributedArray, fft, ifft, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using field = DistributedArray.random(runtime, [64, 48], Slab.X, { dtype: "complex128" });
 * using spectrum = fft(field);
 * using again = ifft(spectrum);
 * console.log(again.maxAbsDifference(field) < 1e-12); // true
 * ```
 */
export function ifft<D extends DType>(
  operand: DistributedArray<D>,
  options: TransformOptions = {},
): DistributedArray<ComplexOf<D>> {
  return transformOnce({ name: "ifft", type: "c2c" }, "inverse", operand, options);
}

/**
 * The transform of an array of real numbers: of its last axis, or the last of `axes`, only the first half is kept, floor(n
 * / 2) + 1 elements, of which the others are conjugates. Collective; throws as {@linkcode fft} does.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, irfft, rfft, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using field = DistributedArray.random(runtime, [64, 48], Slab.X, { dtype: "float64" });
 * using spectrum = rfft(field);
 * using again = irfft(spectrum);
 * console.log(spectrum.shape, again.maxAbsDifference(field) < 1e-12); // [64, 25], true
 * ```
 */
export function rfft<D extends DType>(
  operand: DistributedArray<D>,
  options: TransformOptions = {},
): DistributedArray<ComplexOf<D>> {
  return transformOnce({ name: "rfft", type: "r2c" }, "forward", operand, options);
}

/**
 * The inverse of {@linkcode rfft}: real numbers from the first half of their spectrum. The last of the axes has an even
 * number of them, unless `lastAxisParity` is `odd`. Collective; throws as {@linkcode fft} does.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, irfft, rfft, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using field = DistributedArray.random(runtime, [64, 45], Slab.X, { dtype: "float64" });
 * using spectrum = rfft(field);
 * using again = irfft(spectrum, { lastAxisParity: "odd" });
 * console.log(again.shape, again.maxAbsDifference(field) < 1e-12); // [64, 45], true
 * ```
 */
export function irfft<D extends DType>(
  operand: DistributedArray<D>,
  options: RealTransformOptions = {},
): DistributedArray<RealOf<D>> {
  return transformOnce({ name: "irfft", type: "c2r" }, "inverse", operand, options, REAL_TRANSFORM_KEYS);
}
