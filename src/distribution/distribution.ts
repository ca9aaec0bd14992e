/**
 * The base of all distributions: which rank holds which elements of an array.
 *
 * @module
 */
import { DistributionError, ShapeError } from "../errors.ts";
import { checkKeys, describe, isObject, keysOf } from "../options.ts";
import { checkAxes, checkInteger, checkIntegers, checkLength, list, permute } from "./check.ts";
import { type IndexSet, isContiguous, type Range, sameSet } from "./index_map.ts";
import { drawSVG, drawText, type PictureOptions } from "./picture.ts";
import type { ProcessGrid } from "./process_grid.ts";

const PICTURE_KEYS = keysOf<PictureOptions>({ maxBlocks: true });

/** What a distribution of one class says about one array: every rank holds a product of index sets. */
export interface Ownership {
  /** What a rank holds, one set a dimension. Local elements stand in the same order as global ones. */
  sets(rank: number): readonly IndexSet[];
  /** The rank that owns an element; the first one if all do. */
  owner(index: readonly number[]): number;
}

/** A class that distributions can be converted to. */
export interface DistributionClass<T extends Distribution> {
  /** The name of the class. */
  readonly name: string;
  /** The same ownership as an object of this class, or a DistributionError. */
  from(source: Distribution): T;
}

interface Binding {
  readonly globalShape: readonly number[];
  readonly size: number;
  readonly ownership: Ownership;
  readonly sets: (readonly IndexSet[] | undefined)[];
}

/**
 * Says which rank holds which elements of an array. A distribution is made without a shape and means any array
 * (`Slab.X`); {@linkcode bind} gives it a shape and a number of ranks, and with them the index methods. Distributions
 * never change and need no communication.
 *
 * @example
 * ```ts
 * import { Slab } from "@distmath/distmath";
 * const rows = Slab.X.bind([10, 4], 3);
 * console.assert(rows.localShape(0).join() === "4,4"); // 10 = 4 + 3 + 3
 * console.assert(rows.owner([9, 0]) === 2);
 * console.assert(rows.toLocal([9, 1]).join() === "2,1");
 * ```
 */
export abstract class Distribution {
  #binding: Binding | null = null;

  /** Only what the constructor made is one: no Proxy, and nothing that merely has the prototype. */
  static [Symbol.hasInstance](value: unknown): boolean {
    return isObject(value) && #binding in value && Function.prototype[Symbol.hasInstance].call(this, value);
  }

  /** The grid of processes, if the distribution has one. */
  abstract readonly grid: ProcessGrid | null;

  /** The number of dimensions of the arrays that it fits; null when it fits any. */
  abstract readonly dimensions: number | null;

  /**
   * The same distribution for arrays of one shape on `size` ranks. A bound one can be bound again.
   *
   * @throws {DistributionError} when it does not fit the shape or the number of ranks
   */
  abstract bind(globalShape: readonly number[], size: number): Distribution;

  /** Such as `Slab.X`; without the shape. */
  abstract toString(): string;

  /** Whether another one of the same class has the same parameters. */
  protected abstract hasParametersOf(other: this): boolean;

  /** The unbound distribution of the array with its dimensions in the order `axes`. */
  protected abstract permuted(axes: readonly number[]): Distribution;

  /** The distribution of a part of the array, given as one range a dimension, checked and not the whole. */
  protected abstract sliced(ranges: readonly Range[]): Distribution;

  /** Bind this new object, to a shape that is its own. */
  protected attach(globalShape: readonly number[], size: number, ownership: Ownership): this {
    this.#binding = { globalShape: Object.freeze(globalShape), size, ownership, sets: [] };
    return this;
  }

  /** The global shape, or null before `bind`. */
  get globalShape(): readonly number[] | null {
    return this.#binding?.globalShape ?? null;
  }

  /** The number of ranks, or null before `bind`. */
  get size(): number | null {
    return this.#binding?.size ?? null;
  }

  /** Whether `bind` gave it a shape and a number of ranks. */
  get isBound(): boolean {
    return this.#binding !== null;
  }

  /** Whether every rank holds the whole array by definition. */
  get isReplicated(): boolean {
    return false;
  }

  /** Whether all ranks have local parts of the same shape. */
  get isUniform(): boolean {
    const { size } = this.#bound("isUniform");
    const first = this.localShape(0).join();
    for (let rank = 1; rank < size; rank++) if (this.localShape(rank).join() !== first) return false;
    return true;
  }

