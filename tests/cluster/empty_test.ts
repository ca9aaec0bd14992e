/** Arrays and products with empty extents: everything that other arrays can do, with the results of NumPy. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import {
  BlockCyclic,
  BlockNonCyclic,
  Box,
  DistributedArray,
  type Distribution,
  type DType,
  dtypeInfo,
  dtypes,
  loadNpy,
  LocalArray,
  Matmul,
  matmul,
  ProcessGrid,
  Replicated,
  type Runtime,
  saveNpy,
  Slab,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import { enginesFor } from "../../src/linalg/engines/registry.ts";
import type { AlgorithmName } from "../../src/linalg/mod.ts";
import { DTypeError, ShapeError } from "../../src/errors.ts";
import {
  apply,
  assertMatrix,
  combine,
  Cycle,
  dense,
  distribute,
  gridShapes,
  integers,
  product,
} from "./matmul_oracle.ts";

const ORDERS = ["C", "F"] as const;
const SHAPES = [[0, 5], [5, 0], [0, 0], [0, 1]];

function distributions({ size }: Runtime): Distribution[] {
  const grids = gridShapes(size).map((shape) => new ProcessGrid({ shape }));
  return [
    Slab.X,
    Slab.Y,
    Replicated,
    ...grids.flatMap((grid) => [new BlockCyclic(grid, [2, 3]), new BlockNonCyclic(grid)]),
  ];
}

const kindOf = (dtype: DType) => dtypeInfo(dtype).isComplex ? "complex" : dtype === "int64" ? "big" : "real";
const valueOf = (dtype: DType) => ({ complex: [1, 2], big: 1n, real: 1 } as const)[kindOf(dtype)];

clusterTest("empty arrays are made, moved, converted, reduced, gathered, saved and loaded", (runtime) => {
  const { communicator } = runtime;
  const folder = communicator.broadcastObject(runtime.rank === 0 ? Deno.makeTempDirSync() : "");
  const choices = new Cycle();
  for (const shape of SHAPES) {
    for (const distribution of distributions(runtime)) {
      choices.next();
      const [dtype, order, other] = [choices.pick(dtypes), choices.pick(ORDERS), choices.pick(distributions(runtime))];
      const options = { dtype, order };
      const what = `${dtype} ${order} [${shape}] ${distribution} to ${other}`;
      const check = (array: DistributedArray, extents: readonly number[] = shape) => {
        assertEquals([[...array.shape], array.size, array.local.size], [[...extents], 0, 0], what);
        const zero = { complex: [0, 0], big: 0n, real: 0 }[kindOf(array.dtype)];
        assertEquals([array.sum(), array.norm(), array.maxAbsDifference(array)], [zero, 0, 0], what);
        assertEquals([array.allGather().length, array.gather()?.length ?? 0], [0, 0], what);
      };
      const a = DistributedArray.zeros(runtime, shape, distribution, options);
      check(a);
      check(DistributedArray.full(runtime, shape, distribution, valueOf(dtype), options));
      check(DistributedArray.random(runtime, shape, distribution, options));
      check(DistributedArray.generate(runtime, shape, distribution, neverCalled, options));
      check(DistributedArray.generate(runtime, shape, distribution, { factors: [1, 1] }, options));
      check(DistributedArray.fromLocal(runtime, LocalArray.zeros(dtype, a.local.shape, order), a.distribution));
      const data = runtime.rank === 0 ? new (dtypeInfo(dtype).array)(0) : null;
      check(DistributedArray.scatter(runtime, data, shape, distribution, options));
      const moved = a.redistribute(other);
      assertEquals([String(moved.distribution), a.maxAbsDifference(moved)], [String(other), 0], what);
      for (const array of [moved, a.copy(), a.to({ dtype: "complex128", order: "F" }), a.map((value) => value)]) {
        check(array);
      }
      check(a.transpose(), shape.toReversed());
      check(a.slice(shape.map(() => [0, 0])), [0, 0]);
      const path = `${folder}/a.npy`;
      if (dtypeInfo(dtype).npy !== null) {
        saveNpy(a, path);
        const read = loadNpy(runtime, path, other);
        assertEquals([read.dtype, read.order], [dtype, order], what);
        check(read);
      }
    }
  }
  for (const shape of [[0], [3, 0, 2], [0, 0, 0, 0]]) {
    const a = DistributedArray.random(runtime, shape, Slab.X);
    assertEquals([a.sum(), a.redistribute(Replicated).allGather().length, a.norm()], [0, 0, 0]);
    const path = `${folder}/b.npy`;
    saveNpy(a, path);
    assertEquals([...loadNpy(runtime, path, new Slab(shape.length - 1)).shape], shape);
  }
  const boxes = new Box(Array.from({ length: runtime.size }, () => [[0, 0], [0, 4]] as const));
  assertEquals(DistributedArray.zeros(runtime, [0, 4], boxes).redistribute(Slab.Y).allGather().length, 0);
  communicator.barrier();
  if (runtime.rank === 0) Deno.removeSync(folder, { recursive: true });
});

clusterTest("all elements on one rank, and none on the others", (runtime) => {
  const { rank, size } = runtime;
  const shapeOf = (rank: number) => rank === size - 1 ? [3, 2] : [0, 0];
  const boxes = new Box(Array.from({ length: size }, (_, rank) => [[0, 0], shapeOf(rank)] as const));
  const local = LocalArray.zeros("float64", shapeOf(rank));
  local.fill(1);
  using a = DistributedArray.fromLocal(runtime, local, boxes);
  assertEquals([[...a.shape], a.sum()], [[3, 2], 6]);
});

function neverCalled(): never {
  throw new Error("There is no element to call it for.");
}

const PRODUCTS = [[0, 5, 4], [5, 0, 4], [5, 4, 0], [0, 0, 3], [3, 0, 0], [0, 0, 0]] as const;
// No engine multiplies integers and complex32.
const DTYPES = dtypes.filter((dtype) => !dtypeInfo(dtype).isInteger && dtype !== "complex32");
const isQuantized = (dtype: DType) => dtype.startsWith("float8");

clusterTest(
  "products without elements to multiply: zeros, or beta C, in every dtype, order and distribution",
  (runtime) => {
    const choices = new Cycle();
    for (const dtype of DTYPES) {
      const isComplex = dtypeInfo(dtype).isComplex;
      for (const [m, n, k] of PRODUCTS) {
        for (const addend of ["none", "copied", "inplace", "zero"] as const) {
          // A product of 8 bits has a C of 16.
          if (addend === "inplace" && isQuantized(dtype)) continue;
          choices.next();
          const place = () => ({
            distribution: choices.pick(distributions(runtime)),
            dtype,
            order: choices.pick(ORDERS),
          });
          const isTransposed = [choices.pick([false, true]), choices.pick([true, false])];
          const a = distribute(runtime, apply(integers(m, k, 1), { isTranspose: isTransposed[0] }), place());
          const b = distribute(runtime, apply(integers(k, n, 2), { isTranspose: isTransposed[1] }), {
            ...place(),
            dtype: isQuantized(dtype) ? "float8_e4m3" : dtype,
          });
          const before = dense(m, n, (i, j) => [(i + 2 * j) % 4 - 1, isComplex ? i - j : 0]);
          // With beta 0 nothing of C may come through.
          const cType = isQuantized(dtype) ? "bfloat16" : dtype;
          const c = addend === "none" ? null : distribute(runtime, before, { ...place(), dtype: cType });
          if (addend === "zero") c!.local.fill(NaN);
          const beta = addend === "zero" ? 0 : isComplex ? [2, -1] as const : 2;
          const qualifiers = { a: { isTranspose: isTransposed[0] }, b: { isTranspose: isTransposed[1] } };
          const scales = { a: 1, b: 1, d: 1 };
          const distribution = choices.pick([...distributions(runtime), undefined]);
          using product = new Matmul(a, b, {
            alpha: NaN,
            qualifiers,
            ...c && { c, beta },
            ...addend === "inplace" ? { inplace: true } : distribution && { distribution },
            ...isQuantized(dtype) && { quantizationScales: scales, resultType: dtype },
          });
          product.plan();
          const d = product.execute();
          const what = `${dtype} ${m} x ${n} x ${k}, C ${addend}, ${a}, ${b}, ${c}, D ${d}`;
          const zeros = dense(m, n, () => [0, 0]);
          const hasAddend = addend === "copied" || addend === "inplace";
          assertMatrix(d, hasAddend ? combine(1, zeros, beta, before) : zeros, what);
          assertEquals([d === c, d.dtype], [addend === "inplace", dtype], what);
          const { engine, algorithm, variant } = product.algorithm;
          const expected = runtime.device.kind === "gpu" ? "cublasmp" : "scalapack";
          assertEquals([engine, algorithm, variant], [expected, "none", "nothing to multiply"], what);
          assert(product.explain().includes("algorithm none: nothing to multiply"));
          if (addend === "copied") assertMatrix(c!, before, `${what}: c afterwards`);
        }
      }
    }
  },
);

clusterTest("beta is rounded to the type of the sums once, and C to D's once, as BLAS and NumPy do", (runtime) => {
  const values = [1 / 3, 1e30, -0.1, 3e-40, 7];
  const options = { dtype: "float32" } as const;
  const a = DistributedArray.zeros(runtime, [5, 0], Slab.X, options);
  const b = DistributedArray.zeros(runtime, [0, 1], Slab.X, options);
  const c = DistributedArray.generate(runtime, [5, 1], Slab.X, (i) => values[i], options);
  const d = matmul(a, b, { c, beta: 0.1 });
  const wanted = values.map((value) => Math.fround(Math.fround(0.1) * Math.fround(value)));
  assertEquals(Array.from(d.allGather() as Float32Array), wanted);
});

clusterTest("a real beta multiplies infinite parts of C alone", (runtime) => {
  const options = { dtype: "complex128" } as const;
  const a = DistributedArray.zeros(runtime, [3, 0], Slab.X, options);
  const b = DistributedArray.zeros(runtime, [0, 1], Slab.X, options);
  const values = [[Infinity, 1], [-2, -Infinity], [NaN, 3]] as const;
  const c = DistributedArray.generate(runtime, [3, 1], Slab.X, (i) => values[i], options);
  const d = matmul(a, b, { c, beta: 2 });
  assertEquals([...d.allGather() as Float64Array], [Infinity, 2, -4, -Infinity, NaN, 6]);
});

clusterTest("a Matmul without elements: every algorithm, other operands, autotune, other epilogs", (runtime) => {
  const place = { distribution: Slab.X, dtype: "float32" } as const;
  const [a, b] = [distribute(runtime, dense(4, 0, () => [0, 0]), place), distribute(runtime, integers(0, 3, 2), place)];
  const c = distribute(runtime, integers(4, 3, 1), place);
  const all = enginesFor(runtime).flatMap(({ algorithms }) => algorithms) as AlgorithmName[];
  const own = all.filter((name) => !/multicast|fused/.test(name));
  for (const algorithm of ["default", ...own] as const) {
    const given = { c, beta: 3, algorithm };
    assertMatrix(matmul(a, b, given), combine(0, integers(4, 3, 1), 3, integers(4, 3, 1)), algorithm);
  }
  using product = new Matmul(a, b, { c, beta: 3 });
  product.plan();
  assertEquals(product.autotune(), []);
  assertEquals(product.algorithm.algorithm, "none");
  const thrice = combine(3, integers(4, 3, 1), 0, null);
  assertMatrix(product.execute(), thrice, "after autotune");
  product.resetOperands({ c: distribute(runtime, integers(4, 3, 5), place), beta: -1 });
  assertMatrix(product.execute(), combine(-1, integers(4, 3, 5), 0, null), "after a reset");
  product.releaseOperands();
  product.resetOperands({ a, b, c, alpha: 7 });
  assertMatrix(product.execute(), combine(-1, integers(4, 3, 1), 0, null), "after a release");
  product.plan({ epilog: "relu" });
  assertMatrix(product.execute(), dense(4, 3, (i, j) => [Math.max(0, -integers(4, 3, 1).re[3 * i + j]), 0]), "relu");
  assertStrictEquals(String(product), "Matmul(4 x 3 x 0, float32, none)");
});

clusterTest("empty products are as strict as others", (runtime) => {
  const array = (shape: number[], dtype: DType = "float64") =>
    DistributedArray.zeros(runtime, shape, Slab.X, { dtype });
  assertThrowsEverywhere(runtime, () => matmul(array([4, 0]), array([1, 3])), ShapeError, "the inner extents 0 and 1");
  assertThrowsEverywhere(runtime, () => matmul(array([4, 0], "int32"), array([0, 3], "int32")), Error, "int32");
  const c = array([4, 3], "float32");
  assertThrowsEverywhere(runtime, () => matmul(array([4, 0]), array([0, 3]), { c, beta: 1 }), DTypeError, "float32");
});

clusterTest("op(A) op(B) of nothing times something is an identity of sums", (runtime) => {
  // [A1 A2] [B1; B2] = A1 B1 + A2 B2 with A2, B2 of no columns and rows.
  const place = { distribution: Slab.X, dtype: "float64" } as const;
  const [a1, b1] = [integers(6, 4, 1), integers(4, 5, 2)];
  using first = matmul(distribute(runtime, a1, place), distribute(runtime, b1, place));
  const none = [dense(6, 0, () => [0, 0]), dense(5, 0, () => [0, 0])];
  using both = matmul(distribute(runtime, none[0], place), distribute(runtime, none[1], place), {
    qualifiers: { b: { isTranspose: true } },
    c: first,
    beta: 1,
  });
  assertMatrix(both, product(a1, apply(b1)), "the sum");
});
