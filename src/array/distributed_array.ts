/**
 * Arrays that are spread over all ranks.
 *
 * @module
 */
import { checkDistribution } from "../distribution/distribution.ts";
import { type Distribution, Replicated } from "../distribution/mod.ts";
import { ShapeError } from "../errors.ts";
import { prepareCopies } from "../memory/copy.ts";
import { describe, readOptions } from "../options.ts";
import { agree, exchange, type Facts } from "../runtime/agreement.ts";
import { checkRuntime, type Runtime } from "../runtime/runtime.ts";
import { BaseArray, checkArray, checkTarget, type Held } from "./base_array.ts";
import { checkConvertible } from "../dtype/conversion.ts";
import { type DType, dtypeInfo, elementCount, type Scalar, type TypedArray } from "../dtype/dtype.ts";
import { checkExact } from "../dtype/scalar.ts";
import { elementwise, type Made, type TargetOptions } from "./elementwise/elementwise.ts";
import { applied } from "./elementwise/expression.ts";
import { zip } from "./elementwise/zip.ts";
import {
  bigSumOnDevice,
  fillLinearOnDevice,
  fillRandomOnDevice,
  largestOnDevice,
  squaresOnDevice,
  sumOnDevice,
} from "./device_elements.ts";
import type { AxisOptions } from "./reductions/plan.ts";
import {
  argumentOfExtreme,
  extreme,
  mean,
  norm,
  type NormOptions,
  prod,
  sum,
  truth,
  variance,
  type VarianceOptions,
} from "./reductions/reductions.ts";
import { fullRanges, type SliceRange } from "./shaping/slices.ts";
import { checkFormat, formatElements, type FormatOptions, type FullFormat, shownIndices } from "./format.ts";
import { prepareElements } from "./gathered_elements.ts";
import { bindToParts } from "./global_shape.ts";
import { flipOrder, type Order, stridesOf } from "./layout.ts";
import { exactArray, LocalArray, type Memory } from "./local_array.ts";
import { fillRandom, type RandomOptions, randomSource } from "./random.ts";
import { onRoot, type Parts } from "./redistribution/plan.ts";
import { prepareOnce } from "./redistribution/redistributor.ts";
import * as reduction from "./reduction.ts";
import {
  commonOrder,
  dtypeOfWhole,
  type FromLocalOptions,
  isOrdered,
  localPart,
  nothing,
  wholeArray,
} from "./given_data.ts";
import {
  ARRAY_KEYS,
  type ArrayOptions,
  checkStorage,
  newPart,
  type PartPlan,
  planOf,
  usualMemory,
} from "./new_part.ts";
import { checkLinearForm, type ElementFunction, fillByFunction, type LinearForm, linearFunction } from "./traverse.ts";

/** Options of {@linkcode DistributedArray.gather}. */
export interface GatherOptions {
  /** The rank that gets the elements; 0 by default. */
  root?: number;
  /** Where they go on that rank; a new typed array by default. */
  into?: TypedArray;
}

/** Options of {@linkcode DistributedArray.scatter}. */
export interface ScatterArrayOptions extends ArrayOptions {
  /** The type of the elements; by default the usual one of the root's typed array. */
  dtype?: DType;
  /** The rank that has the data; 0 by default. */
  root?: number;
}

/** How many arrays of random numbers were made without a seed. */
const randomCalls = new WeakMap<Runtime, number>();

/**
 * An array spread over all ranks: each one holds the part that the distribution gives it, as `local`.
 *
 * All ranks call the constructors and methods together, with the same arguments; only `wrap`, `transpose`, `free` and
 * the properties are local. A mistake is an error on every rank, the same one.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using squares = DistributedArray.generate(runtime, [4, 4], Slab.X, (i, j) => i * j, { dtype: "float32" });
 * console.log(runtime.rank, squares.local.shape, squares.sum()); // …, 36
 * ```
 */
export class DistributedArray extends BaseArray {
  private constructor(held: Held, owner: BaseArray | null = null, ownsMemory = owner === null) {
    super(held, owner, ownsMemory);
  }

  // ---- making arrays ------------------------------------------------------------------------------------------------

  /**
   * An array of existing parts, without a check or communication: `local` must have the shape that the bound
   * distribution gives this rank. For code that has agreed on all of it already; others use {@linkcode fromLocal}.
   */
  static wrap(runtime: Runtime, local: LocalArray, distribution: Distribution, order: Order): DistributedArray {
    return new DistributedArray({ runtime, local, distribution, order });
  }

  /** What an operation has made: a new array, or the one that it wrote into. Local; for code inside of the library. */
  static of(made: Made<DistributedArray>): DistributedArray {
    return "into" in made ? made.into : new DistributedArray(made.held);
  }

  /**
   * As {@linkcode wrap}, of memory that is another array's: freeing it frees nothing, and it ends with its owner.
   */
  static share(owner: DistributedArray, local: LocalArray, distribution: Distribution, order: Order): DistributedArray {
    return owner.#view(local, distribution, order);
  }