  /**
   * The shape of the part of a rank; it may have zeros.
   *
   * @throws {RangeError} when there is no such rank
   */
  localShape(rank: number): number[] {
    return this.#sets("localShape", rank).map((set) => set.count);
  }

  /**
   * The rank that owns an element; the first rank if all of them do.
   *
   * @throws {RangeError} when the index lies outside
   */
  owner(globalIndex: readonly number[]): number {
    const { globalShape, ownership } = this.#bound("owner");
    checkIndex("global index", globalIndex, globalShape);
    return ownership.owner(globalIndex);
  }

  /** All ranks that hold an element: one, or all of them if the array is replicated. */
  owners(globalIndex: readonly number[]): number[] {
    const { size } = this.#bound("owners");
    const owner = this.owner(globalIndex);
    return this.isReplicated ? Array.from({ length: size }, (_, rank) => rank) : [owner];
  }

  /** The index of an element within the part of its owner. */
  toLocal(globalIndex: readonly number[]): number[] {
    this.#bound("toLocal");
    return this.indexSets(this.owner(globalIndex)).map((set, dimension) => set.before(globalIndex[dimension]));
  }

  /**
   * The global index of an element of a rank's part.
   *
   * @throws {RangeError} when the local index lies outside that part
   */
  toGlobal(rank: number, localIndex: readonly number[]): number[] {
    const sets = this.#sets("toGlobal", rank);
    checkIndex(`local index on rank ${rank}`, localIndex, sets.map((set) => set.count));
    return sets.map((set, dimension) => set.at(localIndex[dimension]));
  }

  /**
   * What a rank holds, as ascending half-open ranges for each dimension. Its elements are the product of them, and its
   * part has them in the same order as the whole array.
   */
  ranges(rank: number): Range[][] {
    return this.#sets("ranges", rank).map((set) => set.ranges());
  }

  /** What a rank holds, one set a dimension: `ranges` without writing them out. */
  indexSets(rank: number): readonly IndexSet[] {
    return this.#sets("indexSets", rank);
  }

