/**
 * Arrays of other shapes, and arrays put together.
 *
 * @module
 */
import { withDimensions } from "../../distribution/dimensions.ts";
import { bindTo } from "../../distribution/distribution.ts";
import { Box, type Corners, type Distribution, Replicated, Slab, Sliced } from "../../distribution/mod.ts";
import type { DType } from "../../dtype/dtype.ts";
import type { Promoted } from "../../dtype/element_types.ts";
import { promote } from "../../dtype/promotion.ts";
import { ShapeError } from "../../errors.ts";
import { describe, keysOf, readList, readOptions } from "../../options.ts";
import { agree } from "../../runtime/agreement.ts";
import { checkArray, runtimeOf } from "../base_array.ts";
import { DistributedArray } from "../distributed_array.ts";
import { broadcastShapes, resultDistribution } from "../elementwise/broadcast.ts";
import { checkOwnArray, checkTogether } from "../elementwise/elementwise.ts";
import { positive } from "../elementwise/functions.ts";
import { checkShape, sizeOfShape, stridesOf } from "../layout.ts";
import { checkAxes, checkAxis } from "../reductions/plan.ts";

/** Where the result of a function that moves elements shall be. */
export interface PlacedOptions {
  /** The distribution of the result. */
  distribution?: Distribution;
}

/** Options of {@linkcode concatenate} and {@linkcode stack}. */
export interface JoinOptions extends PlacedOptions {
  /** The dimension along which arrays are put together; 0 by default. */
  axis?: number;
}

const PLACED_KEYS = keysOf<PlacedOptions>({ distribution: true });
const JOIN_KEYS = keysOf<JoinOptions>({ axis: true, distribution: true });

/** Agree on a call about an array, by what `check` returns. */
function agreeOnCall(name: string, array: DistributedArray, check: () => Record<string, unknown>): void {
  agree(runtimeOf(array), name, () => {
    checkArray(array, `${name}: the array`);
    const { shape, dtype, distribution, order } = array;
    return { shape, dtype, distribution: String(distribution), order, ...check() };
  });
}

/** A view with other dimensions: dimension d is dimension `sources[d]` of the array, or a new one of extent 1. */
function withAxes<D extends DType>(
  array: DistributedArray<D>,
  sources: readonly (number | null)[],
): DistributedArray<D> {
  const { local, distribution, shape, order } = array;
  const to = withDimensions(distribution, sources.map((from) => from === null ? 1 : shape[from]), sources);
  const strides = sources.map((from) => from === null ? 1 : local.strides[from]);
  // Of a rank without elements the extent 0 may be one that is left out.
  return DistributedArray.share(array, local.reshaped(to.localShape(array.runtime.rank), strides), to, order);
}

/**
 * The array with a new dimension of extent 1, at position `axis` of the result: a view. Collective.
 *
 * @throws {RangeError} if there is no such position.
 *
 * @example
 * ```ts
 * import { DistributedArray, expandDims, initialize, multiply, Replicated, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.generate(runtime, [4], Slab.X, (i) => i);
 * using b = DistributedArray.generate(runtime, [3], Replicated, (j) => j);
 * using products = multiply(expandDims(a, 1), b);
 * console.log(products.shape, products.sum()); // [4, 3] 18
 * ```
 */
export function expandDims<D extends DType>(array: DistributedArray<D>, axis: number): DistributedArray<D> {
  let view!: DistributedArray<D>;
  agreeOnCall("expandDims", array, () => {
    const at = checkAxis(axis, array.shape.length + 1);
    view = withAxes(array, [...array.shape.keys() as Iterable<number | null>].toSpliced(at, 0, null));
    return { axis: at };
  });
  return view;
}

/**
 * The array without dimensions of extent 1: a view. Collective.
 *
 * @throws {ShapeError} if an extent is not 1, or no dimension would be left.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Slab, squeeze } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using column = DistributedArray.full(runtime, [4, 1], Slab.X, 2);
 * console.log(squeeze(column, 1).shape); // [4]
 * ```
 */
export function squeeze<D extends DType>(
  array: DistributedArray<D>,
  axis: number | readonly number[],
): DistributedArray<D> {
  let view!: DistributedArray<D>;
  agreeOnCall("squeeze", array, () => {
    const { shape } = array;
    const axes = checkAxes(axis, shape.length);
    if (axes.some((d) => shape[d] !== 1) || axes.length === shape.length) {
      throw new ShapeError(
        `squeeze takes away dimensions of extent 1, and leaves one at least; of shape [${shape}] it was to take ` +
          `${axes.join(", ")}.`,
      );
    }
    view = withAxes(array, [...shape.keys()].filter((d) => !axes.includes(d)));
    return { axes };
  });
  return view;
}