  /**
   * An array of zeros. Collective.
   *
   * @throws {TypeError} if an option is not known.
   * @throws {CollectiveError} if ranks ask for different arrays.
   * @throws {ShapeError} if the shape is none.
   * @throws {DistributionError} if the distribution does not fit the shape, or is bound to another one.
   * @throws {DTypeError} if there is no such dtype.
   * @throws {ConfigurationError} for memory "device" on a runtime without GPUs.
   */
  static zeros(
    runtime: Runtime,
    shape: readonly number[],
    distribution: Distribution,
    options: ArrayOptions = {},
  ): DistributedArray {
    return make(runtime, "DistributedArray.zeros", shape, distribution, options, null);
  }

  /**
   * An array of one value. Collective; throws as {@linkcode zeros} does, DTypeError if the dtype does not take the
   * value, and RangeError if it lies outside the range of an integer dtype.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * const ones = DistributedArray.full(runtime, [4, 4], Slab.X, 1, { dtype: "int32" });
   * console.log(ones.sum()); // 16
   * ```
   */
  static full(
    runtime: Runtime,
    shape: readonly number[],
    distribution: Distribution,
    value: Scalar,
    options: ArrayOptions = {},
  ): DistributedArray {
    return make(runtime, "DistributedArray.full", shape, distribution, options, ({ dtype, local }) => {
      checkExact(dtype, value);
      local.fill(value);
      return { value: String(value) };
    });
  }

  /**
   * An array of uniform random numbers in [low, high), by default [0, 1); of whole numbers, by default from 0 to 99, for
   * integers. Both parts of a complex number are drawn. The same global array comes out for any number of ranks, any
   * distribution and memory order. Collective; throws as {@linkcode zeros} does, and RangeError or DTypeError if bounds
   * or seed do not fit.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * const dice = DistributedArray.random(runtime, [1000], Slab.X, { dtype: "int32", low: 1, high: 7, seed: 42 });
   * console.log(dice.sum());
   * ```
   */
  static random(
    runtime: Runtime,
    shape: readonly number[],
    distribution: Distribution,
    options: ArrayOptions & RandomOptions = {},
  ): DistributedArray {
    const calls = randomCalls.get(runtime) ?? 0;
    let isNumbered = false;
    const fill: Fill<ArrayOptions & RandomOptions> = ({ shape, dtype, order, local, distribution }, given) => {
      const source = randomSource(dtype, given, calls);
      isNumbered = given.seed === undefined;
      const ranges = distribution.ranges(runtime.rank);
      if (local.isOnDevice) fillRandomOnDevice(local, ranges, order, shape, source);
      else fillRandom(dtype, local.data, ranges, order, shape, source);
      return { ...source };
    };
    const keys = [...ARRAY_KEYS, "seed", "low", "high"] as const;
    const result = make(runtime, "DistributedArray.random", shape, distribution, options, fill, keys);
    // Only now: the ranks must go on counting alike if they failed.
    if (isNumbered) randomCalls.set(runtime, calls + 1);
    return result;
  }

  /**
   * An array of the values that a function gives for each global index. Collective; throws as {@linkcode zeros} does;
   * what the function throws on one rank is thrown on all, and a collective call inside it is a StateError.
   *
   * Values are numbers; for complex arrays also `[re, im]`, for int64 bigints or whole numbers. Integers are not rounded
   * or cut: a fraction is a DTypeError, a number outside the dtype's range a RangeError. A function runs on the CPU,
   * element by element; a closed form `{ factors, offset, modulus }` is computed where the array is.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * const identity = DistributedArray.generate(runtime, [8, 8], Slab.Y, (i, j) => i === j ? 1 : 0);
   * console.log(identity.norm() ** 2); // 8
   * ```
   */
  static generate(
    runtime: Runtime,
    shape: readonly number[],
    distribution: Distribution,
    value: ElementFunction | LinearForm,
    options: ArrayOptions = {},
  ): DistributedArray {
    return make(runtime, "DistributedArray.generate", shape, distribution, options, (array) => {
      const form = typeof value === "function" ? null : checkLinearForm(value, array.shape.length);
      const { dtype, local, order } = array;
      const ranges = array.distribution.ranges(runtime.rank);
      if (form !== null && local.isOnDevice) {
        fillLinearOnDevice(local, ranges, order, form);
        return { form };
      }
      const element = form === null ? value as ElementFunction : linearFunction(form);
      const target = local.isOnDevice ? LocalArray.empty(dtype, local.shape, order) : local;
      fillByFunction(dtype, target.data, ranges, order, element);
      if (target !== local) local.set(target);
      return { form };
    });
  }