  #sets(method: string, rank: number): readonly IndexSet[] {
    const { size, ownership, sets } = this.#bound(method);
    if (!(rank >= 0 && rank < size && Number.isInteger(rank))) checkInteger("rank", rank, 0, size - 1);
    return sets[rank] ??= ownership.sets(rank);
  }

  /** The part of a sub-range of the array that lies on a rank, in local indices, one range a dimension. */
  localRanges(rank: number, ranges: readonly Range[]): Range[] {
    const checked = this.#checkRanges("localRanges", ranges);
    return this.indexSets(rank).map((set, d): Range => [set.before(checked[d][0]), set.before(checked[d][1])]);
  }

  /**
   * The distribution of a part of the array, where each rank keeps the elements that it has. It is of the same class
   * if that can describe it, else a `Box`, else a `Sliced`.
   *
   * @param ranges one half-open range a dimension
   * @throws {ShapeError} when there is not one range a dimension
   * @throws {RangeError} when a range is inverted or lies outside
   */
  slice(ranges: readonly Range[]): Distribution {
    const { globalShape } = this.#bound("slice");
    const checked = this.#checkRanges("slice", ranges);
    const isAll = checked.every(([start, end], dimension) => start === 0 && end === globalShape[dimension]);
    return isAll ? this : this.sliced(checked);
  }

  /**
   * The distribution of the transposed array: dimension i of the result is dimension `axes[i]`; without `axes` the
   * order is reversed. Each rank keeps its elements. An unbound slab counts as that of a matrix unless `axes` tells
   * the number of dimensions: `Slab.X` becomes `Slab.Y`.
   *
   * @throws {DistributionError} when `axes` is not a permutation
   */
  transpose(axes?: readonly number[]): Distribution {
    const dimensions = this.globalShape?.length ?? this.dimensions ?? axes?.length ?? 2;
    const order = checkAxes(axes, dimensions);
    const result = this.permuted(order);
    return this.#binding ? result.bind(permute(this.#binding.globalShape, order), this.#binding.size) : result;
  }

  /**
   * The same distribution as another class: every rank holds the same elements. Only the local shape of a rank that
   * holds none may differ.
   *
   * @throws {DistributionError} when that class cannot describe it, saying why
   *
   * @example
   * ```ts
   * import { Box, Slab } from "@distmath/distmath";
   * const box = Slab.X.bind([5, 4], 2).to(Box);
   * console.assert(box.toString() === "Box([0:3, 0:4], [3:5, 0:4])");
   * console.assert(box.to(Slab).equals(Slab.X));
   * ```
   */
  to<T extends Distribution>(target: DistributionClass<T>): T {
    if (typeof target?.from === "function") return target.from(this);
    throw new TypeError(`to() takes the class of a distribution, such as Slab or Box, got ${describe(target)}`);
  }

  /**
   * Whether both are of the same class with the same parameters. Shape and number of ranks are compared only if both
   * are bound. See {@linkcode coincidesWith} for what the ranks hold.
   */
  equals(other: Distribution): boolean {
    if (this === other) return true;
    if (!(other instanceof Distribution) || other.constructor !== this.constructor) return false;
    if (!this.hasParametersOf(other as this)) return false;
    const [mine, theirs] = [this.#binding, other.#binding];
    if (!mine || !theirs) return true;
    return mine.size === theirs.size && mine.globalShape.join() === theirs.globalShape.join();
  }

  /** Whether both are bound to the same shape and ranks, and every rank holds the same elements; of whatever class. */
  coincidesWith(other: Distribution): boolean {
    if (!(other instanceof Distribution)) {
      throw new TypeError(`coincidesWith takes a distribution, not ${describe(other)}`);
    }
    const [mine, theirs] = [this.#bound("coincidesWith"), other.#bound("coincidesWith")];
    if (mine.size !== theirs.size || mine.globalShape.join() !== theirs.globalShape.join()) return false;
    if (this.equals(other)) return true;
    const isEmpty = (sets: readonly IndexSet[]) => sets.some((set) => set.count === 0);
    for (let rank = 0; rank < mine.size; rank++) {
      const [a, b] = [this.indexSets(rank), other.indexSets(rank)];
      if (isEmpty(a) && isEmpty(b)) continue;
      if (!a.every((set, dimension) => sameSet(set, b[dimension]))) return false;
    }
    return true;
  }

  /** The bounds `[lower, upper)` of what each rank holds; null if some rank's part is not one box. */
  bounds(): [lower: number[], upper: number[]][] | null {
    const { size } = this.#bound("bounds");
    const boxes: [number[], number[]][] = [];
    for (let rank = 0; rank < size; rank++) {
      const sets = this.indexSets(rank);
      if (!sets.every(isContiguous)) return null;
      const lower = sets.map((set) => set.count === 0 ? 0 : set.at(0));
      boxes.push([lower, sets.map((set, dimension) => lower[dimension] + set.count)]);
    }
    return boxes;
  }

  /**
   * A picture of who owns what, as SVG: rows down, columns to the right, one panel for each step along the other
   * dimensions. A block is one rectangle, coloured by its rank.
   */
  toSVG(options: PictureOptions = {}): string {
    checkKeys("the options of toSVG", options, PICTURE_KEYS);
    const { globalShape, size } = this.#bound("toSVG");
    return drawSVG(this, globalShape, size, options);
  }

  /** A small picture of who owns what for a terminal, in box-drawing characters. */
  toText(options: PictureOptions = {}): string {
    checkKeys("the options of toText", options, PICTURE_KEYS);
    const { globalShape, size } = this.#bound("toText");
    return drawText(this, globalShape, size, options);
  }

  #bound(method: string): Binding {
    if (this.#binding) return this.#binding;
    throw new DistributionError(
      `${this} is not bound to a shape, so ${method} has no answer; bind it first with bind(globalShape, size), ` +
        `or take the distribution of an array`,
    );
  }

  #checkRanges(method: string, ranges: readonly Range[]): readonly Range[] {
    const { globalShape } = this.#bound(method);
    if (!Array.isArray(ranges)) throw new TypeError("ranges must be an array of [start, end], one a dimension");
    checkLength("ranges", ranges, globalShape.length, `the array of shape ${list(globalShape)}`);
    for (const [dimension, range] of ranges.entries()) {
      if (!Array.isArray(range) || range.length !== 2) {
        throw new TypeError(`range ${dimension} must be [start, end], got ${describe(range)}`);
      }
      const [start, end] = range;
      checkInteger(`the start of range ${dimension}`, start, 0, globalShape[dimension]);
      checkInteger(`the end of range ${dimension}`, end, start, globalShape[dimension]);
    }
    return ranges;
  }
}

/**
 * Refuse what is not a distribution; `what` names it in the message.
 *
 * @throws {TypeError} if it is none.
 */
