import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { type Dimension, type Pass, planPasses } from "../../../src/fft/engines/staged/pass_plan.ts";
import { stridesOf } from "../../../src/array/layout.ts";
import type { FFTType } from "../../../mod.ts";

/** The places that some dimensions go through. */
function places(dimensions: readonly Dimension[], side: "source" | "target"): number[] {
  return dimensions.reduce<number[]>(
    (all, dimension) =>
      all.flatMap((at) => Array.from({ length: dimension.extent }, (_, i) => at + i * dimension[side])),
    [0],
  );
}

function elements(shape: readonly number[], strides: readonly number[]): number[] {
  return places(shape.map((extent, d) => ({ extent, source: strides[d], target: strides[d] })), "source");
}

const sorted = (numbers: readonly number[]) => numbers.toSorted((a, b) => a - b);

/** Each transformed dimension steps over the next one, with what lies between. */
function assertNested({ type, transformed }: Pass, half: number): void {
  for (const [i, outer] of transformed.slice(0, -1).entries()) {
    const inner = transformed[i + 1];
    const isHalved = i + 2 === transformed.length;
    for (const side of ["source", "target"] as const) {
      const isHalf = isHalved && (type === "r2c" && side === "target" || type === "c2r" && side === "source");
      const extent = isHalf ? half : inner.extent;
      assert(outer[side] % inner[side] === 0 && outer[side] >= extent * inner[side]);
    }
  }
}

Deno.test("the passes of a transform take each axis once, and go through every element once", () => {
  const cases = fc.record({
    shape: fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 5 }),
    chosen: fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }),
    type: fc.constantFrom<FFTType>("c2c", "r2c", "c2r"),
    orders: fc.tuple(fc.constantFrom("C", "F"), fc.constantFrom("C", "F")),
    padding: fc.nat(2),
    limits: fc.record({
      dimensions: fc.constantFrom(1, 3, 7),
      loops: fc.constantFrom(1, 2, Infinity),
      isNested: fc.boolean(),
    }),
  });
  fc.assert(
    fc.property(cases, ({ shape, chosen, type, orders, padding, limits }) => {
      const some = shape.flatMap((_, d) => chosen[d] ? [d] : []);
      // From complex to real there is one axis, as the plan sees to it.
      const axes = some.length === 0 ? [shape.length - 1] : type === "c2r" ? some.slice(-1) : some;
      const last = axes[axes.length - 1];
      const half = shape.with(last, Math.floor(shape[last] / 2) + 1);
      const inner = orders[0] === "C" ? shape.length - 1 : 0;
      const [from, to] = type === "r2c" ? [shape, half] : type === "c2r" ? [half, shape] : [shape, shape];
      const source = { shape: from, strides: stridesOf(from.with(inner, from[inner] + padding), orders[0]) };
      const target = { shape: to, strides: stridesOf(to, orders[1]) };
      const passes = planPasses(type, axes, source, target, limits);
      assertEquals(passes.reduce((sum, { transformed }) => sum + transformed.length, 0), axes.length);
      for (const [i, pass] of passes.entries()) {
        assertEquals([pass.isInPlace, pass.type], [i > 0, i > 0 ? "c2c" : type]);
        if (limits.isNested) assertNested(pass, half[last]);
        assert(pass.looped.length <= limits.loops && pass.transformed.length <= limits.dimensions);
        const all = [...pass.transformed, ...pass.looped, ...pass.called];
        if (pass.type === "c2c") {
          const read = pass.isInPlace ? target : source;
          assertEquals(sorted(places(all, "source")), sorted(elements(read.shape, read.strides)));
          assertEquals(sorted(places(all, "target")), sorted(elements(target.shape, target.strides)));
          continue;
        }
        // Extents are those of the real numbers; the complex ones have half of the last.
        const halved = all.map((dimension, at) =>
          at === pass.transformed.length - 1 ? { ...dimension, extent: half[last] } : dimension
        );
        const [read, written] = type === "r2c" ? [all, halved] : [halved, all];
        assertEquals(sorted(places(read, "source")), sorted(elements(source.shape, source.strides)));
        assertEquals(sorted(places(written, "target")), sorted(elements(target.shape, target.strides)));
      }
    }),
    { numRuns: 500 },
  );
});

Deno.test("axes that are neighbours in memory are transformed together, and neighbours are looped over by the library", () => {
  const dense = (shape: number[]) => ({ shape, strides: stridesOf(shape, "C") });
  const plan = (shape: number[], axes: number[]) =>
    planPasses("c2c", axes, dense(shape), dense(shape), { dimensions: 7, loops: 1, isNested: false });
  const [trailing] = plan([4, 8, 8], [1, 2]);
  assertEquals([trailing.transformed.length, trailing.looped, trailing.called.length], [
    2,
    [{ extent: 4, source: 64, target: 64 }],
    0,
  ]);
  const [middle] = plan([4, 8, 32], [1]);
  assertEquals(middle.looped, [{ extent: 32, source: 1, target: 1 }]);
  assertEquals(middle.called, [{ extent: 4, source: 256, target: 256 }]);
  // Few neighbours: the longer loop is the library's.
  assertEquals(plan([100, 8, 2], [1])[0].looped, [{ extent: 100, source: 16, target: 16 }]);
  assertEquals(plan([4, 5, 6], [0, 2]).length, 2);
});

Deno.test("where a library takes nested dimensions only, others are transformed one after the other", () => {
  const limits = { dimensions: 3, loops: 1, isNested: true };
  const plan = (source: number[], target: number[]) =>
    planPasses("c2c", [0, 1], { shape: [4, 6], strides: source }, { shape: [4, 6], strides: target }, limits).length;
  assertEquals(plan([6, 1], [6, 1]), 1);
  assertEquals(plan([9, 1], [6, 1]), 1);
  // Every second element of rows of 15: rows do not begin at multiples of 2.
  assertEquals(plan([15, 2], [6, 1]), 2);
  // Transposed on the way.
  assertEquals(plan([1, 4], [6, 1]), 2);
});

Deno.test("calls transform no more than enough numbers, where these can be divided evenly and not into few", () => {
  const rowsOf = (rows: number, enough = Infinity) => {
    const array = { shape: [rows, 8], strides: [8, 1] };
    const limits = { dimensions: 7, loops: 1, enough, isNested: false };
    const [{ looped, called }] = planPasses("c2c", [1], array, array, limits);
    return [looped, called].map(([loop]) => loop && [loop.extent, loop.source, loop.target]);
  };
  assertEquals(rowsOf(64, 128), [[16, 8, 8], [4, 128, 128]]);
  assertEquals(rowsOf(96, 300), [[32, 8, 8], [3, 256, 256]]);
  assertEquals(rowsOf(64, 512), [[64, 8, 8], undefined]);
  assertEquals(rowsOf(64), [[64, 8, 8], undefined]);
  assertEquals(rowsOf(61, 128), [[61, 8, 8], undefined]);
  assertEquals(rowsOf(64, 64), [[64, 8, 8], undefined]);
});
