/** Passes of transforms on CPUs, block by block against whole ones. */
import { assert } from "@std/assert";
import fc from "fast-check";
import { DistributedArray, type DType, type FFTType, LocalArray, type Order, type Runtime, Slab } from "../../mod.ts";
import { type FftwPrecision, openFftw } from "../../ffi/fft/fftw.ts";
import { stridesOf } from "../../src/array/layout.ts";
import { blocking } from "../../src/fft/engines/fftw/blocks.ts";
import { comparing, fftwPasses } from "../../src/fft/engines/fftw/passes.ts";
import { LocalTransform } from "../../src/fft/engines/staged/local_transform.ts";
import { hostTest } from "../gpu/gpu_test_kit.ts";

const cases = fc.record({
  shape: fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 2, maxLength: 4 }),
  chosen: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
  type: fc.constantFrom<FFTType>("c2c", "r2c", "c2r"),
  precision: fc.constantFrom<FftwPrecision>("float32", "float64"),
  orders: fc.tuple(fc.constantFrom<Order>("C", "F"), fc.constantFrom<Order>("C", "F")),
  paddings: fc.tuple(fc.nat(2), fc.nat(2)),
  isInPlace: fc.boolean(),
});

/** FFTW ended the process when it measured plans for it: lines across in the source, along in the target, between vectors. */
const CROSSING: typeof cases extends fc.Arbitrary<infer T> ? T : never = {
  shape: [4, 4],
  chosen: [false, true, false, false],
  type: "c2c",
  precision: "float32",
  orders: ["F", "C"],
  paddings: [0, 1],
  isInPlace: false,
};

/** An array of random numbers, with others between its lines. */
function make(runtime: Runtime, dtype: DType, shape: readonly number[], order: Order, padding: number): LocalArray {
  const inner = order === "C" ? shape.length - 1 : 0;
  const padded = shape.with(inner, shape[inner] + padding);
  const { data } = DistributedArray.random(runtime, padded, Slab.X, { dtype, order, seed: 1 }).local;
  return new LocalArray({ data, dtype, shape, strides: stridesOf(padded, order) });
}

/** Real numbers in the memory of complex ones in C order, each line from where a complex one begins. */
function inMemoryOf({ data, strides }: LocalArray, dtype: DType, shape: readonly number[]): LocalArray {
  return new LocalArray({
    data,
    dtype,
    shape,
    strides: strides.map((stride, d) => d < shape.length - 1 ? 2 * stride : 1),
  });
}

hostTest("blocks give what whole passes give, and leave alone what lies between: strides, in place, real", {
  ranks: [1],
}, (runtime) => {
  const [known, usual] = [{ ...comparing }, { ...blocking }];
  comparing.leastNumbers = 1;
  Object.assign(blocking, { bytes: 512, mostBytes: 4096 });
  const seen = new Set<string>();
  try {
    fc.assert(
      fc.property(cases, ({ shape, chosen, type, precision, orders, paddings, isInPlace }) => {
        const some = [...shape.keys()].filter((d) => chosen[d]);
        // From complex to real there is one axis, as the plan sees to it.
        const axes = some.length === 0 ? [shape.length - 1] : type === "c2r" ? some.slice(-1) : some;
        const halved = axes[axes.length - 1];
        const half = shape.with(halved, Math.floor(shape[halved] / 2) + 1);
        const complex = precision === "float32" ? "complex64" : "complex128";

        const transformed = (isInBlocks: boolean) => {
          const passes = fftwPasses(openFftw(precision), "measure", 1, (plans) => {
            const found = plans.findLast(({ library }) => library?.endsWith("in blocks") === isInBlocks) ?? plans[0];
            for (const plan of plans) if (plan !== found) plan[Symbol.dispose]();
            seen.add(`${type} by ${found.library}`);
            return found;
          });
          using transform = new LocalTransform(passes, type, axes, "forward");
          const one = make(runtime, complex, type === "c2c" ? shape : half, orders[0], paddings[0]);
          const other = type === "c2c"
            ? isInPlace ? one : make(runtime, complex, shape, orders[1], paddings[1])
            : isInPlace && orders[0] === "C" && halved === shape.length - 1
            ? inMemoryOf(one, precision, shape)
            : make(runtime, precision, shape, orders[1], paddings[1]);
          const [source, target] = type === "r2c" ? [other, one] : [one, other];
          transform.prepare(source, target)();
          return [source, target].map(({ data }) => data as Float64Array);
        };

        const [whole, blocks] = [transformed(false), transformed(true)];
        const tolerance = precision === "float32" ? 2e-3 : 1e-11;
        for (const [side, numbers] of whole.entries()) {
          assert(numbers.every((number, i) => Math.abs(number - blocks[side][i]) < tolerance));
        }
      }),
      { examples: [[CROSSING]] },
    );
    for (const type of ["c2c", "r2c", "c2r"]) {
      assert([...seen].some((way) => way.startsWith(type) && way.endsWith("in blocks")), `${[...seen]}`);
    }
  } finally {
    Object.assign(comparing, known);
    Object.assign(blocking, usual);
  }
});

hostTest(
  "calls between aligned ones may begin anywhere: blocks do not take them for aligned, which ends the process",
  {
    ranks: [1],
  },
  () => {
    const passes = fftwPasses(openFftw("float32"), "measure", 1, (plans, calls) => {
      for (const plan of plans) for (const [from, to] of calls) plan.execute(from, to);
      for (const plan of plans.slice(1)) plan[Symbol.dispose]();
      return plans[0];
    });
    using transform = new LocalTransform(passes, "c2c", [2], "forward");
    // A loop over lines at multiples of 16 bytes, called at others.
    const data = new Float32Array(2 * 64 * 6 * 521);
    const view = new LocalArray({ data, dtype: "complex64", shape: [64, 5, 512], strides: [6 * 521, 521, 1] });
    transform.prepare(view, view)();
  },
);
