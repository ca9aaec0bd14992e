/**
 * What a matmul engine is: something that can tell whether it supports a canonical problem, plan it, and execute it.
 *
 * @module
 */
import type { AlgorithmTimes } from "../../array/host_model.ts";
import type { CommunicationMatrix } from "../../distribution/mod.ts";
import type { DType, Scalar } from "../../dtype/dtype.ts";
import type { Engine } from "../../runtime/engines.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { Stream } from "../../gpu/stream.ts";
import type { Interval } from "../../runtime/timeline.ts";
import type { ComputeType } from "../matmul/compute_type.ts";
import type { Epilog, EpilogValues } from "../matmul/epilog.ts";
import type { LocalOperands, MatmulProblem } from "../matmul/problem.ts";
import type { QuantizationValues, Scaling } from "../matmul/quantization.ts";
import type { PblasEngine } from "../pblas/call.ts";

/** Why an engine cannot run a problem, and what can. */
export interface Refusal {
  /** What is not supported. */
  readonly reason: string;
  /** What to do instead: a dtype, an engine, an option. */
  readonly instead: string;
}

/** What ran, or will run. */
export interface AlgorithmReport {
  /** The engine's name. */
  readonly engine: string;
  /** The algorithm, one of the engine's; `none` where there is nothing to multiply. */
  readonly algorithm: string;
  /** Details in words: the grid, what is stationary, how a block is moved. */
  readonly variant: string;
  /** Bytes of buffers that the plan holds on this rank. */
  readonly workspaceBytes: number;
  /** Bytes that leave ranks, over all ranks, in one execution outside of ScaLAPACK's own communication. */
  readonly bytesMoved: number;
  /**
   * Bytes that ScaLAPACK's p?gemm sends besides, over all ranks, at least: it does not tell them. They are what it takes to
   * leave one of the matrices where it is, as PBLAS does, if alpha is not 0. Left out where it sends nothing.
   */
  readonly libraryBytes?: number;
  /** Copies and redistributions that an execution makes, in words. */
  readonly copies: readonly string[];
  /** What was asked for and is done differently, in words. */
  readonly notes: readonly string[];
  /** How long an execution takes, if the engine can tell. */
  readonly times?: AlgorithmTimes;
}

/** What only GPUs look at. */
export interface GpuSettings {
  /** The precision that products are computed in. */
  readonly computeType?: ComputeType;
  /** Multiprocessors that are left to communication. */
  readonly communicationSmCount?: number;
  /** The type in which partial sums travel. */
  readonly communicationType?: DType;
  /** Whether algorithms that use NVLink multicast may be asked for. */
  readonly allowMulticast?: boolean;
  /** Whether D is in symmetric memory. */
  readonly isInSymmetricMemory?: boolean;
}

/** Everything that a plan depends on, besides the data. */
export interface EngineRequest {
  readonly problem: MatmulProblem;
  /** What follows the product. */
  readonly epilog: Epilog;
  /** The algorithm that was asked for: one of the engine's, or `default`. */
  readonly algorithm: string;
  /** What shares a scale in A and B; each is scaled as a whole if null or left out. */
  readonly scaling?: Scaling | null;
  /** What only GPUs look at. */
  readonly settings?: GpuSettings;
  /** Which of the engine's variants of the algorithm; it chooses if left out. */
  readonly variant?: string;
}

export interface EngineValues {
  /** Scales op(A) op(B). */
  readonly alpha: Scalar;
  /** Scales C. */
  readonly beta: Scalar;
  /** Bias, aux inputs: this rank's parts. */
  readonly epilog: EpilogValues;
  /** Scales of 8-bit operands; arrays of them have the rows and columns of the problem's column-major matrices. */
  readonly scales: QuantizationValues;
}

/**
 * A planned matmul. Plans hold buffers and native grids until they are disposed.
 *
 * What one rank can fail at alone, above all to allocate memory, is apart from what the ranks do together: they agree in
 * between.
 */
