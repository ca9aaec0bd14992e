/**
 * A planned transform and its operands: what an execution needs, and what it makes.
 *
 * @module
 */
import { DistributedArray } from "../array/distributed_array.ts";
import { stridesOf } from "../array/layout.ts";
import { LocalArray, type LocalArrayOptions } from "../array/local_array.ts";
import type { AlgorithmTimes } from "../array/host_model.ts";
import type { CommunicationMatrix } from "../distribution/mod.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import type { Stream } from "../gpu/stream.ts";
import { freeUnlessAgreed } from "../runtime/agreement.ts";
import type { CollectiveStep, OperationPlan } from "../runtime/operation.ts";
import type { CheckedTransform } from "./checked_transform.ts";
import type { FFTEngine, FFTEnginePlan, FFTReport, FFTRequest } from "./engines/engine.ts";
import type { FFTPlanOptions } from "./options.ts";
import { dtypesOf, FFT_DIRECTIONS, type FFTDirection, type FFTProblem, scaleOf } from "./problem.ts";
import { inheritRoom, roomOf } from "./operand_room.ts";

/** Which of its two distributions the operand has: the first one, or that of the results (`c2c` only). */
export type Side = "from" | "to";

/** An operand, and where its result goes if that is in its own memory. */
export interface BoundOperand {
  /** The operand. */
  readonly array: DistributedArray;
  /** Where it is. */
  readonly side: Side;
  /** The result of a transform in place, made again by {@linkcode inPlaceOf} where somebody freed it; null for others. */
  result: DistributedArray | null;
}

/** A transform that is planned: for operands in the first distribution, and for those in that of the results. */
export class FFTPlan implements OperationPlan {
  readonly #checked: CheckedTransform;
  readonly #engine: FFTEngine;
  readonly #request: Omit<FFTRequest, "problem">;
  readonly #plans: Partial<Record<Side, FFTEnginePlan>> = {};
  readonly #opened = new Set<FFTEnginePlan>();
  #side: Side;

  /** Plan for operands on a side. Local. */
  constructor(
    checked: CheckedTransform,
    { algorithm = "default", effort = "measure" }: FFTPlanOptions,
    directions: readonly FFTDirection[],
    side: Side = "from",
  ) {
    this.#checked = checked;
    this.#engine = checked.engine;
    this.#request = { algorithm, effort, directions, inplace: checked.inplace };
    this.#side = side;
    this.on(side);
  }

  /** Where the operand of the next execution is, of which the members below tell. */
  get side(): Side {
    return this.#side;
  }

