/**
 * Programs, run where their arrays are: on a GPU by a kernel, on the CPU by what is fastest there: loops that the machine's C
 * compiler has made, MKL's vector mathematics, or loops of JavaScript.
 *
 * @module
 */
import { openVectorMath } from "../../../ffi/blas/vector_math.ts";
import type { Stream } from "../../gpu/stream.ts";
import { dtypeInfo, isNarrowFloat } from "../../dtype/dtype.ts";
import type { LocalArray } from "../local_array.ts";
import { accumulateCompiled, prepareCompiled, WORTH_COMPILING } from "./compiled.ts";
import { CUDA } from "./cuda.ts";
import { accumulateOnDevice, prepareOnDevice } from "./device_kernel.ts";
import { type Accumulation, type Elements, isOnDevice, type Part, typeOf } from "./loops.ts";
import { compile, type ElementProgram, type Expression, JAVASCRIPT, type Language } from "./expression.ts";
import * as host from "./javascript_loops.ts";
import { LARGE, prepareVectors } from "./vectors.ts";
import { sizeOfShape } from "../layout.ts";

/** The language for a GPU, or for the CPU. */
export function languageOf(stream: Stream | null): Language {
  return stream === null ? JAVASCRIPT : CUDA;
}

/** What the choice among ways on CPUs goes by, the same on all ranks. */
export interface Means {
  /** The number of elements over all ranks. */
  readonly size: number;
  /** How many threads a library may take. */
  readonly threads: number;
}

/**
 * Get ready to compute all elements of `target`: what may fail for want of memory, unless a value may be refused, is done
 * here. Strides of operands are 0 along dimensions that they lack.
 */
export function prepare(
  program: ElementProgram,
  operands: readonly Part[],
  target: LocalArray,
  { size, threads }: Means,
): () => void {
  const copy = prepareByteCopy(program, operands, target);
  if (copy !== null) return copy;
  if (target.isOnDevice) return prepareOnDevice(program, operands, target, target.shape);
  const byCompiler = () => size < WORTH_COMPILING ? null : prepareCompiled(program, operands, target);
  const byLibrary = () =>
    prepareVectors(program, operands, target, () => size < LARGE ? null : openVectorMath(threads));
  // Compiled loops were measured to be as fast as NumPy or faster than the library, but have one thread.
  const [first, second] = threads > 1 ? [byLibrary, byCompiler] : [byCompiler, byLibrary];
  return first() ?? second() ?? (() => host.compute(program, operands, target));
}

/**
 * Get ready to move elements of float8 as the bytes that they are: the bits of a NaN would be lost on the way through float32.
 * `null` if the program does something else.
 */
function prepareByteCopy(program: ElementProgram, operands: readonly Part[], target: LocalArray): (() => void) | null {
  const { expression, language } = program;
  const [from] = operands;
  const copied = expression.kind === "apply" && expression.name === "positive" ? expression.of[0] : expression;
  const isOfBytes = isNarrowFloat(target.dtype) && dtypeInfo(target.dtype).itemSize === 1;
  if (
    copied.kind !== "operand" || !isOfBytes || operands.length !== 1 || "scalar" in from || from.dtype !== target.dtype
  ) return null;
  const bytes = compile(expression, [{ dtype: "uint8" }], language);
  const asBytes = ({ storage, offset, strides }: Elements): Elements => ({ storage, dtype: "uint8", offset, strides });
  const [source, goal] = [from, target].map(asBytes);
  return target.isOnDevice
    ? prepareOnDevice(bytes, [source], goal, target.shape)
    : () => host.runLoops(bytes, [source], goal, target.shape);
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
  const isLarge = device === undefined && accumulation.isAnyOrder && sizeOfShape(shape) >= WORTH_COMPILING;
  if (isLarge && accumulateCompiled(expression, operands, targets, shape, accumulation)) return;
  const program = compile(expression, operands.map(typeOf), device === undefined ? JAVASCRIPT : CUDA);
  if (device === undefined) host.accumulate(program, operands, targets, shape, accumulation);
  else {
    // Where targets on GPUs are used and freed: operands are waited for.
    const { storage: { stream } } = targets.find(isOnDevice) ?? device;
    accumulateOnDevice(program, operands, targets, shape, accumulation, stream);
  }
}