export function checkDistribution(
  distribution: unknown,
  what = "The distribution",
): asserts distribution is Distribution {
  if (distribution instanceof Distribution) return;
  const isItsClass = typeof distribution === "function" &&
    Object.prototype.isPrototypeOf.call(Distribution, distribution);
  const hint = isItsClass ? ` ${INSTEAD_OF_CLASS[distribution.name] ?? "Make one with new."}` : "";
  throw new TypeError(
    `${what} must be one such as Slab.X, a BlockCyclic or Replicated, not ${describe(distribution)}.${hint}`,
  );
}

/** What was meant by the name of a class. */
const INSTEAD_OF_CLASS: Readonly<Record<string, string>> = {
  Slab: "Did you mean Slab.X?",
  ReplicatedDistribution: "Did you mean Replicated?",
};

/**
 * The distribution that a user gave for an array, bound to the array: one that is bound already has to be so to the same
 * shape and number of ranks. `what` names the array in the message.
 *
 * @throws {TypeError} if it is no distribution.
 * @throws {DistributionError} if it does not fit, or is bound to another shape or number of ranks.
 */
export function bindTo(
  distribution: Distribution,
  globalShape: readonly number[],
  size: number,
  what = "the array",
): Distribution {
  checkDistribution(distribution);
  const { globalShape: other, size: otherSize } = distribution;
  if (other !== null && (other.join() !== globalShape.join() || otherSize !== size)) {
    throw new DistributionError(
      `${distribution} is bound to shape ${list(other)} on ${otherSize} ranks, but ${what} has ${list(globalShape)} ` +
        `on ${size}. Pass it unbound.`,
    );
  }
  return distribution.bind(globalShape, size);
}

/** A checked copy of a shape and a number of ranks that fit a distribution's dimensions. */
export function checkBinding(
  distribution: Distribution,
  globalShape: readonly number[],
  size: number,
): readonly number[] {
  const shape = checkIntegers("the global shape", globalShape, 0);
  checkInteger("the number of ranks", size, 1);
  const { dimensions, grid } = distribution;
  if (dimensions !== null && dimensions !== shape.length) {
    throw new DistributionError(
      `${distribution} has ${dimensions} dimensions, but the global shape ${list(shape)} has ${shape.length}; ` +
        `make it with ${shape.length} (a grid takes 1 for a dimension that is not divided)`,
    );
  }
  if (grid && grid.size > size) {
    throw new DistributionError(
      `${distribution} needs ${grid.size} processes, but there are ${size} ranks; ` +
        `take a smaller grid or start more ranks`,
    );
  }
  const beyond = grid?.processes?.find((rank) => rank >= size);
  if (beyond !== undefined) {
    throw new DistributionError(
      `${distribution} names rank ${beyond}, but there are ${size} ranks, 0..${size - 1}; list only these`,
      { ranks: [beyond] },
    );
  }
  return shape;
}

/** The error of a conversion that the target class cannot describe. */
export function conversionError(source: Distribution, target: string, reason: string): DistributionError {
  const shape = source.globalShape ? ` of shape ${list(source.globalShape)} on ${source.size} ranks` : "";
  return new DistributionError(
    `${source}${shape} cannot be written as a ${target}: ${reason}. ` +
      `To move the data to another distribution, use redistribute()`,
  );
}

/** The error of a conversion that depends on the shape, before there is one. */
export function unboundConversionError(source: Distribution, target: string): DistributionError {
  return new DistributionError(
    `whether ${source} is a ${target} depends on the shape and the number of ranks; ` +
      `bind it first with bind(globalShape, size)`,
  );
}

function checkIndex(name: string, index: readonly number[], shape: readonly number[]): void {
  if (!Array.isArray(index) && !ArrayBuffer.isView(index)) {
    throw new TypeError(`${name} must be a list of ${shape.length} coordinates, not ${describe(index)}`);
  }
  if (index.length !== shape.length) {
    throw new ShapeError(
      `${name} ${list(index)} has ${index.length} coordinates, but the shape ${list(shape)} has ${shape.length}`,
    );
  }
  for (let dimension = 0; dimension < shape.length; dimension++) {
    const coordinate = index[dimension];
    if (coordinate >= 0 && coordinate < shape[dimension] && Number.isInteger(coordinate)) continue;
    throw new RangeError(`${name} ${list(index)} lies outside the shape ${list(shape)}`);
  }
}
