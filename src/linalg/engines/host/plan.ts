/**
 * A product in host memory: bring A, B and C where the strategy multiplies them (`preparation.ts`), multiply, move the
 * product to D's distribution, apply the epilog, round to D's type.
 *
 * @module
 */
import { type Blas, BLAS_TYPES } from "../../../../ffi/blas/blas.ts";
import { type AlgorithmTimes, predictOnHost } from "../../../array/host_model.ts";
import { multiplyRate, operationsOf } from "../../../blas/host_rate.ts";
import { CommunicationMatrix } from "../../../distribution/mod.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import { copyStrided } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import { isZero, scalar, type ScalarArgument, setScalar } from "../../../blas/arguments.ts";
import { recorder } from "../../../runtime/recorder.ts";
import type { Interval } from "../../../runtime/timeline.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { type Epilog, type EpilogValues, isTrivial, type PreparedEpilog } from "../../matmul/epilog.ts";
import { type LocalOperands, type MatmulProblem, matrixName } from "../../matmul/problem.ts";
import { bytesBetween } from "../product_traffic.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues, TimelineSteps } from "../engine.ts";
import { FactorScaling, scalarOf } from "./block_scaling.ts";
import { prepareOnAllRanks } from "./epilog.ts";
import { Delivery, Preparation } from "./preparation.ts";
import { exchangeOf, meetingsOf, placeOf, shareOf, type Strategy } from "./strategy.ts";

/** Whether two local matrices are the same elements in memory. */
function isSameMemory(one: LocalArray, other: LocalArray): boolean {
  return one === other || one.data.buffer === other.data.buffer && one.data.byteOffset === other.data.byteOffset &&
      one.offset === other.offset && one.strides.join() === other.strides.join();
}

/** What a plan does with matrices that lie as it wants them: d = alpha op(a) op(b) + beta d. */
export interface Multiplier extends Disposable {
  /** How parts travel from rank to rank, such as `by messages`; left out where none do. */
  readonly way?: string;
  /** Bytes of buffers on this rank. */
  readonly workspaceBytes: number;
  /** Make what all ranks make together, before the first product. Collective. */
  open(): void;
  /** Allocate what a product of these parts needs. */
  prepare(a: LocalArray, b: LocalArray, d: LocalArray): void;
  /** d = alpha op(a) op(b) + beta d, where `a`, `b` and `d` are this rank's parts. Collective. */
  multiply(a: LocalArray, b: LocalArray, d: LocalArray, alpha: ScalarArgument, beta: ScalarArgument): void;
  /** Do something that multiplies, and tell what this rank did when, in microseconds since all met. Collective. */
  traced?(body: () => void): readonly Interval[];
}

/** A strategy, and what its algorithm does, in words. */
export interface DescribedStrategy extends Strategy {
  readonly variant: string;
  /** The least that the traffic can be, if a library does not tell it. */
  readonly leastTraffic?: number | null;
}