/**
 * A new array of a larger shape, in which the array is repeated along dimensions that it lacks, or where its extent is 1.
 * Collective.
 *
 * @throws {ShapeError} if the array does not fit the shape.
 *
 * @example
 * ```ts
 * import { broadcastTo, DistributedArray, initialize, Replicated } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using row = DistributedArray.full(runtime, [3], Replicated, 2);
 * using rows = broadcastTo(row, [4, 3]);
 * console.log(rows.shape, rows.sum()); // [4, 3], 24
 * ```
 */
export function broadcastTo<D extends DType>(
  array: DistributedArray<D>,
  shape: readonly number[],
): DistributedArray<D> {
  let extents!: readonly number[];
  let distribution!: Distribution;
  agreeOnCall("broadcastTo", array, () => {
    extents = checkShape(shape);
    if (broadcastShapes("broadcastTo", [array.shape, extents]).join() !== extents.join()) {
      throw new ShapeError(`broadcastTo: an array of shape [${array.shape}] does not fit into [${extents}].`);
    }
    distribution = resultDistribution(extents, [array.distribution], array.runtime.size);
    return { to: extents };
  });
  const { runtime, dtype, order, local: { isOnDevice } } = array;
  const memory = isOnDevice ? "device" : "host";
  return positive(array, { into: DistributedArray.zeros(runtime, extents, distribution, { dtype, order, memory }) });
}

/**
 * A new array of the same elements, in C order, in another shape; one extent may be -1, for what is left. It is divided along
 * dimension 0, or Replicated if the array is, unless a distribution is named. Elements move. Collective.
 *
 * @throws {ShapeError} if the shape has not as many elements.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, reshape, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.generate(runtime, [12], Slab.X, (i) => i);
 * using matrix = reshape(a, [3, -1]);
 * console.log(matrix.format());
 * ```
 */
export function reshape<D extends DType>(
  array: DistributedArray<D>,
  shape: readonly number[],
  options: PlacedOptions = {},
): DistributedArray<D> {
  let extents!: readonly number[];
  let to!: Distribution;
  agreeOnCall("reshape", array, () => {
    const { distribution = array.distribution.isReplicated ? Replicated : Slab.X } = readOptions(
      "the options of reshape",
      options,
      PLACED_KEYS,
    );
    extents = fullShape(shape, array.size);
    to = bindTo(distribution, extents, array.runtime.size, "the reshaped array");
    return { to: extents, distribution: String(to) };
  });
  const { runtime, dtype, local: { isOnDevice } } = array;
  if (array.size === 0) {
    return DistributedArray.zeros(runtime, extents, to, { dtype, memory: isOnDevice ? "device" : "host" });
  }
  using ordered = array.to({ order: "C" });
  using rows = ordered.redistribute(array.distribution.isReplicated ? Replicated : Slab.X);
  // Rows of an array in C order are one piece of it; pieces move to the ranks that have them in rows of the new shape.
  const isWhole = array.distribution.isReplicated;
  const slab = (isWhole ? Replicated : Slab.X).bind(extents, runtime.size);
  using flat = DistributedArray.share(rows, asLine(rows), linesOf(rows.distribution), "C");
  const moved = flat.redistribute(linesOf(slab));
  const own = slab.localShape(runtime.rank);
  const isThere = slab.coincidesWith(to);
  const local = moved.local.reshaped(own, stridesOf(own, "C"));
  const result = DistributedArray.wrap(runtime, local, isThere ? to : slab, "C");
  if (isThere) return result;
  const placed = result.redistribute(to);
  result.free();
  return placed;
}

function asLine<D extends DType>({ local }: DistributedArray<D>) {
  return local.reshaped([local.size], [1]);
}

/** The distribution of the elements one after the other, of an array that is divided along dimension 0, or not. */
function linesOf(distribution: Distribution): Distribution {
  const { globalShape, size } = distribution;
  const total = sizeOfShape(globalShape!);
  if (distribution.isReplicated) return Replicated.bind([total], size!);
  const row = total / globalShape![0];
  const boxes = Array.from({ length: size! }, (_, rank): Corners => {
    const [[start, end] = [0, 0]] = distribution.ranges(rank)[0];
    return [[start * row], [end * row]];
  });
  return new Box(boxes).bind([total], size!);
}