  /**
   * An array of parts that the ranks have already. Their memory is shared, not copied, unless the array shall be in
   * another memory than they are; so parts in host memory are copied if the runtime computes on GPUs. The global shape is
   * what the parts make together in this distribution. Collective.
   *
   * @throws {TypeError} if an option is not known.
   * @throws {CollectiveError} if dtype, distribution or order differ between ranks.
   * @throws {ShapeError} if the parts do not fit together, or a typed array does not fit its `localShape`.
   * @throws {DistributionError} if the distribution does not fit the shape, or is bound to another one.
   * @throws {DTypeError} if a typed array does not hold the dtype, or the dtype must be named.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * const rows = Float32Array.of(1, 2, 3, 4).map((x) => x + 10 * runtime.rank);
   * const a = DistributedArray.fromLocal(runtime, rows, Slab.X, { localShape: [2, 2] });
   * console.log(a.shape); // [2 * size, 2]
   * ```
   */
  static fromLocal(
    runtime: Runtime,
    local: TypedArray | LocalArray,
    distribution: Distribution,
    options: FromLocalOptions = {},
  ): DistributedArray {
    const operation = "DistributedArray.fromLocal";
    let part!: LocalArray;
    let memory!: Memory;
    let wanted: Order | undefined;
    agreeWith(runtime, operation, () => {
      const given = readOptions(`the options of ${operation}`, options, [...ARRAY_KEYS, "localShape"]);
      checkDistribution(distribution);
      part = localPart(local, given);
      wanted = given.order;
      ({ memory = part.memory === "symmetric" ? part.memory : usualMemory(runtime) } = given);
      checkStorage(runtime, { dtype: part.dtype, memory });
      const { globalShape, size } = distribution;
      const boundTo = globalShape && { shape: globalShape, size };
      return { dtype: part.dtype, distribution: String(distribution), boundTo, order: wanted ?? null, memory };
    });
    const offers = exchange(runtime, operation, () => ({
      shape: part.shape,
      memory: part.memory,
      orders: (["C", "F"] as const).filter((order) => isOrdered(part, order)),
    }));
    // From here on all ranks compute the same from the same data, so that they fail together.
    const order = commonOrder(offers.map((offer) => offer.orders), wanted);
    const bound = bindToParts(distribution, offers.map((offer) => offer.shape));
    const shape = bound.localShape(runtime.rank);
    const fitting = part.shape.join() === shape.join() ? part : LocalArray.zeros(part.dtype, shape, order);
    if (offers.every((offer) => offer.memory === memory)) {
      return new DistributedArray({ runtime, local: fitting, distribution: bound, order }, null, fitting !== part);
    }
    const plan = { dtype: part.dtype, shape, order, memory, facts: {} };
    const copy = newPart(runtime, (check) => agree(runtime, operation, check), () => plan, (to) => to.set(fitting));
    return new DistributedArray({ runtime, local: copy, distribution: bound, order });
  }

  /**
   * Spread a whole array that one rank has over all ranks. `data` is flat, in the order of the array; only the root's is
   * looked at, the others may pass `null`. Collective; throws as {@linkcode zeros} does, and ShapeError or DTypeError if
   * the data does not fit shape and dtype.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * const data = runtime.rank === 0 ? Float32Array.of(1, 2, 3, 4, 5, 6) : null;
   * const a = DistributedArray.scatter(runtime, data, [3, 2], Slab.X);
   * console.log(a.dtype, a.sum()); // float32 21
   * ```
   */
  static scatter(
    runtime: Runtime,
    data: TypedArray | null,
    shape: readonly number[],
    distribution: Distribution,
    options: ScatterArrayOptions = {},
  ): DistributedArray {
    const operation = "DistributedArray.scatter";
    let root!: number;
    let given!: ScatterArrayOptions;
    agreeWith(runtime, operation, () => {
      given = readOptions(`the options of ${operation}`, options, [...ARRAY_KEYS, "root"]);
      root = checkRank(given.root === undefined ? 0 : given.root, runtime.size, "root");
      if (given.dtype !== undefined) dtypeInfo(given.dtype);
      return { root, dtype: given.dtype ?? null };
    });
    const isRoot = runtime.rank === root;
    const dtype = given.dtype ?? exchange(runtime, operation, () => isRoot ? dtypeOfWhole(data) : null)[root]!;
    const { order = "C", memory = usualMemory(runtime) } = given;
    let move!: () => void;
    const array = make(runtime, operation, shape, distribution, { dtype, order, memory }, (array) => {
      const { local, shape } = array;
      const source = isRoot ? wholeArray(data, dtype, shape, order) : nothing(dtype, shape);
      const target = local.isOnDevice ? LocalArray.empty(dtype, local.shape, order) : local;
      const bring = readyToMove(array, onRoot(shape, runtime.size, root), array.distribution, source, target);
      if (target !== local) prepareCopies(local.byteLength);
      move = () => {
        bring();
        if (target !== local) local.set(target);
      };
      return {};
    });
    move();
    return array;
  }

  // ---- whole arrays -------------------------------------------------------------------------------------------------

  /**
   * All elements on one rank, flat in the array's order; `null` on the others. Collective.
   *
   * @param root that rank, as a number or as `{ root, into }`; into `into` on that rank, which saves the time of new memory
   * @throws {RangeError} if there is no such rank.
   * @throws {DTypeError} if `into` is not the kind of typed array that holds the dtype.
   * @throws {ShapeError} if `into` is too short, or the array's own memory.
   * @throws {StateError} after `free`.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * const a = DistributedArray.generate(runtime, [6], Slab.X, (i) => i);
   * console.log(a.gather()); // 0, 1, 2, 3, 4, 5 on rank 0, null on the others
   * ```
   */
  gather(root: number | GatherOptions = 0): TypedArray | null {
    const { runtime, dtype, shape } = this;
    let to!: number;
    let target!: LocalArray;
    let move!: () => void;
    this.agree("gather", () => {
      const options = typeof root === "object" ? root : { root };
      const given = readOptions<GatherOptions>("the options of gather", options, ["root", "into"]);
      to = checkRank(given.root === undefined ? 0 : given.root, runtime.size, "root");
      target = runtime.rank === to ? this.#whole("gather", given.into) : nothing(dtype, shape);
      move = readyToMove(this, this.distribution, onRoot(shape, runtime.size, to), this.hostPart(), target);
      return { root: to };
    });
    move();
    return runtime.rank === to ? target.data : null;
  }

