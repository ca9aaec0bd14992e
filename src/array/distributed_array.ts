/**
 * Arrays that are spread over all ranks.
 *
 * @module
 */
import { checkConvertible } from "../dtype/conversion.ts";
import { type Distribution, Replicated } from "../distribution/mod.ts";
import type { DType, Scalar, TypedArray } from "../dtype/dtype.ts";
import type {
  DTypeOfData,
  DTypeOfPart,
  ElementOf,
  FloatOf,
  PromotedOperands,
  PromotedWith,
  RealOf,
  SumOf,
  ValueOf,
} from "../dtype/element_types.ts";
import { checkExact } from "../dtype/scalar.ts";
import { ShapeError } from "../errors.ts";
import { describe, noteOwnClass, readOptions } from "../options.ts";
import { agree } from "../runtime/agreement.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { agreeOnMethod, type BaseArray, checkArray, checkTarget, factsOf, type Held } from "./base_array.ts";
import { ElementAccess } from "./element_access.ts";
import {
  ASSIGNED,
  checkInto,
  checkOwnArray,
  elementwise,
  type Made,
  type TargetOptions,
} from "./elementwise/elementwise.ts";
import { holdsNeeded } from "./elementwise/broadcast.ts";
import { applied, type Expression, FUNCTIONS } from "./elementwise/expression.ts";
import type { BinaryNames, ElementwiseName, ResultDType, ResultKind, UnaryNames } from "./elementwise/names.ts";
import { zip } from "./elementwise/zip.ts";
import type { FromLocalOptions } from "./given_data.ts";
import { flipOrder, type Order } from "./layout.ts";
import { LocalArray } from "./local_array.ts";
import { fromLocal, full, generate, newArray, random, scatter, type ScatterArrayOptions } from "./new_array.ts";
import { ARRAY_KEYS, type ArrayOptions, checkStorage, newPart, type PartPlan, planOf } from "./new_part.ts";
import type { RandomOptions } from "./random.ts";
import { prepareOnce } from "./redistribution/redistributor.ts";
import { largestDifference, valuesOf } from "./difference.ts";
import { largestOfAll } from "./extremes.ts";
import type { AxisOptions } from "./reductions/plan.ts";
import { argumentOfExtreme, extreme } from "./reductions/extreme.ts";
import { norm, type NormOptions } from "./reductions/norm.ts";
import { prod } from "./reductions/prod.ts";
import { mean, sum } from "./reductions/totals.ts";
import { truth } from "./reductions/truth.ts";
import { variance, type VarianceOptions } from "./reductions/variance.ts";
import { fullSlice, type SliceRange, steppedDistribution, steppedPart } from "./shaping/slices.ts";
import { type ElementFunction, fillByFunction, type LinearForm } from "./traverse.ts";

/** What elementwise functions take: an array, or a number, a bigint or `[re, im]`. At least one is an array. */
export type Operand = DistributedArray | Scalar;

/** Where the result of an elementwise function goes. */
export type ElementwiseOptions<D extends DType = DType> = TargetOptions<DistributedArray<D>>;

/** The elementwise functions of one array, as its methods. */
export type UnaryMethods<D extends DType, Kind extends ResultKind> = {
  readonly [Name in UnaryNames[Kind]]: <T extends DType = ResultDType<Kind, D>>(
    options?: ElementwiseOptions<T>,
  ) => DistributedArray<T>;
};

/** The elementwise functions of two arrays, or of an array and a number, as methods of the first. */
export type BinaryMethods<D extends DType, Kind extends keyof BinaryNames> = {
  readonly [Name in BinaryNames[Kind]]: <O extends Operand, T extends DType = ResultDType<Kind, PromotedWith<D, O>>>(
    other: O,
    options?: ElementwiseOptions<T>,
  ) => DistributedArray<T>;
};

/** The elementwise functions as methods: `a.exp()` is `exp(a)`, `a.add(b, options)` is `add(a, b, options)`. */
export interface DistributedArray<D extends DType = DType>
  extends
    UnaryMethods<D, "same">,
    UnaryMethods<D, "real">,
    UnaryMethods<D, "float">,
    UnaryMethods<D, "truth">,
    BinaryMethods<D, "same">,
    BinaryMethods<D, "float">,
    BinaryMethods<D, "truth"> {
  /** Elements of `b` where those of this array are not 0, elsewhere those of `c`: the function {@linkcode where}. */
  where<B extends Operand, C extends Operand, T extends DType = PromotedOperands<B, C>>(
    b: B,
    c: C,
    options?: ElementwiseOptions<T>,
  ): DistributedArray<T>;
  /** Each element, or the bound that it lies beyond: the function {@linkcode clip}. */
  clip<L extends Operand, H extends Operand, T extends DType = PromotedWith<PromotedWith<D, L>, H>>(
    low: L,
    high: H,
    options?: ElementwiseOptions<T>,
  ): DistributedArray<T>;
}

