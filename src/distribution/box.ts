/**
 * Boxes: each rank holds one box of the array, given by its corners.
 *
 * @module
 */
import { DistributionError, ShapeError } from "../errors.ts";
import { type Agreeing, exchange } from "../runtime/agreement.ts";
import { noteOwnClass } from "../options.ts";
import { checkIntegers, list, permute } from "./check.ts";
import { checkBinding, conversionError, Distribution, unboundConversionError } from "./distribution.ts";
import { interval, type Range } from "./index_map.ts";

/** The corners of a box: from `lower` up to, but not with, `upper`. Equal coordinates make an empty box. */
export type Corners = readonly [lower: readonly number[], upper: readonly number[]];

/**
 * Each rank holds one box. Together they cover the array without overlap; a box may be empty, and then lie anywhere.
 *
 * @example
 * ```ts
 * import { Box } from "@distmath/distmath";
 * const pencils = new Box([[[0, 0], [2, 4]], [[2, 0], [4, 3]], [[2, 3], [4, 4]]]);
 * const bound = pencils.bind([4, 4], 3);
 * console.assert(bound.owner([3, 3]) === 2);
 * ```
 */
export class Box extends Distribution {
  static {
    noteOwnClass(this);
  }

  /** The corners of each rank's box. */
  readonly boxes: readonly Corners[];
  /** Boxes need not lie on a grid. */
  override readonly grid: null = null;
  /** The number of dimensions of the boxes. */
  override readonly dimensions: number;

  /**
   * The distribution with these boxes, `[lower, upper]` for each rank in order.
   *
   * @throws {ShapeError} when corners differ in their number of coordinates
   * @throws {DistributionError} when a box is inverted or two overlap; it names the ranks
   */
  constructor(boxes: readonly Corners[]) {
    super();
    if (!Array.isArray(boxes) || boxes.length === 0) {
      throw new TypeError("a Box takes the corners [lower, upper] of every rank's box, at least one");
    }
    this.boxes = boxes.map(checkCorners);
    this.dimensions = this.boxes[0][0].length;
    checkDisjoint(this.boxes);
  }

  /**
   * The box distribution of an array of which this rank holds `[lower, upper)`; bound to the shape that all boxes
   * together have. Collective.
   *
   * @throws {ShapeError} when corners differ in their number of coordinates
   * @throws {DistributionError} when a box is inverted, two overlap or there is a hole: on every rank, naming them
   */
  static fromLocal(runtime: Agreeing, lower: readonly number[], upper: readonly number[]): Box {
    const boxes = exchange(runtime, "Box.fromLocal", (): Corners => [...checkCorners([lower, upper], null)]);
    const box = new Box(boxes);
    const filled = boxes.filter((corners) => volume(corners) > 0);
    const used = filled.length > 0 ? filled : boxes;
    const extents = box.boxes[0][0].map((_, dimension) => Math.max(...used.map(([, top]) => top[dimension])));
    return box.bind(extents, boxes.length);
  }

  /**
   * The boxes of an array of one shape.
   *
   * @throws {DistributionError} when there is not one box a rank, a box lies outside the shape, or none holds some
   * element; it names the box or the element
   */
  override bind(globalShape: readonly number[], size: number): Box {
    const shape = checkBinding(this, globalShape, size);
    if (this.boxes.length !== size) {
      throw new DistributionError(
        `a Box of ${this.boxes.length} boxes does not fit ${size} ranks; give one box a rank, an empty one if need be`,
      );
    }
    checkCover(this.boxes, shape);
    // An empty box may lie outside: what takes part in a dimension without it has the extents of the shape nevertheless.
    const sets = this.boxes.map(([lower, upper]) =>
      shape.map((extent, d) => interval(Math.min(lower[d], extent), Math.min(upper[d], extent)))
    );
    return new Box(this.boxes).attach(shape, size, {
      sets: (rank) => sets[rank],
      owner: (index) => this.boxes.findIndex((corners) => contains(corners, index)),
    });
  }

  /** Such as `Box([0:2, 0:4], [2:4, 0:4])`, one range a dimension for each rank. */
  override toString(): string {
    return `Box(${this.boxes.map(show).join(", ")})`;
  }

  /**
   * The boxes with the same ownership, if every rank holds one box.
   *
   * @throws {DistributionError} when a rank holds more than one, or all hold everything
   */
  static from(source: Distribution): Box {
    if (source instanceof Box) return source;
    const { globalShape, size } = source;
    if (globalShape === null || size === null) throw unboundConversionError(source, "Box");
    if (source.isReplicated && size > 1) throw conversionError(source, "Box", "every rank holds all of it");
    const boxes = source.bounds();
    if (boxes) return new Box(boxes).bind(globalShape, size);
    throw conversionError(source, "Box", "some rank holds several separate pieces of a dimension");
  }

  /** The boxes of a part of an array, or null if some rank's share of it is not one box. For `slice`. */
  static ofSlice(source: Distribution, ranges: readonly Range[]): Box | null {
    const size = source.size!;
    const boxes: Corners[] = [];
    for (let rank = 0; rank < size; rank++) {
      const sets = source.indexSets(rank);
      const locals = source.localRanges(rank, ranges);
      const lower: number[] = [];
      const upper: number[] = [];
      for (const [dimension, [start, end]] of locals.entries()) {
        const [first, last] = start < end ? [sets[dimension].at(start), sets[dimension].at(end - 1)] : [0, -1];
        if (last - first !== end - start - 1) return null;
        const offset = start < end ? ranges[dimension][0] : 0;
        lower.push(first - offset);
        upper.push(last + 1 - offset);
      }
      boxes.push([lower, upper]);
    }
    return new Box(boxes).bind(ranges.map(([start, end]) => end - start), size);
  }