  /**
   * All elements on every rank, flat in the array's order, into `into` if it is given. Collective; throws as
   * {@linkcode gather} does.
   */
  allGather(options: { into?: TypedArray } = {}): TypedArray {
    const { runtime, shape } = this;
    let target!: LocalArray;
    let move!: () => void;
    this.agree("allGather", () => {
      const { into } = readOptions("the options of allGather", options, ["into"]);
      target = this.#whole("allGather", into);
      move = readyToMove(this, this.distribution, Replicated.bind(shape, runtime.size), this.hostPart(), target);
      return {};
    });
    move();
    return target.data;
  }

  // ---- values -------------------------------------------------------------------------------------------------------

  /**
   * A new array of what a function makes of each value and its global index. Collective; what the function throws on
   * one rank is thrown on all, and a collective call inside it is a StateError.
   *
   * @throws {DTypeError} if it returns what the dtype does not take, such as a fraction for integers.
   * @throws {RangeError} if it returns a number outside the range of an integer dtype.
   * @throws {StateError} after `free`.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * const a = DistributedArray.full(runtime, [4, 4], Slab.X, 3);
   * const upper = a.map((value, i, j) => i <= j ? value : 0);
   * console.log(upper.sum()); // 30
   * ```
   */
  map(
    change: (value: Scalar, ...index: number[]) => Scalar,
    options: { dtype?: DType } = {},
  ): DistributedArray {
    const { runtime, distribution, order } = this;
    let result!: LocalArray;
    this.agree("map", () => {
      const { dtype: target = this.dtype } = readOptions("the options of map", options, ["dtype"]);
      if (typeof change !== "function") {
        throw new TypeError(`map takes a function (value, i, j) => value, not ${describe(change)}.`);
      }
      result = LocalArray.empty(target, this.local.shape, order);
      const next = reduction.valuesOf(this.local, order);
      fillByFunction(
        target,
        result.data,
        distribution.ranges(runtime.rank),
        order,
        (...index) => change(next(), ...index),
      );
      result = this.besides(result);
      return { target };
    });
    return new DistributedArray({ runtime, local: result, distribution, order });
  }

  /**
   * A new array of what a function makes of each value, the one of another array beside it, and the global index; the other
   * one is repeated where it is smaller, as by {@linkcode add}. Collective; throws as {@linkcode map} and `add` do.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.generate(runtime, [6], Slab.X, (i) => i);
   * using b = DistributedArray.full(runtime, [6], Slab.X, 2);
   * using larger = a.zip(b, (x, y) => x > y ? x : y);
   * console.log(larger.sum()); // 2 + 2 + 2 + 3 + 4 + 5
   * ```
   */
  zip(
    other: DistributedArray | Scalar,
    combine: (value: Scalar, other: Scalar, ...index: number[]) => Scalar,
    options: { dtype?: DType } = {},
  ): DistributedArray {
    return new DistributedArray(zip(this, other, combine, options));
  }

  /** This array plus another one, or a number: the function {@linkcode add}. Collective. */
  add(other: DistributedArray | Scalar, options?: TargetOptions<DistributedArray>): DistributedArray {
    return DistributedArray.of(elementwise("add", applied("add"), [this, other], options));
  }

  /** This array minus another one, or a number: the function {@linkcode subtract}. Collective. */
  subtract(other: DistributedArray | Scalar, options?: TargetOptions<DistributedArray>): DistributedArray {
    return DistributedArray.of(elementwise("subtract", applied("subtract"), [this, other], options));
  }

  /** This array times another one, or a number, element by element: the function {@linkcode multiply}. Collective. */
  multiply(other: DistributedArray | Scalar, options?: TargetOptions<DistributedArray>): DistributedArray {
    return DistributedArray.of(elementwise("multiply", applied("multiply"), [this, other], options));
  }

  /** This array divided by another one, or a number, element by element: the function {@linkcode divide}. Collective. */
  divide(other: DistributedArray | Scalar, options?: TargetOptions<DistributedArray>): DistributedArray {
    return DistributedArray.of(elementwise("divide", applied("divide"), [this, other], options));
  }

  /**
   * The sum of all elements, or of those along dimensions. Collective.
   *
   * Floats are added without rounding but for the last bits, so that the sum is the same for any number of ranks (not on
   * GPUs). Over all elements integers give a number, exact up to 2^53, int64 an exact bigint, complex numbers `[re, im]`.
   * Along dimensions integers give int64, which wraps around; results over a dimension that is divided among ranks are
   * Replicated, others stay where they are.
   *
   * @throws {RangeError} if there is no such dimension.
   * @throws {ShapeError} if no dimension would be left.
   * @throws {StateError} after `free`.
   *
   * @example
   * ```ts
   * import { DistributedArray, exp, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using x = DistributedArray.random(runtime, [100, 10], Slab.X);
   * using e = exp(x);
   * using rows = e.sum({ axis: 1, keepDims: true });
   * using softmax = e.divide(rows);
   * console.log(softmax.sum()); // 100, or close to it
   * ```
   */
  sum(): Scalar;
  /** The sums along dimensions. */
  sum(options: AxisOptions): DistributedArray;
  sum(options?: AxisOptions): Scalar | DistributedArray {
    return this.#finish(options === undefined && this.#isOnDevice ? this.#sumOnDevice() : sum(this, options));
  }

