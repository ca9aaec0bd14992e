/**
 * The stateful matmul: check once, plan once, execute many times.
 *
 * @module
 */
import { DistributedArray, runtimeOf } from "../../array/distributed_array.ts";
import { LocalArray } from "../../array/local_array.ts";
import { allocateSymmetricMemory, SymmetricArray } from "../../array/symmetric_array.ts";
import { StateError } from "../../errors.ts";
import { describe, readOptions } from "../../options.ts";
import { agree } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Stream } from "../../gpu/stream.ts";
import {
  checkAliasing,
  type CheckedOperands,
  type CheckedProduct,
  type CheckedScalars,
  checkNotFreed,
  checkProduct,
  checkReplacement,
  checkScalar,
  checkStream,
  dtypesOf,
  factorsOf,
  productFacts,
  readArguments,
  scalarFacts,
} from "./checked_product.ts";
import { chooseEngine, orderChoice, planProduct, requestOf, trials } from "../engines/choice.ts";
import type { AlgorithmReport, EnginePlan, EngineValues, MatmulEngine } from "../engines/engine.ts";
import type { AlgorithmName, EngineName } from "../engines/registry.ts";
import { type Epilog, type EpilogValues, isTrivial, requiredInputs } from "./epilog.ts";
import { checkEpilog, checkEpilogInputs, checkInputsAlive, epilogFacts } from "./epilog_inputs.ts";
import { explainProduct } from "./explanation.ts";
import { guardLogger, type Logger } from "./logger.ts";
import {
  EXECUTE_OPTION_KEYS,
  type ExecuteOptions,
  type MatmulOptions,
  PLAN_OPTION_KEYS,
  type PlanOptions,
  RESET_OPTION_KEYS,
  type ResetOptions,
} from "./options.ts";
import type { LocalOperands } from "./problem.ts";
import {
  checkSameScaling,
  checkScalesAlive,
  type QuantizationScales,
  type QuantizationValues,
  quantizationValues,
  SCALE_KEYS,
  scalingOf,
} from "./quantization.ts";

/** What an execution produced besides D: this rank's parts. */
export interface Auxiliary {
  /** Of `relu_aux*`: the bit mask of positive elements, uint8, column-major, 8 rows a byte, padded to 16 bytes. */
  readonly reluAux?: LocalArray;
  /** Of `gelu_aux*`: what gelu was given, column-major, rows padded to 8. */
  readonly geluAux?: LocalArray;
  /** The largest absolute value in all ranks' `geluAux`, before scaling. */
  readonly geluAuxAmax?: number;
  /** Of `drelu_bgrad`: the sums of the rows of D, one a local row. */
  readonly dreluBgrad?: LocalArray;
  /** Of `dgelu_bgrad`: the sums of the rows of D, one a local row. */
  readonly dgeluBgrad?: LocalArray;
  /** Of `bgrada`: the sums of the rows of op(A), one a local row of D. */
  readonly bgrada?: LocalArray;
  /** Of `bgradb`: the sums of the columns of op(B), one a global column of D. */
  readonly bgradb?: LocalArray;
  /** With `resultAmax`: the largest absolute value of D on all ranks, before it is scaled and rounded. */
  readonly resultAmax?: number;
}

/** Options of {@linkcode Matmul.autotune}. */
export interface AutotuneOptions {
  /** How often each algorithm is measured; the fastest counts. 3 if left out. */
  repetitions?: number;
}

/** What {@linkcode Matmul.autotune} measured. */
export interface Measurement {
  /** The engine. */
  readonly engine: EngineName;
  /** The algorithm. */
  readonly algorithm: AlgorithmName;
  /** The time of an execution on the slowest rank, in seconds. */
  readonly seconds: number;
}

const NOTHING: Auxiliary = Object.freeze({});

/** What `resetOperands` was given, completed by what stays. */
interface CheckedReset {
  readonly operands: CheckedOperands;
  readonly scalars: CheckedScalars;
  readonly inputs: EpilogValues;
}

