/**
 * PBLAS routines where cuBLASMp has limits of its own: parts without elements, uneven and many blocks, grids of every
 * shape, matrices in host memory, graphs, refusals. tests/cluster/pblas_test.ts has the rest.
 */
import { assertEquals, assertStrictEquals, assertStringIncludes } from "@std/assert";
import {
  BlockCyclic,
  DistmathError,
  type DistributedArray,
  type Distribution,
  type DType,
  geadd,
  Graph,
  ProcessGrid,
  type Runtime,
  Slab,
  StateError,
  symm,
  syrk,
  tradd,
  trmm,
  trsm,
} from "../../mod.ts";
import { cublasMpPblas } from "../../src/linalg/engines/cublasmp/pblas.ts";
import { assertThrowsEverywhere } from "../../src/testing/mod.ts";
import {
  apply,
  assertMatrix,
  at,
  combine,
  type Dense,
  dense,
  distribute,
  grids,
  integers,
  product,
} from "../cluster/matmul_oracle.ts";
import { gpuTest, isMock } from "./gpu_test_kit.ts";

const DTYPES: readonly DType[] = ["float64", "float32", "complex128", "complex64"];

/** Shapes with a block size: fewer blocks than ranks, uneven last blocks, many blocks a rank. */
const SHAPES = [[1, 3, 4], [2, 2, 2], [5, 3, 2], [9, 7, 4], [64, 48, 8], [130, 70, 16], [33, 1, 32]] as const;

const isComplex = (dtype: DType) => dtype.startsWith("complex");

/** A lower triangular matrix whose inverse is small: 4 on the diagonal, fractions of it below. */
function lowerTriangle(order: number, dtype: DType): Dense {
  const full = integers(order, order, 1, isComplex(dtype));
  return dense(order, order, (i, j) => {
    const [re, im] = at(full, i, j);
    return i < j ? [0, 0] : i === j ? [4, 0] : [re / (2 * order), im / (2 * order)];
  });
}

const tolerance = (dtype: DType) => dtype === "float64" || dtype === "complex128" ? 1e-12 : 1e-4;

/** Run a body for all grids, shapes and dtypes, each with a number of its own. */
function forAll(
  runtime: Runtime,
  body: (given: { blocks: Distribution; m: number; n: number; dtype: DType; step: number; message: string }) => void,
): void {
  let step = 0;
  for (const grid of grids(runtime.size)) {
    for (const [m, n, block] of SHAPES) {
      if (isMock(runtime) && m > 64) continue;
      for (const dtype of DTYPES) {
        const message = `${m} x ${n} ${dtype} in blocks of ${block} on ${grid}`;
        body({ blocks: new BlockCyclic(grid, [block, block]), m, n, dtype, step: step++, message });
      }
    }
  }
}

for (const side of ["left", "right"] as const) {
  gpuTest(`trsm from the ${side}: every grid, uneven blocks, empty parts, many blocks a rank`, (runtime) => {
    forAll(runtime, ({ blocks, m, n, dtype, step, message }) => {
      const lower = lowerTriangle(side === "left" ? m : n, dtype);
      const uplo = step % 2 === 0 ? "lower" : "upper";
      const stored = uplo === "lower" ? lower : apply(lower, { isTranspose: true });
      const trans = (["none", "transpose", "conjugate_transpose"] as const)[step % 3];
      const op = apply(stored, { isTranspose: trans !== "none", isConjugate: trans === "conjugate_transpose" });
      const x = integers(m, n, 2, isComplex(dtype));
      const b = side === "left" ? product(op, x) : product(x, op);
      using left = distribute(runtime, stored, { distribution: blocks, dtype, order: step % 4 < 2 ? "F" : "C" });
      using right = distribute(runtime, b, { distribution: blocks, dtype, order: step % 8 < 4 ? "F" : "C" });
      using solved = trsm(left, right, { side, uplo, trans });
      assertMatrix(solved, x, `${message}, ${uplo}, ${trans}`, tolerance(dtype));
    });
  }, { timeoutSeconds: 200 });
}

gpuTest("trmm, symm, syrk: every grid, uneven blocks, empty parts, many blocks a rank", (runtime) => {
  forAll(runtime, ({ blocks, m, n, dtype, message }) => {
    const place = (matrix: Dense) => distribute(runtime, matrix, { distribution: blocks, dtype, order: "F" });
    const full = integers(m, m, 1, isComplex(dtype));
    const lower = dense(m, m, (i, j) => i >= j ? at(full, i, j) : [0, 0]);
    const symmetric = dense(m, m, (i, j) => i >= j ? at(full, i, j) : at(full, j, i));
    const other = integers(m, n, 2, isComplex(dtype));
    using a = place(full);
    using b = place(other);
    using multiplied = trmm(a, b);
    assertMatrix(multiplied, product(lower, other), `trmm ${message}`);
    using mirrored = symm(a, b);
    assertMatrix(mirrored, product(symmetric, other), `symm ${message}`);
    using updated = syrk(b, { alpha: 2, uplo: "upper" });
    const squares = product(other, apply(other, { isTranspose: true }));
    assertMatrix(updated, dense(m, m, (i, j) => i <= j ? combineAt(2, squares, i, j) : [0, 0]), `syrk ${message}`);
  });
}, { timeoutSeconds: 200 });