/**
 * An array spread over all ranks: each one holds the part that the distribution gives it, as `local`.
 *
 * All ranks call the constructors and methods together, with the same arguments; only `wrap`, `share`, `of`, `transpose`,
 * `entries`, `toString`, `free` and the properties are local. A mistake is an error on every rank, the same one.
 *
 * Beside what is below, it has the members of what it extends:
 *
 * - {@linkcode UnaryMethods}, {@linkcode BinaryMethods}: positive, negative, abs, sign, square, sqrt, exp, expm1, log, log1p,
 *   log2, log10, sin, cos, tan, asin, acos, atan, sinh, cosh, tanh, erf, erfc, floor, ceil, trunc, round, isNaN, isFinite,
 *   logicalNot, conj, real, imag, add, subtract, multiply, divide, power, minimum, maximum, atan2, equal, notEqual, less,
 *   lessEqual, greater, greaterEqual, logicalAnd, logicalOr, logicalXor
 * - {@linkcode ElementAccess}: gather, allGather, format, show, at, set, entries
 * - {@linkcode BaseArray}: runtime, shape, dtype, distribution, order, memory, local, size, isLost, isFreed, isView, toString,
 *   free
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
export class DistributedArray<D extends DType = DType> extends ElementAccess<D> {
  static {
    noteOwnClass(this);
  }

  private constructor(held: Held, owner: BaseArray | null = null) {
    super(held as Held<D>, owner);
  }

  // ---- making arrays ------------------------------------------------------------------------------------------------

  /**
   * An array of existing parts, without a check or communication: `local` must have the shape that the bound
   * distribution gives this rank. For code that has agreed on all of it already; others use {@linkcode fromLocal}.
   */
  static wrap<D extends DType>(
    runtime: Runtime,
    local: LocalArray<D>,
    distribution: Distribution,
    order: Order,
  ): DistributedArray<D> {
    return new DistributedArray({ runtime, local, distribution, order });
  }

  /** What an operation has made: a new array, or the one that it wrote into. Local; for code inside of the library. */
  static of<D extends DType = DType>(made: Made<DistributedArray<D>>): DistributedArray<D> {
    return "into" in made ? made.into : new DistributedArray(made.held);
  }

  /**
   * As {@linkcode wrap}, of memory that is another array's: freeing it frees nothing, and it ends with its owner.
   */
  static share<D extends DType>(
    owner: DistributedArray<D>,
    local: LocalArray<D>,
    distribution: Distribution,
    order: Order,
  ): DistributedArray<D> {
    return owner.#view(local, distribution, order);
  }

  /**
   * An array of zeros. Collective.
   *
   * @throws {TypeError} if an option is not known, or there is no such order or memory.
   * @throws {CollectiveError} if ranks ask for different arrays.
   * @throws {ShapeError} if the shape is none.
   * @throws {DistributionError} if the distribution does not fit the shape, or is bound to another one.
   * @throws {DTypeError} if there is no such dtype.
   * @throws {ConfigurationError} for memory "device" on a runtime without GPUs, and for memory "symmetric" where there is
   * none, or not so much.
   * @throws {RangeError} if a rank's part has more than 2^32 numbers, of which a complex element has two, or memory is exhausted.
   */
  static zeros<D extends DType = "float64">(
    runtime: Runtime,
    shape: readonly number[],
    distribution: Distribution,
    options: ArrayOptions<D> = {},
  ): DistributedArray<D> {
    return new DistributedArray(newArray(runtime, "DistributedArray.zeros", shape, distribution, options, null));
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
  static full<D extends DType = "float64">(
    runtime: Runtime,
    shape: readonly number[],
    distribution: Distribution,
    value: ElementOf<D> | number,
    options: ArrayOptions<D> = {},
  ): DistributedArray<D> {
    return new DistributedArray(full(runtime, shape, distribution, value, options));
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
  static random<D extends DType = "float64">(
    runtime: Runtime,
    shape: readonly number[],
    distribution: Distribution,
    options: ArrayOptions<D> & RandomOptions = {},
  ): DistributedArray<D> {
    return new DistributedArray(random(runtime, shape, distribution, options));
  }

  /**
   * An array of the values that a function gives for each global index. Collective; throws as {@linkcode zeros} does;
   * what the function throws on one rank is thrown on all, and a collective call of an array inside it is a StateError.
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
  static generate<D extends DType = "float64">(
    runtime: Runtime,
    shape: readonly number[],
    distribution: Distribution,
    value: ElementFunction | LinearForm,
    options: ArrayOptions<D> = {},
  ): DistributedArray<D> {
    return new DistributedArray(generate(runtime, "DistributedArray.generate", shape, distribution, value, options));
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
   * @throws {DTypeError} if a typed array does not hold the dtype, the dtype must be named, or memory of a GPU does not begin
   * at a multiple of the bytes of an element.
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
  static fromLocal<L extends TypedArray | LocalArray, D extends DType = DTypeOfPart<L>>(
    runtime: Runtime,
    local: L,
    distribution: Distribution,
    options: FromLocalOptions<D> = {},
  ): DistributedArray<D> {
    return new DistributedArray(fromLocal(runtime, local, distribution, options));
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
  static scatter<T extends TypedArray, D extends DType = DTypeOfData<T>>(
    runtime: Runtime,
    data: T | null,
    shape: readonly number[],
    distribution: Distribution,
    options: ScatterArrayOptions<D> = {},
  ): DistributedArray<D> {
    return new DistributedArray(scatter(runtime, data, shape, distribution, options));
  }

  // ---- values -------------------------------------------------------------------------------------------------------

  /**
   * A new array of what a function makes of each value and its global index. Collective; what the function throws on
   * one rank is thrown on all, and a collective call of an array inside it is a StateError.
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
  map<T extends DType = D>(
    change: (value: ElementOf<D>, ...index: number[]) => ElementOf<T> | number,
    options: { dtype?: T } = {},
  ): DistributedArray<T> {
    const { runtime, distribution, order } = this;
    let result!: LocalArray;
    agreeOnMethod(this, "map", () => {
      const { dtype: target = this.dtype } = readOptions<{ dtype?: DType }>("the options of map", options, ["dtype"]);
      if (typeof change !== "function") {
        throw new TypeError(`map takes a function (value, i, j) => value, not ${describe(change)}.`);
      }
      result = LocalArray.empty(target, this.local.shape, order);
      const next = valuesOf(this.local, order);
      fillByFunction(
        target,
        result.data,
        distribution.ranges(runtime.rank),
        order,
        (...index) => change(next() as ElementOf<D>, ...index),
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
  zip<O extends DistributedArray | Scalar, T extends DType = PromotedWith<D, O>>(
    other: O,
    combine: (value: ElementOf<D>, other: ValueOf<O>, ...index: number[]) => ElementOf<T> | number,
    options: { dtype?: T } = {},
  ): DistributedArray<T> {
    return new DistributedArray(zip(this, other, combine as Parameters<typeof zip>[2], options));
  }

  /**
   * The sum of all elements, or of those along dimensions. Collective.
   *
   * Floats are added without rounding but for the last bits, so that the sum is the same for any number of ranks, on GPUs
   * too. Over all elements integers give a number, exact up to 2^53, int64 an exact bigint, complex numbers `[re, im]`.
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
  sum(): ElementOf<D>;
  /** The sums along dimensions. */
  sum(options: AxisOptions): DistributedArray<SumOf<D>>;
  sum(options?: AxisOptions): Scalar | DistributedArray {
    return this.#finish(sum(this, options));
  }

  /** The product of all elements, or along dimensions, in float64, whose range it may leave on the way; that of int64, and of integers along dimensions, in int64, which wraps around. Collective. */
  prod(): ElementOf<D>;
  /** As above, along dimensions. */
  prod(options: AxisOptions): DistributedArray<SumOf<D>>;
  prod(options?: AxisOptions): Scalar | DistributedArray {
    return this.#finish(prod(this, options));
  }

  /**
   * The mean of all elements, or along dimensions: their sum, as {@linkcode sum} has it of floats, divided once. Integers are
   * summed in float64, where nothing wraps around, and give float64. Collective.
   */
  mean(): ElementOf<FloatOf<D>>;
  /** As above, along dimensions. */
  mean(options: AxisOptions): DistributedArray<FloatOf<D>>;
  mean(options?: AxisOptions): Scalar | DistributedArray {
    return this.#finish(mean(this, options));
  }

  /** The variance of all elements, or along dimensions: the mean of the squared distances to the mean, `correction` elements less. Collective. */
  var(options?: { correction?: number }): number;
  /** As above, along dimensions. */
  var(options: AxisOptions & { correction?: number }): DistributedArray<RealOf<FloatOf<D>>>;
  var(options?: VarianceOptions): number | DistributedArray {
    return this.#finish(variance("var", this, options));
  }

  /** The standard deviation: the square root of the variance, {@linkcode var}. Collective. */
  std(options?: { correction?: number }): number;
  /** As above, along dimensions. */
  std(options: AxisOptions & { correction?: number }): DistributedArray<RealOf<FloatOf<D>>>;
  std(options?: VarianceOptions): number | DistributedArray {
    return this.#finish(variance("std", this, options));
  }

  /** The smallest of all elements, or along dimensions; NaN if there is one, and 0 for -0. Collective. */
  min(): ElementOf<D>;
  /** As above, along dimensions. */
  min(options: AxisOptions): DistributedArray<D>;
  min(options?: AxisOptions): Scalar | DistributedArray {
    return this.#finish(extreme("min", this, options));
  }

  /** The largest of all elements, or along dimensions; NaN if there is one, and 0 for -0. Collective. */
  max(): ElementOf<D>;
  /** As above, along dimensions. */
  max(options: AxisOptions): DistributedArray<D>;
  max(options?: AxisOptions): Scalar | DistributedArray {
    return this.#finish(extreme("max", this, options));
  }

  /**
   * The index of the smallest element, the first of several, in C order: `Math.floor(index / columns)` is a matrix's row.
   * Along one dimension its indices along it, int32. NaN counts as the smallest. Collective.
   */
  argmin(): number;
  /** As above, along one dimension. */
  argmin(options: AxisOptions & { axis: number }): DistributedArray<"int32">;
  argmin(options?: AxisOptions): number | DistributedArray {
    return this.#finish(argumentOfExtreme("argmin", this, options));
  }

  /** The index of the largest element, as {@linkcode argmin} has it. Collective. */
  argmax(): number;
  /** As above, along one dimension. */
  argmax(options: AxisOptions & { axis: number }): DistributedArray<"int32">;
  argmax(options?: AxisOptions): number | DistributedArray {
    return this.#finish(argumentOfExtreme("argmax", this, options));
  }

  /** Whether no element is 0, or along dimensions, as 1 and 0. Collective. */
  all(): boolean;
  /** As above, along dimensions. */
  all(options: AxisOptions): DistributedArray<"uint8">;
  all(options?: AxisOptions): boolean | DistributedArray {
    return this.#finish(truth("all", this, options));
  }

  /** Whether an element is not 0, or along dimensions, as 1 and 0. Collective. */
  any(): boolean;
  /** As above, along dimensions. */
  any(options: AxisOptions): DistributedArray<"uint8">;
  any(options?: AxisOptions): boolean | DistributedArray {
    return this.#finish(truth("any", this, options));
  }

  /**
   * The norm of all elements as one vector, or along dimensions: with `ord: 2`, the default, the square root of the sum of all
   * squared magnitudes; with `ord: 1` the sum of magnitudes, with `ord: Infinity` the largest. The elements of a matrix are
   * one vector, too: 2 is its Frobenius norm, also called "fro", and what NumPy's `norm(a, 1)` and `norm(a, inf)` are of a
   * matrix is `matrixNorm`. It neither overflows nor underflows between. Collective.
   *
   * @throws {RangeError} for another `ord`.
   * @throws {StateError} after `free`.
   */
  norm(options?: { ord?: "fro" | number }): number;
  /** As above, along dimensions. */
  norm(options: AxisOptions & { ord?: "fro" | number }): DistributedArray<RealOf<FloatOf<D>>>;
  norm(options?: NormOptions): number | DistributedArray {
    return this.#finish(norm(this, options));
  }

  /**
   * The largest magnitude of the differences to the elements of an array of the same shape, in float64; NaN if any
   * difference is NaN. The other array may have another distribution (its elements are moved), order and dtype.
   * Collective.
   *
   * @throws {ShapeError} if the shapes differ.
   * @throws {StateError} after `free`, or if the other array belongs to another runtime.
   */
  maxAbsDifference(other: DistributedArray): number {
    let difference!: number;
    const compare = (local: LocalArray) => difference = largestDifference(this.local, local);
    agreeOnMethod(this, "maxAbsDifference", () => {
      checkArray(other, "other");
      checkOwnArray("maxAbsDifference", "other", other, this.runtime);
      if (other.shape.join() !== this.shape.join()) {
        throw new ShapeError(
          `Arrays of shapes [${this.shape}] and [${other.shape}] cannot be compared element by element.`,
        );
      }
      if (this.distribution.coincidesWith(other.distribution)) compare(other.local);
      return { other: factsOf(other) };
    });
    if (!this.distribution.coincidesWith(other.distribution)) {
      using moved = other.redistribute(this.distribution);
      agree(this.runtime, "DistributedArray.maxAbsDifference", () => void compare(moved.local));
    }
    return largestOfAll(this.runtime.communicator, difference);
  }

  // ---- other shapes, distributions, types ---------------------------------------------------------------------------

  /**
   * A part of the array: a half-open range of global indices for each dimension. Negative numbers count from the end, null
   * stands for the first index, the end, or a whole dimension, and dimensions without a range are whole; `[0, 100, 2]` takes
   * every second index. It is a view: it shares memory, and each rank keeps what it has; {@linkcode assign} overwrites the part in the array. Collective.
   *
   * @throws {ShapeError} if there are more ranges than dimensions.
   * @throws {RangeError} if a range is inverted or lies outside, or a step is below 1.
   * @throws {DistributionError} if a step does not divide the blocks of a block-cyclic distribution.
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
  slice(ranges: readonly SliceRange[]): DistributedArray<D> {
    let view!: DistributedArray<D>;
    agreeOnMethod(this, "slice", () => {
      const { ranges: given, steps } = fullSlice(ranges, this.shape);
      const part = this.distribution.slice(given);
      const own = this.distribution.localRanges(this.runtime.rank, given);
      const local = this.local.slice(own.map(([start]) => start), own.map(([start, end]) => end - start));
      view = steps.every((step) => step === 1)
        ? this.#view(local, part, this.order)
        : this.#view(steppedPart(local, part, steps, this.runtime.rank), steppedDistribution(part, steps), this.order);
      return { ranges: given, steps };
    });
    return view;
  }

  /**
   * Overwrite all elements: with a number, or with those of another array, which is repeated where it is smaller, rounded to
   * this dtype, and moved if it is distributed differently. Of a slice it overwrites the part in its array. Returns the
   * array. Collective.
   *
   * @throws {ShapeError} if the shapes do not fit.
   * @throws {DTypeError} if the dtype does not hold the values: floats in an array of integers, say, or a fraction.
   * @throws {RangeError} if a number lies outside the range of an integer dtype.
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
  assign(values: DistributedArray | ElementOf<D> | number): this {
    if (values instanceof DistributedArray) {
      // Whether they move follows from what all ranks know alike: not from whether their memory is there on this one.
      if (this.#isElsewhere(values)) {
        if (values.dtype === this.dtype) values.#moved(this, this, "assign");
        else this.#assignConverted(values);
        return this;
      }
      using all = this.#lacksPartOf(values) ? values.#moved(Replicated, this, "assign") : null;
      elementwise("DistributedArray.assign", applied("positive"), [all ?? values], { into: this }, ASSIGNED);
      return this;
    }
    let fill = (): void => {};
    agreeOnMethod(this, "assign", () => {
      checkExact(this.dtype, values);
      LocalArray.empty(this.dtype, [1]).fill(values);
      fill = () => this.local.fill(values);
      return { values };
    });
    fill();
    return this;
  }

  #assignConverted(values: DistributedArray): void {
    agreeOnMethod(this, "assign", () => {
      checkOwnArray("DistributedArray.assign", "the value", values, this.runtime);
      checkInto("DistributedArray.assign", this, values.dtype, ASSIGNED.refusal);
      return { values: factsOf(values) };
    });
    using converted = values.to({ dtype: this.dtype });
    converted.redistribute(this);
  }

  /** Whether another array of the same shape has its elements on other ranks. */
  #isElsewhere(other: DistributedArray): boolean {
    const isAlike = other.shape.join() === this.shape.join() && other.runtime === this.runtime;
    return isAlike && !other.distribution.isReplicated && !other.distribution.coincidesWith(this.distribution);
  }

  /** Whether ranks lack elements of a smaller array that they repeat. */
  #lacksPartOf(other: DistributedArray): boolean {
    if (other.runtime !== this.runtime) return false;
    const shift = this.shape.length - other.shape.length;
    const isSmaller = shift >= 0 && (shift > 0 || other.size < this.size) &&
      other.shape.every((extent, d) => extent === 1 || extent === this.shape[d + shift]);
    return isSmaller && !holdsNeeded(other.distribution, this.distribution);
  }

  /** The array with its dimensions in reverse order: a view, of flipped distribution and memory order. Local. */
  transpose(): DistributedArray<D> {
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
  redistribute(target: Distribution | DistributedArray<D>): DistributedArray<D> {
    return this.#moved(target, this, "redistribute");
  }

  /** The elements in another distribution, for a method of this array or of another one, on which the ranks agree. */
  #moved(
    target: Distribution | DistributedArray<D>,
    caller: DistributedArray,
    method: "redistribute" | "assign",
  ): DistributedArray<D> {
    const { runtime, dtype, order, shape } = this;
    let result!: DistributedArray<D>;
    let move!: () => void;
    agreeOnMethod(caller, method, () => {
      if (caller !== this) checkOwnArray(`DistributedArray.${method}`, "the value", this, caller.runtime);
      if (target instanceof DistributedArray) {
        checkTarget(this, target);
        result = target;
      } else {
        const { bound } = planOf(runtime, shape, target, { dtype, order });
        const stream = this.local.isOnDevice ? runtime.stream : null;
        const local = LocalArray.empty(dtype, bound.localShape(runtime.rank), order, stream);
        result = new DistributedArray({ runtime, local, distribution: bound, order });
      }
      move = prepareOnce(runtime, this.distribution, result.distribution, this.local, result.local, order);
      const to = target instanceof DistributedArray ? factsOf(target) : String(result.distribution);
      return { to, ...caller !== this && { values: factsOf(this) } };
    });
    move();
    return result;
  }

  /**
   * A new array with the same elements, dense in its own memory. Collective.
   *
   * @throws {StateError} after `free`.
   */
  copy(): DistributedArray<D> {
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
  to<T extends DType = D>(options: ArrayOptions<T> = {}): DistributedArray<T> {
    return this.#converted("to", options);
  }

  #converted<T extends DType>(method: string, options: ArrayOptions<T>): DistributedArray<T> {
    const { runtime } = this;
    let order!: Order;
    const plan = (): PartPlan => {
      const given = readOptions<ArrayOptions>(`the options of ${method}`, options, ARRAY_KEYS);
      const { dtype = this.dtype, memory = this.memory } = given;
      ({ order = this.order } = given);
      const target = { dtype, order, memory };
      checkStorage(runtime, target);
      checkConvertible(this.dtype, dtype);
      return { ...target, shape: this.local.shape, facts: { target } };
    };
    const local = newPart(runtime, (check) => agreeOnMethod(this, method, check), plan, (part) => part.set(this.local));
    return new DistributedArray({ runtime, local, distribution: this.distribution, order });
  }

  // ---- helpers ------------------------------------------------------------------------------------------------------

  #view(local: LocalArray, distribution: Distribution, order: Order): DistributedArray<D> {
    return new DistributedArray({ runtime: this.runtime, local, distribution, order }, this.owner);
  }

  /** A number as it is, parts as an array. */
  // deno-lint-ignore no-explicit-any -- the overloads say of which dtype it is
  #finish(made: unknown): any {
    const isHeld = typeof made === "object" && made !== null && "local" in made;
    return isHeld ? new DistributedArray(made as Held) : made;
  }
}

for (const [name, { arity }] of Object.entries(FUNCTIONS)) {
  let expression: Expression | undefined;
  const value = function (this: DistributedArray, ...given: unknown[]): DistributedArray {
    const others = Array.from({ length: arity - 1 }, (_, i) => given[i] as Operand);
    return DistributedArray.of(
      elementwise(
        name,
        expression ??= applied(name as ElementwiseName),
        [this, ...others],
        given[arity - 1] as ElementwiseOptions,
      ),
    );
  };
  Object.defineProperty(DistributedArray.prototype, name, { value, writable: true, configurable: true });
}
