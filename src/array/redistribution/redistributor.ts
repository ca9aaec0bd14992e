/**
 * One rank's part in a redistribution, planned once and executed where the elements are: on hosts or on GPUs.
 *
 * @module
 */
import type { Runtime } from "../../runtime/runtime.ts";
import type { Order } from "../layout.ts";
import type { LocalArray } from "../local_array.ts";
import { GpuExecutor, Scratch } from "./gpu_executor.ts";
import { HostExecutor } from "./host_executor.ts";
import { type Parts, planRedistribution, type RedistributionPlan } from "./plan.ts";

/** Moves local parts from one distribution to another, and keeps for the next time what it allocates for that. */
export class Redistributor {
  readonly #plan: RedistributionPlan;
  readonly #host: HostExecutor;
  readonly #gpu: GpuExecutor;
  readonly #scratch: Scratch;

  /**
   * Plan this rank's part. Local. Redistributions of one owner may share the memory for packed blocks on the GPU; it is
   * freed with any of them.
   *
   * @throws {DistributionError} if the distributions are not bound to the same shape and number of ranks.
   */
  constructor(runtime: Runtime, from: Parts, to: Parts, scratch: Scratch = new Scratch()) {
    this.#plan = planRedistribution(from, to, runtime.rank);
    this.#host = new HostExecutor(this.#plan, runtime.communicator);
    this.#gpu = new GpuExecutor(this.#plan, runtime, scratch);
    this.#scratch = scratch;
  }

  /** Bytes that leave a rank, over all ranks, for elements of this size. */
  bytesMoved(itemSize: number): number {
    return this.#plan.bytesMoved(itemSize);
  }

  /** Bytes that it keeps, without the scratch memory. */
  get byteLength(): number {
    return this.#host.byteLength + this.#gpu.byteLength;
  }

  /**
   * Check the parts, which are both in host memory or both on GPUs, and allocate what moving them needs and is not there
   * yet. Local. Returns what moves the elements, which is collective, for when all ranks have agreed that they are ready.
   * `order`, the same on all ranks, is the order of the elements in messages: the source's is the fastest.
   *
   * @throws {DTypeError} if the dtypes differ.
   * @throws {ShapeError} if a part has not the planned shape, or is larger than 16 GiB.
   */
  prepare(source: LocalArray, target: LocalArray, order: Order): () => void {
    return (source.isOnDevice ? this.#gpu : this.#host).prepare(source, target, order);
  }

  /** Let go of what it keeps. */
  free(): void {
    this.#host.free();
    this.#gpu.free();
    this.#scratch.free();
  }

  /** As `free`. */
  [Symbol.dispose](): void {
    this.free();
  }
}

/** As {@linkcode Redistributor.prepare}, for moving the elements once: what returns lets go of everything in the end. */
export function prepareOnce(
  runtime: Runtime,
  from: Parts,
  to: Parts,
  source: LocalArray,
  target: LocalArray,
  order: Order,
): () => void {
  const redistributor = new Redistributor(runtime, from, to);
  const move = redistributor.prepare(source, target, order);
  return () => {
    try {
      move();
    } finally {
      redistributor.free();
    }
  };
}