/** A shape of so many elements, with what -1 stands for. */
function fullShape(given: readonly number[], size: number): readonly number[] {
  const extents = Array.isArray(given) ? [...given] : [];
  const known = extents.filter((extent) => extent !== -1);
  const open = extents.length - known.length;
  if (open === 0 || !known.every((extent) => Number.isInteger(extent) && extent >= 0)) {
    const shape = checkShape(Array.isArray(given) ? extents : given);
    if (sizeOfShape(shape) === size) return shape;
  }
  const shown = describe(extents);
  if (open > 1) {
    throw new ShapeError(
      `reshape: the shape ${shown} has ${open} extents of -1, but only one may be -1, for what is left of ${size} ` +
        `elements. Give the others.`,
    );
  }
  const product = sizeOfShape(known);
  if (open === 1 && product === 0 && size === 0) {
    throw new ShapeError(
      `reshape: in the shape ${shown} of an array without elements, -1 could stand for any extent. Give it.`,
    );
  }
  if (open === 1 && product > 0 && size % product === 0) {
    return checkShape(extents.map((extent) => extent === -1 ? size / product : extent));
  }
  const advice = open === 0
    ? `Give extents whose product is ${size}`
    : `No whole number times ${product} is ${size}; give extents beside the -1 whose product divides ${size}`;
  throw new ShapeError(`reshape: ${size} elements do not make an array of shape ${shown}. ${advice}.`);
}

/** Agree on arrays that are put together. */
function agreeOnAll(
  name: string,
  arrays: readonly DistributedArray[],
  options: JoinOptions | undefined,
  check: (all: readonly DistributedArray[], given: JoinOptions) => Record<string, unknown>,
): readonly DistributedArray[] {
  const list = readList(arrays);
  const all = list.items ?? [];
  const runtime = runtimeOf(...all);
  agree(runtime, name, () => {
    list.check();
    if (all.length === 0) {
      throw new TypeError(`${name} takes a list of arrays, one at least, not ${describe(arrays)}.`);
    }
    all.forEach((array, i) => {
      checkArray(array, `${name}: array ${i}`);
      checkOwnArray(name, `array ${i}`, array, runtime);
    });
    checkTogether(name, all);
    const given = readOptions<JoinOptions>(`the options of ${name}`, options, JOIN_KEYS);
    const facts = all.map(({ shape, dtype, distribution }) => ({ shape, dtype, distribution: String(distribution) }));
    return { arrays: facts, ...check(all, given) };
  });
  return all;
}

/**
 * A new array of arrays one after the other along a dimension. It has the distribution of the first one, for its own shape,
 * unless one is named (`Slab.X` where that is a Box or that of a slice), and their common dtype. Elements move. Collective.
 *
 * @throws {ShapeError} if the arrays differ in another dimension.
 *
 * @example
 * ```ts
 * import { concatenate, DistributedArray, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [2, 3], Slab.X, 1);
 * using b = DistributedArray.full(runtime, [4, 3], Slab.X, 2);
 * using c = concatenate([a, b]);
 * console.log(c.shape, c.sum()); // [6, 3] 30
 * ```
 */
export function concatenate<D extends DType>(
  arrays: readonly DistributedArray<D>[],
  options?: JoinOptions,
): DistributedArray<Promoted<D, D>> {
  return joined("concatenate", arrays, options);
}

/** As {@linkcode concatenate}, for a function of this name. */
function joined<D extends DType>(
  name: string,
  arrays: readonly DistributedArray<D>[],
  options?: JoinOptions,
): DistributedArray<Promoted<D, D>> {
  let axis!: number;
  let shape!: readonly number[];
  let dtype!: Promoted<D, D>;
  let to!: Distribution;
  const all = agreeOnAll(name, arrays, options, (all, given) => {
    const [first] = all;
    axis = checkAxis(given.axis === undefined ? 0 : given.axis, first.shape.length);
    for (const other of all) {
      const isAlike = other.shape.length === first.shape.length &&
        other.shape.every((extent, d) => d === axis || extent === first.shape[d]);
      if (isAlike) continue;
      throw new ShapeError(
        `${name}: arrays of shapes [${first.shape}] and [${other.shape}] differ beside dimension ${axis}.`,
      );
    }
    shape = first.shape.with(axis, all.reduce((sum, other) => sum + other.shape[axis], 0));
    dtype = all.map((array): DType => array.dtype).reduce(promote) as typeof dtype;
    const own = first.distribution instanceof Box || first.distribution instanceof Sliced ? Slab.X : first.distribution;
    const { size } = first.runtime;
    to = given.distribution === undefined
      ? own.bind(shape, size)
      : bindTo(given.distribution, shape, size, "the result");
    return { axis, to: String(to) };
  });
  const [{ runtime, order, memory }] = all;
  const result = DistributedArray.zeros(runtime, shape, to, { dtype, order, memory });
  let start = 0;
  for (const array of all) {
    const end = start + array.shape[axis];
    result.slice(shape.map((_, d) => d === axis ? [start, end] : null)).assign(array);
    start = end;
  }
  return result;
}