export interface EnginePlan extends Disposable {
  readonly report: AlgorithmReport;
  /** The way that it has chosen, by what this rank knows: all ranks have to choose alike. Left out if there is one only. */
  readonly choice?: string;
  /** Bytes of buffers that the plan holds on this rank. */
  readonly workspaceBytes: number;
  /** Make what all ranks make together, once, after all of them have planned, and before what was prepared runs. Collective. */
  open(): void;
  /**
   * Allocate what a product needs, on a GPU's stream if there is one. Local, and possible before {@linkcode open}, since
   * one agreement may stand for planning and executing. Returns what multiplies, which is collective and returns the extra
   * outputs of the epilog.
   */
  prepare(operands: LocalOperands, values: EngineValues, stream?: Stream | null): () => EpilogValues;
  /**
   * Get ready to run once, and to tell what each rank does when: as a model predicts it for all ranks, and as it was on this
   * rank, in microseconds since all ranks met. Local; null if the plan cannot tell.
   */
  timeline?(operands: LocalOperands, values: EngineValues): TimelineSteps | null;
  /** The bytes that each rank sends to each other one in an execution; null if the library does not tell. */
  communication?(): CommunicationMatrix | null;
  /**
   * How long an execution takes by a model, where the report does not say; null if there is none. Local; may measure what
   * this process can do at the first call.
   */
  predict?(): AlgorithmTimes | null;
  /** Let go of what executions were given, if the plan keeps any of it. */
  release?(): void;
}

/** Both sides of a timeline. */
export interface TimelineSteps {
  /** What a model says of all ranks. */
  readonly predicted: readonly Interval[];
  /** Run, and tell what was on this rank. Collective. */
  run(): readonly Interval[];
}

/** A way to run matmuls, and perhaps PBLAS routines. */
export interface MatmulEngine<Name extends string = string, Algorithm extends string = string>
  extends Engine<Name, Algorithm> {
  /** Whether plans of it tell what each rank does when. */
  readonly hasTimelines?: boolean;
  /** The algorithms that are worth measuring; all when left out. */
  readonly tuned?: readonly Algorithm[];
  /**
   * Open the native libraries, unless they are open, and return which they are: a plan needs the same on all ranks.
   * An engine without it opens them by `plan`.
   *
   * @throws {ConfigurationError} if they are missing on this rank
   */
  open?(runtime: Runtime): string;
  /** Null if the engine, which has the algorithm, can run the problem. The same on all ranks. */
  supports(request: EngineRequest, runtime: Runtime): Refusal | null;
  /**
   * What a request that is supported costs, to choose between engines: the bytes that leave ranks, over all ranks, or that
   * go from a GPU to the host and back, as well as they can be told beforehand. The same on all ranks. Of engines that
   * cost the same the usual one is taken, or that which was registered first, and one that tells no cost only if no other
   * can.
   */
  cost?(request: EngineRequest, runtime: Runtime): number;
  /**
   * How long a request that is supported takes, by a model, in seconds. Where all engines that can run a request tell it,
   * the fastest is taken, and costs do not count. The same on all ranks.
   */
  seconds?(request: EngineRequest, runtime: Runtime): number;
  /** Measure what this machine can do, unless it is known, before products are measured. Collective. */
  calibrate?(runtime: Runtime): void;
  /** Have what plans of these requests compile compiled at the same time, as far as they can run. Local. */
  compile?(requests: readonly EngineRequest[], runtime: Runtime): void;
  /** The variants of the request's algorithm that are worth measuring, if there are several. The same on all ranks. */
  variants?(request: EngineRequest, runtime: Runtime): readonly string[];
  /**
   * What one memory order of D costs this engine, to choose between the two: the more important numbers first, null if it
   * cannot be. An engine without it takes both alike.
   */
  costOfOrder?(request: EngineRequest): readonly number[] | null;
  /** Choose how to multiply, and allocate the plan's buffers. Local. */
  plan(runtime: Runtime, request: EngineRequest): EnginePlan;
  /** The PBLAS routines, if the engine has them. */
  readonly pblas?: PblasEngine;
}
