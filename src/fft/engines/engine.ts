/**
 * What an engine of transforms is.
 *
 * @module
 */
import type { CommunicationMatrix } from "../../distribution/mod.ts";
import type { AlgorithmTimes } from "../../array/host_model.ts";
import type { LocalArray } from "../../array/local_array.ts";
import type { Engine } from "../../runtime/engines.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { FFTDirection, FFTProblem } from "../problem.ts";

/** What runs, or will run. */
export interface FFTReport {
  /** The engine's name. */
  readonly engine: string;
  /** The algorithm, one of the engine's. */
  readonly algorithm: string;
  /** Where the array is on the way, and what is transformed there. */
  readonly variant: string;
  /** The library that transforms, in its own words. */
  readonly library: string;
  /** Bytes of buffers that the plan holds on this rank. */
  readonly workspaceBytes: number;
  /** Bytes that leave ranks, over all ranks, in one execution. */
  readonly bytesMoved: number;
  /** The steps of an execution, in words. */
  readonly steps: readonly string[];
  /** What was asked for and is done differently, in words. */
  readonly notes: readonly string[];
}

/** How much time planning may take: `measure` and `patient` try out ways, where the library does. */
export type FFTEffort = "estimate" | "measure" | "patient";

/** The efforts. */
export const FFT_EFFORTS: readonly FFTEffort[] = ["estimate", "measure", "patient"];

/** Where results go: to new memory, over the operand, or over the operand in symmetric memory. */
export type FFTPlace = "new" | "operand" | "symmetric";

/** What a plan depends on, besides the data. */
export interface FFTRequest {
  /** What is transformed. */
  readonly problem: FFTProblem;
  /** The directions in which it will be. */
  readonly directions: readonly FFTDirection[];
  /** The algorithm that was asked for, or `default`. */
  readonly algorithm: string;
  /** How much time planning may take. */
  readonly effort: FFTEffort;
  /** Whether results are written over the operands. */
  readonly inplace: boolean;
}

/** A planned transform, in one direction or in both. */
export interface FFTEnginePlan extends Disposable {
  /** What an execution does. */
  readonly report: FFTReport;
  /**
   * Have all that a transform needs. Local. Returns what transforms `source`, this rank's part of the operand, to `target`,
   * that of the result, which shares memory with it if the request said so; it is collective. The result is multiplied by
   * `scale`.
   */
  prepare(source: LocalArray, target: LocalArray, direction: FFTDirection, scale: number): () => void;
  /** The bytes that each rank sends to each other one in an execution; a plan whose library does not tell has none. */
  communication?(): CommunicationMatrix;
  /** How long an execution takes by a model; null, as without this, if there is none. Local; may measure at the first call. */
  predict?(): AlgorithmTimes | null;
  /** Make what the ranks use together, unless it is there. Collective. */
  open(): void;
  /** Let go of the arrays that executions were given. */
  release(): void;
}

/** A way to run transforms. */
export interface FFTEngine<Name extends string = string, Algorithm extends string = string>
  extends Engine<Name, Algorithm> {
  /**
   * Open the native libraries, unless they are open, and return which they are: a plan needs the same on all ranks.
   *
   * @throws {ConfigurationError} if they are missing on this rank
   */
  open(runtime: Runtime, problem: Pick<FFTProblem, "precision">): string;
  /** Why it cannot run a problem; null if it can. The same on all ranks. */
  refusal(problem: FFTProblem): string | null;
  /** The algorithms that can run a problem that is not refused, the one that is taken by default first. The same on all ranks. */
  algorithmsFor(problem: FFTProblem): readonly Algorithm[];
  /**
   * Whether it was measured to be the fastest for executions of a plan for such operands: then `auto` takes it before those
   * that stand before it. Left out by engines that never are. The same on all ranks.
   */
  leads?(problem: FFTProblem, place: FFTPlace): boolean;
  /** Choose how to transform, and allocate the plan's buffers, which are freed if the ranks do not agree. Local. */
  plan(runtime: Runtime, request: FFTRequest): FFTEnginePlan;
}
