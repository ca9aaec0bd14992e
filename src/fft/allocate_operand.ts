/**
 * Arrays with room for transforms in place.
 *
 * @module
 */
import { DistributedArray } from "../array/distributed_array.ts";
import { checkOrder, checkShape, type Order, sizeOfShape, stridesOf } from "../array/layout.ts";
import { LocalArray } from "../array/local_array.ts";
import { bindTo } from "../distribution/distribution.ts";
import type { Distribution } from "../distribution/mod.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { readOptions } from "../options.ts";
import { agreeWith, type Runtime } from "../runtime/runtime.ts";
import { describeProblem, noteRoom } from "./checked_transform.ts";
import { checkEngine, chooseFFTEngine } from "./engines/registry.ts";
import { OPERAND_KEYS, type OperandOptions } from "./options.ts";
import { dtypesOf, type FFTProblem } from "./problem.ts";

/**
 * An array of zeros in the memory of the runtime's device that a transform with these options can write its result over (`inplace`): its memory
 * is large enough for both. For `r2c` rows are padded to whole complex numbers, so that a row of the result takes the place
 * of one of the operand. Collective.
 *
 * @throws {TypeError} if an option is not known.
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
  let array!: DistributedArray;
  agreeWith(runtime, "allocateOperand", () => {
    const given = readOptions("the options of allocateOperand", options, OPERAND_KEYS);
    const { fftType, order = "C", dtype = fftType === "r2c" ? "float64" : "complex128", resultDistribution } = given;
    checkOrder(order);
    dtypeInfo(dtype);
    const engine = chooseFFTEngine(runtime);
    const bound = bindTo(distribution, checkShape(shape), runtime.size);
    const problem = describeProblem({ name: "allocateOperand" }, dtype, bound.globalShape!, bound, order, {
      ...given,
      ...resultDistribution && { distribution: resultDistribution },
    });
    checkEngine(engine, problem);
    const local = operandPart(problem, runtime);
    array = DistributedArray.wrap(runtime, local, bound, order);
    return { operand: String(array), type: problem.type, result: problem.result, distribution: String(problem.to) };
  });
  return array as DistributedArray<D>;
}

function operandPart(problem: FFTProblem, { rank, stream }: Runtime): LocalArray {
  const dtypes = dtypesOf(problem);
  const shape = problem.from.localShape(rank);
  const bytes = (dtype: typeof dtypes.operand, shape: readonly number[]) =>
    dtypeInfo(dtype).itemSize * sizeOfShape(shape);
  const strides = paddedStrides(problem, shape);
  const span = 1 + shape.reduce((sum, extent, d) => sum + (extent - 1) * strides[d], 0);
  const needed = Math.max(
    sizeOfShape(shape) === 0 ? 0 : span * dtypeInfo(dtypes.operand).itemSize,
    bytes(dtypes.result, problem.to.localShape(rank)),
  );
  const { itemSize } = dtypeInfo(dtypes.operand);
  const room = LocalArray.zeros(dtypes.operand, [Math.ceil(needed / itemSize)], "C", stream);
  const data = room.isOnDevice ? room.buffer : room.data;
  noteRoom(ArrayBuffer.isView(data) ? data.buffer : data);
  return new LocalArray({ data, dtype: dtypes.operand, shape, strides });
}

/** Rows of real numbers that begin where those of their complex transforms do. */
function paddedStrides({ type, halved, order, operand }: FFTProblem, shape: readonly number[]): number[] {
  const inner = innermost(operand.length, order);
  if (type !== "r2c" || halved !== inner) return stridesOf(shape, order);
  return stridesOf(shape.with(inner, 2 * (Math.floor(shape[inner] / 2) + 1)), order);
}

function innermost(dimensions: number, order: Order): number {
  return order === "C" ? dimensions - 1 : 0;
}
