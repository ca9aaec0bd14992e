/**
 * What every array on several ranks is made of: its part on this rank, who owns what, and whether its memory is there.
 *
 * @module
 */
import type { Distribution } from "../distribution/mod.ts";
import type { DType } from "../dtype/dtype.ts";
import { ConfigurationError, DTypeError, ShapeError, StateError } from "../errors.ts";
import { describe, isObject } from "../options.ts";
import { agree, type Facts } from "../runtime/agreement.ts";
import { lastRuntime } from "../runtime/current.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { LOST } from "./given_data.ts";
import { type Order, sizeOfShape } from "./layout.ts";
import type { LocalArray, Memory } from "./local_array.ts";

/** What an array consists of: this rank's part, who owns what, and the order of all parts. */
export interface Held<D extends DType = DType> {
  /** The ranks that hold it. */
  readonly runtime: Runtime;
  /** This rank's part. */
  readonly local: LocalArray<D>;
  /** Who owns what; bound. */
  readonly distribution: Distribution;
  /** The memory order of the parts. */
  readonly order: Order;
  /** Whether the part's memory is not the array's to free: it is the user's. */
  readonly isBorrowed?: boolean;
}

/**
 * The properties and the life of a `DistributedArray`, which is the only class that extends it: what computes with arrays
 * and lies below that class knows them as this one.
 */
export abstract class BaseArray<D extends DType = DType> implements Disposable {
  /** The ranks that hold the array. */
  readonly runtime: Runtime;
  /** The global shape. */
  readonly shape: readonly number[];
  /** The type of the elements. */
  readonly dtype: D;
  /** Who owns what; bound to `shape`. */
  readonly distribution: Distribution;
  /** The memory order of the local parts. */
  readonly order: Order;
  /** Where the elements are. */
  readonly memory: Memory;
  /** Null after `free`, so that the memory can be collected. */
  #local: LocalArray<D> | null;
  readonly #owner: BaseArray | null;
  /** Whether the memory ends with this array: not that of parts which the user has made. */
  readonly #ownsMemory: boolean;

  /** Only what the constructor made is one: no Proxy, and nothing that merely has the prototype. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return isObject(value) && #local in value;
  }

  /** An array of a part that fits the bound distribution: a view of `owner`, if there is one. */
  protected constructor({ runtime, local, distribution, order, isBorrowed = false }: Held<D>, owner: BaseArray | null) {
    this.runtime = runtime;
    this.shape = distribution.globalShape!;
    this.dtype = local.dtype;
    this.distribution = distribution;
    this.order = order;
    this.memory = local.memory;
    this.#local = local;
    this.#owner = owner;
    this.#ownsMemory = owner === null && !isBorrowed;
  }

  /**
   * The part that this rank holds.
   *
   * @throws {StateError} after `free`, or if its memory was taken away.
   */
  get local(): LocalArray<D> {
    if (this.isFreed) {
      const what = this.#local === null ? "This array was freed" : "The array that this is a view of was freed";
      throw new StateError(`${what}: ${this}. Use it before free() or the end of its using block, or take a copy().`);
    }
    if (this.isLost) throw new StateError(`The memory of this array ${LOST}: ${this}. Take a copy() before.`);
    return this.#local!;
  }

