/**
 * Moving arrays between distributions.
 *
 * @module
 */
import { addBytes, busiestBytes, CommunicationMatrix, noBytes } from "../../distribution/communication.ts";
import { bindTo } from "../../distribution/distribution.ts";
import type { Distribution } from "../../distribution/mod.ts";
import { type DType, dtypeInfo } from "../../dtype/dtype.ts";
import { ConfigurationError, ShapeError, StateError } from "../../errors.ts";
import { describe, keysOf, readOptions } from "../../options.ts";
import { agree } from "../../runtime/agreement.ts";
import { autotune, type Tuning } from "../../runtime/autotune.ts";
import { CollectiveOperation } from "../../runtime/operation.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { checkAlive, checkArray, checkTarget, runtimeOf } from "../base_array.ts";
import { largestOfAll } from "../extremes.ts";
import { DistributedArray } from "../distributed_array.ts";
import { explainPlan } from "../explanation.ts";
import { predictOnGpu } from "../gpu_model.ts";
import { predictOnHost } from "../host_model.ts";
import { LocalArray } from "../local_array.ts";
import { gpuWorkOf } from "./gpu_work.ts";
import { elementsBetween, elementsCopied } from "./plan.ts";
import { type AskedAlgorithm, overlap, type RedistributionAlgorithm, Redistributor } from "./redistributor.ts";

/**
 * The elements of an array in another distribution, in a new array or in one that is given: any distribution to any.
 * Collective; the same as `array.redistribute(target)`.
 *
 * A given array has the same shape and dtype, and any distribution and order. Either may be a slice, so that windows of
 * arrays move into windows of others. Where both share memory on a rank, the elements arrive as they were before; parts that
 * lie in another rank's symmetric memory are not looked through for that.
 *
 * Each call plans, as {@linkcode Redistribution} does once: of block-cyclic distributions that may take longer than the move.
 *
 * @throws {TypeError} if it is no array, or the target neither a distribution nor an array.
 * @throws {DistributionError} if the distribution does not fit the shape or the number of ranks.
 * @throws {ShapeError | DTypeError} if the given array has another shape or dtype.
 * @throws {ConfigurationError} if one array is in host memory, and the other on GPUs.
 * @throws {StateError} if an array was freed.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, redistribute, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using rows = DistributedArray.random(runtime, [64, 48], Slab.X);
 * using columns = redistribute(rows, Slab.Y);
 * console.log(columns.local.shape); // [64, 48 / size]
 *
 * using whole = DistributedArray.zeros(runtime, [100, 100], Slab.Y, { order: "F" });
 * redistribute(rows.slice([[0, 32], [0, 48]]), whole.slice([[10, 42], [50, 98]]));
 * ```
 */
export function redistribute<D extends DType>(
  array: DistributedArray<D>,
  target: Distribution | DistributedArray<D>,
): DistributedArray<D> {
  if (!(array instanceof DistributedArray)) {
    // The name is the method's: that is what the other ranks are in if it is an array on theirs.
    agree(runtimeOf(array), "DistributedArray.redistribute", () => checkArray(array, "redistribute: the array"));
  }
  return array.redistribute(target);
}

/** Options of {@linkcode Redistribution.plan}. */
export interface RedistributionPlanOptions {
  /**
   * How elements travel between ranks. "auto", the default, is what is the fastest as a rule; `autotune` measures. In host
   * memory, if all ranks are on one machine, that is "direct_copies", from the memory of one process into that of another, for
   * large blocks of long rows, if Linux lets them do so; else "shared_window". Between machines it is "packed_alltoallv",
   * measured to be faster over TCP in buffers that are kept; "derived_types" tells MPI where elements lie, and packs nothing,
   * which a single call of `redistribute` takes under Open MPI. Between GPUs of one machine that address each
   * other's memory it is "direct_copies", straight into the target, if that is an array in symmetric memory (no slice of
   * one), else "peer_copies", through slots in such memory; between others it is "packed_nccl".
   */
  algorithm?: "auto" | Exclude<RedistributionAlgorithm, "local_copy">;
}

const PLAN_OPTION_KEYS = keysOf<RedistributionPlanOptions>({ algorithm: true });

/** Options of {@linkcode Redistribution.autotune}. */
export interface RedistributionAutotuneOptions {
  /** How often each algorithm is measured; the fastest counts. 3 if left out. */
  repetitions?: number;
}

/** What {@linkcode Redistribution.autotune} measured. */
export interface RedistributionMeasurement {
  /** How elements travelled. */
  readonly algorithm: RedistributionAlgorithm;
  /** The time of an execution on the slowest rank, in seconds. */
  readonly seconds: number;
}