  /** What an execution does. */
  get report(): FFTReport {
    return this.on(this.#side).report;
  }

  /** The bytes from rank to rank in an execution; null if the engine's library does not tell. */
  get communication(): CommunicationMatrix | null {
    return this.on(this.#side).communication?.() ?? null;
  }

  /** How long an execution takes by a model; null if there is none. Local. */
  predict(): AlgorithmTimes | null {
    return this.on(this.#side).predict?.() ?? null;
  }

  /** The plan for operands on a side, made at the first use. Local. */
  on(side: Side): FFTEnginePlan {
    const known = this.#plans[side];
    if (known !== undefined) return known;
    const { runtime, problem } = this.#checked;
    const plan = this.#engine.plan(runtime, { ...this.#request, problem: problemOn(problem, side) });
    // It frees itself then, and is made again when it is needed.
    freeUnlessAgreed({ [Symbol.dispose]: () => void delete this.#plans[side] });
    return this.#plans[side] = plan;
  }

  /** Let go of operands and results, and go on with operands on a side. Local. */
  turnTo(side: Side): void {
    this.release();
    this.on(side);
    this.#side = side;
  }

  /** Make what the ranks use together, unless it is there. Collective. */
  open(): void {
    for (const plan of Object.values(this.#plans)) {
      if (this.#opened.has(plan)) continue;
      this.#opened.add(plan);
      plan.open();
    }
  }

  /** Let go of operands and results. */
  release(): void {
    for (const plan of Object.values(this.#plans)) plan.release();
  }

  /** Free plans and buffers. */
  [Symbol.dispose](): void {
    for (const plan of Object.values(this.#plans)) plan[Symbol.dispose]();
  }
}

/** The transform of operands on a side. */
export function problemOn(problem: FFTProblem, side: Side): FFTProblem {
  return side === "from" ? problem : { ...problem, from: problem.to, to: problem.from };
}

/** The directions in which a transform can go, the usual one first. */
export function directionsOf({ type }: Pick<FFTProblem, "type">): readonly FFTDirection[] {
  return type === "c2c" ? FFT_DIRECTIONS : type === "r2c" ? ["forward"] : ["inverse"];
}

/** The operand with what stays the same for all of its executions. Local. */
export function bindOperand(checked: CheckedTransform, array: DistributedArray, side: Side): BoundOperand {
  return { array, side, result: checked.inplace ? resultInPlace(checked, array, side) : null };
}

/** The result of a transform in place, a view that who got it before may have freed; null for other transforms. Local. */
export function inPlaceOf(checked: CheckedTransform, bound: BoundOperand): DistributedArray | null {
  if (bound.result?.isFreed) bound.result = resultInPlace(checked, bound.array, bound.side);
  return bound.result;
}

/**
 * The result in the memory of the operand: a view also where they are alike, since that depends on the number of ranks, and who
 * frees the result shall not free the operand.
 */
function resultInPlace({ problem, runtime }: CheckedTransform, array: DistributedArray, side: Side): DistributedArray {
  const { to } = problemOn(problem, side);
  const { local, order } = array;
  const dtype = dtypesOf(problem).result;
  const shape = to.localShape(runtime.rank);
  const isSame = problem.type === "c2c" && shape.join() === local.shape.join();
  const part = isSame ? local : new LocalArray({
    ...memoryFor(dtype, local, roomOf(array)),
    dtype,
    shape,
    strides: stridesOf(shape, order),
  });
  const result = DistributedArray.share(array, part, to, order);
  inheritRoom(result, array);
  return result;
}

/** The memory from an array's first element on, so many bytes, for elements of another type. */
function memoryFor(
  dtype: DType,
  local: LocalArray,
  bytes: number,
): Pick<LocalArrayOptions, "data" | "offset" | "memory"> {
  const start = local.offset * dtypeInfo(local.dtype).itemSize;
  if (!local.isOnDevice) {
    const { buffer, byteOffset } = local.data;
    const { array, itemSize, parts } = dtypeInfo(dtype);
    const data = new array(buffer, byteOffset + start, Math.floor(bytes / itemSize) * parts);
    return { data, memory: local.memory };
  }
  return { data: local.buffer, offset: start / dtypeInfo(dtype).itemSize, memory: local.memory };
}

/** What a transform needs. Local; what it returns is collective. */
export function prepareTransform(
  checked: CheckedTransform,
  plan: FFTPlan,
  bound: BoundOperand,
  direction: FFTDirection,
  stream: Stream | null = null,
): CollectiveStep<DistributedArray> {
  const { problem, runtime, norm } = checked;
  const { array, side } = bound;
  const { to, order } = problemOn(problem, side);
  const result = inPlaceOf(checked, bound) ?? DistributedArray.wrap(
    runtime,
    LocalArray.empty(dtypesOf(problem).result, to.localShape(runtime.rank), order, runtime.stream),
    to,
    order,
  );
  const run = plan.on(side).prepare(array.local, result.local, direction, scaleOf(problem, direction, norm));
  return {
    facts: { direction, side },
    run: () => {
      if (stream !== null) runtime.stream!.wait(stream);
      run();
      if (stream !== null) stream.wait(runtime.stream!);
      return result;
    },
  };
}
