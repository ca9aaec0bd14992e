/**
 * Products of vectors, and what lies on a matrix's diagonal.
 *
 * @module
 */
import { withDimensions } from "../../distribution/dimensions.ts";
import { Replicated } from "../../distribution/mod.ts";
import { type DType, dtypeInfo, isNarrowFloat } from "../../dtype/dtype.ts";
import { promote } from "../../dtype/promotion.ts";
import type { ElementOf, FloatOf, Promoted, RealOf, SumOf } from "../../dtype/element_types.ts";
import { DistributionError, ShapeError } from "../../errors.ts";
import { checkBoolean, describe, keysOf, readOptions } from "../../options.ts";
import { agree, makeOnAll } from "../../runtime/agreement.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import { checkArray, runtimeOf } from "../base_array.ts";
import { DistributedArray, type Operand } from "../distributed_array.ts";
import { holdsNeeded, resultDistribution } from "../elementwise/broadcast.ts";
import { changed, checkOwnArray, checkTogether, elementwise, named } from "../elementwise/elementwise.ts";
import { applied, apply, operand } from "../elementwise/expression.ts";
import { LocalArray } from "../local_array.ts";
import { productsOf, sumOfPairs } from "./pair_products.ts";
import { checkAxis } from "./plan.ts";
import { expandDims, reshape, squeeze } from "../shaping/shaping.ts";

/**
 * The sum of the products of the elements of two arrays of one shape, as `sum()` adds them; nothing is conjugated. Products
 * of integers up to 32 bits and of narrow floats are exact before they are added; those of int64 wrap around. Collective.
 *
 * @throws {ShapeError} if the shapes differ.
 * @throws {DistributionError} if they are distributed differently.
 *
 * @example
 * ```ts
 * import { DistributedArray, dot, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using r = DistributedArray.full(runtime, [10], Slab.X, 3);
 * console.log(dot(r, r)); // 90
 * ```
 */
export function dot<A extends DType, B extends DType>(
  a: DistributedArray<A>,
  b: DistributedArray<B>,
): ElementOf<Promoted<A, B>> {
  return sumOfPairs("dot", false, a, b);
}

/**
 * As {@linkcode dot}, with the elements of `a` conjugated. Collective.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Slab, vdot } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using z = DistributedArray.full(runtime, [10], Slab.X, [3, 4], { dtype: "complex128" });
 * console.log(vdot(z, z)); // [250, 0]
 * ```
 */
export function vdot<A extends DType, B extends DType>(
  a: DistributedArray<A>,
  b: DistributedArray<B>,
): ElementOf<Promoted<A, B>> {
  return sumOfPairs("vdot", true, a, b);
}

/**
 * y + alpha x, written into y, in one pass. Returns y. Collective.
 *
 * @throws {DTypeError | ShapeError | DistributionError} as `add(multiply(alpha, x), y, { into: y })` does.
 *
 * @example
 * ```ts
 * import { axpy, DistributedArray, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using x = DistributedArray.full(runtime, [10], Slab.X, 1);
 * using y = DistributedArray.full(runtime, [10], Slab.X, 2);
 * console.log(axpy(-0.5, x, y).sum()); // 15
 * ```
 */
export function axpy<D extends DType>(
  alpha: Operand,
  x: DistributedArray,
  y: DistributedArray<D>,
): DistributedArray<D> {
  const expression = apply("add", apply("multiply", operand(0), operand(1)), operand(2));
  const words = changed("y", ["alpha", "x", "y"]);
  agree(runtimeOf(x, y), "axpy", () => checkArray(y, "axpy: y"));
  return DistributedArray.of(elementwise("axpy", expression, [alpha, x, y], { into: y }, words));
}

/**
 * An array times a number, written into the array, which is returned. Collective.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, scale, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using x = DistributedArray.full(runtime, [10], Slab.X, 3);
 * console.log(scale(x, 0.5).sum()); // 15
 * ```
 */
export function scale<D extends DType>(array: DistributedArray<D>, factor: Operand): DistributedArray<D> {
  agree(runtimeOf(array), "scale", () => checkArray(array, "scale: the array"));
  const words = changed("the array", ["the array", "the factor"]);
  return DistributedArray.of(elementwise("scale", applied("multiply"), [array, factor], { into: array }, words));
}

/**
 * The products of all pairs of elements of two vectors, one of which is Replicated: a matrix whose rows, or columns, are
 * divided as the other one is. Collective.
 *
 * @throws {ShapeError} if one is no vector.
 * @throws {DistributionError} if none is Replicated, and ranks lack elements that they need.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, outer, Replicated, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using column = DistributedArray.generate(runtime, [3], Slab.X, (i) => i + 1);
 * using row = DistributedArray.full(runtime, [2], Replicated, 10);
 * using matrix = outer(column, row);
 * console.log(matrix.shape, matrix.distribution.toString(), matrix.sum()); // [3, 2], Slab.X, 120
 * ```
 */