/** What `plan` was asked for, checked. */
interface Chosen {
  readonly engine: MatmulEngine;
  readonly epilog: Epilog;
  readonly inputs: EpilogValues;
  readonly options: MatmulOptions;
}

/** What executions pass on. */
interface Bound {
  readonly locals: LocalOperands;
  readonly values: EngineValues;
}

/** What `plan` decided. */
interface Planned {
  readonly engine: EnginePlan;
  readonly epilog: Epilog;
  readonly notes: readonly string[];
}

/**
 * D = epilog(alpha op(A) op(B) + beta C) on distributed matrices, as an object: checked at construction, planned once,
 * executed as often as wanted, with other operands if they are alike.
 *
 * All methods are collective unless they say otherwise, and fail on every rank or on none (with `checks: "local"`
 * each rank only checks itself).
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Matmul, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * const a = DistributedArray.random(runtime, [64, 32], Slab.X, { dtype: "float32" });
 * const b = DistributedArray.random(runtime, [32, 48], Slab.Y, { dtype: "float32" });
 * using product = new Matmul(a, b, { alpha: 2 });
 * product.plan();
 * const d = product.execute();
 * console.log(product.algorithm.algorithm, d.shape);
 * ```
 */
export class Matmul implements Disposable {
  readonly #runtime: Runtime;
  readonly #options: MatmulOptions;
  readonly #logger: Logger | undefined;
  readonly #product: CheckedProduct;
  #operands: CheckedOperands | null;
  #scalars: CheckedScalars;
  /** Every epilog input that was given and not released; an epilog takes those that it needs. */
  #inputs: EpilogValues;
  #planned: Planned | null = null;
  #locals: LocalOperands | null = null;
  #values: EngineValues | null = null;
  #auxiliary: Auxiliary = NOTHING;
  #isFreed = false;

