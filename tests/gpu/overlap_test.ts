/** Engine "overlap" on GPUs: what matmul and Matmul make of tile kernels, exact on small integers. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import {
  type Distribution,
  type DType,
  Matmul,
  type MatmulOptions,
  Replicated,
  type Runtime,
  Slab,
} from "../../mod.ts";
import {
  apply,
  assertMatrix,
  combine,
  Cycle,
  type Dense,
  distribute,
  product,
  ternary,
} from "../cluster/matmul_oracle.ts";
import { gpuTest as registerGpuTest } from "./gpu_test_kit.ts";
import { SEVERAL, TRANSPOSES } from "./matmul_kit.ts";

function gpuTest(name: string, body: (runtime: Runtime) => void): void {
  registerGpuTest(name, body, { timeoutSeconds: 120, ranks: SEVERAL });
}

const { X, Y } = Slab;

/** Where A, B and D of the product are, and what the engine does there. */
const PLACES: readonly (readonly [Distribution, Distribution, Distribution, string])[] = [
  [X, Y, Y, "all_gather_gemm"],
  [X, Y, X, "all_gather_gemm"],
  [Y, X, X, "gemm_reduce_scatter"],
  [Y, X, Y, "gemm_reduce_scatter"],
  [Y, X, Replicated, "gemm_all_reduce"],
];

interface Case {
  readonly places: readonly [Distribution, Distribution, Distribution];
  readonly shape: readonly [m: number, n: number, k: number];
  readonly transposes?: readonly [boolean, boolean];
  readonly dtype?: DType;
  readonly orders?: readonly ["C" | "F", "C" | "F", "C" | "F"];
  readonly addend?: "none" | "copied" | "inplace";
  readonly alpha?: number;
  readonly options?: MatmulOptions;
  readonly runs?: number;
}

const flip = (place: Distribution, isFlipped: boolean) =>
  !isFlipped ? place : place === X ? Y : place === Y ? X : place;

const products = new Map<string, Dense>();

/** A B of the test's matrices, by plain loops; kept, since cases share extents. */
function productOf(a: Dense, b: Dense): Dense {
  const key = [a.rows, b.columns, a.columns].join();
  const found = products.get(key) ?? product(a, b);
  products.set(key, found);
  return found;
}

/** Multiply small integers by engine overlap, compare with plain loops, and return what ran. */
function run(runtime: Runtime, given: Case): Matmul["algorithm"] {
  const { places, shape: [m, n, k], transposes: [ta, tb] = [false, false], dtype = "bfloat16" } = given;
  const { orders = ["C", "C", "C"], addend = "none", alpha = 1, options = {}, runs = 2 } = given;
  const [opA, opB, c] = [ternary(m, k, 1), ternary(k, n, 2), ternary(m, n, 3)];
  const place = (matrix: Dense, which: 0 | 1 | 2, isFlipped = false) =>
    distribute(runtime, matrix, { distribution: flip(places[which], isFlipped), dtype, order: orders[which] });
  using a = place(apply(opA, { isTranspose: ta }), 0, ta);
  using b = place(apply(opB, { isTranspose: tb }), 1, tb);
  using addition = addend === "none" ? null : place(c, 2);
  using object = new Matmul(a, b, {
    engine: "overlap",
    qualifiers: { a: { isTranspose: ta }, b: { isTranspose: tb } },
    distribution: places[2],
    ...alpha !== 1 && { alpha },
    ...addition ? { c: addition, beta: -2, inplace: addend === "inplace" } : { order: orders[2] },
    ...options,
  });
  object.plan();
  const message = `${JSON.stringify({ ...given, places: places.map(String) })}: ${JSON.stringify(object.algorithm)}`;
  const expected = combine(alpha, productOf(opA, opB), addition ? -2 : 0, addition && c);
  for (let i = 0; i < (addend === "inplace" ? 1 : runs); i++) {
    const d = object.execute();
    assertStrictEquals(addend === "inplace" ? d : null, addend === "inplace" ? addition : null);
    assertMatrix(d, expected, message);
    if (d !== addition) d.free();
  }
  return object.algorithm;
}

gpuTest("engine overlap multiplies slabs in every order, transposed or not, in both dtypes", (runtime) => {
  const { size } = runtime;
  const cycle = new Cycle();
  for (const [a, b, d, algorithm] of PLACES) {
    for (const transposes of TRANSPOSES) {
      for (const orders of ["CCC", "CFC", "FCF", "FFF", "CCF"]) {
        cycle.next();
        const ran = run(runtime, {
          places: [a, b, d],
          shape: [40 * size, 72 * size, 24 * size],
          transposes,
          orders: [...orders] as never,
          dtype: cycle.pick(["bfloat16", "float16", "bfloat16"] as const),
          options: { algorithm: algorithm as "all_gather_gemm" },
        });
        assertEquals([ran.engine, ran.algorithm], ["overlap", algorithm]);
        assert(ran.bytesMoved > 0);
      }
    }
  }
});

gpuTest("large products by engine overlap, with the tiles that are chosen for them", (runtime) => {
  const { size } = runtime;
  for (const [a, b, d] of PLACES) {
    for (const shape of [[520 * size, 1032 * size, 264 * size], [64, 1032 * size, 264 * size]] as const) {
      run(runtime, { places: [a, b, d], shape, runs: 3 });
    }
  }
});