  /** The product of all elements, or along dimensions, in float64; that of int64, and of integers along dimensions, in int64, which wraps around. Collective. */
  prod(): Scalar;
  /** As above, along dimensions. */
  prod(options: AxisOptions): DistributedArray;
  prod(options?: AxisOptions): Scalar | DistributedArray {
    return this.#finish(prod(this, options));
  }

  /** The mean of all elements, or along dimensions: sums as {@linkcode sum} has them, divided once; integers give float64. Collective. */
  mean(): Scalar;
  /** As above, along dimensions. */
  mean(options: AxisOptions): DistributedArray;
  mean(options?: AxisOptions): Scalar | DistributedArray {
    return this.#finish(mean(this, options));
  }

  /** The variance of all elements, or along dimensions: the mean of the squared distances to the mean, `correction` elements less. Collective. */
  var(options?: { correction?: number }): number;
  /** As above, along dimensions. */
  var(options: AxisOptions & { correction?: number }): DistributedArray;
  var(options?: VarianceOptions): number | DistributedArray {
    return this.#finish(variance("var", this, options)) as number | DistributedArray;
  }

  /** The standard deviation: the square root of the variance, {@linkcode var}. Collective. */
  std(options?: { correction?: number }): number;
  /** As above, along dimensions. */
  std(options: AxisOptions & { correction?: number }): DistributedArray;
  std(options?: VarianceOptions): number | DistributedArray {
    return this.#finish(variance("std", this, options)) as number | DistributedArray;
  }

  /** The smallest of all elements, or along dimensions; NaN if there is one. Collective. */
  min(): number | bigint;
  /** As above, along dimensions. */
  min(options: AxisOptions): DistributedArray;
  min(options?: AxisOptions): number | bigint | DistributedArray {
    return this.#finish(extreme("min", this, options));
  }

  /** The largest of all elements, or along dimensions; NaN if there is one. Collective. */
  max(): number | bigint;
  /** As above, along dimensions. */
  max(options: AxisOptions): DistributedArray;
  max(options?: AxisOptions): number | bigint | DistributedArray {
    return this.#finish(extreme("max", this, options));
  }

  /**
   * The index of the smallest element, the first of several, in C order: `Math.floor(index / columns)` is a matrix's row.
   * Along one dimension its indices along it, int32. NaN counts as the smallest. Collective.
   */
  argmin(): number;
  /** As above, along one dimension. */
  argmin(options: AxisOptions & { axis: number }): DistributedArray;
  argmin(options?: AxisOptions): number | DistributedArray {
    return this.#finish(argumentOfExtreme("argmin", this, options));
  }

  /** The index of the largest element, as {@linkcode argmin} has it. Collective. */
  argmax(): number;
  /** As above, along one dimension. */
  argmax(options: AxisOptions & { axis: number }): DistributedArray;
  argmax(options?: AxisOptions): number | DistributedArray {
    return this.#finish(argumentOfExtreme("argmax", this, options));
  }

  /** Whether no element is 0, or along dimensions, as 1 and 0. Collective. */
  all(): boolean;
  /** As above, along dimensions. */
  all(options: AxisOptions): DistributedArray;
  all(options?: AxisOptions): boolean | DistributedArray {
    return this.#finish(truth("all", this, options));
  }

  /** Whether an element is not 0, or along dimensions, as 1 and 0. Collective. */
  any(): boolean;
  /** As above, along dimensions. */
  any(options: AxisOptions): DistributedArray;
  any(options?: AxisOptions): boolean | DistributedArray {
    return this.#finish(truth("any", this, options));
  }

  /**
   * The norm of all elements as one vector, or along dimensions: by default the square root of the sum of all squared
   * magnitudes (the 2-norm of a vector, the Frobenius norm of a matrix); with `ord: 1` the sum of magnitudes, with
   * `ord: Infinity` the largest. It neither overflows nor underflows between. Collective.
   *
   * @throws {RangeError} for another `ord`.
   * @throws {StateError} after `free`.
   */
  norm(options?: { ord?: number }): number;
  /** As above, along dimensions. */
  norm(options: AxisOptions & { ord?: number }): DistributedArray;
  norm(options?: NormOptions): number | DistributedArray {
    return this.#finish(options === undefined && this.#isOnDevice ? this.#normOnDevice() : norm(this, options));
  }

  /**
   * The largest magnitude of the differences to the elements of an array of the same shape, in float64; NaN if any
   * difference is NaN. The other array may have another distribution (its elements are moved), order and dtype.
   * Collective.
   *
   * @throws {ShapeError} if the shapes differ.
   * @throws {StateError} after `free`.
   */
  maxAbsDifference(other: DistributedArray): number {
    let difference!: number;
    const compare = (local: LocalArray) => difference = reduction.largestDifference(this.local, local);
    this.agree("maxAbsDifference", () => {
      checkArray(other, "other");
      if (other.shape.join() !== this.shape.join()) {
        throw new ShapeError(
          `Arrays of shapes [${this.shape}] and [${other.shape}] cannot be compared element by element.`,
        );
      }
      if (this.distribution.coincidesWith(other.distribution)) compare(other.local);
      return { other: other.facts() };
    });
    if (!this.distribution.coincidesWith(other.distribution)) {
      using moved = other.redistribute(this.distribution);
      agree(this.runtime, "DistributedArray.maxAbsDifference", () => void compare(moved.local));
    }
    return reduction.largestOfAll(this.runtime.communicator, difference);
  }

