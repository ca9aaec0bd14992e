/**
 * A rank's part of a new array: how it is stored, and how all ranks allocate theirs or none does.
 *
 * @module
 */
import { bindTo } from "../distribution/distribution.ts";
import type { Distribution } from "../distribution/mod.ts";
import { type DType, dtypeInfo } from "../dtype/dtype.ts";
import { ConfigurationError } from "../errors.ts";
import { keysOf } from "../options.ts";
import type { Facts } from "../runtime/agreement.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { checkOrder, checkShape, type Order } from "./layout.ts";
import { checkMemory, LocalArray, type Memory } from "./local_array.ts";
import { allocateSymmetricMemory } from "./symmetric_array.ts";

/** How an array is stored. */
export interface ArrayOptions<D extends DType = DType> {
  /** The type of the elements; "float64" by default. */
  dtype?: D;
  /** The memory order of the local parts; "C" (row-major) by default. */
  order?: Order;
  /** Where the elements are; by default "device" if the runtime computes on GPUs, else "host". */
  memory?: Memory;
}

/** The names of {@linkcode ArrayOptions}. */
export const ARRAY_KEYS = keysOf<ArrayOptions>({ dtype: true, order: true, memory: true });

/** Checked options, and the distribution bound to the shape. */
interface Plan {
  readonly dtype: DType;
  readonly order: Order;
  readonly memory: Memory;
  readonly bound: Distribution;
}

/** A rank's part that is to be allocated. */
export interface PartPlan {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly order: Order;
  readonly memory: Memory;
  /** Whether it is cleared. */
  readonly isCleared?: boolean;
  /** What all ranks must share. */
  readonly facts: Facts;
}

/**
 * A new part on every rank, or on none: `agreeOn` makes the ranks agree, `plan` says what this one needs, and `fill`, which
 * returns what else all ranks must share, writes it.
 */
export function newPart(
  runtime: Runtime,
  agreeOn: (check: () => Facts | void) => void,
  plan: () => PartPlan,
  fill: (part: LocalArray, plan: PartPlan) => Facts | void,
): LocalArray {
  let planned!: PartPlan;
  let part!: LocalArray;
  agreeOn(() => {
    planned = plan();
    const { dtype, shape, order, memory, isCleared = false, facts } = planned;
    if (memory === "symmetric") return facts;
    const allocate = isCleared ? LocalArray.zeros : LocalArray.empty;
    part = allocate(dtype, shape, order, memory === "device" ? runtime.stream : null);
    return { ...facts, ...fill(part, planned) };
  });
  if (planned.memory !== "symmetric") return part;
  // Symmetric memory is allocated by all ranks together, which has to come between the checks.
  const { dtype, shape, order } = planned;
  const symmetric = allocateSymmetricMemory(runtime, shape, { dtype, order, makeSymmetric: true });
  try {
    agreeOn(() => fill(symmetric, planned));
  } catch (error) {
    symmetric.release();
    throw error;
  }
  return symmetric;
}

/** Where new arrays are. */
export function usualMemory({ stream }: Runtime): Memory {
  return stream ? "device" : "host";
}

/** Options checked and completed, and the distribution bound to the shape. */
export function planOf(
  runtime: Runtime,
  shape: readonly number[],
  distribution: Distribution,
  options: ArrayOptions,
): Plan {
  const { dtype = "float64", order = "C", memory = usualMemory(runtime) } = options;
  const extents = checkShape(shape);
  checkStorage(runtime, { dtype, order, memory });
  return { dtype, order, memory, bound: bindTo(distribution, extents, runtime.size) };
}

/**
 * Refuse what no array can be stored as; what is left out is no matter.
 *
 * @throws {DTypeError | TypeError} if there is no such dtype, order or memory.
 * @throws {ConfigurationError} for memory "device" on a runtime without GPUs.
 */
export function checkStorage(runtime: Runtime, { dtype = "uint8", order = "C", memory = "host" }: ArrayOptions): void {
  dtypeInfo(dtype);
  checkOrder(order);
  checkMemory(memory);
  if (memory === "device" && runtime.stream === null) {
    throw new ConfigurationError(
      `Memory "device" needs a GPU, but this runtime computes on CPUs (${runtime.device.name}). Use memory "host".`,
    );
  }
}
