/**
 * Programs, run where their arrays are: by loops or MKL's vector mathematics on the CPU, or by a kernel on a GPU.
 *
 * @module
 */
import type { VectorMath } from "../../../ffi/blas/vector_math.ts";
import type { Stream } from "../../gpu/stream.ts";
import type { LocalArray } from "../local_array.ts";
import { CUDA } from "./cuda.ts";
import { accumulateOnDevice, prepareOnDevice } from "./device_kernel.ts";
import { type Accumulation, type Elements, isOnDevice, type Part, typeOf } from "./loops.ts";
import { compile, type Expression, JAVASCRIPT, type Language, type Program } from "./expression.ts";
import * as host from "./kernel.ts";
import { prepareVectors } from "./vectors.ts";

/** The language for a GPU, or for the CPU. */
export function languageOf(stream: Stream | null): Language {
  return stream === null ? JAVASCRIPT : CUDA;
}

/**
 * Get ready to compute all elements of `target`: what may fail for want of memory, unless a value may be refused, is done
 * here. Strides of operands are 0 along dimensions that they lack. `open` finds vector mathematics, if it shall be used.
 */
export function prepare(
  program: Program,
  operands: readonly Part[],
  target: LocalArray,
  open: () => VectorMath | null,
): () => void {
  if (target.isOnDevice) return prepareOnDevice(program, operands, target, target.shape);
  return prepareVectors(program, operands, target, open) ?? (() => host.compute(program, operands, target));
}

/**
 * Have accumulators take in every value of an expression: targets in host memory, whose strides are 0 along the dimensions
 * that are reduced. The elements are visited in the order of the first array.
 */
export function accumulate(
  expression: Expression,
  operands: readonly Part[],
  targets: readonly Elements[],
  shape: readonly number[],
  accumulation: Accumulation,
): void {
  const device = operands.find(isOnDevice);
  const program = compile(expression, operands.map(typeOf), device === undefined ? JAVASCRIPT : CUDA);
  if (device === undefined) host.accumulate(program, operands, targets, shape, accumulation);
  else accumulateOnDevice(program, operands, targets, shape, accumulation, device.storage.stream);
}