  /**
   * The values as text, as NumPy prints them: of large arrays the edges, which alone travel. On every rank. Collective.
   *
   * @throws {RangeError | TypeError} if an option is no whole number.
   * @throws {StateError} after `free`.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.generate(runtime, [2, 3], Slab.X, (i, j) => i + j / 2);
   * console.assert(a.format() === "[[0.  0.5 1. ]\n [1.  1.5 2. ]]");
   * ```
   */
  format(options: FormatOptions = {}): string {
    const { shape, dtype } = this;
    let full!: FullFormat;
    let collect!: () => Scalar[];
    this.agree("format", () => {
      full = checkFormat(options);
      collect = prepareElements(this, shownIndices(shape, full));
      return { ...full };
    });
    return formatElements(dtype, shape, collect(), full);
  }

  /** Print the array and its values, {@linkcode format}, on rank 0. Collective. */
  show(options: FormatOptions = {}): void {
    const text = this.format(options);
    if (this.runtime.rank === 0) console.log(`${this}\n${text}`);
  }

  /**
   * The element at an index; negative ones count from the end. It travels to every rank: all ranks call it, with the same
   * index. Elements of one's own are in {@linkcode local} and {@linkcode entries}. Collective.
   *
   * @throws {RangeError} if there is no such element.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.generate(runtime, [5, 3], Slab.X, (i, j) => 10 * i + j);
   * a.set([0, 0], 7);
   * console.log(a.at(0, 0), a.at(-1, 2)); // 7 42
   * ```
   */
  at(...index: number[]): Scalar {
    let collect!: () => Scalar[];
    this.agree("at", () => {
      const checked = checkIndex(index, this.shape);
      collect = prepareElements(this, checked.map((i) => [i]));
      return { index: checked };
    });
    return collect()[0];
  }

  /**
   * Overwrite the element at an index, as {@linkcode at} has it, on the rank that has it. Collective.
   *
   * @throws {RangeError} if there is no such element, or the value lies outside the range of an integer dtype.
   * @throws {DTypeError} if the dtype does not take the value.
   */
  set(index: readonly number[], value: Scalar): void {
    let write = (): void => {};
    this.agree("set", () => {
      const checked = checkIndex(index, this.shape);
      checkExact(this.dtype, value);
      const one = LocalArray.empty(this.dtype, [1]);
      one.fill(value);
      const sets = this.distribution.indexSets(this.runtime.rank);
      const isOwn = checked.every((i, d) => sets[d].before(i + 1) > sets[d].before(i));
      const place = checked.map((i, d) => sets[d].before(i));
      const target = isOwn ? this.local.slice(place, place.map(() => 1)) : null;
      write = () => target?.fill(value);
      return { index: checked, value: String(value) };
    });
    write();
  }

  /**
   * The elements that this rank holds, in C order, each with its global index. Local; not collective.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.generate(runtime, [4, 4], Slab.X, (i, j) => i * j);
   * for (const [[i, j], value] of a.entries()) console.assert(value === i * j);
   * ```
   */
  *entries(): Generator<[index: number[], value: Scalar]> {
    const { local } = this;
    const lists = this.distribution.ranges(this.runtime.rank).map((ranges) =>
      ranges.flatMap(([start, end]) => Array.from({ length: end - start }, (_, i) => start + i))
    );
    const next = reduction.valuesOf(local, "C");
    const visit = function* (index: number[]): Generator<[number[], Scalar]> {
      if (index.length === lists.length) yield [index, next()];
      else for (const i of lists[index.length]) yield* visit([...index, i]);
    };
    if (local.size > 0) yield* visit([]);
  }

  // ---- other shapes, distributions, types ---------------------------------------------------------------------------

  /**
   * A part of the array: a half-open range of global indices for each dimension. Negative numbers count from the end, null
   * stands for the first index, the end, or a whole dimension, and dimensions without a range are whole. It is a view: it
   * shares memory, and each rank keeps what it has; {@linkcode assign} overwrites the part in the array. Collective.
   *
   * @throws {ShapeError} if there are more ranges than dimensions.
   * @throws {RangeError} if a range is inverted or lies outside.
   * @throws {StateError} after `free`.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.random(runtime, [100, 80], Slab.X);
   * const middle = a.slice([[25, 75]]);
   * const lastColumn = a.slice([null, [-1, null]]);
   * lastColumn.assign(0);
   * console.log(middle.shape, middle.norm());
   * ```
   */
  slice(ranges: readonly SliceRange[]): DistributedArray {
    let view!: DistributedArray;
    this.agree("slice", () => {
      const given = fullRanges(ranges, this.shape);
      const sliced = this.distribution.slice(given);
      const own = this.distribution.localRanges(this.runtime.rank, given);
      const local = this.local.slice(own.map(([start]) => start), own.map(([start, end]) => end - start));
      view = this.#view(local, sliced, this.order);
      return { ranges: given };
    });
    return view;
  }