function combineAt(factor: number, matrix: Dense, i: number, j: number): [number, number] {
  const [re, im] = at(matrix, i, j);
  return [factor * re, factor * im];
}

gpuTest("geadd and tradd with empty parts, and C in another distribution than the result", (runtime) => {
  forAll(runtime, ({ blocks, m, n, dtype, step, message }) => {
    const [one, other] = [integers(m, n, 1, isComplex(dtype)), integers(m, n, 2, isComplex(dtype))];
    using a = distribute(runtime, one, { distribution: blocks, dtype, order: step % 2 ? "F" : "C" });
    using c = distribute(runtime, other, { distribution: step % 3 ? Slab.X : Slab.Y, dtype });
    const distribution = step % 5 ? blocks : Slab.Y;
    const sum = combine(3, one, -2, other);
    using added = geadd(a, { c, alpha: 3, beta: -2, distribution });
    assertEquals(String(added.distribution), String(distribution.bind([m, n], runtime.size)));
    assertMatrix(added, sum, `geadd ${message}`);
    using lower = tradd(a, { c, alpha: 3, beta: -2, distribution, uplo: "lower" });
    assertMatrix(lower, dense(m, n, (i, j) => i >= j ? at(sum, i, j) : at(other, i, j)), `tradd ${message}`);
    assertMatrix(c, other, `c afterwards, ${message}`);
  });
}, { timeoutSeconds: 200 });

gpuTest("PBLAS routines take matrices in host memory, and write into them", (runtime) => {
  const onHost = (matrix: Dense) => distribute(runtime, matrix, { distribution: Slab.X }).to({ memory: "host" });
  const [lower, x] = [lowerTriangle(6, "float64"), integers(6, 4, 1)];
  const b = onHost(product(lower, x));
  const solved = trsm(onHost(lower), b);
  assertEquals([solved.memory, b.memory], ["device", "host"]);
  assertMatrix(solved, x, "copied", 1e-12);
  assertStrictEquals(trsm(onHost(lower), b, { inplace: true }), b);
  assertMatrix(b, x, "in place", 1e-12);
  const [one, other] = [integers(5, 8, 1), integers(5, 8, 2)];
  const c = onHost(other);
  assertStrictEquals(tradd(onHost(one), { c, beta: 1, inplace: true, uplo: "upper" }), c);
  const sum = combine(1, one, 1, other);
  assertMatrix(c, dense(5, 8, (i, j) => i <= j ? at(sum, i, j) : at(other, i, j)), "tradd in place");
  const added = [tradd(onHost(one)), tradd(onHost(one), { c: onHost(other), beta: 1 })];
  assertEquals(added.map(({ memory }) => memory), ["device", "device"]);
  assertMatrix(added[1], dense(5, 8, (i, j) => i >= j ? at(sum, i, j) : at(other, i, j)), "tradd copied");
});

gpuTest("PBLAS routines in a graph are refused, and work afterwards", (runtime) => {
  const place = (matrix: Dense): DistributedArray => distribute(runtime, matrix, { distribution: Slab.X });
  const [a, b] = [place(lowerTriangle(6, "float64")), place(integers(6, 4, 1))];
  const solve = () => void trsm(a, b, { inplace: true });
  const capture = () => void Graph.capture(runtime, solve);
  assertThrowsEverywhere(runtime, capture, StateError, "cannot be captured in a CUDA graph");
  solve();
  assertMatrix(b, dense(6, 4, (i, j) => solveAt(6, i, j)), "solved once", 1e-12);
});

/** An element of the solution, by forward substitution. */
function solveAt(order: number, row: number, column: number): [number, number] {
  const [lower, b] = [lowerTriangle(order, "float64"), integers(order, 4, 1)];
  const x: number[] = [];
  for (let i = 0; i <= row; i++) {
    const known = x.reduce((sum, value, j) => sum + at(lower, i, j)[0] * value, 0);
    x.push((at(b, i, column)[0] - known) / at(lower, i, i)[0]);
  }
  return [x[row], 0];
}

gpuTest("what cuBLASMp refuses is an error on every rank, which says of which function", (runtime) => {
  if (isMock(runtime)) return; // It checks less.
  const blocks = { grid: new ProcessGrid({ shape: [1, runtime.size] }), blockSize: 4 };
  const place = (matrix: Dense) => {
    const array = distribute(runtime, matrix, { distribution: new BlockCyclic(blocks.grid, [4, 4]), order: "F" });
    return { distribution: array.distribution, local: array.local };
  };
  const error = assertThrowsEverywhere(
    runtime,
    () =>
      cublasMpPblas.run(runtime, {
        routine: "trsm",
        dtype: "float64",
        letters: { side: "left", uplo: "lower", trans: "none", diag: "non_unit" },
        blocks,
        m: -1,
        n: 4,
        k: 0,
        alpha: 1,
        beta: 0,
        a: place(integers(8, 8, 1)),
        b: null,
        result: place(integers(8, 4, 2)),
      }),
    DistmathError,
    "cublasMpTrsm_bufferSize",
  );
  assertStringIncludes(error.message, "INVALID_VALUE");
});
