/**
 * The CPU engine: BLAS on each rank, MPI between them, or ScaLAPACK's p?gemm.
 *
 * The way of a product: bring A, B and C where the strategy multiplies them (`staging.ts`), multiply (`kernel.ts` and
 * its implementations), move the product to D's distribution, apply the epilog, round to D's type.
 *
 * @module
 */
import { openScalapack } from "../../../../ffi/blas/scalapack.ts";
import { dtypeInfo, isNarrowFloat } from "../../../dtype/dtype.ts";
import { copyStrided } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import { type Epilog, type EpilogValues, isTrivial, needsRealNumbers } from "../../matmul/epilog.ts";
import { isEmpty, type LocalOperands, type MatmulProblem, type Matrix } from "../../matmul/problem.ts";
import { AllGatherGemm } from "./all_gather_gemm.ts";
import { applyScales, scalarOf } from "../block_scaling.ts";
import { applyOnAllRanks } from "../distributed_epilog.ts";
import type { AlgorithmReport, EnginePlan, EngineRequest, EngineValues, MatmulEngine, Refusal } from "../engine.ts";
import { GemmAllReduce, GemmReduceScatter } from "./gemm_reduce.ts";
import { type Kernel, type KernelContext, LocalGemm } from "./local_product.ts";
import { isZero } from "../../../blas/arguments.ts";
import { scalapackLibrary } from "./library.ts";
import { scalapackPblas } from "./pblas.ts";
import { Pgemm } from "./pgemm.ts";
import { describeStrategy, matrixName, placeOf } from "../report.ts";
import { Delivery, Staging } from "./staging.ts";
import { chooseStrategy, SCALAPACK_ALGORITHMS, type ScalapackAlgorithm, type Strategy } from "./strategy.ts";

const NAME = "scalapack";

/** The algorithm that a request names; `undefined` for the engine's own choice. */
const requested = (algorithm: string) => SCALAPACK_ALGORITHMS.find((name) => name === algorithm);

/** BLAS and ScaLAPACK count rows and columns in 32 bits. */
const LARGEST_EXTENT = 2 ** 31 - 1;

function refuseMatrices({ a, b, c, d, m, n, k, accumulator }: MatmulProblem): Refusal | null {
  for (const { dtype } of [a, b, c, d].filter((matrix): matrix is Matrix => matrix !== null)) {
    if (dtypeInfo(dtype).isInteger) {
      return { reason: `integers (${dtype}) cannot be multiplied`, instead: "Convert to float32 or float64." };
    }
    if (dtype !== accumulator && !(accumulator === "float32" && isNarrowFloat(dtype))) {
      return {
        reason: `${dtype} cannot be summed in ${accumulator}`,
        instead: "Give all matrices one dtype; only 16-bit and 8-bit floats are widened, to float32.",
      };
    }
  }
  const largest = Math.max(m, n, k);
  if (largest > LARGEST_EXTENT) {
    return {
      reason: `a matrix of extent ${largest} cannot be multiplied: BLAS counts in 32 bits, up to ${LARGEST_EXTENT}`,
      instead: "Multiply it in slices.",
    };
  }
  return null;
}

function refuse({ problem, epilog, algorithm }: EngineRequest): Refusal | null {
  const refusal = refuseMatrices(problem);
  if (refusal) return refusal;
  if (needsRealNumbers(epilog) && dtypeInfo(problem.accumulator).isComplex) {
    return { reason: `the epilog ${epilog.name} is for real numbers only`, instead: "Use a real dtype, or no epilog." };
  }
  const wanted = requested(algorithm);
  if (!wanted || isEmpty(problem) || chooseStrategy(problem, wanted)) return null;
  return {
    reason: `${wanted} cannot run this product: it needs ${NEEDS[wanted]}`,
    instead: "Change the distributions, or use algorithm default, which takes any.",
  };
}

/** What an algorithm cannot run without; other distributions are moved to those that it takes. */
const NEEDS: Readonly<Record<ScalapackAlgorithm, string>> = {
  local_gemm: "one rank, or a factor that is Replicated",
  all_gather_gemm: "a factor that is not Replicated, with at most 2^31 - 1 numbers on a rank",
  gemm_reduce_scatter: "a D that is not Replicated, of at most 2^31 - 1 numbers",
  gemm_all_reduce: "a D that is Replicated, of at most 2^31 - 1 numbers",
  pgemm: "a grid of processes",
};

const KERNELS: Readonly<Record<ScalapackAlgorithm, new (context: KernelContext) => Kernel>> = {
  local_gemm: LocalGemm,
  all_gather_gemm: AllGatherGemm,
  gemm_reduce_scatter: GemmReduceScatter,
  gemm_all_reduce: GemmAllReduce,
  pgemm: Pgemm,
};

/** Whether two local matrices are the same elements in memory. */
function isSameMemory(one: LocalArray, other: LocalArray): boolean {
  return one === other || one.data.buffer === other.data.buffer && one.data.byteOffset === other.data.byteOffset &&
      one.offset === other.offset && one.strides.join() === other.strides.join();
}