/** What {@linkcode Redistribution.resetOperands} takes. */
export interface RedistributionOperands<D extends DType = DType> {
  /** The array whose elements move. */
  array?: DistributedArray<D>;
  /** The array that they move into, if it was made with one. */
  target?: DistributedArray<D>;
}

const OPERAND_KEYS = keysOf<RedistributionOperands>({ array: true, target: true });

/** How a redistribution runs. */
export interface RedistributionReport {
  /** How elements travel; "local_copy" if none leaves its rank. */
  readonly algorithm: RedistributionAlgorithm;
  /** Bytes that leave a rank in one execution, over all ranks. */
  readonly bytesMoved: number;
  /** Bytes of buffers that this rank keeps for the next execution, besides those that all redistributions share. */
  readonly workspaceBytes: number;
}

/** What it works on; `target` is `null` if each execution makes a new array. */
interface Operands<D extends DType> {
  readonly array: DistributedArray<D>;
  readonly target: DistributedArray<D> | null;
}

/**
 * A redistribution that is planned once and executed often: buffers and index lists are kept.
 *
 * Planning takes about 1 us, and some hundred bytes that are kept, for each run: indices of a dimension that follow each other
 * on the rank that has them and on the one that gets them. Slabs and boxes have few runs, block-cyclic distributions at least
 * one for each block: a long axis in short blocks takes long, 2^20 elements in blocks of 1 about a second. The first execution
 * takes up to 4 us for each run besides.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Redistribution, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using rows = DistributedArray.random(runtime, [64, 48], Slab.X);
 * using columns = DistributedArray.zeros(runtime, [64, 48], Slab.Y);
 * using toColumns = new Redistribution(rows, columns);
 * toColumns.execute();
 * console.log(toColumns.algorithm.algorithm, toColumns.bytesMoved, columns.norm() - rows.norm());
 * ```
 */
export class Redistribution<D extends DType = DType> implements Disposable {
  /** The distribution of the results. */
  readonly distribution: Distribution;
  readonly #runtime: Runtime;
  readonly #operation: CollectiveOperation<Operands<D>, Redistributor>;
  readonly #source: Distribution;
  readonly #hasTarget: boolean;

