import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { BlockCyclic, Box, type Corners, type Distribution, ProcessGrid, Replicated, Slab } from "../../../mod.ts";
import { locationsOf, worksInPlace } from "../../../src/fft/engines/staged/locations.ts";
import { nearlySquareFactors } from "../../../src/distribution/nearly_square.ts";
import { columnsOf } from "../../../src/fft/four_step.ts";
import { gridOf, inShape, isWhole, pencils, squarest } from "../../../src/fft/pass_places.ts";
import { type FFTProblem, type FFTType, shapeOf } from "../../../src/fft/problem.ts";
import { findRoutes, naturalDistribution } from "../../../src/fft/route.ts";
import type { RouteStep } from "../../../src/fft/steps.ts";
import { countOf } from "../../../src/array/traverse.ts";

type Parts = RouteStep["from"];

const counts = (parts: Parts, rank: number) => parts.ranges(rank).map(countOf);
const sizeOf = (shape: readonly number[]) => shape.reduce((product, extent) => product * extent, 1);

/** Boxes that divide the first axis at random places, so that some may be empty. */
function boxes(shape: readonly number[], cuts: readonly number[], size: number): Distribution {
  const ends = [...cuts.slice(0, size - 1).map((cut) => cut % (shape[0] + 1)).sort((a, b) => a - b), shape[0]];
  return new Box(ends.map((end, rank): Corners => [
    shape.map((_, d) => d === 0 && rank > 0 ? ends[rank - 1] : 0),
    shape.map((extent, d) => d === 0 ? end : extent),
  ]));
}

/** A distribution for a shape: a slab, a grid of blocks, boxes, or all of it. */
function distributionOf(choice: number, shape: readonly number[], size: number, cuts: readonly number[]): Distribution {
  const d = choice % shape.length;
  const kinds = [
    () => new Slab(d),
    () => new Slab(d),
    () => boxes(shape, cuts, size),
    () => new BlockCyclic(new ProcessGrid({ shape: shape.map((_, i) => i === d ? size : 1) }), shape.map(() => 2)),
    () => Replicated,
  ];
  const made = kinds[Math.floor(choice / 8) % kinds.length]();
  return made.bind(shape, size);
}

const problems = fc.record({
  shape: fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 4 }),
  type: fc.constantFrom<FFTType>("c2c", "r2c", "c2r"),
  size: fc.integer({ min: 1, max: 6 }),
  axes: fc.uniqueArray(fc.nat(3), { minLength: 1 }),
  from: fc.nat(39),
  to: fc.option(fc.nat(39)),
  cuts: fc.array(fc.nat(), { minLength: 6, maxLength: 6 }),
}).map(({ shape, type, size, axes, from, to, cuts }): FFTProblem => {
  const own = axes.filter((axis) => axis < shape.length);
  const transform = shapeOf(type, own.length > 0 ? own : [0], shape, "odd");
  const operand = distributionOf(from, transform.operand, size, cuts);
  const result = to === null
    ? naturalDistribution(transform, operand, 8)
    : distributionOf(to, transform.result, size, cuts);
  return { ...transform, precision: "float64", order: "C", from: operand, to: result };
});

Deno.test("a route leads from the operand to the result, and transforms each axis once, where every rank has all of it", () => {
  fc.assert(
    fc.property(problems, (problem) => {
      const { from, to, type, axes, halved } = problem;
      const size = from.size!;
      const routes = findRoutes(problem);
      assert(routes.length > 0, "there always is one");
      for (const { steps, algorithm } of routes) {
        if (algorithm === "four_step") continue;
        assert((steps[0].from as Distribution).coincidesWith(from), "it begins at the operand");
        assert((steps.at(-1)!.to as Distribution).coincidesWith(to), "it ends at the result");
        const done: number[] = [];
        for (const [i, step] of steps.entries()) {
          for (let rank = 0; rank < size; rank++) {
            if (i > 0) assertEquals(counts(step.from, rank), counts(steps[i - 1].to, rank), "steps follow each other");
          }
          if (step.kind !== "transform") continue;
          for (const axis of step.axes) {
            assert(isWhole(step.from as Distribution, axis) && isWhole(step.to as Distribution, axis), "whole axes");
          }
          if (step.type === "r2c") {
            assertEquals([done.length, step.axes.at(-1)], [0, halved], "the halved axis is first");
          }
          if (step.type === "c2r") assertEquals([done.length + 1, step.axes], [axes.length, [halved]], "or last");
          done.push(...step.axes);
        }
        assertEquals(done.toSorted(), axes.toSorted(), "each axis once");
        const isHalved = steps.some((step) => step.kind === "transform" && step.type !== "c2c");
        assertEquals(isHalved, type !== "c2c");
      }
    }),
    { numRuns: 500 },
  );
});