  /**
   * Whether the memory of this rank's part is gone, though the array was not freed: symmetric memory that was freed, or a
   * buffer that was transferred away.
   */
  get isLost(): boolean {
    return (this.#local?.isLost ?? false) || (this.#owner?.isLost ?? false);
  }

  /** The global number of elements. */
  get size(): number {
    return sizeOfShape(this.shape);
  }

  /** Whether the array, or the array that it is a view of, was freed. */
  get isFreed(): boolean {
    return this.#local === null || (this.#owner?.isFreed ?? false);
  }

  /** Whether the memory is another array's. */
  get isView(): boolean {
    return this.#owner !== null;
  }

  /** Such as `DistributedArray(float32, [128, 64], Slab.X, C)`. */
  toString(): string {
    return `DistributedArray(${this.dtype}, [${this.shape.join(", ")}], ${this.distribution}, ${this.order})`;
  }

  /** What `console.log` shows: {@linkcode toString}, and whether the memory is still there. */
  [Symbol.for("Deno.customInspect")](): string {
    return `${this}${this.isFreed ? ", freed" : this.isLost ? ", its memory gone" : ""}`;
  }

  /**
   * Let go of the memory; any later use is a StateError, and a `local.view()` that a script still has may be empty: large
   * host memory is kept for the next arrays, up to 256 MiB a rank, or given back at once. Freeing twice does nothing, freeing a view leaves its
   * owner, and the memory of parts that were given to `fromLocal` stays theirs. Symmetric memory is queued: it is freed when all
   * ranks have let go of it, by `freeSymmetricMemory` at once.
   */
  free(): void {
    const local = this.#local;
    this.#local = null;
    if (this.#ownsMemory) local?.release();
  }

  /** As `free`: `using` does it at the end of the block. */
  [Symbol.dispose](): void {
    this.free();
  }

  /** The array whose memory this one uses. */
  protected get owner(): BaseArray {
    return this.#owner ?? this;
  }

  /** The local part in host memory, for communication by MPI. */
  protected hostPart(): LocalArray {
    return this.local.isOnDevice ? this.local.toHost(this.order) : this.local;
  }

  /** A part in host memory, brought to the GPU if this array is there. */
  protected besides(part: LocalArray): LocalArray {
    return this.local.isOnDevice ? part.toDevice(this.runtime.stream!, this.order) : part;
  }
}

/** What has to be the same on all ranks. */
export function factsOf({ shape, dtype, distribution, order, memory }: BaseArray): Facts {
  return { shape, dtype, distribution: String(distribution), order, memory };
}

/** Agree that all ranks call the same method of the same array, still there, and on what `check` returns. */
export function agreeOnMethod(array: BaseArray, method: string, check: () => Facts | void): void {
  agree(array.runtime, `DistributedArray.${method}`, () => {
    void array.local;
    const facts = { ...factsOf(array), ...check() };
    // Once more: what the user gave was run meanwhile, and may have taken the memory away.
    void array.local;
    return facts;
  });
}

/** The runtime of the first array among these, or else the last one, so that all ranks learn of the mistake. */
export function runtimeOf(...candidates: readonly unknown[]): Runtime {
  return candidates.find((candidate) => candidate instanceof BaseArray)?.runtime ?? lastRuntime();
}

/**
 * Refuse an array that was freed, or whose memory is gone.
 *
 * @throws {StateError} naming it.
 */
export function checkAlive(name: string, array: BaseArray, instead = "Pass an array that is alive."): void {
  if (array.isFreed) throw new StateError(`${name} was freed. ${instead}`);
  if (array.isLost) throw new StateError(`The memory of ${name.replace(/^The /, "the ")} ${LOST}. ${instead}`);
}

/**
 * Refuse what is not an array that is still there.
 *
 * @throws {TypeError} if it is none.
 * @throws {StateError} if it was freed.
 */
export function checkArray(value: unknown, what: string): asserts value is BaseArray {
  if (value instanceof BaseArray) return void value.local;
  throw new TypeError(`${what} must be a DistributedArray, not ${describe(value)}.`);
}

/** Refuse an array that another one's elements cannot be moved into. */
export function checkTarget(array: BaseArray, target: BaseArray): void {
  void target.local;
  if (target.runtime !== array.runtime) {
    throw new StateError("The target belongs to another runtime. Make it with the runtime of the array.");
  }
  if (target.shape.join() !== array.shape.join()) {
    throw new ShapeError(
      `The elements of an array of shape [${array.shape}] do not fit into a target of [${target.shape}]. Pass an array ` +
        `of the same shape, or slices of both.`,
    );
  }
  if (target.dtype !== array.dtype) {
    throw new DTypeError(
      `A redistribution moves elements as they are, not from ${array.dtype} to ${target.dtype}. Convert the array ` +
        `before: to({ dtype: "${target.dtype}" }).`,
    );
  }
  if (target.local.isOnDevice === array.local.isOnDevice) return;
  throw new ConfigurationError(
    `The array is in ${array.memory} memory, the target in ${target.memory} memory. Bring them to the same: ` +
      `to({ memory: "${target.memory}" }).`,
  );
}
