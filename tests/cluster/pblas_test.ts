/** The PBLAS routines against plain loops, exact with small integers. */
import { assert, assertEquals, assertMatch, assertStrictEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { DistributedArray } from "../../src/array/distributed_array.ts";
import type { DType } from "../../src/dtype/dtype.ts";
import { BlockCyclic, type Distribution, Replicated, Slab } from "../../src/distribution/mod.ts";
import { CollectiveError, DistributionError, DTypeError, ShapeError, StateError } from "../../src/errors.ts";
import { explain } from "../../src/linalg/pblas/explanation.ts";
import {
  type Diagonal,
  geadd,
  hemm,
  her2k,
  herk,
  type Side,
  symm,
  syr2k,
  syrk,
  tradd,
  type Transposition,
  type Triangle,
  trmm,
  trsm,
} from "../../src/linalg/pblas/routines.ts";
import type { Runtime } from "../../src/runtime/runtime.ts";
import { assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import {
  apply,
  assertMatrix,
  at,
  combine,
  type Complex,
  Cycle,
  type Dense,
  dense,
  distribute,
  grids,
  integers,
  product,
} from "./matmul_oracle.ts";

const SIDES: readonly Side[] = ["left", "right"];
const TRIANGLES: readonly Triangle[] = ["lower", "upper"];
const TRANSPOSITIONS: readonly Transposition[] = ["none", "transpose", "conjugate_transpose"];
const DIAGONALS: readonly Diagonal[] = ["non_unit", "unit"];
const DTYPES: readonly DType[] = ["float64", "complex128", "float32", "complex64"];
const ORDERS = ["C", "F"] as const;
const ADDENDS = ["none", "copied", "inplace"] as const;

const qualifier = (trans: Transposition) => ({
  isTranspose: trans !== "none",
  isConjugate: trans === "conjugate_transpose",
});

const isIn = (uplo: Triangle, i: number, j: number) => uplo === "lower" ? i >= j : i <= j;

/** The triangle of a matrix, and zeros; the diagonal is one if it is a unit triangular matrix. */
function triangle(matrix: Dense, uplo: Triangle, diag: Diagonal = "non_unit"): Dense {
  return dense(matrix.rows, matrix.columns, (i, j) => {
    if (i === j && diag === "unit") return [1, 0];
    return isIn(uplo, i, j) ? at(matrix, i, j) : [0, 0];
  });
}

/** One matrix in a triangle, another one in the rest. */
function merge(inside: Dense, uplo: Triangle, outside: Dense): Dense {
  return dense(inside.rows, inside.columns, (i, j) => isIn(uplo, i, j) ? at(inside, i, j) : at(outside, i, j));
}

const zeros = (rows: number, columns: number) => dense(rows, columns, () => [0, 0]);

/** Distributions that the routines take as they are, and others that have to be moved. */
function distributions(size: number): Distribution[] {
  const all = grids(size);
  return [
    Slab.X,
    Slab.Y,
    ...all.map((grid) => new BlockCyclic(grid, [2, 2])),
    new BlockCyclic(all[0], [3, 1]),
    Replicated,
  ];
}

/** What the combinations of a test run through. */
class Choices extends Cycle {
  readonly #distributions: readonly Distribution[];

  constructor({ size }: Runtime) {
    super();
    this.#distributions = distributions(size);
  }

  placement(dtype: DType) {
    return { distribution: this.pick(this.#distributions), order: this.pick(ORDERS), dtype };
  }
}

const scalarFor = (dtype: DType, real: number, complex: Complex) => dtype.startsWith("complex") ? complex : real;

for (const name of ["trsm", "trmm"] as const) {
  clusterTest(`${name}: sides, triangles, transpositions, diagonals, dtypes, orders, distributions`, (runtime) => {
    const choices = new Choices(runtime);
    for (const dtype of DTYPES) {
      for (const side of SIDES) {
        for (const uplo of TRIANGLES) {
          for (const trans of TRANSPOSITIONS) {
            for (const diag of DIAGONALS) {
              choices.next();
              const [m, n] = choices.pick([[6, 4], [5, 7], [8, 8], [1, 3], [0, 4], [5, 0], [0, 0]]);
              checkTriangular(runtime, choices, name, { dtype, side, uplo, trans, diag, m, n });
            }
          }
        }
      }
    }
  });
}

interface TriangularCase {
  dtype: DType;
  side: Side;
  uplo: Triangle;
  trans: Transposition;
  diag: Diagonal;
  m: number;
  n: number;
}

function checkTriangular(runtime: Runtime, choices: Choices, name: "trsm" | "trmm", given: TriangularCase): void {
  const { dtype, side, uplo, trans, diag, m, n } = given;
  const isComplex = dtype.startsWith("complex");
  const order = side === "left" ? m : n;
  // A diagonal of powers of two in places where it counts; the other triangle must not be read.
  const full = integers(order, order, 1, isComplex);
  const a = dense(order, order, (i, j) => i === j ? [diag === "unit" ? 7 : (i % 2 ? -2 : 1), 0] : at(full, i, j));
  const op = apply(triangle(a, uplo, diag), qualifier(trans));
  const x = integers(m, n, 2, isComplex);
  const multiplied = side === "left" ? product(op, x) : product(x, op);
  const [alpha, inverse] = [scalarFor(dtype, 2, [0, 2]), scalarFor(dtype, 0.5, [0, -0.5])];
  const [given_b, expected] = name === "trmm"
    ? [x, combine(alpha, multiplied, 0, null)]
    : [combine(inverse, multiplied, 0, null), x];
  const [left, right] = [distribute(runtime, a, choices.placement(dtype)), choices.placement(dtype)];
  const b = distribute(runtime, given_b, right);
  const inplace = choices.pick([false, true]);
  const message = `${name} ${JSON.stringify(given)}, ${left}, ${b}, inplace ${inplace}`;
  const routine = name === "trsm" ? trsm : trmm;
  const result = routine(left, b, { side, uplo, trans, diag, alpha, inplace });
  assertEquals(result === b, inplace, message);
  assertEquals([result.order, String(result.distribution)], [b.order, String(b.distribution)], message);
  assertMatrix(result, expected, message);
  if (!inplace) assertMatrix(b, given_b, `${message}: b afterwards`);
  assertMatrix(left, a, `${message}: a afterwards`);
}

/** Run a routine with the ways that C can take part. */
function checkAddends(
  runtime: Runtime,
  choices: Choices,
  dtype: DType,
  expect: { computed: Dense; uplo: Triangle | null; alpha: number | Complex; beta: number | Complex },
  call: (options: { c?: DistributedArray; beta?: number | Complex; inplace?: boolean }) => DistributedArray,
  message: string,
): void {
  const { computed, uplo, alpha, beta } = expect;
  const { rows, columns } = computed;
  const addend = choices.pick(ADDENDS);
  const text = `${message}, C ${addend}`;
  const symmetric = uplo !== null && rows === columns;
  const raw = integers(rows, columns, 3, dtype.startsWith("complex"));
  // herk takes the diagonal of C for real.
  const c = symmetric ? dense(rows, columns, (i, j) => i === j ? [at(raw, i, j)[0], 0] : at(raw, i, j)) : raw;
  const sum = combine(alpha, computed, beta, addend === "none" ? null : c);
  const rest = addend === "none" ? zeros(rows, columns) : c;
  const expected = uplo === null ? sum : merge(sum, uplo, rest);
  if (addend === "none") return assertMatrix(call({}), expected, text);
  const given = distribute(runtime, c, choices.placement(dtype));
  const result = call({ c: given, beta, inplace: addend === "inplace" });
  assertEquals(result === given, addend === "inplace", text);
  assertEquals([result.order, String(result.distribution)], [given.order, String(given.distribution)], text);
  assertMatrix(result, expected, text);
  if (addend === "copied") assertMatrix(given, c, `${text}: c afterwards`);
}

clusterTest("syrk and herk: triangles, transpositions, dtypes, orders, distributions, addends", (runtime) => {
  const choices = new Choices(runtime);
  for (const dtype of DTYPES) {
    const isComplex = dtype.startsWith("complex");
    for (const uplo of TRIANGLES) {
      for (const isTransposed of [false, true]) {
        for (let repetition = 0; repetition < 6; repetition++) {
          choices.next();
          const isHermitian = isComplex && repetition % 2 === 0;
          const routine = isHermitian ? herk : syrk;
          const trans = !isTransposed ? "none" : isHermitian ? "conjugate_transpose" : "transpose";
          const [n, k] = choices.pick([[6, 3], [5, 8], [4, 1], [5, 0], [0, 3]]);
          const stored = isTransposed ? integers(k, n, 1, isComplex) : integers(n, k, 1, isComplex);
          const factor = apply(stored, qualifier(trans));
          const computed = product(factor, apply(factor, { isTranspose: true, isConjugate: isHermitian }));
          const a = distribute(runtime, stored, choices.placement(dtype));
          const alpha = isHermitian ? 3 : scalarFor(dtype, 3, [1, 2]);
          const beta = isHermitian ? -2 : scalarFor(dtype, -2, [2, -1]);
          const message = `${routine.name} ${dtype} ${uplo} ${trans} ${n} ${k}, ${a}`;
          checkAddends(runtime, choices, dtype, { computed, uplo, alpha, beta }, (options) => {
            return routine(a, { uplo, trans, alpha, ...options } as Parameters<typeof syrk>[1]);
          }, message);
        }
      }
    }
  }
});

clusterTest("herk and her2k make the diagonal real, also where nothing is added", (runtime) => {
  for (const order of ORDERS) {
    using a = DistributedArray.full(runtime, [4, 2], Slab.X, [NaN, 1], { dtype: "complex128", order });
    for (const beta of [1, 2]) {
      using c = DistributedArray.full(runtime, [4, 4], Slab.X, [1, 5], { dtype: "complex128", order });
      for (const d of [herk(a, { c, alpha: 0, beta }), her2k(a, a, { c, alpha: 0, beta })]) {
        for (let i = 0; i < 4; i++) assertEquals(d.at(i, i), [beta, 0]);
        assertEquals(
          [d.at(0, 1), d.at(1, 0)].filter((value) => String(value) === `${beta},${5 * beta}`).length >= 1,
          true,
        );
      }
    }
  }
});

clusterTest("syr2k and her2k: triangles, transpositions, dtypes, orders, distributions, addends", (runtime) => {
  const choices = new Choices(runtime);
  for (const dtype of DTYPES) {
    const isComplex = dtype.startsWith("complex");
    for (const uplo of TRIANGLES) {
      for (const isTransposed of [false, true]) {
        for (let repetition = 0; repetition < 6; repetition++) {
          choices.next();
          const isHermitian = isComplex && repetition % 2 === 0;
          const routine = isHermitian ? her2k : syr2k;
          const trans = !isTransposed ? "none" : isHermitian ? "conjugate_transpose" : "transpose";
          const [n, k] = choices.pick([[6, 3], [5, 8], [4, 1], [5, 0], [0, 3]]);
          const [rows, columns] = isTransposed ? [k, n] : [n, k];
          const stored = [1, 2].map((seed) => integers(rows, columns, seed, isComplex));
          const [left, right] = stored.map((matrix) => apply(matrix, qualifier(trans)));
          const turned = { isTranspose: true, isConjugate: isHermitian };
          const alpha = scalarFor(dtype, 3, [1, 2]);
          const other = isHermitian ? [1, -2] as const : alpha;
          const computed = combine(
            alpha,
            product(left, apply(right, turned)),
            other,
            product(right, apply(left, turned)),
          );
          const [a, b] = stored.map((matrix) => distribute(runtime, matrix, choices.placement(dtype)));
          const beta = isHermitian ? -2 : scalarFor(dtype, -2, [2, -1]);
          const message = `${routine.name} ${dtype} ${uplo} ${trans} ${n} ${k}, ${a}, ${b}`;
          checkAddends(runtime, choices, dtype, { computed, uplo, alpha: 1, beta }, (options) => {
            return routine(a, b, { uplo, trans, alpha, ...options } as Parameters<typeof syr2k>[2]);
          }, message);
        }
      }
    }
  }
});

clusterTest("symm and hemm: sides, triangles, dtypes, orders, distributions, addends", (runtime) => {
  const choices = new Choices(runtime);
  for (const dtype of DTYPES) {
    const isComplex = dtype.startsWith("complex");
    for (const side of SIDES) {
      for (const uplo of TRIANGLES) {
        for (let repetition = 0; repetition < (isComplex ? 6 : 4); repetition++) {
          choices.next();
          const isHermitian = isComplex && repetition % 2 === 0;
          const [m, n] = choices.pick([[6, 4], [5, 7], [3, 3], [0, 4], [5, 0]]);
          const order = side === "left" ? m : n;
          const stored = integers(order, order, 1, isComplex);
          const opposite = apply(stored, { isTranspose: true, isConjugate: isHermitian });
          const whole = dense(order, order, (i, j) => {
            if (isHermitian && i === j) return [at(stored, i, i)[0], 0];
            return at(isIn(uplo, i, j) ? stored : opposite, i, j);
          });
          const other = integers(m, n, 2, isComplex);
          const computed = side === "left" ? product(whole, other) : product(other, whole);
          const a = distribute(runtime, stored, choices.placement(dtype));
          const b = distribute(runtime, other, choices.placement(dtype));
          const [alpha, beta] = [scalarFor(dtype, 3, [1, 2]), scalarFor(dtype, -2, [2, -1])];
          const routine = isHermitian ? hemm : symm;
          const message = `${routine.name} ${dtype} ${side} ${uplo} ${m} ${n}, ${a}, ${b}`;
          checkAddends(runtime, choices, dtype, { computed, uplo: null, alpha, beta }, (options) => {
            return routine(a, b, { side, uplo, alpha, ...options } as Parameters<typeof symm>[2]);
          }, message);
        }
      }
    }
  }
});

clusterTest("geadd and tradd: transpositions, triangles, dtypes, orders, distributions, addends", (runtime) => {
  const choices = new Choices(runtime);
  for (const dtype of DTYPES) {
    const isComplex = dtype.startsWith("complex");
    for (const trans of TRANSPOSITIONS) {
      for (const uplo of [null, ...TRIANGLES]) {
        for (let repetition = 0; repetition < 4; repetition++) {
          choices.next();
          const [m, n] = choices.pick([[6, 6], [4, 4], [7, 7], [0, 0]]);
          const stored = integers(trans === "none" ? m : n, trans === "none" ? n : m, 1, isComplex);
          const a = distribute(runtime, stored, choices.placement(dtype));
          const computed = apply(stored, {
            ...qualifier(trans),
            isConjugate: isComplex && qualifier(trans).isConjugate,
          });
          const [alpha, beta] = [scalarFor(dtype, 3, [1, 2]), scalarFor(dtype, -2, [2, -1])];
          const message = `${uplo ? "tradd" : "geadd"} ${dtype} ${trans} ${uplo} ${m} ${n}, ${a}`;
          checkAddends(runtime, choices, dtype, { computed, uplo, alpha, beta }, (options) => {
            const all = { trans, alpha, ...options } as Parameters<typeof geadd>[1];
            return uplo ? tradd(a, { ...all, uplo }) : geadd(a, all);
          }, message);
        }
      }
    }
  }
});

clusterTest("geadd adds matrices that are not square", (runtime) => {
  for (const order of ORDERS) {
    const [a, c] = [integers(3, 8, 1), integers(8, 3, 2)];
    const left = distribute(runtime, a, { distribution: Slab.Y, order });
    const addend = distribute(runtime, c, { distribution: Slab.X, order: "F" });
    const sum = geadd(left, { trans: "transpose", c: addend, beta: -1 });
    assertMatrix(sum, combine(1, apply(a, { isTranspose: true }), -1, c), order);
    assertEquals(String(sum.distribution), "Slab.X");
  }
});

clusterTest("tradd adds trapezoids of matrices that are not square", (runtime) => {
  const choices = new Choices(runtime);
  for (const dtype of DTYPES) {
    for (const trans of TRANSPOSITIONS) {
      for (const uplo of TRIANGLES) {
        for (const [m, n] of [[7, 4], [4, 7], [1, 5], [6, 1], [9, 8], [0, 3], [4, 0]]) {
          choices.next();
          const stored = integers(trans === "none" ? m : n, trans === "none" ? n : m, 1, dtype.startsWith("complex"));
          const a = distribute(runtime, stored, choices.placement(dtype));
          const computed = apply(stored, qualifier(trans));
          const [alpha, beta] = [scalarFor(dtype, 3, [1, 2]), scalarFor(dtype, -2, [2, -1])];
          const message = `tradd ${dtype} ${trans} ${uplo} ${m} ${n}, ${a}`;
          checkAddends(runtime, choices, dtype, { computed, uplo, alpha, beta }, (options) => {
            return tradd(a, { trans, alpha, uplo, ...options } as Parameters<typeof tradd>[1]);
          }, message);
        }
      }
    }
  }
  const a = distribute(runtime, integers(6, 4, 1), { distribution: Slab.X });
  const lower = tradd(a, { distribution: Slab.Y });
  assertEquals(String(lower.distribution), "Slab.Y");
  assertMatrix(lower, merge(integers(6, 4, 1), "lower", zeros(6, 4)), "in another distribution");
});

clusterTest("the distribution of a result can be asked for", (runtime) => {
  const a = integers(6, 6, 1);
  const array = distribute(runtime, a, { distribution: Slab.X });
  const result = syrk(array, { uplo: "upper", distribution: Slab.Y });
  assertEquals(String(result.distribution), "Slab.Y");
  assertMatrix(result, merge(product(a, apply(a, { isTranspose: true })), "upper", zeros(6, 6)), "Slab.Y");
});

clusterTest("a view of a larger array is written in place, and nothing around it", (runtime) => {
  const whole = distribute(runtime, integers(8, 8, 2), { distribution: Slab.X });
  const before = integers(8, 8, 2);
  const part = whole.slice([[0, 8], [2, 6]]);
  const a = distribute(runtime, dense(8, 8, (i, j) => i === j ? [1, 0] : i > j ? [1, 0] : [9, 9]), {
    distribution: Slab.X,
  });
  assertStrictEquals(trmm(a, part, { inplace: true }), part);
  const lower = dense(8, 8, (i, j) => i >= j ? [1, 0] : [0, 0]);
  const inner = product(lower, dense(8, 4, (i, j) => at(before, i, j + 2)));
  assertMatrix(whole, dense(8, 8, (i, j) => j >= 2 && j < 6 ? at(inner, i, j - 2) : at(before, i, j)), "whole");
});

clusterTest("many systems in a row leave nothing behind but what they return", (runtime) => {
  const a = distribute(runtime, dense(6, 6, (i, j) => i === j ? [1, 0] : [i - j, 0]), { distribution: Slab.X });
  const b = distribute(runtime, integers(6, 3, 1), { distribution: Slab.Y });
  let x = b;
  for (let i = 0; i < 20; i++) x = trmm(a, trsm(a, x, { diag: "unit" }), { diag: "unit" });
  assertMatrix(x, integers(6, 3, 1), "20 times there and back");
  runtime.collect();
});

clusterTest("misuse is an error on every rank", (runtime) => {
  const array = (rows: number, columns: number, dtype: DType = "float64") =>
    DistributedArray.zeros(runtime, [rows, columns], Slab.X, { dtype });
  const [a, b] = [array(4, 4), array(4, 2)];
  const everywhere = <E extends Error>(
    fn: () => unknown,
    // deno-lint-ignore no-explicit-any
    type: abstract new (...values: any[]) => E,
    part: string,
  ) => assertThrowsEverywhere(runtime, fn, type, part);
  everywhere(() => trsm(array(4, 3), b), ShapeError, "must be 4 x 4");
  everywhere(() => trsm(a, b, { side: "right" }), ShapeError, "must be 2 x 2");
  everywhere(() => trsm(a, array(4, 2, "float32")), DTypeError, "one dtype");
  everywhere(() => syrk(array(4, 4, "bfloat16")), DTypeError, "bfloat16");
  everywhere(() => herk(a), DTypeError, "Use syrk");
  everywhere(() => herk(array(4, 4, "complex64"), { trans: "transpose" }), TypeError, "Use syrk");
  everywhere(() => syrk(array(4, 4, "complex64"), { trans: "conjugate_transpose" }), TypeError, "Use herk");
  everywhere(() => herk(array(4, 4, "complex64"), { alpha: [1, 1] }), DTypeError, "Hermitian");
  const c = array(4, 4, "complex64");
  everywhere(() => syr2k(a, b), ShapeError, "b has shape [4, 2], but must have that of a, [4, 4]");
  everywhere(() => her2k(a, a), DTypeError, "Use syr2k");
  everywhere(() => hemm(a, b), DTypeError, "Use symm");
  everywhere(() => her2k(c, c, { trans: "transpose" }), TypeError, "Use syr2k");
  everywhere(() => syr2k(c, c, { trans: "conjugate_transpose" }), TypeError, "Use her2k");
  everywhere(() => her2k(c, c, { c, alpha: [1, 1], beta: [1, 1] }), DTypeError, "Hermitian");
  everywhere(() => syr2k(a, a, { c: a, beta: 1, inplace: true }), StateError, "shares memory");
  everywhere(() => geadd(a, { alpha: [1, 1] }), DTypeError, "complex");
  everywhere(() => geadd(a, { c: array(4, 2), beta: 1 }), ShapeError, "the result has [4, 4]");
  everywhere(() => geadd(a, { c: a }), TypeError, "c needs beta");
  everywhere(() => geadd(a, { beta: 1 }), TypeError, "there is no c");
  everywhere(() => geadd(a, { inplace: true }), TypeError, "there is no c");
  everywhere(() => trsm(a, b, { uplo: "down" as Triangle }), TypeError, "uplo");
  everywhere(() => trsm(a, b, { beta: 1 } as never), TypeError, "beta");
  everywhere(() => trsm(a, 3 as never), TypeError, "b must be");
  everywhere(() => trmm(a, a, { inplace: true, side: "left" }).free(), StateError, "");
  const bound = Slab.X.bind([9, 9], runtime.size);
  everywhere(() => geadd(a, { distribution: bound }), DistributionError, "is bound to shape [9, 9]");
  const freed = array(4, 4);
  freed.free();
  everywhere(() => trsm(freed, b), StateError, "freed");
  if (runtime.size === 1) return;
  everywhere(() => geadd(a, { c: array(4, 4), beta: 1, inplace: true, distribution: Slab.Y }), DistributionError, "");
  everywhere(() => geadd(a, { alpha: runtime.rank }), CollectiveError, "alpha");
  everywhere(() => trsm(a, b, { side: runtime.rank ? "right" : "left" }), ShapeError, "");
  assert(!a.isFreed);
});

clusterTest("explain() tells what a routine would do, and what its last call did that was recorded", (runtime) => {
  const { rank, size, stream } = runtime;
  const array = (m: number, n: number, dtype: DType = "float64") =>
    DistributedArray.full(runtime, [m, n], Slab.X, 1, { dtype });
  using a = array(8, 8);
  using b = array(8, 4);
  const engine = stream ? "cublasmp" : "scalapack";
  const text = explain(trsm, a, b, { uplo: "upper", alpha: 2 });
  for (
    const part of [
      "trsm: op(A) X = alpha B; side left, uplo upper, trans none, diag non_unit\n  A 8 x 8, float64, Slab.X, order C\n",
      "\n  B 8 x 4, float64, Slab.X, order C\n  result 8 x 4, float64, Slab.X, order C\n",
      `\nengine ${engine}, algorithm trsm: blocks of `,
      "without what the library sends while it computes",
      stream ? " GB/s between GPUs, " : " GFLOP/s and ",
      "no trsm was recorded",
    ]
  ) assertStringIncludes(text, part);
  assertStringIncludes(explain(trsm, a, array(4, 8), { side: "right" }), "trsm: X op(A) = alpha B; side right");
  const formulas: [string, string][] = [
    [explain(trmm, a, b), "trmm: alpha op(A) B;"],
    [explain(trmm, a, array(4, 8), { side: "right" }), "trmm: alpha B op(A);"],
    [explain(syrk, b), "syrk: alpha op(A) op(A)' + beta C; uplo lower, trans none"],
    [explain(herk, array(4, 4, "complex64")), "herk: alpha op(A) op(A)' + beta C;"],
    [explain(syr2k, b, b), "syr2k: alpha op(A) op(B)' + its transpose + beta C;"],
    [explain(her2k, array(4, 4, "complex64"), array(4, 4, "complex64")), "her2k: "],
    [explain(symm, a, b, { side: "left" }), "symm: alpha A B + beta C; side left, uplo lower"],
    [explain(hemm, array(4, 4, "complex64"), array(4, 4, "complex64")), "hemm: "],
    [explain(tradd, a), "tradd: alpha op(A) + beta C; uplo lower, trans none"],
    [explain(geadd, a, { c: a.copy(), beta: 1, inplace: true }), "order C, overwritten by the result\n"],
    [explain(geadd, array(0, 4)), "\nnothing to compute\n"],
  ];
  for (const [text, part] of formulas) assertStringIncludes(text, part);

  // One of both goes to where the other is.
  using columns = DistributedArray.full(runtime, [8, 8], Slab.Y, 1);
  const moved = explain(geadd, a, { c: columns, beta: 1 });
  const lines = moved.split("\n");
  assertEquals(lines.some((line) => line.startsWith("  copy: ")), size > 1, moved);
  const sent = Number(/this rank sends (\d+) bytes/.exec(moved)?.[1]);
  const all = runtime.communicator.allReduce(Float64Array.of(sent))[0];
  assertEquals(moved.includes("and an unknown number that the library sends"), size > 1, moved);
  assertEquals(text.includes("this rank sends 0 bytes"), size === 1, text);
  assertStringIncludes(moved, `, ${all} bytes between ranks an execution`);
  assertEquals(all > 0, size > 1);

  const recording = runtime.record();
  using _sum = geadd(a);
  recording.stop();
  assertMatch(
    explain(geadd, a),
    /\nthe last geadd that was recorded took [\d.]+ us.* on this rank; besides its check, collective calls: /,
  );

  // Local: each rank alone.
  if (rank === 0) {
    assertThrows(() => explain(trsm, b, b), ShapeError, "must be 8 x 8");
    assertThrows(() => explain(trsm, a, b, { uplo: "down" as Triangle }), TypeError, "uplo");
    assertThrows(
      () => explain(() => a),
      TypeError,
      "explain takes a PBLAS routine and its arguments, such as explain(trsm, a, b); got",
    );
  }
});
