/**
 * The distributed matrix product: class `Matmul`, checked once, planned once, executed often; and `matmul`, all in one call.
 *
 * @module
 */
import { runtimeOf } from "../../array/base_array.ts";
import type { DistributedArray } from "../../array/distributed_array.ts";
import type { CommunicationMatrix } from "../../distribution/mod.ts";
import type { LocalArray } from "../../array/local_array.ts";
import type { DType } from "../../dtype/dtype.ts";
import { checkBoolean, readOptions } from "../../options.ts";
import { ConfigurationError, StateError } from "../../errors.ts";
import { type Facts, runOnAll } from "../../runtime/agreement.ts";
import { autotune, type Tuning } from "../../runtime/autotune.ts";
import { CollectiveOperation, type ExecuteOptions, type OperationSettings, runOnce } from "../../runtime/operation.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import {
  type CheckedOperands,
  type CheckedProduct,
  type CheckedScalars,
  checkFactor,
  checkNotFreed,
  checkProduct,
  checkReplacement,
  dtypesOf,
  factorsOf,
  memoryFacts,
  productFacts,
  readArguments,
  scalarFacts,
} from "./checked_product.ts";
import { checkAliasing } from "../operands.ts";
import {
  chooseEngine,
  getReady,
  orderChoice,
  remember,
  tellingEngines,
  type Trial,
  trials,
} from "../engines/choice.ts";
import type { AlgorithmReport, MatmulEngine, TimelineSteps } from "../engines/engine.ts";
import type { AlgorithmName, EngineName } from "../engines/registry.ts";
import {
  describeEpilog,
  type Epilog,
  epilogNamed,
  type EpilogValues,
  hasExtraOutputs,
  isTrivial,
  requiredInputs,
} from "./epilog.ts";
import { changedOptions, checkEpilog, checkEpilogInputs, checkInputsAlive, epilogFacts } from "./epilog_inputs.ts";
import {
  allocateResult,
  allocateSymmetric,
  type Auxiliary,
  bindOperands,
  type BoundOperands,
  columnMajor,
  type MatmulPlan,
  NOTHING,
  planMatmul,
  prepareExecution,
} from "./execution.ts";
import type { Planned } from "../../array/explanation.ts";
import { explainProduct } from "./explanation.ts";
import {
  type MatmulOptions,
  PLAN_OPTION_KEYS,
  type PlanOptions,
  RESET_OPTION_KEYS,
  type ResetOptions,
} from "./options.ts";
import { Timeline } from "../../runtime/timeline.ts";
import {
  checkSameScaling,
  checkScalesAlive,
  type QuantizationScales,
  quantizationValues,
  SCALE_KEYS,
  scalingOf,
} from "./quantization.ts";

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
  /** The variant of the algorithm, if the engine has several. */
  readonly variant?: string;
  /** The time of an execution on the slowest rank, in seconds. */
  readonly seconds: number;
}

/** A product with everything that the options say, checked. */
interface CheckedMatmul {
  readonly given: MatmulOptions;
  readonly product: CheckedProduct;
  readonly operands: CheckedOperands;
  readonly scalars: CheckedScalars;
  readonly engine: MatmulEngine;
  readonly epilog: Epilog;
  readonly inputs: EpilogValues;
  readonly facts: Facts;
  readonly settings: OperationSettings;
  readonly notes: readonly string[];
}

/** What `resetOperands` was given, completed by what stays. */
type CheckedReset = Pick<CheckedMatmul, "operands" | "scalars" | "inputs">;

/** What `plan` was asked for, checked. */
interface Chosen {
  readonly engine: MatmulEngine;
  readonly epilog: Epilog;
  readonly inputs: EpilogValues;
  readonly options: PlanOptions;
  readonly variant?: string;
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
export class Matmul<D extends DType = DType> implements Disposable {
  readonly #operation: CollectiveOperation<BoundOperands, MatmulPlan>;
  #checked!: CheckedMatmul;
  #scalars!: CheckedScalars;
  /** Every epilog input that was given and not released; an epilog takes those that it needs. */
  #inputs!: EpilogValues;
  #auxiliary: Auxiliary = NOTHING;

