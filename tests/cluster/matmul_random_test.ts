/** Products of small random matrices, placed in every way that there is, against plain loops. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import fc from "fast-check";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  ConfigurationError,
  type Corners,
  DistributedArray,
  type Distribution,
  Matmul,
  type MatmulOptions,
  ProcessGrid,
  Replicated,
  type Runtime,
  Slab,
} from "../../mod.ts";
import { clusterTest } from "../../src/testing/mod.ts";
import { apply, assertMatrix, combine, type Complex, type Dense, dense, product } from "./matmul_oracle.ts";

const PRODUCTS = 150;

type Shape = readonly [rows: number, columns: number];

const extent = fc.integer({ min: 1, max: 9 });
const order = fc.constantFrom("C" as const, "F" as const);
const dtypes = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"] as const;

/** Some of the ranks on a grid, in any order. */
const grids = (size: number): fc.Arbitrary<ProcessGrid> =>
  fc.record({
    rows: fc.integer({ min: 1, max: size }),
    layout: fc.constantFrom("row-major" as const, "column-major" as const),
    ranks: fc.option(fc.shuffledSubarray(Array.from({ length: size }, (_, rank) => rank), { minLength: size })),
  }).map(({ rows, layout, ranks }) => {
    const shape = [rows, Math.floor(size / rows)];
    return new ProcessGrid({ shape, layout, processes: ranks?.slice(0, shape[0] * shape[1]) ?? null });
  });

const blocks = (size: number): fc.Arbitrary<Distribution> =>
  fc.record({
    grid: grids(size),
    first: fc.tuple(fc.nat(3), fc.nat(3)),
    sizes: fc.option(fc.tuple(fc.integer({ min: 1, max: 4 }), fc.integer({ min: 1, max: 4 }))),
  }).map(({ grid, first, sizes }) => {
    const firstProcess = first.map((coordinate, dimension) => coordinate % grid.shape[dimension]);
    return sizes ? new BlockCyclic(grid, sizes, { firstProcess }) : new BlockNonCyclic(grid, { firstProcess });
  });

/** Boxes side by side, of any widths, the ranks in any order. */
const boxes = ([rows, columns]: Shape, size: number): fc.Arbitrary<Distribution> =>
  fc.record({
    isAcross: fc.boolean(),
    cuts: fc.array(fc.nat(99), { minLength: size - 1, maxLength: size - 1 }),
    places: fc.shuffledSubarray(Array.from({ length: size }, (_, rank) => rank), { minLength: size }),
  }).map(({ isAcross, cuts, places }) => {
    const all = isAcross ? columns : rows;
    const ends = [0, ...cuts.map((cut) => cut % (all + 1)).sort((a, b) => a - b), all];
    return new Box(places.map((place): Corners => {
      const [start, end] = [ends[place], ends[place + 1]];
      return isAcross ? [[0, start], [rows, end]] : [[start, 0], [end, columns]];
    }));
  });

const distributions = (shape: Shape, size: number): fc.Arbitrary<Distribution> =>
  fc.oneof(fc.constantFrom<Distribution>(Slab.X, Slab.Y, Replicated), blocks(size), boxes(shape, size));

/** A matrix and how it is placed: as it is, as the transpose of another one, or as a part of a larger one. */
interface Placed {
  readonly matrix: Dense;
  readonly view: "none" | "transpose" | "slice";
  readonly margins: readonly number[];
  readonly distribution: Distribution;
  readonly order: "C" | "F";
}

const placed = ([rows, columns]: Shape, size: number, isComplex: boolean): fc.Arbitrary<Placed> =>
  fc.record({
    view: fc.constantFrom("none" as const, "none" as const, "transpose" as const, "slice" as const),
    margins: fc.array(fc.nat(2), { minLength: 4, maxLength: 4 }),
    numbers: fc.array(fc.integer({ min: -2, max: 2 }), { minLength: 2 * 81, maxLength: 2 * 81 }),
    order,
  }).chain(({ view, margins, numbers, order }) => {
    const [above, left, below, right] = margins;
    const shape: Shape = view === "transpose"
      ? [columns, rows]
      : view === "slice"
      ? [rows + above + below, columns + left + right]
      : [rows, columns];
    const element = (i: number, j: number): Complex => {
      const at = 2 * (i * columns + j);
      return [numbers[at], isComplex ? numbers[at + 1] : 0];
    };
    const matrix = dense(rows, columns, element);
    return distributions(shape, size).map((distribution) => ({ matrix, view, margins, distribution, order }));
  });