/** A product of matrices in the memory of the host: they are brought where they are multiplied, and D where it is wanted. */
export class HostPlan implements EnginePlan {
  readonly #engine: string;
  readonly #problem: MatmulProblem;
  readonly #strategy: DescribedStrategy;
  readonly #epilog: Epilog;
  readonly #runtime: Runtime;
  readonly #multiplier: Multiplier;
  readonly #blas: Blas | null;
  /** What the ranks exchange while they multiply, for who records; null if nothing, or a library does it. */
  readonly #exchange: string | null;
  readonly #a: Preparation;
  readonly #b: Preparation;
  readonly #c: Preparation | null;
  readonly #d: Delivery;
  readonly #alpha: ScalarArgument;
  readonly #beta: ScalarArgument;
  readonly #scaling: { readonly a: FactorScaling; readonly b: FactorScaling };
  #kept: {
    readonly operands: LocalOperands;
    readonly values: EngineValues;
    readonly execute: () => EpilogValues;
  } | null = null;

  /** Plan for an engine of this name, which multiplies by a BLAS; null where nothing is multiplied. */
  constructor(
    engine: string,
    runtime: Runtime,
    { problem, epilog }: EngineRequest,
    strategy: DescribedStrategy,
    multiplier: Multiplier,
    blas: Blas | null,
  ) {
    const { accumulator } = problem;
    const to = (name: "a" | "b" | "c" | "d", conjugate = false) => ({
      distribution: strategy[name === "c" ? "d" : name],
      accumulator,
      conjugate,
      name: matrixName(problem, name),
      place: placeOf(problem, strategy, name === "c" ? "d" : name),
    });
    const conjugatesAlone = ({ conjugate, transpose }: MatmulProblem["operationA"]) => conjugate && !transpose;
    this.#engine = engine;
    this.#problem = problem;
    this.#strategy = strategy;
    this.#epilog = epilog;
    this.#runtime = runtime;
    this.#a = new Preparation(runtime, problem.a, to("a", conjugatesAlone(problem.operationA)));
    this.#b = new Preparation(runtime, problem.b, to("b", conjugatesAlone(problem.operationB)));
    this.#c = problem.c && new Preparation(runtime, problem.c, to("c"));
    this.#d = new Delivery(runtime, problem.d, to("d"));
    this.#scaling = { a: new FactorScaling(runtime, strategy.a), b: new FactorScaling(runtime, strategy.b) };
    this.#multiplier = multiplier;
    this.#blas = blas;
    const exchange = strategy.traffic > 0 ? exchangeOf(strategy) : null;
    this.#exchange = exchange && multiplier.way ? `${exchange} ${multiplier.way}` : null;
    this.#alpha = scalar(accumulator, 1);
    this.#beta = scalar(accumulator, 0);
  }

  get #stages(): (Preparation | Delivery)[] {
    return [this.#a, this.#b, this.#c, this.#d].filter((stage) => stage !== null);
  }

  get workspaceBytes(): number {
    return this.#stages.reduce((sum, { byteLength }) => sum + byteLength, this.#multiplier.workspaceBytes);
  }

  get report(): AlgorithmReport {
    const { moved, algorithm, variant, leastTraffic = null } = this.#strategy;
    return {
      engine: this.#engine,
      algorithm,
      variant,
      workspaceBytes: this.workspaceBytes,
      bytesMoved: moved + this.#knownTraffic,
      ...leastTraffic !== null && { libraryBytes: leastTraffic },
      copies: this.#stages.flatMap(({ copies }) => copies),
      notes: [],
    };
  }

  communication(): CommunicationMatrix {
    const { leastTraffic = null } = this.#strategy;
    return new CommunicationMatrix(
      bytesBetween(this.#problem, this.#strategy, this.#knownTraffic),
      leastTraffic === null
        ? []
        : [`without what p?gemm sends, at least ${leastTraffic} bytes in all: ScaLAPACK does not tell who sends what`],
    );
  }

  get #knownTraffic(): number {
    const { traffic, leastTraffic = null } = this.#strategy;
    return leastTraffic === null ? traffic : 0;
  }

  predict(): AlgorithmTimes | null {
    const { moved, traffic, moves } = this.#strategy;
    const { size } = this.#runtime;
    const blas = this.#blas;
    const { accumulator, m, n, k } = this.#problem;
    const operations = operationsOf(accumulator) * m * n * k * shareOf(this.#strategy);
    return predictOnHost(this.#runtime, {
      operations,
      operationsPerSecond: blas === null || operations === 0
        ? 0
        : multiplyRate(blas.gemm[BLAS_TYPES[accumulator]], accumulator),
      bytes: 2 * (moved + traffic) / size,
      sent: (moved + traffic) / size,
      meetings: moves + meetingsOf(this.#strategy, k),
    });
  }

  open(): void {
    this.#multiplier.open();
  }

  /** What was prepared for a product in place is kept until other matrices come, or they are released. */
  prepare(operands: LocalOperands, values: EngineValues): () => EpilogValues {
    const kept = this.#kept;
    if (kept !== null && kept.operands === operands && kept.values === values) return kept.execute;
    const execute = this.#prepare(operands, values);
    // Other results, and an epilog's outputs, are the user's, and new each time.
    const isSame = operands.d === operands.c && isTrivial(this.#epilog);
    this.#kept = isSame ? { operands, values, execute } : null;
    return execute;
  }

  release(): void {
    this.#kept = null;
  }

  #prepare(operands: LocalOperands, values: EngineValues): () => EpilogValues {
    const a = this.#a.prepare(operands.a);
    const b = this.#b.prepare(operands.b);
    const c = operands.c !== null && !isZero(values.beta) ? this.#c!.prepare(operands.c) : null;
    const product = this.#d.product(operands.d);
    const d = this.#d.prepare(operands.d);
    this.#multiplier.prepare(a.local, b.local, product);
    const scalings = this.#prepareScaling(a.local, b.local, values);
    const { outputs, apply } = this.#prepareEpilog(a.local, b.local, d.local, values.epilog);
    return () => {
      a.bring();
      b.bring();
      c?.bring();
      for (const scale of scalings) scale();
      this.#multiply(a.local, b.local, c?.local ?? null, product, values);
      d.bring();
      apply();
      this.#d.round(operands.d, values.scales.d ?? 1);
      return outputs;
    };
  }

  timeline(operands: LocalOperands, values: EngineValues): TimelineSteps | null {
    const multiplier = this.#multiplier;
    if (!multiplier.traced) return null;
    const execute = this.prepare(operands, values);
    // There is no model of CPUs.
    return { predicted: [], run: () => multiplier.traced!(execute) };
  }

  [Symbol.dispose](): void {
    this.#multiplier[Symbol.dispose]();
  }

  /** 8-bit factors are widened, so that what is scaled are copies. */
  #prepareScaling(a: LocalArray, b: LocalArray, { scales }: EngineValues): (() => void)[] {
    if (typeof scales.a !== "object" && typeof scales.b !== "object") return NO_STEPS;
    const steps = [];
    if (typeof scales.a === "object") steps.push(this.#scaling.a.prepare(a, scales.a));
    if (typeof scales.b === "object") steps.push(this.#scaling.b.prepare(b, scales.b));
    return steps;
  }

  #multiply(
    a: LocalArray,
    b: LocalArray,
    c: LocalArray | null,
    product: LocalArray,
    { alpha, beta, scales }: EngineValues,
  ): void {
    // C is where the product is added to it, or is copied there.
    if (c && !isSameMemory(c, product)) copyStrided(c, product, c.shape, dtypeInfo(product.dtype).parts);
    setScalar(this.#alpha, alpha, scalarOf(scales.a) * scalarOf(scales.b));
    const factorOfC = c ? scales.c ?? 1 : 0;
    setScalar(this.#beta, factorOfC === 0 ? 0 : beta, factorOfC);
    if (this.#exchange !== null) recorder?.exchange(this.#exchange);
    this.#multiplier.multiply(a, b, product, this.#alpha, this.#beta);
  }

  #prepareEpilog(a: LocalArray, b: LocalArray, d: LocalArray, inputs: EpilogValues): PreparedEpilog {
    if (isTrivial(this.#epilog)) return NOTHING_FOLLOWS;
    return prepareOnAllRanks(this.#runtime, this.#problem, this.#epilog, d, inputs, (name) => ({
      local: name === "a" ? a : b,
      distribution: this.#strategy[name],
    }));
  }
}

const NO_STEPS: (() => void)[] = [];

const NOTHING_FOLLOWS: PreparedEpilog = { outputs: Object.freeze({}), apply() {} };