  /**
   * Check everything that is known before planning. Collective.
   *
   * @param a the left factor, m x k after its qualifiers
   * @param b the right factor, k x n after its qualifiers
   * @throws {TypeError} if an option is unknown, missing or of the wrong type
   * @throws {ShapeError | DTypeError | DistributionError} if the matrices do not fit each other
   * @throws {StateError} if a matrix was freed, or C shares memory with a factor though the product is `inplace`
   * @throws {ConfigurationError} if no engine on this machine can do what is asked
   * @throws {CollectiveError} if ranks differ in what they ask for
   */
  constructor(
    a: DistributedArray<D>,
    b: DistributedArray,
    options?: MatmulOptions & { resultType?: undefined; c?: undefined },
  );
  /** As above; the result is of dtype `resultType`. */
  constructor(a: DistributedArray, b: DistributedArray, options: MatmulOptions & { resultType: D });
  /** As above; the result is of C's dtype. */
  constructor(
    a: DistributedArray,
    b: DistributedArray,
    options: MatmulOptions & { resultType?: undefined; c: DistributedArray<D> },
  );
  /** As above, with options of which nothing is known. */
  constructor(a: DistributedArray, b: DistributedArray, options?: MatmulOptions);
  constructor(a: DistributedArray, b: DistributedArray, options: MatmulOptions = {}) {
    const runtime = runtimeOf(a, b);
    const count = arguments.length;
    this.#operation = new CollectiveOperation(runtime, "Matmul", () => {
      const given = readArguments("new Matmul(a, b, options)", options, count);
      const checked = this.#checked = checkMatmul(runtime, a, b, given);
      this.#scalars = checked.scalars;
      this.#inputs = checked.inputs;
      const operands = { ...checked.operands, bound: null };
      return { ...checked, operands, explain: (plan) => explain(checked, this.#scalars, plan) };
    });
  }

  /** Whether {@linkcode free} was called, or the object was disposed. */
  get isFreed(): boolean {
    return this.#operation.isFreed;
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
    return withNotes(this.#checked, this.#operation.planFor("algorithm").report);
  }

  /**
   * The bytes that each rank sends to each other one in an execution, as planned. Local.
   *
   * @throws {StateError} before {@linkcode plan}
   * @throws {ConfigurationError} if the engine's library does not tell
   */
  get communication(): CommunicationMatrix {
    const { engine } = this.#operation.planFor("communication");
    const matrix = engine.communication?.();
    if (matrix) return matrix;
    throw new ConfigurationError(
      `engine ${engine.report.engine} does not tell which rank sends what to whom; algorithm.bytesMoved has the sum.`,
    );
  }

  /**
   * Choose how to multiply, and prepare it. Collective. Planning again replaces the earlier plan and everything that it
   * was given; what is left out is as the constructor was told, but for inputs of the epilog, of which those that were
   * given last stay.
   *
   * @throws {TypeError | ShapeError | DTypeError} if epilog inputs are missing or do not fit D
   * @throws {ConfigurationError} if the engine cannot do what is asked
   * @throws {StateError} after `free`
   */
  plan(options?: PlanOptions): void {
    this.#operation.plan("plan", (operands) => {
      const { product, given } = this.#checked;
      const changes = readOptions("the options of plan", options, PLAN_OPTION_KEYS);
      const all = changedOptions(given, changes);
      const epilog = checkEpilog(product, all);
      const inputs = checkEpilogInputs(product, epilog, changes.epilogInputs, this.#inputs);
      const engine = chooseEngine(product.runtime, product, epilog, all);
      if (operands) checkNotFreed(operands);
      return this.#planned({ engine, epilog, inputs, options: all }, operands);
    });
  }

