/**
 * What an engine adds to the steps that are the same for all: the transforms of one rank's part, and memory of its kind.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { DType, TypedArray } from "../../../dtype/dtype.ts";
import type { DeviceMemory } from "../../../memory/device_buffer.ts";
import type { FFTDirection } from "../../problem.ts";
import type { ReflectStep } from "../../steps.ts";
import type { PassLibrary } from "./local_transform.ts";

/** What transforms the part of one rank, and does what else a plan asks for with memory of its kind. */
export interface Transformer extends Disposable {
  /** The engine's name. */
  readonly engine: string;
  /** The library, in its own words. */
  readonly library: string;
  /** What it does differently from what was asked for. */
  readonly notes: readonly string[];
  /** What transforms. */
  readonly passes: PassLibrary;
  /** Additions and multiplications in a second, if there is a model of the time; measured at the first call. */
  readonly operationsPerSecond?: () => number;
  /** Bytes that the library works in. */
  readonly workspaceBytes: number;
  /** Memory for so many elements. */
  allocate(dtype: DType, count: number): TypedArray | DeviceMemory;
  /**
   * What multiplies element (i, j) of a matrix, row by row in memory, by exp(-2 pi i (i (first + j)) / n), or in the inverse
   * by its conjugate.
   */
  roots(n: number): (matrix: LocalArray, first: number, direction: FFTDirection) => void;
  /** Make one half of a spectrum from another one. */
  reflect(step: ReflectStep, source: LocalArray, target: LocalArray): void;
  /** Copy elements to an array of the same shape. */
  copy(source: LocalArray, target: LocalArray): void;
  /** Multiply all elements by a number. */
  scale(array: LocalArray, factor: number): void;
  /** Have all that an execution needs, and surround it by what keeps the order with other work on operand and result. */
  inOrder(run: () => void, operand: LocalArray, result: LocalArray): () => void;
}