export function outer<A extends DType, B extends DType>(
  a: DistributedArray<A>,
  b: DistributedArray<B>,
): DistributedArray<Promoted<A, B>> {
  const runtime = runtimeOf(a, b);
  agree(runtime, "outer", () => {
    checkFactors("outer", a, b, runtime);
    if (a.shape.length !== 1 || b.shape.length !== 1) {
      throw new ShapeError(`outer takes two vectors, not arrays of shapes [${a.shape}] and [${b.shape}]. Use reshape.`);
    }
    checkPairs("outer", a, b);
  });
  return pairProducts("outer", expandDims(a, 1), expandDims(b, 0));
}

function checkFactors(name: string, a: DistributedArray, b: DistributedArray, runtime: Runtime): void {
  checkArray(a, `${name}: a`);
  checkArray(b, `${name}: b`);
  checkOwnArray(name, "b", b, runtime);
  checkTogether(name, [a, b]);
}

/** Refuse factors of all pairs of elements of which ranks would lack some, as views with dimensions one beside the other. */
function checkPairs(name: string, a: DistributedArray, b: DistributedArray): void {
  const shape = a.shape.flatMap((extent, d) => [extent, b.shape[d]]);
  const views = [
    withDimensions(a.distribution, a.shape.flatMap((extent) => [extent, 1]), a.shape.flatMap((_, d) => [d, null])),
    withDimensions(b.distribution, b.shape.flatMap((extent) => [1, extent]), b.shape.flatMap((_, d) => [null, d])),
  ];
  const result = resultDistribution(shape, views, a.runtime.size);
  if (views.every((view) => holdsNeeded(view, result))) return;
  throw new DistributionError(
    `${name}: a is distributed as ${a.distribution} and b as ${b.distribution}, and each rank needs all of one. Pass ` +
      "b.redistribute(Replicated).",
  );
}

/** The products of arrays that fit together, for a function of this name. */
function pairProducts<A extends DType, B extends DType>(
  name: string,
  a: DistributedArray<A>,
  b: DistributedArray<B>,
): DistributedArray<Promoted<A, B>> {
  return DistributedArray.of(elementwise(name, applied("multiply"), [a, b], undefined, named("a", "b")));
}

/**
 * The sums of the products of two arrays' elements along a dimension, the last one by default, with those of `a` conjugated.
 * Collective; throws as {@linkcode multiply} and `sum` do.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Slab, vecdot } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 3], Slab.X, 2);
 * console.log(vecdot(a, a).format()); // [12. 12. 12. 12.]
 * ```
 */
export function vecdot<A extends DType, B extends DType>(
  a: DistributedArray<A>,
  b: DistributedArray<B>,
  options: { axis?: number } = {},
): DistributedArray<SumOf<Promoted<A, B>>> {
  let axis!: number;
  agree(runtimeOf(a, b), "vecdot", () => {
    checkArray(a, "vecdot: a");
    checkArray(b, "vecdot: b");
    if (a.shape.length === 1 && b.shape.length === 1) {
      throw new ShapeError(
        "vecdot of two vectors would leave no dimension. Take vdot(a, b), which returns the number.",
      );
    }
    ({ axis = -1 } = readOptions("the options of vecdot", options, keysOf<typeof options>({ axis: true })));
    return { axis: checkAxis(axis, Math.max(a.shape.length, b.shape.length)) };
  });
  using products = productsOf("vecdot", a, b, true);
  const sums = products.sum({ axis });
  const dtype = promote(a.dtype, b.dtype);
  if (dtypeInfo(dtype).isInteger || sums.dtype === dtype) return sums as DistributedArray<SumOf<Promoted<A, B>>>;
  using wide = sums;
  return wide.to({ dtype }) as DistributedArray<SumOf<Promoted<A, B>>>;
}

/**
 * The Kronecker product of two arrays of as many dimensions: each element of `a` times all of `b`, block by block. It is
 * divided along dimension 0, if `a` is divided along it; `b` is Replicated. Elements move. Collective.
 *
 * @throws {ShapeError} if the numbers of dimensions differ.
 * @throws {DistributionError} if ranks lack elements of `b`.
 *
 * @example
 * ```ts
 * import { DistributedArray, eye, initialize, kron, Replicated, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using ones = DistributedArray.full(runtime, [2, 2], Replicated, 1);
 * console.log(kron(eye(runtime, 3, Slab.X), ones).sum()); // 12
 * ```
 */