/**
 * A new array of arrays of one shape, side by side along a new dimension, `axis` of the result. Collective; throws as
 * {@linkcode concatenate} does, whose options it takes.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Slab, stack } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4], Slab.X, 1);
 * using b = DistributedArray.full(runtime, [4], Slab.X, 2);
 * using pairs = stack([a, b], { axis: 1 });
 * console.log(pairs.shape, pairs.sum()); // [4, 2], 12
 * ```
 */
export function stack<D extends DType>(
  arrays: readonly DistributedArray<D>[],
  options?: JoinOptions,
): DistributedArray<Promoted<D, D>> {
  let axis!: number;
  let place: PlacedOptions = {};
  const all = agreeOnAll("stack", arrays, options, (list, given) => {
    const [first] = list;
    axis = checkAxis(given.axis === undefined ? 0 : given.axis, first.shape.length + 1);
    const other = list.find(({ shape }) => shape.join() !== first.shape.join());
    if (other !== undefined) {
      throw new ShapeError(
        `stack: the arrays must have one shape; they have [${first.shape}] and [${other.shape}]. ` +
          "Bring them to one by broadcastTo() or reshape().",
      );
    }
    if (given.distribution !== undefined) place = { distribution: given.distribution };
    return { axis };
  });
  return joined("stack", all.map((array) => expandDims(array as DistributedArray<D>, axis)), { ...place, axis });
}

/**
 * A new array whose elements stand `shift` places further along a dimension; those that leave it at one end come in at the
 * other. Several dimensions have a shift each, or one for all; shifts of a dimension that is named twice add up. Without a
 * dimension they move on in C order, from the end of a row to the next one. Elements move. Collective.
 *
 * @throws {RangeError | TypeError} if a shift is no whole number, there is no such dimension, or there are not as many shifts
 * as dimensions.
 *
 * @example
 * ```ts
 * import { fromFunction, initialize, roll, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = fromFunction(runtime, [3, 4], Slab.X, (i, j) => 10 * i + j);
 * console.log(roll(a, [1, -1], [0, 1]).at(0, 0)); // 21
 * ```
 */
export function roll<D extends DType>(
  array: DistributedArray<D>,
  shift: number | readonly number[],
  axis?: number | readonly number[],
): DistributedArray<D> {
  let shifts!: number[];
  agreeOnCall("roll", array, () => {
    const isWhole = axis === undefined;
    shifts = isWhole ? checkShifts(shift, 0, [array.size]) : checkShifts(shift, axis, array.shape);
    return { shifts, isWhole };
  });
  const { runtime, shape, distribution, dtype, order, memory } = array;
  const result = DistributedArray.zeros(runtime, shape, distribution, { dtype, order, memory });
  if (axis === undefined) {
    using line = reshape(array, [array.size]);
    using rolled = roll(line, shifts, [0]);
    using back = reshape(rolled, shape);
    return result.assign(back);
  }
  // Along each dimension what stays together, and what comes in at the other end: where from, where to, how many.
  const pieces = shape.map((extent, d) =>
    [[0, shifts[d], extent - shifts[d]], [extent - shifts[d], 0, shifts[d]]].filter(([, , length]) => length > 0)
  );
  const combined = pieces.reduce<number[][][]>(
    (all, along) => all.flatMap((piece) => along.map((one) => [...piece, one])),
    [[]],
  );
  for (const piece of combined) {
    const part = (from: DistributedArray, end: 0 | 1) =>
      from.slice(piece.map((one) => [one[end], one[end] + one[2]] as [number, number]));
    part(result, 1).assign(part(array, 0));
  }
  return result;
}

/** How far elements go along each dimension: from 0 to less than its extent. */
function checkShifts(shift: unknown, axis: unknown, shape: readonly number[]): number[] {
  const axes = Array.isArray(axis) ? [...axis] : [axis];
  const given = Array.isArray(shift) ? [...shift] : axes.map(() => shift);
  if (given.length !== axes.length) {
    throw new RangeError(`roll takes a shift for each axis, or one for all: not ${given.length} for ${axes.length}.`);
  }
  const shifts = shape.map(() => 0);
  given.forEach((by, i) => {
    const along = checkAxis(axes[i], shape.length);
    if (!Number.isSafeInteger(by)) {
      const kind = typeof by === "number" ? RangeError : TypeError;
      throw new kind(`The shift must be a whole number, not ${describe(by)}.`);
    }
    const extent = Math.max(1, shape[along]);
    shifts[along] = (((shifts[along] + by % extent) % extent) + extent) % extent;
  });
  return shifts;
}