  /**
   * Check everything that is known before planning. Collective.
   *
   * @param a the left factor, m x k after its qualifiers
   * @param b the right factor, k x n after its qualifiers
   * @throws {TypeError} if an option is unknown, missing or of the wrong type
   * @throws {ShapeError | DTypeError | DistributionError} if the matrices do not fit each other
   * @throws {StateError} if a matrix was freed
   * @throws {ConfigurationError} if no engine on this machine can do what is asked
   * @throws {CollectiveError} if ranks differ in what they ask for
   */
  constructor(a: DistributedArray, b: DistributedArray, options: MatmulOptions = {}) {
    const runtime = runtimeOf(a, b);
    let checked: ReturnType<typeof checkProduct>;
    let inputs: EpilogValues;
    let given!: MatmulOptions;
    const count = arguments.length;
    agree(runtime, "new Matmul", () => {
      given = readArguments("new Matmul(a, b, options)", options, count);
      checked = checkProduct(runtime, a, b, given, orderChoice(runtime, given));
      const { product, scalars } = checked;
      const epilog = checkEpilog(product, given);
      inputs = checkEpilogInputs(product, epilog, given.epilogInputs);
      const library = chooseEngine(runtime, product, epilog, given).open?.(runtime) ?? "";
      checkNotFreed(checked.operands);
      return { ...productFacts(product, scalars, given), ...planFacts(epilog, inputs, given), library };
    });
    this.#runtime = runtime;
    this.#options = given;
    this.#logger = given.logger && guardLogger(given.logger, runtime.rank);
    this.#product = checked!.product;
    this.#operands = checked!.operands;
    this.#scalars = checked!.scalars;
    this.#inputs = inputs!;
    for (const note of this.#product.notes) this.#warn(note);
    this.#logger?.debug(this.explain());
  }

  /** Whether {@linkcode free} was called, or the object was disposed. */
  get isFreed(): boolean {
    return this.#isFreed;
  }

  /** What the last {@linkcode execute} produced besides D. Local. */
  get auxiliary(): Auxiliary {
    return this.#auxiliary;
  }

  /**
   * Which algorithm runs, and what it moves and copies. Local.
   *
   * @throws {StateError} before {@linkcode plan}
   */
  get algorithm(): AlgorithmReport {
    const planned = this.#planned;
    if (planned === null) throw this.#notPlanned("algorithm");
    const { report } = planned.engine;
    return { ...report, notes: [...this.#product.notes, ...planned.notes, ...report.notes] };
  }

  /**
   * Choose how to multiply, and prepare it. Collective. Planning again replaces the earlier plan and everything that it
   * was given; what is left out is as the constructor was told.
   *
   * @throws {TypeError | ShapeError | DTypeError} if epilog inputs are missing or do not fit D
   * @throws {ConfigurationError} if the engine cannot do what is asked
   * @throws {StateError} after `free`
   */
  plan(options?: PlanOptions): void {
    this.#replan("plan", () => {
      this.#checkAlive("plan");
      const given = readOptions("the options of plan", options, PLAN_OPTION_KEYS);
      const all: MatmulOptions = { ...this.#options, ...given };
      const epilog = checkEpilog(this.#product, all);
      const inputs = checkEpilogInputs(this.#product, epilog, given.epilogInputs, this.#inputs);
      const engine = chooseEngine(this.#runtime, this.#product, epilog, all);
      if (this.#operands) checkNotFreed(this.#operands);
      return { engine, epilog, inputs, options: all };
    });
  }

  /**
   * Multiply. Collective. Returns D in new memory, symmetric if all operands are, or C itself if the product is
   * `inplace`; {@linkcode auxiliary} then has the epilog's other outputs.
   *
   * @throws {StateError} before `plan`, after `releaseOperands` or `free`, or if an operand was freed
   */
  execute(options?: ExecuteOptions): DistributedArray {
    const { inplace, d } = this.#product;
    let stream: Stream | null = null;
    let result: LocalArray | null = null;
    let multiply!: () => EpilogValues;
    const prepare = () => {
      const locals = result === null ? this.#locals! : { ...this.#locals!, d: columnMajor(result, d.order) };
      multiply = this.#planned!.engine.prepare(locals, this.#values!, stream);
    };
    agree(this.#runtime, "Matmul.execute", () => {
      const given = readOptions("the options of execute", options, EXECUTE_OPTION_KEYS);
      checkStream(given.stream, this.#runtime);
      stream = given.stream ?? this.#options.stream ?? null;
      this.#checkReady("execute");
      if (!inplace && this.#isSymmetric) return;
      if (!inplace) result = this.#allocate();
      prepare();
    });
    if (!inplace && this.#isSymmetric) {
      const symmetric = result = this.#allocateSymmetric();
      this.#agreeOrRelease(symmetric, prepare);
    }
    const start = this.#logger ? performance.now() : 0;
    const outputs = multiply();
    if (!isTrivial(this.#planned!.epilog)) this.#auxiliary = this.#complete(outputs);
    if (this.#options.blocking === true) (stream ?? this.#runtime.stream)?.synchronize();
    this.#logger?.info(`executed in ${(performance.now() - start).toFixed(3)} ms`);
    return result === null ? this.#operands!.c! : DistributedArray.wrap(this.#runtime, result, d.distribution, d.order);
  }

  /**
   * Try the algorithms of every engine that can run the product, keep the fastest (by the slowest rank's time), and return the times, the fastest
   * first; none where there is nothing to multiply. Collective; it takes a few executions of each, and leaves the
   * operands as they are. The choice holds until the next `plan`.
   *
   * @throws {StateError} before `plan`, after `releaseOperands` or `free`
   */
  autotune(options?: AutotuneOptions): Measurement[] {
    let repetitions!: number;
    let d!: LocalArray;
    agree(this.#runtime, "Matmul.autotune", () => {
      ({ repetitions = 3 } = readOptions("the options of autotune", options, ["repetitions"]));
      if (!(Number.isInteger(repetitions) && repetitions >= 1)) {
        throw new RangeError(`repetitions must be a whole number from 1; got ${describe(repetitions)}.`);
      }
      this.#checkReady("autotune");
      d = this.#allocate();
      return { repetitions };
    });
    const { epilog } = this.#planned!;
    const locals = { ...this.#locals!, d: columnMajor(d, this.#product.d.order) };
    const measurements: Measurement[] = [];
    const tried = trials(this.#runtime, this.#product, epilog, this.#options);
    for (const { engine, options } of tried) {
      let planned!: EnginePlan;
      agree(this.#runtime, "Matmul.autotune", () => {
        const library = engine.open?.(this.#runtime) ?? "";
        planned = planProduct(engine, this.#runtime, requestOf(this.#product, epilog, options));
        return { library };
      });
      using plan = planned;
      plan.open();
      const seconds = this.#measure(() => {
        let multiply!: () => EpilogValues;
        agree(this.#runtime, "Matmul.autotune", () => {
          multiply = plan.prepare(locals, this.#values!);
        });
        multiply();
      }, repetitions);
      const measurement = { engine: options.engine, algorithm: options.algorithm, seconds };
      measurements.push(measurement);
      this.#logger?.info(`autotune: ${engine.name}'s ${options.algorithm} takes ${seconds} s`);
    }
    d.release();
    measurements.sort((one, other) => one.seconds - other.seconds);
    const [fastest] = measurements;
    const choice = tried.find(({ options }) =>
      options.engine === fastest.engine && options.algorithm === fastest.algorithm
    );
    if (choice) this.#replan("autotune", () => ({ ...choice, epilog, inputs: this.#inputs }));
    return measurements;
  }

  /**
   * Replace operands by others of the same shape, dtype, order and distribution; what is left out stays. Collective.
   * After `releaseOperands` all of them are needed again.
   *
   * @throws {TypeError} if nothing is given, or something that the product does not have
   * @throws {ShapeError | DTypeError | DistributionError} if an operand is unlike the one it replaces
   * @throws {StateError} after `free`, or if an operand is missing after `releaseOperands`
   */
  resetOperands(options: ResetOptions): void {
    let reset: CheckedReset;
    let bound: Bound | null = null;
    agree(this.#runtime, "Matmul.resetOperands", () => {
      this.#checkAlive("resetOperands");
      const given = readOptions("the options of resetOperands", options, RESET_OPTION_KEYS);
      reset = this.#checkReset(given);
      const { operands, scalars } = reset;
      if (this.#planned) {
        bound = this.#bind(operands, scalars, { ...this.#inputs, ...reset.inputs }, this.#planned.epilog);
      }
      return { ...scalarFacts(scalars), given: Object.keys(given).sort() };
    });
    this.#operands = reset!.operands;
    this.#scalars = reset!.scalars;
    this.#inputs = { ...this.#inputs, ...reset!.inputs };
    this.#use(bound);
  }

  /**
   * As {@linkcode resetOperands} for matrices, alpha and beta, without a check of what is given. Local: the caller
   * answers for matrices that are like those they replace, on every rank.
   *
   * @throws {StateError} if something is missing after `releaseOperands`
   */
  resetOperandsUnchecked(options: Omit<ResetOptions, "quantizationScales" | "epilogInputs">): void {
    this.#checkComplete("resetOperandsUnchecked", options, this.#inputs);
    const { a = this.#operands?.a, b = this.#operands?.b, c = this.#operands?.c ?? null } = options;
    const { alpha = this.#scalars.alpha, beta = this.#scalars.beta } = options;
    this.#operands = { a: a!, b: b!, c };
    this.#scalars = { ...this.#scalars, alpha, beta };
    const { epilog } = this.#planned ?? {};
    this.#use(epilog ? this.#bind(this.#operands, this.#scalars, this.#inputs, epilog) : null);
  }

  /** Let go of matrices and epilog inputs, so that their memory can be used otherwise; the plan stays. Local. */
  releaseOperands(): void {
    this.#planned?.engine.release?.();
    this.#operands = null;
    this.#locals = null;
    this.#values = null;
    this.#inputs = {};
    this.#auxiliary = NOTHING;
  }

  /** What will happen, in words: the product, the column-major problem, the algorithm, its moves and costs. Local. */
  explain(): string {
    return explainProduct(this.#product, this.#scalars, this.#planned && this.algorithm);
  }

  /** m, n and k of op(A) op(B), and what runs: `Matmul(128 x 512 x 1024, float32, all_gather_gemm)`. Local. */
  toString(): string {
    const { a, d, operations, types } = this.#product;
    const k = a.shape[operations.a.transpose ? 0 : 1];
    const state = this.#isFreed ? "freed" : this.#planned?.engine.report.algorithm ?? "not planned";
    return `Matmul(${[...d.shape, k].join(" x ")}, ${types.d}, ${state})`;
  }

  /** Free the plan and everything native that it holds. Collective; a second call does nothing. */
  free(): void {
    if (this.#isFreed) return;
    this[Symbol.dispose]();
    if (!this.#runtime.isFinalized) this.#runtime.collect();
  }

  /** As {@linkcode free}, but local: what must be freed by all ranks together is freed at the next collective point. */
  [Symbol.dispose](): void {
    if (this.#isFreed) return;
    this.#isFreed = true;
    this.#planned?.engine[Symbol.dispose]();
    this.#planned = null;
    this.releaseOperands();
  }

  /**
   * Plan anew what `check` returns, and let go of the earlier plan once all ranks have done so: the earlier one stays if
   * any cannot. Collective.
   */
  #replan(method: "plan" | "autotune", check: () => Chosen): void {
    const start = performance.now();
    let chosen!: Chosen;
    let engine!: EnginePlan;
    let bound: Bound | null = null;
    agree(this.#runtime, `Matmul.${method}`, () => {
      chosen = check();
      const { epilog, options } = chosen;
      const library = chosen.engine.open?.(this.#runtime) ?? "";
      const inputs = { ...this.#inputs, ...chosen.inputs };
      engine = planProduct(chosen.engine, this.#runtime, requestOf(this.#product, epilog, options));
      if (this.#operands) bound = this.#bind(this.#operands, this.#scalars, inputs, epilog);
      return { ...planFacts(epilog, chosen.inputs, options), library };
    });
    const { epilog, inputs, options } = chosen;
    this.#planned?.engine[Symbol.dispose]();
    this.#planned = null;
    this.#auxiliary = NOTHING;
    this.#inputs = { ...this.#inputs, ...inputs };
    try {
      engine.open();
    } catch (error) {
      engine[Symbol.dispose]();
      throw error;
    }
    const notes = this.#runtime.device.kind === "gpu"
      ? []
      : (["communicationSmCount", "communicationType"] as const).filter((name) => options[name] !== undefined)
        .map((name) => `${name} has no meaning on a CPU and was not used`);
    this.#planned = { engine, epilog, notes };
    this.#use(bound);
    const logger = this.#logger;
    if (!logger) return;
    const { report } = engine;
    logger.info(`planned ${report.algorithm} on ${report.engine} in ${(performance.now() - start).toFixed(3)} ms`);
    for (const note of [...notes, ...report.notes]) logger.warn(note);
    logger.debug(this.explain());
  }

  /** Everything that executions pass on, made ready once. Local. */
  #bind(
    { a, b, c }: CheckedOperands,
    { alpha, beta, scales }: CheckedScalars,
    inputs: EpilogValues,
    epilog: Epilog,
  ): Bound {
    const { transposed } = this.#product.problem;
    const left = columnMajor(a.local, a.order);
    const right = columnMajor(b.local, b.order);
    const addend = c && columnMajor(c.local, c.order);
    const { stream } = this.#runtime;
    const needed = requiredInputs(epilog).map((name) => {
      const input = inputs[name]!;
      const isForGpu = stream !== null && name !== "auxQuantizationScale" && !input.isOnDevice;
      return [name, isForGpu ? input.toDevice(stream, "F") : input];
    });
    return {
      // The result of a product that is not in place gets its own memory at each execution.
      locals: { a: transposed ? right : left, b: transposed ? left : right, c: addend, d: addend ?? left },
      values: {
        alpha,
        beta,
        epilog: Object.fromEntries(needed),
        scales: canonicalScales(scales, a.order, b.order, transposed),
      },
    };
  }

  #use(bound: Bound | null): void {
    if (bound === null) return;
    this.#locals = bound.locals;
    this.#values = bound.values;
  }

  /** Agree that all ranks are prepared; if they are not, the symmetric memory is let go of. */
  #agreeOrRelease(memory: LocalArray, prepare: () => void): void {
    try {
      agree(this.#runtime, "Matmul.execute", prepare);
    } catch (error) {
      memory.release();
      throw error;
    }
  }

  #allocate(): LocalArray {
    const { distribution, dtype, order } = this.#product.d;
    return LocalArray.empty(dtype, distribution.localShape(this.#runtime.rank), order, this.#runtime.stream);
  }

  /** Whether all operands are in symmetric memory, so that the result is too. */
  get #isSymmetric(): boolean {
    const { a, b, c } = this.#operands!;
    return a.memory === "symmetric" && b.memory === "symmetric" && (c === null || c.memory === "symmetric");
  }

  /** Memory for a result beside symmetric operands. Collective. */
  #allocateSymmetric(): LocalArray {
    const { distribution, dtype, order } = this.#product.d;
    const { local } = this.#operands!.a;
    const backend = local instanceof SymmetricArray ? { backend: local.backend } : {};
    const options = { dtype, order, makeSymmetric: true, ...backend };
    return allocateSymmetricMemory(this.#runtime, distribution.localShape(this.#runtime.rank), options);
  }

  /** The outputs of all ranks together. Collective if there are maxima among them. */
  #complete(
    { reluAux, geluAux, geluAuxAmax, dreluBgrad, dgeluBgrad, bgrada, bgradb, resultAmax }: EpilogValues,
  ): Auxiliary {
    const { communicator } = this.#runtime;
    // NaN if any is, which MPI_MAX does not promise.
    const maximum = (local: LocalArray) => {
      const [value] = local.toTypedArray() as Float32Array;
      const send = Number.isNaN(value) ? Float32Array.of(0, 1) : Float32Array.of(value, 0);
      const [largest, anyNaN] = communicator.allReduce(send, { op: "max" });
      return anyNaN > 0 ? NaN : largest;
    };
    return {
      ...reluAux && { reluAux },
      ...geluAux && { geluAux },
      ...geluAuxAmax && { geluAuxAmax: maximum(geluAuxAmax) },
      ...dreluBgrad && { dreluBgrad },
      ...dgeluBgrad && { dgeluBgrad },
      ...bgrada && { bgrada },
      ...bgradb && { bgradb },
      ...resultAmax && { resultAmax: maximum(resultAmax) },
    };
  }

  /** The shortest of some executions, in seconds, on the slowest rank. */
  #measure(start: () => void, repetitions: number): number {
    const execute = () => {
      start();
      this.#runtime.stream?.synchronize();
    };
    execute();
    let shortest = Infinity;
    for (let i = 0; i < repetitions; i++) {
      this.#runtime.communicator.barrier();
      const start = performance.now();
      execute();
      shortest = Math.min(shortest, performance.now() - start);
    }
    return this.#runtime.communicator.allReduce(Float64Array.of(shortest / 1000), { op: "max" })[0];
  }

  #warn(note: string): void {
    this.#logger?.warn(note);
    this.#runtime.warnOnce(note, note);
  }

  #checkAlive(method: string): void {
    if (this.#isFreed) throw new StateError(`Matmul.${method}() was called after free(). Make a new Matmul.`);
  }

  #checkReady(method: "execute" | "autotune"): void {
    if (this.#planned === null) throw this.#notPlanned(`${method}()`);
    const operands = this.#operands;
    if (operands === null) {
      throw new StateError(`Matmul.${method}() was called after releaseOperands(). Pass new ones to resetOperands().`);
    }
    checkNotFreed(operands);
    if (this.#product.scaling !== null) checkScalesAlive(this.#scalars.scales);
    if (!isTrivial(this.#planned.epilog)) checkInputsAlive(this.#values!.epilog);
  }

  #notPlanned(member: string): StateError {
    return new StateError(
      this.#isFreed
        ? `Matmul.${member} was used after free(). Make a new Matmul.`
        : `Matmul.${member} was used before plan(). Call plan() first, once.`,
    );
  }

  /** Released operands have to be given again, all of them; an epilog's inputs too, if they cannot be given here. */
  #checkComplete(method: string, options: ResetOptions, inputs?: EpilogValues): void {
    if (this.#operands !== null) return;
    const matrices = (["a", "b", "c"] as const).filter((name) => this.#product[name] && options[name] === undefined);
    const needed = inputs && this.#planned ? requiredInputs(this.#planned.epilog) : [];
    const missing = [...matrices, ...needed.filter((name) => inputs![name] === undefined)];
    if (missing.length === 0) return;
    const instead = missing.length > matrices.length ? " Pass them to resetOperands()." : "";
    throw new StateError(
      `${method} needs ${missing.join(" and ")} too, since the operands were released.${instead}`,
    );
  }

  #checkReset(options: ResetOptions): CheckedReset {
    if (Object.keys(options).length === 0) {
      throw new TypeError(`resetOperands was given nothing; pass at least one of ${RESET_OPTION_KEYS.join(", ")}.`);
    }
    const product = this.#product;
    const old = this.#operands;
    this.#checkComplete("resetOperands", options);
    if (options.beta !== undefined && product.c === null) {
      throw new TypeError("beta scales c, and this Matmul was made without c. Make a new Matmul with c.");
    }
    const matrix = (name: "a" | "b" | "c") =>
      options[name] === undefined
        ? old?.[name] ?? null
        : checkReplacement(name, options[name], product[name], this.#runtime);
    const [a, b, c] = [matrix("a")!, matrix("b")!, matrix("c")];
    const { alpha = this.#scalars.alpha, beta = this.#scalars.beta, quantizationScales } = options;
    const newScales = readOptions<QuantizationScales>("quantizationScales", quantizationScales, SCALE_KEYS);
    const epilog = this.#planned?.epilog ?? checkEpilog(product, this.#options);
    const scales = quantizationValues({ ...this.#scalars.scales, ...newScales }, dtypesOf(product));
    checkSameScaling(scalingOf(scales, factorsOf(product), dtypesOf(product)), product.scaling);
    const inputs = checkEpilogInputs(product, epilog, options.epilogInputs, this.#inputs);
    // Last: reading what was given may have taken memory away.
    checkNotFreed({ a, b, c });
    if (product.inplace) checkAliasing(c!, a, b);
    return {
      operands: { a, b, c },
      scalars: {
        alpha: checkScalar("alpha", alpha, product.types),
        beta: checkScalar("beta", beta, product.types),
        scales,
      },
      inputs,
    };
  }
}

/** A local part seen column-major. */
function columnMajor(local: LocalArray, order: "C" | "F"): LocalArray {
  return order === "F" ? local : local.transpose();
}

/** The scales of the canonical problem: arrays seen column-major, those of A and B exchanged if A and B are. */
function canonicalScales(
  { a, b, ...others }: QuantizationValues,
  orderA: "C" | "F",
  orderB: "C" | "F",
  transposed: boolean,
): QuantizationValues {
  const seen = (scales: typeof a, order: "C" | "F") =>
    typeof scales === "object" && order === "C" ? scales.transpose() : scales;
  const [left, right] = [seen(a, orderA), seen(b, orderB)];
  const [first, second] = transposed ? [right, left] : [left, right];
  return { ...others, ...first !== undefined && { a: first }, ...second !== undefined && { b: second } };
}

function planFacts(epilog: Epilog, inputs: EpilogValues, options: PlanOptions): Record<string, unknown> {
  return {
    ...epilogFacts(epilog, inputs),
    algorithm: options.algorithm ?? "default",
    communicationSmCount: options.communicationSmCount ?? 0,
    communicationType: options.communicationType ?? "default",
    allowMulticast: options.allowMulticast ?? false,
  };
}