Deno.test("the way of steps through memory: no step reads what it overwrites, and the operand stays unless in place", () => {
  fc.assert(
    fc.property(problems, fc.boolean(), fc.boolean(), (problem, inplace, movesWhileMade) => {
      for (const { steps } of findRoutes(problem)) {
        const locations = locationsOf(steps, inplace, movesWhileMade);
        assertEquals(locations.length, steps.length + 1);
        assertEquals(locations[0], "operand");
        const memory = (i: number) => inplace && locations[i] === "result" ? "operand" : locations[i];
        for (const [i, step] of steps.entries()) {
          if (memory(i) === memory(i + 1)) assert(worksInPlace(step), "it works in place");
          if (movesWhileMade && step.kind === "move" && locations[i - 1] === "operand" && i < steps.length - 1) {
            assert(memory(i + 1) !== "operand", "what arrives leaves the operand alone");
          }
          if (!inplace && i >= 0) assert(locations[i + 1] !== "operand", "the operand is not written to");
          // A value in the operand's own memory has the operand's own shape.
          if (locations[i + 1] === "operand") assert(steps.slice(0, i + 1).every(worksInPlace));
        }
        if (!inplace) assertEquals(locations.at(-1), "result");
      }
    }),
    { numRuns: 300 },
  );
});

Deno.test("pencils between two grids move only within rows and columns of the grid", () => {
  const shape = shapeOf("c2c", [0, 1, 2], [8, 8, 8]);
  const [from] = pencils(shape, squarest(4)!, 4);
  const grid = gridOf(from.operand!)!;
  assertEquals(grid.extents, [2, 2]);
  const to = pencils(shape, grid, 4).find(({ name }) => name === "pencils 1 x 2 x 2")!;
  const problem: FFTProblem = { ...shape, precision: "float64", order: "C", from: from.operand!, to: to.operand! };
  const [route] = findRoutes(problem);
  assertEquals([route.algorithm, route.steps.filter(({ kind }) => kind === "move").length], ["transpose", 2]);
});

Deno.test("more ranks than planes: pencils give all of them something to do", () => {
  const long = [4, 4, 2 ** 16];
  const slab = Slab.Z.bind(long, 16);
  const shape = shapeOf("c2c", [0, 1, 2], long);
  const [route] = findRoutes({ ...shape, precision: "float64", order: "C", from: slab, to: slab });
  assertEquals(route.variant, "Slab.Z (axes 0, 1) -> pencils 4 x 4 x 1 (axis 2) -> Slab.Z");
});

Deno.test("one vector that fits no cache is transformed by all CPUs; a smaller one, and any on two GPUs, by one", () => {
  const first = (n: number, size: number, isOnHost: boolean) => {
    const slab = Slab.X.bind([n], size);
    const problem = { ...shapeOf("c2c", [0], [n]), precision: "float64", order: "C", from: slab, to: slab } as const;
    return findRoutes(problem, { isOnHost })[0].algorithm;
  };
  const sizes = [2 ** 14, 2 ** 20, 2 ** 21, 2 ** 23, 2 ** 24];
  assertEquals(sizes.map((n) => first(n, 2, true)), ["gather", "gather", "gather", "four_step", "four_step"]);
  assertEquals(sizes.map((n) => first(n, 2, false)), sizes.map(() => "gather"));
  assertEquals(first(2 ** 23, 8, false), "four_step");
});

Deno.test("inShape() keeps what ranks hold of the other dimensions", () => {
  const box = new Box([[[0, 0], [2, 6]], [[2, 0], [5, 6]]]).bind([5, 6], 2);
  assertEquals(String(inShape(box, [5, 4])), "Box([0:2, 0:4], [2:5, 0:4])");
  assertEquals(inShape(box, [4, 6]), null);
  assertEquals(String(inShape(Slab.Y.bind([5, 6], 2), [5, 4])), "Slab.Y");
  const empty = new Box([[[0, 0], [5, 6]], [[0, 0], [0, 0]]]).bind([5, 6], 2);
  assertEquals(inShape(empty, [5, 4])!.localShape(0), [5, 4]);
});

Deno.test("four steps: factors, and columns of a vector that is a matrix", () => {
  assertEquals([1, 2, 12, 13, 36, 100, 2 ** 15].map(nearlySquareFactors), [
    [1, 1],
    [1, 2],
    [3, 4],
    [1, 13],
    [6, 6],
    [10, 10],
    [128, 256],
  ]);
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 6 }),
      fc.integer({ min: 1, max: 7 }),
      (rows, columns, size) => {
        const parts = columnsOf(rows, columns, size);
        const slab = Slab.Y.bind([rows, columns], size);
        const seen = new Set<number>();
        for (let rank = 0; rank < size; rank++) {
          const [ranges] = parts.ranges(rank);
          assertEquals(countOf(ranges), sizeOf(slab.localShape(rank)), "as many elements");
          for (const [start, end] of ranges) for (let i = start; i < end; i++) seen.add(i);
        }
        assertEquals(seen.size, rows * columns);
      },
    ),
  );
});
