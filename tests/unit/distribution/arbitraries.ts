/** Random grids, shapes and distributions, and the elements of an array in order. */
import fc from "fast-check";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  type Corners,
  type Distribution,
  ProcessGrid,
  Replicated,
  Slab,
} from "../../../src/distribution/mod.ts";

/** A number from 0 to 1, evenly spread; `fc.double` gives mostly tiny ones. */
export const fraction: fc.Arbitrary<number> = fc.nat(1000).map((part) => part / 1000);

/** A bound distribution with its shape and number of ranks. */
export interface Case {
  distribution: Distribution;
  shape: number[];
  size: number;
}

/** A grid with the number of ranks of a job that it fits. */
export interface GridCase {
  grid: ProcessGrid;
  size: number;
}

export function gridOf(dimensions: number): fc.Arbitrary<GridCase> {
  return fc.record({
    shape: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: dimensions, maxLength: dimensions }),
    layout: fc.constantFrom("row-major" as const, "column-major" as const),
    spare: fc.integer({ min: 0, max: 2 }),
    explicit: fc.boolean(),
    keys: fc.array(fc.nat(1_000_000), { minLength: 29, maxLength: 29 }),
  }).map(({ shape, layout, spare, explicit, keys }) => {
    const needed = shape.reduce((product, extent) => product * extent, 1);
    const size = needed + spare;
    const shuffled = Array.from({ length: size }, (_, rank) => ({ rank, key: keys[rank] }))
      .sort((a, b) => a.key - b.key).map(({ rank }) => rank).slice(0, needed);
    return { grid: new ProcessGrid({ shape, layout, processes: explicit ? shuffled : null }), size };
  });
}

export function shapeOf(dimensions: number, min = 0, max = 9): fc.Arbitrary<number[]> {
  return fc.array(fc.integer({ min, max }), { minLength: dimensions, maxLength: dimensions });
}

export const blockCyclicCase: fc.Arbitrary<Case & { distribution: BlockCyclic }> = fc.integer({ min: 1, max: 3 }).chain(
  (
    dimensions,
  ) =>
    fc.record({
      grid: gridOf(dimensions),
      shape: shapeOf(dimensions),
      blocks: shapeOf(dimensions, 1, 5),
      first: fc.array(fc.nat(5), { minLength: dimensions, maxLength: dimensions }),
    }).map(({ grid: { grid, size }, shape, blocks, first }) => {
      const firstProcess = first.map((coordinate, d) => coordinate % grid.shape[d]);
      return { distribution: new BlockCyclic(grid, blocks, { firstProcess }).bind(shape, size), shape, size };
    }),
);

export const blockNonCyclicCase: fc.Arbitrary<Case & { distribution: BlockNonCyclic }> = blockCyclicCase.map((
  { distribution: { grid, firstProcess }, shape, size },
) => ({ distribution: new BlockNonCyclic(grid, { firstProcess }).bind(shape, size), shape, size }));

export const slabCase: fc.Arbitrary<Case & { distribution: Slab }> = fc.integer({ min: 1, max: 3 }).chain((
  dimensions,
) =>
  fc.record({
    shape: shapeOf(dimensions),
    dimension: fc.nat(dimensions - 1),
    size: fc.integer({ min: 1, max: 6 }),
  }).map(({ shape, dimension, size }) => ({ distribution: new Slab(dimension).bind(shape, size), shape, size }))
);

/** Boxes that need not lie on a grid: the largest box is cut in two again and again. */
export const boxCase: fc.Arbitrary<Case & { distribution: Box }> = fc.integer({ min: 1, max: 3 }).chain((dimensions) =>
  fc.record({
    shape: shapeOf(dimensions),
    cuts: fc.array(fc.record({ dimension: fc.nat(dimensions - 1), part: fraction }), {
      maxLength: 5,
    }),
    rotation: fc.nat(5),
  }).map(({ shape, cuts, rotation }) => {
    const boxes: Corners[] = [[shape.map(() => 0), shape]];
    for (const { dimension, part } of cuts) {
      const [lower, upper] = boxes.shift()!;
      const middle = lower[dimension] + Math.floor(part * (upper[dimension] - lower[dimension] + 0.5));
      boxes.push([lower, upper.with(dimension, middle)], [lower.with(dimension, middle), upper]);
    }
    for (let turn = 0; turn < rotation; turn++) boxes.push(boxes.shift()!);
    return { distribution: new Box(boxes).bind(shape, boxes.length), shape, size: boxes.length };
  })
);

export const replicatedCase: fc.Arbitrary<Case> = fc.record({
  shape: fc.array(fc.nat(5), { minLength: 1, maxLength: 3 }),
  size: fc.integer({ min: 1, max: 4 }),
}).map(({ shape, size }) => ({ distribution: Replicated.bind(shape, size), shape, size }));

/** Any class, as it is, transposed, or a part of it. */
export const anyCase: fc.Arbitrary<Case> = fc.record({
  base: fc.oneof<fc.Arbitrary<Case>[]>(blockCyclicCase, blockNonCyclicCase, slabCase, boxCase, replicatedCase),
  isTransposed: fc.boolean(),
  isSliced: fc.boolean(),
  seed: fc.array(fraction, { minLength: 6, maxLength: 6 }),
}).map(({ base, isTransposed, isSliced, seed }) => {
  let distribution = base.distribution;
  if (isTransposed) distribution = distribution.transpose();
  if (isSliced) distribution = distribution.slice(rangesOf(distribution.globalShape!, seed));
  return { distribution, shape: [...distribution.globalShape!], size: base.size };
});

/** One range a dimension out of pairs of numbers between 0 and 1. */
export function rangesOf(shape: readonly number[], seed: readonly number[]): [number, number][] {
  return shape.map((extent, d) => {
    const ends = [seed[2 * d], seed[2 * d + 1]].map((part) => Math.round(part * extent)).sort((a, b) => a - b);
    return [ends[0], ends[1]];
  });
}

/** Every index of a shape, the last coordinate fastest. */
export function indices(shape: readonly number[]): number[][] {
  return shape.reduce<number[][]>(
    (found, extent) => found.flatMap((index) => Array.from({ length: extent }, (_, value) => [...index, value])),
    [[]],
  );
}
