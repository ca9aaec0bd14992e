/**
 * Arrays with room for transforms in place.
 *
 * @module
 */
import { DistributedArray } from "../array/distributed_array.ts";
import { checkShape, type Order, sizeOfShape, stridesOf } from "../array/layout.ts";
import { LocalArray, type Memory } from "../array/local_array.ts";
import { checkStorage, usualMemory } from "../array/new_part.ts";
import { SymmetricArray, type SymmetricPart } from "../array/symmetric_array.ts";
import { bindTo } from "../distribution/distribution.ts";
import type { Distribution } from "../distribution/mod.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { ConfigurationError } from "../errors.ts";
import { allocateSymmetric, usualBackend } from "../memory/symmetric_memory.ts";
import { readOptions } from "../options.ts";
import { agreeWith, type Runtime } from "../runtime/runtime.ts";
import { describeProblem } from "./checked_transform.ts";
import { checkEngine, chooseFFTEngine } from "./engines/registry.ts";
import { OPERAND_KEYS, type OperandOptions } from "./options.ts";
import { dtypesOf, type FFTProblem, halfOf } from "./problem.ts";
import { noteRoom } from "./operand_room.ts";

/**
 * An array of zeros that a transform with these options can write its result over (`inplace`): its memory is large enough
 * for both. For `r2c` rows are padded to whole complex numbers, so that a row of the result takes the place of one of the
 * operand; a result of `c2r` in place lies there without gaps, which the array that execute() returns knows. It is in
 * the memory of the runtime's device, or, with `memory: "symmetric"`, where the other ranks can address it: on GPUs
 * cuFFTMp transforms there without copies. Collective.
 *
 * @throws {TypeError} if an option is not known.
 * @throws {RangeError} if there is no such axis.
 * @throws {ConfigurationError} if that memory is not there, or not so much of it.
 * @throws {DTypeError} if the dtype is not one that the transform takes.
 * @throws {ShapeError | DistributionError} if shape, axes or distributions do not fit each other.
 * @throws {CollectiveError} if ranks ask for different arrays.
 *
 * @example
 * ```ts
 * import { allocateOperand, initialize, rfft, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using field = allocateOperand(runtime, [64, 48], Slab.X, { dtype: "float32" });
 * field.local.fill(1);
 * using spectrum = rfft(field, { inplace: true });
 * console.log(spectrum.shape, spectrum.isView); // [64, 25], true
 * ```
 */
export function allocateOperand<D extends DType = DType>(
  runtime: Runtime,
  shape: readonly number[],
  distribution: Distribution,
  options: OperandOptions<D> = {},
): DistributedArray<D> {
  let wish!: Wish;
  let local: LocalArray | undefined;
  agreeWith(runtime, "allocateOperand", () => {
    wish = checkWish(runtime, shape, distribution, options);
    const { problem, memory } = wish;
    if (memory !== "symmetric") local = operandPart(problem, runtime);
    return { operand: operandName(wish), type: problem.type, result: problem.result, distribution: String(problem.to) };
  });
  // Symmetric memory is allocated by all ranks together, which has to come after the checks.
  local ??= symmetricPart(wish.problem, runtime);
  return DistributedArray.wrap(runtime, local, wish.problem.from, wish.problem.order) as DistributedArray<D>;
}

/** What is asked for, checked. */
interface Wish {
  readonly problem: FFTProblem;
  readonly memory: Memory;
}

function checkWish(
  runtime: Runtime,
  shape: readonly number[],
  distribution: Distribution,
  options: OperandOptions,
): Wish {
  const given = readOptions("the options of allocateOperand", options, OPERAND_KEYS);
  const { fftType, order = "C", dtype = fftType === "r2c" ? "float64" : "complex128", resultDistribution } = given;
  const { memory = usualMemory(runtime) } = given;
  checkStorage(runtime, { dtype, order, memory });
  if (memory === "host" && runtime.stream !== null) {
    throw new ConfigurationError(
      'Memory "host": this runtime transforms on GPUs, in their memory. Leave memory out, or pass "symmetric".',
    );
  }
  const bound = bindTo(distribution, checkShape(shape), runtime.size);
  const asked = { name: "allocateOperand", distributionOption: "resultDistribution" };
  const problem = describeProblem(asked, dtype, bound.globalShape!, bound, order, {
    ...given,
    ...resultDistribution && { distribution: resultDistribution },
  });
  checkEngine(chooseFFTEngine(runtime), problem);
  return { problem, memory };
}

/** The operand, for other ranks and for people. */
function operandName({ problem: { operand, order, from, ...types }, memory }: Wish): string {
  return `${dtypesOf(types).operand} [${operand.join(", ")}], ${from}, order ${order}, memory ${memory}`;
}

/** One rank's part, and the bytes that it and the result take. */
function layoutOf(problem: FFTProblem, rank: number): Required<SymmetricPart> & { readonly bytes: number } {
  const dtypes = dtypesOf(problem);
  const shape = problem.from.localShape(rank);
  const rows = paddedShape(problem, shape);
  const bytes = (dtype: DType, shape: readonly number[]) => dtypeInfo(dtype).itemSize * sizeOfShape(shape);
  return {
    shape,
    strides: stridesOf(rows, problem.order),
    bytes: Math.max(bytes(dtypes.operand, rows), bytes(dtypes.result, problem.to.localShape(rank))),
  };
}

function operandPart(problem: FFTProblem, { rank, stream }: Runtime): LocalArray {
  const dtype = dtypesOf(problem).operand;
  const { shape, strides, bytes } = layoutOf(problem, rank);
  const room = LocalArray.zeros(dtype, [Math.ceil(bytes / dtypeInfo(dtype).itemSize)], "C", stream);
  const data = room.isOnDevice ? room.buffer : room.data;
  noteRoom(ArrayBuffer.isView(data) ? data.buffer : data);
  return new LocalArray({ data, dtype, shape, strides });
}

/** The same in symmetric memory. Collective. */
function symmetricPart(problem: FFTProblem, runtime: Runtime): SymmetricArray {
  const parts = Array.from({ length: runtime.size }, (_, rank) => layoutOf(problem, rank));
  const { bytes } = parts[runtime.rank];
  const wish = { bytes, backend: usualBackend(runtime), makeSymmetric: true, facts: {}, offer: null };
  const { buffer } = allocateSymmetric(runtime, () => wish);
  noteRoom(buffer.host ?? buffer);
  return new SymmetricArray(buffer, dtypesOf(problem).operand, problem.order, parts);
}

/** Rows of real numbers that begin where those of their complex transforms do. */
function paddedShape({ type, halved, order, operand }: FFTProblem, shape: readonly number[]): readonly number[] {
  const inner = innermost(operand.length, order);
  return type === "r2c" && halved === inner ? shape.with(inner, 2 * halfOf(shape[inner])) : shape;
}

function innermost(dimensions: number, order: Order): number {
  return order === "C" ? dimensions - 1 : 0;
}