  /**
   * Multiply. Collective. Returns D in new memory, symmetric if all operands are, or C itself if the product is
   * `inplace`; {@linkcode auxiliary} then has the epilog's other outputs.
   *
   * @throws {StateError} before `plan`, after `releaseOperands` or `free`, or if an operand was freed
   */
  execute(options?: ExecuteOptions): DistributedArray<D> {
    const { d, auxiliary } = this.#operation.execute("execute", options, (plan, operands, stream) => {
      this.#checkOperands(plan, operands);
      return prepareExecution(this.#checked.product, plan, operands, stream);
    });
    if (auxiliary !== NOTHING) this.#auxiliary = auxiliary;
    return d as DistributedArray<D>;
  }

  /**
   * Try the algorithms of every engine that can run the product, keep the fastest (by the slowest rank's time), and
   * return the times, the fastest first; none where there is nothing to multiply. What the machine has no room for, such as
   * windows in shared memory, is passed over. Collective; it takes a few executions of each, with the other options of the
   * last `plan`, and leaves the operands as they are. The choice holds until the next `plan`.
   *
   * @throws {TypeError | RangeError} if an option is unknown, or repetitions are no whole number from 1
   * @throws {StateError} before `plan`, after `releaseOperands` or `free`
   */
  autotune(options?: AutotuneOptions): Measurement[] {
    const measured = autotune(this.#operation, options, (plan, operands) => {
      this.#checkOperands(plan, operands);
      return this.#tuning(plan, operands);
    });
    return measured.map(({ options: { engine, algorithm }, variant, seconds }) => (
      { engine, algorithm, ...variant !== undefined && { variant }, seconds }
    ));
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
    this.#operation.reset("resetOperands", (old) => {
      const given = readOptions("the options of resetOperands", options, RESET_OPTION_KEYS);
      const reset = this.#checkReset(given, old);
      const inputs = { ...this.#inputs, ...reset.inputs };
      return {
        operands: this.#bind({ ...reset, inputs }),
        facts: { ...scalarFacts(reset.scalars), ...memoryFacts(reset.operands), given: Object.keys(given).sort() },
        commit: () => {
          this.#scalars = reset.scalars;
          this.#inputs = inputs;
        },
      };
    });
  }

  /**
   * As {@linkcode resetOperands} for matrices, alpha and beta, without a check of what is given. Local: the caller
   * answers for matrices that are like those they replace, on every rank.
   *
   * @throws {StateError} if something is missing after `releaseOperands`
   */
  resetOperandsUnchecked(options: Omit<ResetOptions, "quantizationScales" | "epilogInputs"> = {}): void {
    this.#operation.checkAlive("resetOperandsUnchecked");
    const { operands: old } = this.#operation;
    this.#checkComplete("resetOperandsUnchecked", options, old, this.#inputs);
    const { a = old?.a, b = old?.b, c = old?.c ?? null } = options;
    const { alpha = this.#scalars.alpha, beta = this.#scalars.beta } = options;
    const scalars = { ...this.#scalars, alpha, beta };
    const operands = this.#bind({ operands: { a: a!, b: b!, c }, scalars, inputs: this.#inputs });
    this.#scalars = scalars;
    this.#operation.resetUnchecked(operands);
  }

  /** Let go of matrices and epilog inputs, so that their memory can be used otherwise; the plan stays. Local. */
  releaseOperands(): void {
    this.#operation.release();
    this.#inputs = {};
    this.#auxiliary = NOTHING;
  }

  /**
   * What will happen, in words: the product, the column-major problem, the algorithm, its moves and costs. Local.
   *
   * @throws {StateError} after `free`
   */
  explain(): string {
    this.#operation.checkAlive("explain()");
    return `${explain(this.#checked, this.#scalars, this.#operation.currentPlan)}\n${this.#operation.history}`;
  }

  /**
   * Run once more, into memory of its own, and tell what each rank does when: as it was, and on GPUs as a model predicts it.
   * Only some engines can tell; the error names them. Collective.
   *
   * @throws {StateError} before `plan`, after `releaseOperands` or `free`
   * @throws {ConfigurationError} if what was planned cannot tell
   */
  timeline(): Timeline {
    const operation = this.#operation;
    const { product } = this.#checked;
    const { steps, d } = operation.agree<{ facts?: Facts; steps: TimelineSteps; d: LocalArray }>("timeline", () => {
      const [plan, operands] = operation.ready("timeline");
      this.#checkOperands(plan, operands);
      const { locals, values } = operands.bound!;
      const d = allocateResult(product);
      const steps = plan.engine.timeline?.({ ...locals, d: columnMajor(d, product.d.order) }, values) ?? null;
      if (steps !== null) return { steps, d };
      d.release();
      const { engine, algorithm } = plan.report;
      throw new ConfigurationError(
        algorithm === "none"
          ? "This product has no elements to multiply, so that there is no time to tell of."
          : `engine ${engine} cannot tell what it does when. Pass engine: ${tellingEngines(product.runtime)}.`,
      );
    });
    try {
      const own = runOnAll(product.runtime, "Matmul.timeline", () => steps.run());
      return new Timeline(steps.predicted, product.runtime.communicator.allGatherObject(own).flat());
    } finally {
      d.release();
    }
  }

  /** m, n and k of op(A) op(B), and what runs: `Matmul(128 x 512 x 1024, float32, not planned)`. Local. */
  toString(): string {
    const { a, d, operations, types } = this.#checked.product;
    const k = a.shape[operations.a.transpose ? 0 : 1];
    const state = this.isFreed ? "freed" : this.#operation.currentPlan?.report.algorithm ?? "not planned";
    return `Matmul(${[...d.shape, k].join(" x ")}, ${types.d}, ${state})`;
  }

  /** Free the plan and everything native that it holds. Collective; a second call does nothing. */
  free(): void {
    this.#operation.free();
    this.releaseOperands();
  }

  /** As {@linkcode free}, but local: what must be freed by all ranks together is freed at the next collective point. */
  [Symbol.dispose](): void {
    this.#operation[Symbol.dispose]();
    this.releaseOperands();
  }

  /** What is planned for some operands. Local. */
  #planned({ engine, epilog, inputs, options, variant }: Chosen, operands: BoundOperands | null) {
    const { product } = this.#checked;
    const { plan, facts } = planMatmul(engine, product, epilog, options, variant);
    const all = { ...this.#inputs, ...inputs };
    return {
      plan,
      operands: operands && bindOperands(product, operands, this.#scalars, all, epilog),
      facts: { ...facts, ...planFacts(epilog, inputs, options) },
      commit: () => {
        this.#inputs = all;
        this.#auxiliary = NOTHING;
      },
    };
  }

  /** How the product is tuned, with the other options of a plan: into memory like that of its results. Local; allocates. */
  #tuning({ epilog, options: asked }: MatmulPlan, operands: BoundOperands): Tuning<BoundOperands, MatmulPlan, Trial> {
    const { product, given: { engine = "auto" } } = this.#checked;
    const all = trials(product.runtime, product, epilog, { ...asked, engine });
    const { locals, values } = operands.bound!;
    let d = product.isInSymmetricMemory ? null : allocateResult(product);
    return {
      trials: all,
      titleOf: ({ engine, options, variant }) =>
        `${engine.name}'s ${options.algorithm}${variant === undefined ? "" : `, ${variant}`}`,
      begin: () => {
        getReady(product.runtime, product, epilog, all);
        d ??= allocateSymmetric(product, operands.c ?? operands.a);
      },
      make: ({ engine, options, variant }) => planMatmul(engine, product, epilog, options, variant),
      prepare: (plan) => plan.engine.prepare({ ...locals, d: columnMajor(d!, product.d.order) }, values),
      release: () => d?.release(),
      note: (measured) => remember(product, epilog, asked, measured),
      replan: (fastest, operands) => this.#planned({ ...fastest, epilog, inputs: this.#inputs }, operands),
    };
  }

  /** Operands as executions need them, once the product is planned. Local. */
  #bind({ operands, scalars, inputs }: CheckedReset): BoundOperands {
    const plan = this.#operation.currentPlan;
    if (plan === null) return { ...operands, bound: null };
    return bindOperands(this.#checked.product, operands, scalars, inputs, plan.epilog);
  }

  #checkOperands({ epilog }: MatmulPlan, operands: BoundOperands): void {
    checkNotFreed(operands);
    if (this.#checked.product.scaling !== null) checkScalesAlive(this.#scalars.scales);
    if (!isTrivial(epilog)) checkInputsAlive(operands.bound!.values.epilog);
  }

  /** Released operands have to be given again, all of them; an epilog's inputs too, if they cannot be given here. */
  #checkComplete(method: string, options: ResetOptions, old: CheckedOperands | null, inputs?: EpilogValues): void {
    if (old !== null) return;
    const { product } = this.#checked;
    const plan = this.#operation.currentPlan;
    const matrices = (["a", "b", "c"] as const).filter((name) => product[name] && options[name] === undefined);
    const needed = inputs && plan ? requiredInputs(plan.epilog) : [];
    const missing = [...matrices, ...needed.filter((name) => inputs![name] === undefined)];
    if (missing.length === 0) return;
    const instead = missing.length > matrices.length ? " Pass them to resetOperands()." : "";
    throw new StateError(
      `${method} needs ${missing.join(" and ")} too, since the operands were released.${instead}`,
    );
  }

  #checkReset(options: ResetOptions, old: CheckedOperands | null): CheckedReset {
    if (Object.keys(options).length === 0) {
      throw new TypeError(`resetOperands was given nothing; pass at least one of ${RESET_OPTION_KEYS.join(", ")}.`);
    }
    const { product, given } = this.#checked;
    this.#checkComplete("resetOperands", options, old);
    if (options.beta !== undefined && product.c === null) {
      throw new TypeError("beta scales c, and this Matmul was made without c. Make a new Matmul with c.");
    }
    const matrix = (name: "a" | "b" | "c") =>
      options[name] === undefined
        ? old?.[name] ?? null
        : checkReplacement(name, options[name], product[name], product.runtime);
    const [a, b, c] = [matrix("a")!, matrix("b")!, matrix("c")];
    const { alpha = this.#scalars.alpha, beta = this.#scalars.beta, quantizationScales } = options;
    const newScales = readOptions<QuantizationScales>("quantizationScales", quantizationScales, SCALE_KEYS);
    const epilog = this.#operation.currentPlan?.epilog ?? checkEpilog(product, given);
    const scales = quantizationValues({ ...this.#scalars.scales, ...newScales }, dtypesOf(product));
    checkSameScaling(scalingOf(scales, factorsOf(product), dtypesOf(product)), product.scaling);
    const inputs = checkEpilogInputs(product, epilog, options.epilogInputs, this.#inputs);
    // Last: reading what was given may have taken memory away.
    checkNotFreed({ a, b, c });
    if (product.inplace) checkAliasing("c", c!, { a, b });
    return {
      operands: { a, b, c },
      scalars: {
        alpha: checkFactor("alpha", alpha, product.types),
        beta: checkFactor("beta", beta, product.types),
        scales,
      },
      inputs,
    };
  }
}

/**
 * Multiply distributed matrices: D = epilog(alpha op(A) op(B) + beta C). Collective.
 *
 * As making a {@linkcode Matmul}, planning, executing and disposing it, but the ranks agree once. The class is the way to
 * go when more than one such product is needed, or an epilog with more outputs than D.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, matmul, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * const a = DistributedArray.random(runtime, [1024, 128], Slab.Y, { dtype: "float32" });
 * const b = DistributedArray.random(runtime, [1024, 512], Slab.Y, { dtype: "float32" });
 * using d = matmul(a, b, { qualifiers: { a: { isTranspose: true } }, distribution: Slab.X });
 * console.assert(d.shape.join() === "128,512");
 * ```
 *
 * @param a the left factor, m x k after its qualifiers
 * @param b the right factor, k x n after its qualifiers
 * @returns D, m x n, in new memory; C itself with `inplace`
 * @throws {TypeError} if an option is unknown, missing or of the wrong type, or the epilog has more outputs than D
 * @throws {ShapeError | DTypeError | DistributionError} if the matrices do not fit each other
 * @throws {StateError} if a matrix was freed, or C shares memory with a factor though the product is `inplace`
 * @throws {ConfigurationError} if no engine on this machine can do what is asked
 * @throws {CollectiveError} if ranks differ in what they ask for
 */
export function matmul<D extends DType>(
  a: DistributedArray<D>,
  b: DistributedArray,
  options?: MatmulOptions & { resultType?: undefined; c?: undefined },
): DistributedArray<D>;
/** As above; the result is of dtype `resultType`. */
export function matmul<D extends DType>(
  a: DistributedArray,
  b: DistributedArray,
  options: MatmulOptions & { resultType: D },
): DistributedArray<D>;
/** As above; the result is of C's dtype. */
export function matmul<D extends DType>(
  a: DistributedArray,
  b: DistributedArray,
  options: MatmulOptions & { resultType?: undefined; c: DistributedArray<D> },
): DistributedArray<D>;
/** As above, with options of which nothing is known. */
export function matmul(a: DistributedArray, b: DistributedArray, options?: MatmulOptions): DistributedArray;
export function matmul(a: DistributedArray, b: DistributedArray, options: MatmulOptions = {}): DistributedArray {
  const count = arguments.length;
  const runtime = runtimeOf(a, b);
  return runOnce(runtime, "matmul", () => {
    const given = readArguments("matmul(a, b, options)", options, count);
    checkOutputs(given);
    const checked = checkMatmul(runtime, a, b, given);
    const { product, operands, scalars, engine, epilog, inputs } = checked;
    const { plan, facts } = planMatmul(engine, product, epilog, given);
    const bound = bindOperands(product, operands, scalars, inputs, epilog);
    const { run } = prepareExecution(product, plan, bound, given.stream ?? null);
    return {
      ...checked,
      facts: { ...checked.facts, ...facts },
      plan,
      explain: (plan) => explain(checked, scalars, plan),
      run: () => run().d,
    };
  });
}

/** Check all that is known before planning. Local. */
function checkMatmul(runtime: Runtime, a: DistributedArray, b: DistributedArray, given: MatmulOptions): CheckedMatmul {
  const { product, operands, scalars } = checkProduct(runtime, a, b, given, orderChoice(runtime, given));
  const epilog = checkEpilog(product, given);
  const inputs = checkEpilogInputs(product, epilog, given.epilogInputs);
  const engine = chooseEngine(runtime, product, epilog, given);
  const library = engine.open?.(runtime) ?? "";
  checkNotFreed(operands);
  const facts = {
    ...productFacts(product, scalars, given),
    ...memoryFacts(operands),
    ...planFacts(epilog, inputs, given),
    library,
  };
  return { given, product, operands, scalars, engine, epilog, inputs, facts, settings: given, notes: product.notes };
}

function explain(checked: CheckedMatmul, scalars: CheckedScalars, plan: MatmulPlan | null): string {
  return explainProduct(checked.product, scalars, (plan ?? checked).epilog, plan && plannedBy(checked, plan));
}

function plannedBy(checked: CheckedMatmul, { engine, report }: MatmulPlan): Planned {
  const { copies, times = engine.predict?.() ?? null, ...others } = withNotes(checked, report);
  const steps = copies.map((copy) => `copy: ${copy}`);
  return { ...others, steps, communication: engine.communication?.() ?? null, times };
}

function withNotes({ notes }: CheckedMatmul, report: AlgorithmReport): AlgorithmReport {
  return { ...report, notes: [...notes, ...report.notes] };
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

/** There is nobody to take other outputs than D. */
function checkOutputs(options: MatmulOptions): void {
  const name = epilogNamed(options.epilog);
  checkBoolean("resultAmax", options.resultAmax);
  const epilog = describeEpilog(name, { auxDType: "float32", resultAmax: options.resultAmax ?? false });
  if (!hasExtraOutputs(epilog)) return;
  const what = epilog.resultAmax ? "resultAmax" : `epilog ${name}`;
  throw new TypeError(`${what} has more outputs than D. Use class Matmul, whose auxiliary holds them after execute().`);
}