  /**
   * Overwrite all elements: with a number, or with those of another array, which is repeated where it is smaller, rounded to
   * this dtype, and moved if it is distributed differently. Of a slice it overwrites the part in its array. Returns the
   * array. Collective.
   *
   * @throws {ShapeError} if the shapes do not fit.
   * @throws {DTypeError} if the dtype does not hold the values.
   *
   * @example
   * ```ts
   * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
   *
   * using runtime = initialize();
   * using a = DistributedArray.zeros(runtime, [8, 8], Slab.X);
   * a.slice([[2, 6], [2, 6]]).assign(1);
   * console.log(a.sum()); // 16
   * ```
   */
  assign(values: DistributedArray | Scalar): this {
    if (values instanceof DistributedArray) {
      if (this.#isElsewhere(values)) {
        const converted = values.dtype === this.dtype ? values : values.to({ dtype: this.dtype });
        converted.redistribute(this);
        if (converted !== values) converted.free();
      } else {
        elementwise("DistributedArray.assign", applied("positive"), [values], { into: this });
      }
      return this;
    }
    let fill = (): void => {};
    this.agree("assign", () => {
      checkExact(this.dtype, values);
      LocalArray.empty(this.dtype, [1]).fill(values);
      fill = () => this.local.fill(values);
      return { values: String(values) };
    });
    fill();
    return this;
  }

  /** Whether another array of the same shape has its elements on other ranks. */
  #isElsewhere(other: DistributedArray): boolean {
    const isAlike = other.shape.join() === this.shape.join() && !other.isFreed && !other.isLost;
    return isAlike && !other.distribution.isReplicated && !other.distribution.coincidesWith(this.distribution);
  }

  /** The array with its dimensions in reverse order: a view, of flipped distribution and memory order. Local. */
  transpose(): DistributedArray {
    return this.#view(this.local.transpose(), this.distribution.transpose(), flipOrder(this.order));
  }

  /**
   * The elements in another distribution: in a new array, or in one that is given, which has the same shape and dtype.
   * Returns that array. Collective.
   *
   * @throws {TypeError} if the target is neither a distribution nor an array.
   * @throws {DistributionError} if the distribution does not fit the shape or the number of ranks.
   * @throws {ShapeError | DTypeError} if the given array has another shape or dtype.
   * @throws {ConfigurationError} if one array is in host memory, and the other on GPUs.
   * @throws {StateError} after `free`.
   */
  redistribute(target: Distribution | DistributedArray): DistributedArray {
    const { runtime, dtype, order, shape } = this;
    let result!: DistributedArray;
    let move!: () => void;
    this.agree("redistribute", () => {
      if (target instanceof DistributedArray) {
        checkTarget(this, target);
        result = target;
      } else {
        const { bound } = planOf(runtime, shape, target, { dtype, order });
        const stream = this.local.isOnDevice ? runtime.stream : null;
        const local = LocalArray.empty(dtype, bound.localShape(runtime.rank), order, stream);
        result = new DistributedArray({ runtime, local, distribution: bound, order });
      }
      move = readyToMove(this, this.distribution, result.distribution, this.local, result.local);
      return { to: target instanceof DistributedArray ? target.facts() : String(result.distribution) };
    });
    move();
    return result;
  }

  /**
   * A new array with the same elements, dense in its own memory. Collective.
   *
   * @throws {StateError} after `free`.
   */
  copy(): DistributedArray {
    return this.#converted("copy", {});
  }

  /**
   * A new array with the same elements in another dtype, memory order or memory; what is left out stays. Rounded to
   * nearest, ties to even; to integers cut toward zero and kept inside the range. Collective.
   *
   * @throws {TypeError} if an option is not known.
   * @throws {DTypeError} from complex to real.
   * @throws {ConfigurationError} for memory "device" on a runtime without GPUs.
   * @throws {StateError} after `free`.
   */
  to(options: ArrayOptions = {}): DistributedArray {
    return this.#converted("to", options);
  }

  #converted(method: string, options: ArrayOptions): DistributedArray {
    const { runtime } = this;
    let order!: Order;
    const plan = (): PartPlan => {
      const given = readOptions(`the options of ${method}`, options, ARRAY_KEYS);
      const { dtype = this.dtype, memory = this.memory } = given;
      ({ order = this.order } = given);
      const target = { dtype, order, memory };
      checkStorage(runtime, target);
      checkConvertible(this.dtype, dtype);
      return { ...target, shape: this.local.shape, facts: { target } };
    };
    const local = newPart(runtime, (check) => this.agree(method, check), plan, (part) => part.set(this.local));
    return new DistributedArray({ runtime, local, distribution: this.distribution, order });
  }

  // ---- helpers ------------------------------------------------------------------------------------------------------

  /** Memory for all elements. */
  #whole(operation: string, into?: TypedArray): LocalArray {
    const { dtype, order, shape } = this;
    if (into === undefined) return exactArray(dtype, shape, order);
    elementCount(dtype, into);
    if (!this.local.isOnDevice && this.local.data.buffer === into.buffer) {
      throw new ShapeError(`${operation}: into is memory of the array itself. Give other memory.`);
    }
    return new LocalArray({ data: into, dtype, shape, strides: stridesOf(shape, order) });
  }

  #view(local: LocalArray, distribution: Distribution, order: Order): DistributedArray {
    return new DistributedArray({ runtime: this.runtime, local, distribution, order }, this.owner);
  }

  /** A number as it is, parts as an array. */
  #finish<T>(made: T | Held): T | DistributedArray {
    const isHeld = typeof made === "object" && made !== null && "local" in made;
    return isHeld ? new DistributedArray(made as Held) : made as T;
  }

  /** Known also when the memory is gone. */
  get #isOnDevice(): boolean {
    return this.memory === "device" || this.memory === "symmetric" && this.runtime.stream !== null;
  }

  #sumOnDevice(): Scalar {
    const { runtime, dtype } = this;
    if (dtype === "int64") {
      const partial = this.#reduced("sum", bigSumOnDevice);
      if (this.distribution.isReplicated) return partial;
      const partials = exchange(runtime, "sum", () => String(partial));
      return partials.reduce((sum, part) => sum + BigInt(part), 0n);
    }
    const total = this.#total(this.#reduced("sum", sumOnDevice));
    return dtypeInfo(dtype).isComplex ? [total[0], total[1]] : total[0];
  }

  #normOnDevice(): number {
    const [squares] = this.#total(this.#reduced("norm", (local) => squaresOnDevice(local, 1)));
    if (squares > 1e-280 && squares < Infinity) return Math.sqrt(squares);
    // Squares went beyond the range of float64, or there is nothing but zeros: measure in units of the largest value.
    const largest = reduction.largestOfAll(this.runtime.communicator, this.#reduced("norm", largestOnDevice));
    if (largest === 0 || !Number.isFinite(largest)) return largest;
    return largest * Math.sqrt(this.#total(this.#reduced("norm", (local) => squaresOnDevice(local, largest)))[0]);
  }

  /** What a function makes of this rank's part, once it has on every rank. Collective. */
  #reduced<T>(method: string, reduce: (local: LocalArray) => T): T {
    let partial!: T;
    this.agree(method, () => {
      partial = reduce(this.local);
      return {};
    });
    return partial;
  }

  /** Sum float64 numbers over the ranks; what every rank has anyway counts once. */
  #total(partial: Float64Array<ArrayBuffer>): Float64Array {
    if (this.distribution.isReplicated) return partial;
    return this.runtime.communicator.allReduce(partial, { op: "sum" });
  }
}