  /** See {@linkcode Distribution.equals}. */
  protected override hasParametersOf(other: this): boolean {
    return this.boxes.map(show).join() === other.boxes.map(show).join();
  }

  /** See {@linkcode Distribution.transpose}. */
  protected override permuted(axes: readonly number[]): Box {
    return new Box(this.boxes.map(([lower, upper]) => [permute(lower, axes), permute(upper, axes)]));
  }

  /** See {@linkcode Distribution.slice}. */
  protected override sliced(ranges: readonly Range[]): Box {
    return Box.ofSlice(this, ranges)!;
  }
}

/** `[0:2, 0:4]` */
function show([lower, upper]: Corners): string {
  return `[${lower.map((start, dimension) => `${start}:${upper[dimension]}`).join(", ")}]`;
}

function volume([lower, upper]: Corners): number {
  return lower.reduce((product, start, dimension) => product * (upper[dimension] - start), 1);
}

function contains([lower, upper]: Corners, index: readonly number[]): boolean {
  return index.every((coordinate, dimension) => coordinate >= lower[dimension] && coordinate < upper[dimension]);
}

/** What two boxes that intersect have in common. */
function overlap(a: Corners, b: Corners): Corners {
  return [
    a[0].map((start, dimension) => Math.max(start, b[0][dimension])),
    a[1].map((end, dimension) => Math.min(end, b[1][dimension])),
  ];
}

/** Whether two boxes have an element in common. */
function intersects(a: Corners, b: Corners): boolean {
  return a[0].every((start, dimension) =>
    Math.max(start, b[0][dimension]) < Math.min(a[1][dimension], b[1][dimension])
  );
}

/** A frozen copy of the corners of one rank's box; `rank` is null for the calling rank's own. */
function checkCorners(corners: Corners, rank: number | null): Corners {
  const whose = rank === null ? "of this rank's box" : `of the box of rank ${rank}`;
  if (!Array.isArray(corners) || corners.length !== 2) {
    throw new TypeError(`the corners ${whose} must be [lower, upper], got ${JSON.stringify(corners)}`);
  }
  const lower = checkIntegers(`the lower corner ${whose}`, corners[0], 0);
  const upper = checkIntegers(`the upper corner ${whose}`, corners[1], 0);
  const ranks = rank === null ? [] : [rank];
  if (lower.length !== upper.length || lower.length === 0) {
    throw new ShapeError(
      `the corners ${whose} are ${list(lower)} and ${list(upper)}; give both one coordinate a dimension`,
      { ranks },
    );
  }
  if (lower.some((start, dimension) => start > upper[dimension])) {
    throw new DistributionError(
      `the corners ${whose} are inverted: lower ${list(lower)} is above upper ${list(upper)}; ` +
        `a box is [lower, upper) with lower at most upper in each dimension`,
      { ranks },
    );
  }
  return [lower, upper];
}

function checkDisjoint(boxes: readonly Corners[]): void {
  for (const [rank, corners] of boxes.entries()) {
    if (corners[0].length !== boxes[0][0].length) {
      throw new ShapeError(
        `the box of rank 0 has ${boxes[0][0].length} dimensions, that of rank ${rank} has ${corners[0].length}; ` +
          `give all boxes as many as the array has`,
        { ranks: [0, rank] },
      );
    }
    for (let other = 0; other < rank; other++) {
      if (!intersects(boxes[other], corners)) continue;
      throw new DistributionError(
        `the boxes of ranks ${other} and ${rank} overlap: ${show(boxes[other])} and ${show(corners)} both hold ` +
          `${show(overlap(boxes[other], corners))}; give each element to one rank`,
        { ranks: [other, rank] },
      );
    }
  }
}

/** The boxes are disjoint; inside the shape, they cover it exactly if they hold as many elements as it has. */
function checkCover(boxes: readonly Corners[], shape: readonly number[]): void {
  for (const [rank, corners] of boxes.entries()) {
    if (volume(corners) === 0 || corners[1].every((end, dimension) => end <= shape[dimension])) continue;
    throw new DistributionError(
      `the box ${show(corners)} of rank ${rank} lies outside the global shape ${list(shape)}`,
      { ranks: [rank] },
    );
  }
  let holes: Corners[] = [[shape.map(() => 0), shape]];
  if (boxes.reduce((sum, corners) => sum + volume(corners), 0) === volume(holes[0])) return;
  for (const corners of boxes) holes = holes.flatMap((hole) => subtract(hole, corners));
  throw new DistributionError(
    `the boxes leave a hole in the global shape ${list(shape)}: no rank holds ${show(holes[0])}; ` +
      `give each element to one rank`,
  );
}

/** What is left of a box without another one, as disjoint boxes. */
function subtract(box: Corners, other: Corners): Corners[] {
  if (!intersects(box, other)) return [box];
  const common = overlap(box, other);
  const rest: Corners[] = [];
  const [lower, upper] = [[...box[0]], [...box[1]]];
  for (let dimension = 0; dimension < lower.length; dimension++) {
    const [start, end] = [common[0][dimension], common[1][dimension]];
    if (lower[dimension] < start) rest.push([[...lower], upper.with(dimension, start)]);
    if (end < upper[dimension]) rest.push([lower.with(dimension, end), [...upper]]);
    lower[dimension] = start;
    upper[dimension] = end;
  }
  return rest;
}