export function kron<A extends DType, B extends DType>(
  a: DistributedArray<A>,
  b: DistributedArray<B>,
): DistributedArray<Promoted<A, B>> {
  const runtime = runtimeOf(a, b);
  agree(runtime, "kron", () => {
    checkFactors("kron", a, b, runtime);
    if (a.shape.length !== b.shape.length) {
      throw new ShapeError(
        `kron takes arrays of as many dimensions, not of shapes [${a.shape}] and [${b.shape}]. Use expandDims.`,
      );
    }
    checkPairs("kron", a, b);
    return { a: a.shape, b: b.shape };
  });
  const spread = <D extends DType>(array: DistributedArray<D>, first: 0 | 1) =>
    array.shape.reduce((wide, _, d) => expandDims(wide, 2 * d + first), array);
  using products = pairProducts("kron", spread(a, 1), spread(b, 0));
  return reshape(products, a.shape.map((extent, d) => extent * b.shape[d]));
}

/**
 * The elements on the diagonal of a matrix, a Replicated vector. Collective.
 *
 * @throws {ShapeError} if it is no matrix.
 *
 * @example
 * ```ts
 * import { diagonal, fromFunction, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using matrix = fromFunction(runtime, [3, 2], Slab.X, (i, j) => 10 * i - j);
 * using elements = diagonal(matrix);
 * console.log(elements.format()); // [0. 9.]
 * ```
 */
export function diagonal<D extends DType>(matrix: DistributedArray<D>): DistributedArray<D> {
  return diagonalOf("diagonal", matrix);
}

/** As {@linkcode diagonal}, for a function of this name. */
function diagonalOf<D extends DType>(name: string, matrix: DistributedArray<D>): DistributedArray<D> {
  const runtime = runtimeOf(matrix);
  let local!: LocalArray<D>;
  let words!: Int32Array<ArrayBuffer>;
  agree(runtime, name, () => {
    checkArray(matrix, `${name}: the matrix`);
    checkOwnArray(name, "the matrix", matrix, runtime);
    const { shape, dtype, distribution } = matrix;
    if (shape.length !== 2) throw new ShapeError(`${name} takes a matrix, not an array of shape ${describe(shape)}.`);
    const { itemSize } = dtypeInfo(dtype);
    const count = Math.min(shape[0], shape[1]);
    const memory = LocalArray.zeros(dtype, [Math.ceil(count * itemSize / 8) * 8 / itemSize]);
    const { data } = memory;
    words = new Int32Array(data.buffer, data.byteOffset, data.byteLength / 4);
    local = memory.slice([0], [count]);
    const [rows, columns] = distribution.indexSets(runtime.rank);
    for (const [start, end] of rows.ranges(0, count)) {
      for (const [first, last] of columns.ranges(start, end)) {
        const size = last - first;
        const block = matrix.local.slice([rows.before(first), columns.before(first)], [size, size]);
        local.slice([first], [size]).set(block.reshaped([size], [block.strides[0] + block.strides[1]]));
      }
    }
    return { shape, dtype, distribution: String(distribution) };
  });
  // One rank has each element, and zeros are everywhere else: the bits add up to themselves.
  if (!matrix.distribution.isReplicated) runtime.communicator.allReduce(words, { into: words });
  const isOnDevice = matrix.local.isOnDevice;
  const part = isOnDevice ? makeOnAll(runtime, name, () => local.toDevice(runtime.stream!)) : local;
  return DistributedArray.wrap(runtime, part, Replicated.bind([local.size], runtime.size), "C");
}

/**
 * The sum of the elements on the diagonal of a matrix. Collective.
 *
 * @throws {ShapeError} if it is no matrix.
 *
 * @example
 * ```ts
 * import { eye, initialize, Slab, trace } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using identity = eye(runtime, 5, Slab.X);
 * console.log(trace(identity)); // 5
 * ```
 */
export function trace<D extends DType>(matrix: DistributedArray<D>): ElementOf<D> {
  using elements = diagonalOf("trace", matrix);
  return elements.sum();
}

/** Options of matrix norms. */
export interface MatrixNormOptions {
  /**
   * "fro", Frobenius' (the default); 1, the largest sum of magnitudes of a column; Infinity, that of a row. There is no 2, the
   * largest singular value.
   */
  ord?: "fro" | number;
  /** Which dimensions of an array are the rows and the columns of its matrices. */
  axis?: readonly [rows: number, columns: number];
  /** Whether these dimensions stay, with extent 1. Needs `axis`. */
  keepDims?: boolean;
}

