/**
 * Moving arrays between distributions.
 *
 * @module
 */
import { bindTo } from "../../distribution/distribution.ts";
import type { Distribution } from "../../distribution/mod.ts";
import { ShapeError } from "../../errors.ts";
import { agree } from "../../runtime/agreement.ts";
import { CollectiveOperation } from "../../runtime/operation.ts";
import { checkArray, DistributedArray, runtimeOf } from "../distributed_array.ts";
import { dtypeInfo } from "../../dtype/dtype.ts";
import { LocalArray } from "../local_array.ts";
import { Redistributor } from "./redistributor.ts";

/**
 * A new array with the same elements in another distribution: any to any. Collective; the same as
 * `array.redistribute(distribution)`.
 *
 * @throws {TypeError} if it is no array, or no distribution.
 * @throws {DistributionError} if the distribution does not fit the shape or the number of ranks.
 * @throws {StateError} if the array was freed.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, redistribute, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using rows = DistributedArray.random(runtime, [64, 48], Slab.X);
 * using columns = redistribute(rows, Slab.Y);
 * console.log(columns.local.shape); // [64, 48 / size]
 * ```
 */
export function redistribute(array: DistributedArray, distribution: Distribution): DistributedArray {
  if (!(array instanceof DistributedArray)) {
    // The name is the method's: that is what the other ranks are in if it is an array on theirs.
    agree(runtimeOf(array), "DistributedArray.redistribute", () => checkArray(array, "redistribute: the array"));
  }
  return array.redistribute(distribution);
}

/**
 * A redistribution that is planned once and executed often: buffers and index lists are kept.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Redistribution, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using rows = DistributedArray.random(runtime, [64, 48], Slab.X);
 * using toColumns = new Redistribution(rows, Slab.Y);
 * using columns = toColumns.execute();
 * console.log(toColumns.bytesMoved, columns.norm() - rows.norm());
 * ```
 */
export class Redistribution implements Disposable {
  /** The distribution of the results. */
  readonly distribution: Distribution;
  readonly #operation: CollectiveOperation<DistributedArray, Redistributor>;

  /**
   * Plan to move arrays like this one. Collective.
   *
   * @throws {TypeError} if it is no array, or no distribution.
   * @throws {DistributionError} if the distribution does not fit the shape or the number of ranks.
   * @throws {CollectiveError} if ranks ask for different redistributions.
   */
  constructor(array: DistributedArray, distribution: Distribution) {
    const runtime = runtimeOf(array);
    let bound!: Distribution;
    this.#operation = new CollectiveOperation(runtime, "Redistribution", () => {
      checkArray(array, "new Redistribution: the array");
      bound = bindTo(distribution, array.shape, runtime.size);
      const plan = new Redistributor(runtime, array.distribution, bound);
      return { operands: array, plan, facts: { array: String(array), distribution: String(bound) } };
    });
    this.distribution = bound;
  }

  /**
   * Bytes that leave a rank in one execution, over all ranks.
   *
   * @throws {StateError} after `free`
   */
  get bytesMoved(): number {
    const plan = this.#operation.planFor("bytesMoved");
    return plan.bytesMoved(dtypeInfo(this.#operation.operands!.dtype).itemSize);
  }

  /**
   * A new array with the elements in the new distribution. Collective.
   *
   * @throws {StateError} after `free`, or if the array was freed.
   */
  execute(): DistributedArray {
    const { distribution } = this;
    return this.#operation.execute("execute", undefined, (redistributor, array) => {
      const { runtime, dtype, order, local } = array;
      const stream = local.isOnDevice ? runtime.stream : null;
      const target = LocalArray.empty(dtype, distribution.localShape(runtime.rank), order, stream);
      const move = redistributor.prepare(local, target, order);
      return {
        facts: { array: String(array), distribution: String(distribution) },
        run() {
          move();
          return DistributedArray.wrap(runtime, target, distribution, order);
        },
      };
    });
  }

  /**
   * Take another array in place of the first one, with the same shape and distribution. Collective.
   *
   * @throws {ShapeError} if shape or distribution differ from those that were planned for.
   * @throws {StateError} after `free`.
   */
  resetOperand(array: DistributedArray): void {
    this.#operation.reset("resetOperand", (old) => {
      const { shape, distribution } = old!;
      checkArray(array, "resetOperand: the array");
      if (array.distribution.coincidesWith(distribution)) return { operands: array, facts: { array: String(array) } };
      throw new ShapeError(
        `This redistribution was planned for [${shape}] in ${distribution}, not for [${array.shape}] in ` +
          `${array.distribution}. Make a new one.`,
      );
    });
  }

  /** Let go of the buffers. Freeing twice does nothing. */
  free(): void {
    this.#operation[Symbol.dispose]();
  }

  /** As `free`. */
  [Symbol.dispose](): void {
    this.free();
  }
}
