/**
 * The distributions that an array may pass through on the way of a transform.
 *
 * @module
 */
import { evenly } from "../distribution/index_map.ts";
import { Box, type Corners, type Distribution, Slab } from "../distribution/mod.ts";
import { nearlySquareFactors } from "../distribution/nearly_square.ts";
import { DistributionError } from "../errors.ts";
import type { FFTShape } from "./problem.ts";

/** A distribution of what is transformed, bound to the shape of the operand and to that of the result. */
export interface Place {
  /** For messages. */
  readonly name: string;
  /** Of the operand; null if there is none. */
  readonly operand: Distribution | null;
  /** Of the result; null if there is none. */
  readonly result: Distribution | null;
  /** What kind of place it is. */
  readonly kind: "given" | "slab" | "pencils" | "root";
}

/**
 * The same kind of distribution for another shape; null if it has no meaning there. What boxes hold may only change along
 * dimensions that none of them divides.
 */
export function inShape(distribution: Distribution, shape: readonly number[]): Distribution | null {
  const { globalShape, size } = distribution;
  if (globalShape!.join() === shape.join()) return distribution;
  try {
    return distribution instanceof Box ? stretched(distribution, shape) : distribution.bind(shape, size!);
  } catch (error) {
    if (error instanceof DistributionError) return null;
    throw error;
  }
}

function stretched(box: Box, shape: readonly number[]): Distribution | null {
  const old = box.globalShape!;
  const isEmpty = ([lower, upper]: Corners) => lower.some((start, d) => start === upper[d]);
  const isDivided = (d: number) => box.boxes.some((c) => !isEmpty(c) && (c[0][d] > 0 || c[1][d] < old[d]));
  const changed = shape.flatMap((extent, d) => extent === old[d] ? [] : [d]);
  if (changed.some(isDivided)) return null;
  const boxes = box.boxes.map((corners): Corners =>
    isEmpty(corners) ? corners : [corners[0], corners[1].map((end, d) => changed.includes(d) ? shape[d] : end)]
  );
  return new Box(boxes).bind(shape, box.size!);
}

/** Whether every rank that has elements has all indices of an axis. */
export function isWhole(distribution: Distribution, axis: number): boolean {
  const extent = distribution.globalShape![axis];
  for (let rank = 0; rank < distribution.size!; rank++) {
    const sets = distribution.indexSets(rank);
    if (sets[axis].count !== extent && sets.every(({ count }) => count > 0)) return false;
  }
  return true;
}

/** The place of the operand. */
export function placeOf({ result }: FFTShape, from: Distribution): Place {
  return { name: nameOf(from), operand: from, result: inShape(from, result), kind: "given" };
}

/** The place where the result has this distribution. */
export function placeOfResult({ operand }: FFTShape, to: Distribution): Place {
  return { name: nameOf(to), operand: inShape(to, operand), result: to, kind: "given" };
}

/** All slabs. */
export function slabs({ operand, result }: FFTShape, size: number): Place[] {
  return operand.map((_, dimension): Place => {
    const slab = new Slab(dimension);
    return { name: `${slab}`, operand: slab.bind(operand, size), result: slab.bind(result, size), kind: "slab" };
  });
}

/** Everything on the first rank. */
export function root({ operand, result }: FFTShape, size: number): Place {
  const onFirst = (shape: readonly number[]) => {
    const none = shape.map(() => 0);
    return new Box(Array.from({ length: size }, (_, rank): Corners => [none, rank === 0 ? shape : none]))
      .bind(shape, size);
  };
  return { name: "rank 0", operand: onFirst(operand), result: onFirst(result), kind: "root" };
}

/** A grid of ranks: how many there are along some of the axes, and where each rank stands. */
export interface RankGrid {
  /** The extents of the grid, one for each divided axis. */
  readonly extents: readonly number[];
  /** The coordinates of a rank. */
  coordinates(rank: number): readonly number[];
}