/** What a plan does with matrices that lie as it wants them: a {@linkcode Kernel}, or what stands in for one. */
export type Multiplier = Pick<Kernel, "open" | "prepare" | "multiply" | "workspaceBytes"> & Disposable;

/** A product of matrices in the memory of the host: they are brought where they are multiplied, and D where it is wanted. */
export class HostPlan implements EnginePlan {
  readonly #engine: string;
  readonly #problem: MatmulProblem;
  readonly #strategy: Strategy;
  readonly #epilog: Epilog;
  readonly #runtime: Runtime;
  readonly #kernel: Multiplier;
  readonly #a: Staging;
  readonly #b: Staging;
  readonly #c: Staging | null;
  readonly #d: Delivery;

  /** Plan for an engine of this name. */
  constructor(
    engine: string,
    runtime: Runtime,
    { problem, epilog }: EngineRequest,
    strategy: Strategy,
    kernel: Multiplier,
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
    this.#a = new Staging(runtime, problem.a, to("a", conjugatesAlone(problem.operationA)));
    this.#b = new Staging(runtime, problem.b, to("b", conjugatesAlone(problem.operationB)));
    this.#c = problem.c && new Staging(runtime, problem.c, to("c"));
    this.#d = new Delivery(runtime, problem.d, to("d"));
    this.#kernel = kernel;
  }

  get #stages(): (Staging | Delivery)[] {
    return [this.#a, this.#b, this.#c, this.#d].filter((stage) => stage !== null);
  }

  get workspaceBytes(): number {
    return this.#stages.reduce((sum, { byteLength }) => sum + byteLength, this.#kernel.workspaceBytes);
  }

  get report(): AlgorithmReport {
    const { moved, traffic, algorithm } = this.#strategy;
    return {
      engine: this.#engine,
      algorithm,
      variant: describeStrategy(this.#problem, this.#strategy),
      workspaceBytes: this.workspaceBytes,
      bytesMoved: moved + (algorithm === "pgemm" ? 0 : traffic),
      copies: this.#stages.flatMap(({ copies }) => copies),
      notes: [],
    };
  }

  open(): void {
    this.#kernel.open();
  }

  prepare(operands: LocalOperands, values: EngineValues): () => EpilogValues {
    const a = this.#a.prepare(operands.a);
    const b = this.#b.prepare(operands.b);
    const c = operands.c !== null && !isZero(values.beta) ? this.#c!.prepare(operands.c) : null;
    const product = this.#d.product(operands.d);
    const d = this.#d.prepare(operands.d);
    this.#kernel.prepare(a.local, b.local, product);
    return () => {
      a.bring();
      b.bring();
      c?.bring();
      this.#multiply(a.local, b.local, c?.local ?? null, product, values);
      d.bring();
      const outputs = isTrivial(this.#epilog) ? NOTHING : this.#applyEpilog(a.local, b.local, d.local, values.epilog);
      this.#d.round(operands.d, values.scales.d ?? 1);
      return outputs;
    };
  }

  [Symbol.dispose](): void {
    this.#kernel[Symbol.dispose]();
  }

  #multiply(
    a: LocalArray,
    b: LocalArray,
    c: LocalArray | null,
    product: LocalArray,
    { alpha, beta, scales }: EngineValues,
  ): void {
    // 8-bit factors were widened, so that these are copies.
    if (typeof scales.a === "object") applyScales(a, this.#strategy.a, scales.a);
    if (typeof scales.b === "object") applyScales(b, this.#strategy.b, scales.b);
    // C is where the product is added to it, or is copied there.
    if (c && !isSameMemory(c, product)) copyStrided(c, product, c.shape, dtypeInfo(product.dtype).parts);
    const factor = scalarOf(scales.a) * scalarOf(scales.b);
    this.#kernel.multiply(a, b, product, alpha, factor, beta, c ? scales.c ?? 1 : 0);
  }

  #applyEpilog(a: LocalArray, b: LocalArray, d: LocalArray, inputs: EpilogValues): EpilogValues {
    return applyOnAllRanks(this.#runtime, this.#problem, this.#epilog, d, inputs, (name) => ({
      local: name === "a" ? a : b,
      distribution: this.#strategy[name],
    }));
  }
}

const NOTHING: EpilogValues = Object.freeze({});

/** Any distributions, real and complex floats, on CPUs. */
export const scalapackEngine: MatmulEngine<"scalapack", ScalapackAlgorithm> = {
  name: NAME,
  device: "cpu",
  algorithms: SCALAPACK_ALGORITHMS,
  open: scalapackLibrary,
  supports: refuse,
  cost({ problem, algorithm }: EngineRequest): number {
    const { moved, traffic } = chooseStrategy(problem, requested(algorithm))!;
    return moved + traffic;
  },
  plan(runtime: Runtime, request: EngineRequest): EnginePlan {
    const { problem, algorithm } = request;
    const { communicator, threads } = runtime;
    const scalapack = openScalapack(threads);
    const strategy = chooseStrategy(problem, requested(algorithm))!;
    const Kernel = KERNELS[strategy.algorithm as ScalapackAlgorithm];
    const context = { problem, strategy, communicator, scalapack };
    return new HostPlan(NAME, runtime, request, strategy, new Kernel(context));
  },
  pblas: scalapackPblas,
};