function place(runtime: Runtime, { matrix, view, margins, distribution, order }: Placed, dtype: typeof dtypes[number]) {
  const { rows, columns, re, im } = matrix;
  const [above, left, below, right] = margins;
  const isComplex = dtype.startsWith("complex");
  const make = (shape: Shape, value: (i: number, j: number) => number) =>
    DistributedArray.generate(runtime, shape, distribution, (i, j) => {
      const at = value(i, j);
      return isComplex ? [re[at] ?? NaN, im[at] ?? NaN] : re[at] ?? NaN;
    }, { dtype, order });
  if (view === "none") return make([rows, columns], (i, j) => i * columns + j);
  if (view === "transpose") return make([columns, rows], (i, j) => j * columns + i).transpose();
  const isInside = (i: number, j: number) => i >= 0 && i < rows && j >= 0 && j < columns;
  const whole = make(
    [rows + above + below, columns + left + right],
    (i, j) => isInside(i - above, j - left) ? (i - above) * columns + j - left : -1,
  );
  return whole.slice([[above, above + rows], [left, left + columns]]);
}

const algorithmsOf = ({ kind }: Runtime["device"]) =>
  kind === "gpu"
    ? ["default", "default", "no_overlap"] as const
    : ["default", "default", "pgemm", "all_gather_gemm", "gemm_reduce_scatter"] as const;

const products = ({ size, device }: Runtime) =>
  fc.record({
    m: extent,
    n: extent,
    k: extent,
    dtype: fc.constantFrom(...dtypes),
    transposeA: fc.boolean(),
    transposeB: fc.boolean(),
    conjugateA: fc.boolean(),
    conjugateB: fc.boolean(),
    alpha: fc.constantFrom(1, -2, 0.5, 0),
    beta: fc.constantFrom(1, -1, 0),
    addend: fc.constantFrom("none" as const, "copied" as const, "inplace" as const),
    order: fc.option(order),
    algorithm: fc.constantFrom(...algorithmsOf(device)),
  }).chain((choice) => {
    const { m, n, k, transposeA, transposeB, dtype } = choice;
    const isComplex = dtype.startsWith("complex");
    return fc.record({
      a: placed(transposeA ? [k, m] : [m, k], size, isComplex),
      b: placed(transposeB ? [n, k] : [k, n], size, isComplex),
      c: placed([m, n], size, isComplex),
      distribution: fc.option(distributions([m, n], size)),
    }).map((matrices) => ({ ...choice, ...matrices, isComplex }));
  });

clusterTest("random products", (runtime) => {
  // The message of a failure names the seed: put it here to see the same products again.
  const [seed] = runtime.communicator.broadcast(new Int32Array([Date.now()]));
  let refused = 0;
  for (const [step, it] of fc.sample(products(runtime), { seed, numRuns: PRODUCTS }).entries()) {
    const [a, b] = [place(runtime, it.a, it.dtype), place(runtime, it.b, it.dtype)];
    const c = it.addend === "none" ? null : place(runtime, it.c, it.dtype);
    const qualifiers = {
      a: { isTranspose: it.transposeA, isConjugate: it.isComplex && it.conjugateA },
      b: { isTranspose: it.transposeB, isConjugate: it.isComplex && it.conjugateB },
    };
    const options: MatmulOptions = {
      qualifiers,
      alpha: it.alpha,
      algorithm: it.algorithm as "default",
      ...c && { c, beta: it.beta, inplace: it.addend === "inplace" },
      ...it.addend !== "inplace" && it.distribution && { distribution: it.distribution },
      ...!c && it.order && { order: it.order },
    };
    const what = `seed ${seed}, product ${step}: ${a} times ${b}, ${JSON.stringify(qualifiers)}, alpha ${it.alpha}, ` +
      `beta ${it.beta}, c ${c}, ` +
      `${it.addend}, ${options.distribution}, ${it.algorithm}`;
    try {
      using matmul = new Matmul(a, b, options);
      matmul.plan();
      const d = matmul.execute();
      if (it.addend === "inplace") assertStrictEquals(d, c);
      const ab = product(apply(it.a.matrix, qualifiers.a), apply(it.b.matrix, qualifiers.b));
      assertMatrix(d, combine(it.alpha, ab, it.beta, c && it.c.matrix), "wrong");
    } catch (error) {
      // An algorithm that was asked for by name may not be able to run the product.
      if (!(error instanceof ConfigurationError) || it.algorithm === "default") throw new Error(what, { cause: error });
      refused++;
    }
  }
  assertEquals(refused < PRODUCTS / 3, true, `${refused} products were refused`);
});