/** The grid of which every rank holds one box; null if they lie otherwise. */
export function gridOf(distribution: Distribution): RankGrid | null {
  const { globalShape, size } = distribution;
  const bounds = distribution.isReplicated ? null : distribution.bounds();
  if (bounds === null || bounds.some(([lower, upper]) => lower.some((start, d) => start === upper[d]))) return null;
  const starts = globalShape!.map((_, d) => [...new Set(bounds.map(([lower]) => lower[d]))].sort((a, b) => a - b));
  if (starts.reduce((product, list) => product * list.length, 1) !== size) return null;
  const divided = starts.flatMap((list, d) => list.length > 1 ? [d] : []);
  return {
    extents: divided.map((d) => starts[d].length),
    coordinates: (rank) => divided.map((d) => starts[d].indexOf(bounds[rank][0][d])),
  };
}

/** The grid of two extents that are as close as possible; null if there is none but a line. */
export function squarest(size: number): RankGrid | null {
  const [rows, columns] = nearlySquareFactors(size);
  if (rows === 1) return null;
  return { extents: [rows, columns], coordinates: (rank) => [Math.floor(rank / columns), rank % columns] };
}

/** More than these are not looked at. */
const MOST_PENCILS = 24;

/** Every way to divide axes among the extents of a grid, such that all ranks get something. */
export function pencils({ operand, result }: FFTShape, grid: RankGrid, size: number): Place[] {
  const places: Place[] = [];
  const visit = (axes: readonly number[]): void => {
    if (places.length >= MOST_PENCILS) return;
    if (axes.length === grid.extents.length) {
      const boxes = (shape: readonly number[]) => divided(shape, axes, grid, size);
      const counts = operand.map((_, d) => axes.includes(d) ? grid.extents[axes.indexOf(d)] : 1);
      places.push({
        name: `pencils ${counts.join(" x ")}`,
        operand: boxes(operand),
        result: boxes(result),
        kind: "pencils",
      });
      return;
    }
    const parts = grid.extents[axes.length];
    operand.forEach((extent, axis) => {
      if (!axes.includes(axis) && Math.min(extent, result[axis]) >= parts) visit([...axes, axis]);
    });
  };
  if (grid.extents.length > 1) visit([]);
  return places;
}

function divided(shape: readonly number[], axes: readonly number[], grid: RankGrid, size: number): Distribution {
  const boxes = Array.from({ length: size }, (_, rank): Corners => {
    const at = grid.coordinates(rank);
    const ranges = shape.map((extent, d) => {
      const i = axes.indexOf(d);
      return i < 0 ? [0, extent] : evenly(extent, grid.extents[i]).part(at[i]).ranges()[0];
    });
    return [ranges.map(([start]) => start), ranges.map(([, end]) => end)];
  });
  return new Box(boxes).bind(shape, size);
}

/** Briefly: boxes are many. */
function nameOf(distribution: Distribution): string {
  return distribution instanceof Box ? `boxes of ${distribution.size} ranks` : `${distribution}`;
}

/** All places that may be worth going through, each once, the operand's first. */
export function placesBetween(shape: FFTShape, from: Distribution, to: Distribution | null): Place[] {
  const size = from.size!;
  const all = [placeOf(shape, from), ...slabs(shape, size)];
  const grids = [from, ...to ? [to] : []].flatMap((distribution) => gridOf(distribution) ?? []);
  const isCrowded = all.some(({ kind, operand }) => kind === "slab" && !usesAll(operand!));
  const grid = isCrowded ? squarest(size) : null;
  for (const each of [...grids, ...grid ? [grid] : []]) all.push(...pencils(shape, each, size));
  if (to) all.push(placeOfResult(shape, to));
  return all.filter((place, i) => all.findIndex((other) => areAlike(place, other)) === i);
}

/** Whether every rank has elements. */
export function usesAll(distribution: Distribution): boolean {
  for (let rank = 0; rank < distribution.size!; rank++) {
    if (distribution.indexSets(rank).some(({ count }) => count === 0)) return false;
  }
  return true;
}

function areAlike(one: Place, other: Place): boolean {
  const same = (a: Distribution | null, b: Distribution | null) =>
    a === b || a !== null && b !== null && a.isReplicated === b.isReplicated && a.coincidesWith(b);
  return one === other || same(one.operand, other.operand) && same(one.result, other.result);
}