const MATRIX_NORM_KEYS = keysOf<MatrixNormOptions>({ ord: true, axis: true, keepDims: true });

/**
 * The norm of a matrix as one, or with `axis` of each matrix in an array of more dimensions; the method `norm` is that of
 * elements as a vector. Collective.
 *
 * @throws {RangeError} if `ord` or `axis` is none of the allowed.
 * @throws {ShapeError} if it is no matrix, all dimensions would disappear, or a matrix has no elements.
 *
 * @example
 * ```ts
 * import { fromFunction, initialize, matrixNorm, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = fromFunction(runtime, [3, 2], Slab.X, (i, j) => 10 * i - j);
 * console.log(matrixNorm(a, { ord: 1 }), matrixNorm(a, { ord: Infinity })); // 30 39
 * ```
 */
export function matrixNorm(array: DistributedArray, options?: { ord?: "fro" | number }): number;
/** As above, of each matrix in an array of more dimensions, or with `keepDims` as an array. */
export function matrixNorm<D extends DType>(
  array: DistributedArray<D>,
  options: MatrixNormOptions & { axis: readonly [rows: number, columns: number] },
): DistributedArray<RealOf<FloatOf<D>>>;
export function matrixNorm(array: DistributedArray, options: MatrixNormOptions = {}): number | DistributedArray {
  let ord!: "fro" | number;
  let axes: number[] | null = null;
  let keepDims!: boolean;
  agree(runtimeOf(array), "matrixNorm", () => {
    checkArray(array, "matrixNorm: the array");
    const { shape } = array;
    const given = readOptions("the options of matrixNorm", options, MATRIX_NORM_KEYS);
    ({ ord = "fro", keepDims = false } = given);
    if (ord !== "fro" && ord !== 1 && ord !== Infinity) {
      const why = ord === 2 ? " That norm, the largest singular value, is not computed here." : "";
      throw new RangeError(`ord of a matrix must be "fro", 1 or Infinity, not ${describe(ord)}.${why}`);
    }
    checkBoolean("keepDims", keepDims);
    axes = given.axis === undefined ? null : checkMatrixAxes(given.axis, shape, keepDims);
    if (axes === null && keepDims) {
      throw new TypeError(`keepDims goes with axis. Pass the dimensions too, or leave it out.`);
    }
    if (axes === null && shape.length !== 2) {
      throw new ShapeError(
        `matrixNorm takes a matrix, not an array of shape [${shape}]. Name rows and columns by axis.`,
      );
    }
    const [, across] = directionsOf(ord, axes);
    if (ord !== "fro" && shape[across] === 0) {
      throw new ShapeError(
        `matrixNorm: matrices without ${ord === 1 ? "columns" : "rows"}, as in an array of shape [${shape}], have no ` +
          `largest sum. Take ord "fro", or an array with elements.`,
      );
    }
    return { ord, axes, keepDims };
  });
  const place = axes as number[] | null;
  if (ord === "fro") return place === null ? array.norm() : array.norm({ axis: place, keepDims });
  const [along, across] = directionsOf(ord, place);
  const { isComplex, real } = dtypeInfo(array.dtype);
  // A number is not rounded to a narrow dtype, nor what it is the largest of.
  const memory = array.local.isOnDevice ? "device" : "host";
  using wide = place === null && isNarrowFloat(real)
    ? array.to({ dtype: isComplex ? "complex64" : "float32", memory })
    : null;
  using sums = (wide ?? array).norm({ ord: 1, axis: along, keepDims: true });
  if (place === null) return sums.max();
  using most = sums.max({ axis: across, keepDims: true });
  return (keepDims ? most : squeeze(most, place)).copy();
}

/** The dimension along which magnitudes are added, and that of the sums of which the largest is taken. */
function directionsOf(ord: "fro" | number, axes: readonly number[] | null): readonly number[] {
  const [rows, columns] = axes ?? [0, 1];
  return ord === Infinity ? [columns, rows] : [rows, columns];
}

function checkMatrixAxes(given: unknown, shape: readonly number[], keepDims: boolean): number[] {
  const axes = (Array.isArray(given) ? given : []).map((axis) => checkAxis(axis, shape.length));
  if (axes.length !== 2 || axes[0] === axes[1]) {
    throw new RangeError(`axis must name the two dimensions of the matrices, not ${describe(given)}.`);
  }
  if (shape.length > 2 || keepDims) return axes;
  throw new ShapeError(
    `Both dimensions would disappear. Leave axis out for a number, or pass keepDims: true for an array.`,
  );
}