  /**
   * Plan to move arrays like this one, into new arrays of a distribution or into a given one. Collective.
   *
   * @throws {TypeError} if it is no array, or the target neither a distribution nor an array.
   * @throws {DistributionError} if the distribution does not fit the shape or the number of ranks.
   * @throws {ShapeError | DTypeError} if the given array has another shape or dtype.
   * @throws {ConfigurationError} if one array is in host memory, and the other on GPUs.
   * @throws {CollectiveError} if ranks ask for different redistributions.
   */
  constructor(array: DistributedArray<D>, target: Distribution | DistributedArray<D>) {
    const runtime = this.#runtime = runtimeOf(array, target);
    let bound!: Distribution;
    this.#operation = new CollectiveOperation(runtime, "Redistribution", () => {
      checkArray(array, "new Redistribution: the array");
      const given = target instanceof DistributedArray ? target : null;
      if (given) checkTarget(array, given);
      bound = given?.distribution ?? bindTo(target as Distribution, array.shape, runtime.size);
      const plan = new Redistributor(runtime, array.distribution, bound, { isOnDevice: array.local.isOnDevice });
      const facts = { array: String(array), distribution: String(bound), target: given && String(given) };
      return { operands: { array, target: given }, plan, facts };
    });
    this.distribution = bound;
    this.#source = array.distribution;
    this.#hasTarget = target instanceof DistributedArray;
  }

  /**
   * Plan again, by another algorithm than the one that is chosen otherwise. Collective.
   *
   * @throws {TypeError} if there is no such algorithm.
   * @throws {ConfigurationError} if it does not move elements in this memory, or between these ranks.
   * @throws {StateError} after `free`, or if there is no array.
   */
  plan(options: RedistributionPlanOptions = {}): void {
    this.#operation.plan("plan", (operands) => {
      const { algorithm = "auto" } = readOptions("the options of plan", options, PLAN_OPTION_KEYS);
      if (operands === null) throw new StateError("There is no array to plan for. Pass one to resetOperands() before.");
      checkOperands(operands);
      const { runtime, local } = operands.array;
      const current = this.#operation.planFor("plan()");
      checkAlgorithm(algorithm, current.algorithmsFor(local, operands.target?.local ?? null));
      const plan = new Redistributor(runtime, this.#source, this.distribution, {
        algorithm,
        isOnDevice: local.isOnDevice,
      });
      return { plan, operands, facts: { algorithm } };
    });
  }

  /**
   * Try all algorithms that move these elements between these ranks, keep the fastest (by the slowest rank's time), and return
   * the times, the fastest first. Collective; it takes a few executions of each, into the target if one was given. Where that
   * shares memory with the array, both hold afterwards what they held before. The choice holds until the next `plan`.
   *
   * @throws {TypeError | RangeError} if an option is unknown, or repetitions are no whole number from 1.
   * @throws {StateError} after `free` or `releaseOperands`, or if an array was freed.
   */
  autotune(options?: RedistributionAutotuneOptions): RedistributionMeasurement[] {
    const measured = autotune(this.#operation, options, (plan, operands) => this.#tuning(plan, operands));
    const isLocal = this.algorithm.algorithm === "local_copy";
    return measured.map(({ asked, seconds }) => (
      { algorithm: isLocal ? "local_copy" : asked as RedistributionAlgorithm, seconds }
    ));
  }

  /**
   * Bytes that leave a rank in one execution, over all ranks.
   *
   * @throws {StateError} after `free`, or without an array.
   */
  get bytesMoved(): number {
    return this.algorithm.bytesMoved;
  }

  /**
   * How it runs; once an execution was captured in a CUDA graph, how that one does: between GPUs by NCCL.
   *
   * @throws {StateError} after `free`, or without an array.
   */
  get algorithm(): RedistributionReport {
    const plan = this.#operation.planFor("algorithm");
    const operands = this.#ready("algorithm");
    const { local, dtype, order } = operands.array;
    return {
      algorithm: plan.algorithmFor(local, operands.target?.local ?? null, order),
      bytesMoved: plan.bytesMoved(dtypeInfo(dtype).itemSize),
      workspaceBytes: plan.byteLength,
    };
  }

  /**
   * The bytes that each rank sends to each other one in an execution. Local.
   *
   * @throws {StateError} after `free`, or without an array.
   */
  get communication(): CommunicationMatrix {
    const { array } = this.#ready("communication");
    const bytes = noBytes(array.runtime.size);
    addBytes(bytes, elementsBetween(this.#source, this.distribution), dtypeInfo(array.dtype).itemSize);
    return new CommunicationMatrix(bytes);
  }

  /**
   * What moves, how, and what was recorded of it, in words. Local.
   *
   * @throws {StateError} after `free`, or without an array.
   */
  explain(): string {
    const { array } = this.#ready("explain()");
    const { algorithm, communication } = this;
    const bytes = elementsCopied(this.#source, this.distribution) * dtypeInfo(array.dtype).itemSize;
    const sent = busiestBytes(communication);
    const work = { operations: 0, operationsPerSecond: 0, bytes, sent, meetings: sent > 0 ? 1 : 0 };
    const times = array.local.isOnDevice
      ? predictOnGpu(array.runtime, gpuWorkOf(algorithm.algorithm, bytes, sent, array.runtime.size))
      : predictOnHost(array.runtime, work);
    return [
      `redistribution of ${array.shape.join(" x ")}, ${array.dtype}, order ${array.order}`,
      `  from ${this.#source}`,
      `  to ${this.distribution}${this.#hasTarget ? ", into a given array" : ""}`,
      ...explainPlan({ ...algorithm, communication, times }, array.runtime),
      this.#operation.history,
    ].join("\n");
  }

  /**
   * Move the elements: into the array that was given, which is returned, or else into a new one. Collective.
   *
   * @throws {StateError} after `free`, or if an array was freed.
   */
  execute(): DistributedArray<D> {
    const { distribution } = this;
    return this.#operation.execute("execute", undefined, (redistributor, operands) => {
      checkOperands(operands);
      const { array, target } = operands;
      const { runtime, dtype, order, local } = array;
      const stream = local.isOnDevice ? runtime.stream : null;
      const into = target?.local ?? LocalArray.empty(dtype, distribution.localShape(runtime.rank), order, stream);
      const move = target === null
        ? redistributor.prepare(local, into, order)
        : redistributor.prepareLasting(local, into, order);
      return {
        facts: { array: String(array), distribution: String(distribution), memory: into.memory },
        run() {
          move();
          return target ?? DistributedArray.wrap(runtime, into, distribution, order);
        },
      };
    });
  }

  /**
   * Take other arrays in place of those that there are, with the same shape and distribution; what is left out stays.
   * Collective. After `releaseOperands` all of them are needed again.
   *
   * @throws {TypeError} if nothing is given, or a target where none was planned for.
   * @throws {ShapeError} if shape or distribution differ from those that were planned for.
   * @throws {StateError} after `free`, if an array is missing after `releaseOperands`, or belongs to another runtime.
   */
  resetOperands(options: RedistributionOperands<D>): void {
    this.#operation.reset("resetOperands", (old) => {
      const given = readOptions("the options of resetOperands", options, OPERAND_KEYS);
      const { array = old?.array, target = old?.target } = given;
      if (Object.keys(given).length === 0) {
        throw new TypeError("resetOperands was given nothing; pass at least one of array, target.");
      }
      if (given.target !== undefined && !this.#hasTarget) {
        throw new TypeError("This redistribution makes new arrays. Make one with a target: new Redistribution(a, b).");
      }
      if (array === undefined || this.#hasTarget && target === undefined) {
        const missing = array === undefined ? "array" : "target";
        throw new StateError(`resetOperands needs ${missing} too, since the operands were released.`);
      }
      checkArray(array, "resetOperands: array");
      if (array.runtime !== this.#runtime) {
        throw new StateError("resetOperands: array belongs to another runtime. Pass one of the runtime that planned.");
      }
      checkLike(array, this.#source);
      if (this.#hasTarget) {
        checkArray(target, "resetOperands: target");
        checkLike(target, this.distribution);
        checkTarget(array, target);
      }
      const facts = { array: String(array), target: String(target), given: Object.keys(given).sort() };
      const commit = () => this.#operation.currentPlan?.release();
      return { operands: { array, target: target ?? null }, facts, commit };
    });
  }

  /** Let go of the arrays, so that their memory can be used otherwise; the plan stays. Local. */
  releaseOperands(): void {
    this.#operation.release();
  }

  /** Let go of everything. Freeing twice does nothing. */
  free(): void {
    this.#operation[Symbol.dispose]();
  }

  /** As `free`. */
  [Symbol.dispose](): void {
    this.free();
  }

  /**
   * How moves of an array are tuned. All executions write to the same part. If that shares memory with the array, each would
   * move what the one before has moved: it gets back what it held.
   */
  #tuning(
    plan: Redistributor,
    operands: Operands<D>,
  ): Tuning<Operands<D>, Redistributor, { readonly asked: AskedAlgorithm }> {
    checkOperands(operands);
    const { array, target } = operands;
    const { runtime, dtype, order, local } = array;
    const algorithms = plan.algorithmsFor(local, target?.local ?? null);
    const made = (algorithm: AskedAlgorithm) =>
      new Redistributor(runtime, this.#source, this.distribution, { algorithm, isOnDevice: local.isOnDevice });
    let into: LocalArray | null = null;
    let isShared = false;
    let saved: LocalArray | null = null;
    return {
      facts: { algorithms },
      trials: algorithms.map((asked) => ({ asked })),
      titleOf: ({ asked }) => asked,
      begin: () => {
        if (target === null) return;
        // On one rank is enough: what has moved there moves on from it.
        const isSharedHere = overlap(local, target.local);
        isShared = largestOfAll(runtime.communicator, isSharedHere ? 1 : 0) > 0;
      },
      make: ({ asked }) => ({ plan: made(asked) }),
      prepare: (plan) => {
        const shape = this.distribution.localShape(runtime.rank);
        // Ranks that did not agree have freed what they had allocated.
        if (into === null || into.isLost) {
          into = target?.local ?? LocalArray.empty(dtype, shape, order, local.isOnDevice ? runtime.stream : null);
        }
        if (isShared && (saved === null || saved.isLost)) saved = into.copy(order);
        return plan.prepare(local, into, order);
      },
      release: () => {
        if (target === null) into?.release();
        if (saved === null || saved.isLost) return;
        if (!target!.isFreed && !target!.isLost) target!.local.set(saved);
        saved.release();
      },
      replan: ({ asked }, operands) => ({ plan: made(asked), operands, facts: { algorithm: asked } }),
    };
  }

  #ready(member: string): Operands<D> {
    this.#operation.planFor(member);
    const { operands } = this.#operation;
    if (operands === null) throw new StateError("After releaseOperands() nothing runs. Call resetOperands() before.");
    return operands;
  }
}

const RESET = "Pass one that is alive to resetOperands().";

function checkOperands({ array, target }: Operands<DType>): void {
  checkAlive("The array", array, RESET);
  if (target !== null) checkAlive("The target", target, RESET);
}

function checkLike({ shape, distribution }: DistributedArray, planned: Distribution): void {
  if (distribution.coincidesWith(planned)) return;
  throw new ShapeError(
    `This redistribution was planned for [${planned.globalShape}] in ${planned}, not for [${shape}] in ` +
      `${distribution}. Make a new one.`,
  );
}

const ALGORITHMS: readonly string[] = [
  "auto",
  "shared_window",
  "packed_alltoallv",
  "derived_types",
  "direct_copies",
  "peer_copies",
  "packed_nccl",
];

function checkAlgorithm(algorithm: string, possible: readonly string[]): void {
  if (algorithm === "auto" || possible.includes(algorithm)) return;
  const choice = ["auto", ...possible].map((name) => `"${name}"`).join(" or ");
  if (ALGORITHMS.includes(algorithm)) {
    throw new ConfigurationError(`algorithm "${algorithm}" does not serve these arrays on these ranks. Use ${choice}.`);
  }
  throw new TypeError(`algorithm must be ${choice}, not ${describe(algorithm)}.`);
}