/** Gives a new array its elements, as the options ask; returns what else all ranks must share. */
type Fill<Options> = (array: DistributedArray, given: Options) => Facts;

/** Agree on a new array, make it, and fill it, with zeros or by `fill`. */
function make<Options extends ArrayOptions>(
  runtime: Runtime,
  operation: string,
  shape: readonly number[],
  distribution: Distribution,
  options: Options,
  fill: Fill<Options> | null,
  keys: readonly (keyof Options & string)[] = ARRAY_KEYS,
): DistributedArray {
  let array!: DistributedArray;
  let bound!: Distribution;
  let given!: Options;
  const plan = (): PartPlan => {
    given = readOptions(`the options of ${operation}`, options, keys);
    const { dtype, order, memory, ...planned } = planOf(runtime, shape, distribution, given);
    bound = planned.bound;
    const facts = { shape: bound.globalShape, dtype, distribution: String(bound), order, memory };
    return { dtype, order, memory, shape: bound.localShape(runtime.rank), facts, isCleared: fill === null };
  };
  newPart(runtime, (check) => agreeWith(runtime, operation, check), plan, (part, { order }) => {
    array = DistributedArray.wrap(runtime, part, bound, order);
    return fill?.(array, given);
  });
  return array;
}

/** Get ready to move all elements from one rank's part to another; both in the order of `array`. */
function readyToMove(
  { runtime, order }: DistributedArray,
  from: Parts,
  to: Parts,
  source: LocalArray,
  target: LocalArray,
): () => void {
  return prepareOnce(runtime, from, to, source, target, order);
}

/**
 * As `agree`, on a call that was given this runtime: what is none is an error on all ranks of the current one.
 *
 * @throws {TypeError} if it is no runtime.
 */
export function agreeWith(runtime: Runtime, operation: string, check: () => Facts | void): void {
  agree(runtime, operation, () => {
    checkRuntime(operation, runtime);
    return check();
  });
}

function checkRank(rank: unknown, size: number, what: string): number {
  if (Number.isInteger(rank) && rank as number >= 0 && rank as number < size) return rank as number;
  const kind = typeof rank === "number" ? RangeError : TypeError;
  throw new kind(`The ${what} must be a rank from 0 to ${size - 1}, not ${describe(rank)}.`);
}

/** An index, read once, without what is negative. */
function checkIndex(given: readonly number[], shape: readonly number[]): number[] {
  const index = Array.isArray(given) ? [...given] : [];
  const isInside = (i: unknown, d: number) => Number.isInteger(i) && i as number >= -shape[d] && i as number < shape[d];
  if (Array.isArray(given) && index.length === shape.length && index.every(isInside)) {
    return index.map((i, d) => i < 0 ? i + shape[d] : i);
  }
  const kind = Array.isArray(given) ? RangeError : TypeError;
  throw new kind(
    `An index of an array of shape [${shape}] is a list of ${shape.length} whole numbers inside of it, not ` +
      `${describe(given)}.`,
  );
}
