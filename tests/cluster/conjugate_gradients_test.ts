/** Conjugate gradients: solutions that are known, by matrices and by functions, and what is refused. */
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import {
  BlockCyclic,
  cg,
  CollectiveError,
  DistributedArray,
  DistributionError,
  type DType,
  DTypeError,
  evaluate,
  type LinearOperator,
  matmul,
  ProcessGrid,
  Replicated,
  reshape,
  type Runtime,
  type Scalar,
  ShapeError,
  Slab,
} from "../../mod.ts";
import { assertThrowsEverywhere, clusterTest, type ErrorClass } from "../../src/testing/mod.ts";
import { distributions, whole } from "./array_oracle.ts";

const n = 23;

/** -u'' on a line, of a dtype: the solution for a b of ones is known. */
function secondDifferences<D extends DType>(runtime: Runtime, dtype: D, distribution = Slab.X): DistributedArray<D> {
  const entry = (i: number, j: number): Scalar => i === j ? 2 : Math.abs(i - j) === 1 ? -1 : 0;
  return DistributedArray.generate(runtime, [n, n], distribution, entry, { dtype });
}

/** Its solution for a b of ones. */
const solution = Array.from({ length: n }, (_, i) => (i + 1) * (n - i) / 2);

function assertSolves(x: readonly number[], expected: readonly number[], tolerance: number): void {
  assertEquals(x.length, expected.length);
  x.forEach((value, i) => assertAlmostEquals(value, expected[i], tolerance * 100));
}

clusterTest("a matrix in any distribution, and b in any", (runtime) => {
  for (const dtype of ["float32", "float64"] as const) {
    const tolerance = dtype === "float32" ? 1e-6 : 1e-13;
    using a = secondDifferences(runtime, dtype);
    for (const distribution of [Slab.X, Replicated]) {
      using b = DistributedArray.full(runtime, [n], distribution, 1, { dtype });
      const { x, steps, residual, isConverged } = cg(a, b, { tolerance });
      assertSolves(whole(x) as number[], solution, tolerance);
      assertEquals([x.dtype, `${x.distribution}`, x.order], [dtype, `${b.distribution}`, b.order]);
      // In exact arithmetic half of n steps are enough, since b is symmetric.
      assert(isConverged && steps >= 11 && steps <= n, `${steps} steps`);
      assert(residual <= tolerance * Math.sqrt(n));
      assertEquals(whole(b), Array(n).fill(1), "b is as it was");
    }
  }
  for (const distribution of distributions(runtime.size)) {
    using a = secondDifferences(runtime, "float64", distribution as typeof Slab.X);
    using b = DistributedArray.full(runtime, [n], Slab.X, 1);
    assertSolves(whole(cg(a, b, { tolerance: 1e-13 }).x) as number[], solution, 1e-13);
  }
});

clusterTest("complex numbers: a Hermitian matrix", (runtime) => {
  const entry = (i: number, j: number): Scalar =>
    i === j ? [3, 0] : i === j + 1 ? [0, 1] : j === i + 1 ? [0, -1] : [0, 0];
  using a = DistributedArray.generate(runtime, [n, n], Slab.X, entry, { dtype: "complex128" });
  const at = (i: number) => i < 0 || i >= n ? [0, 0] : [i % 3, 1 - i % 2];
  // Row i is -i x of the next, 3 x, and i x of the one before.
  const right = (i: number): Scalar => {
    const [before, own, next] = [at(i - 1), at(i), at(i + 1)];
    return [3 * own[0] + next[1] - before[1], 3 * own[1] - next[0] + before[0]];
  };
  using b = DistributedArray.generate(runtime, [n], Slab.X, right, { dtype: "complex128" });
  const { x, isConverged } = cg(a, b, { tolerance: 1e-13 });
  assert(isConverged);
  assertSolves(whole(x) as number[], Array.from({ length: n }, (_, i) => at(i)).flat(), 1e-13);
});

clusterTest("functions: no matrix, arrays of two dimensions, a preconditioner, a start", (runtime) => {
  const [rows, columns] = [9, 7];
  // A Laplacian with zero around: the array lies within a border that is never written.
  using field = DistributedArray.zeros(runtime, [rows + 2, columns + 2], Slab.X);
  const inner = field.slice([[1, -1], [1, -1]]);
  const [up, down] = [field.slice([[0, -2], [1, -1]]), field.slice([[2, null], [1, -1]])];
  const [left, right] = [field.slice([[1, -1], [0, -2]]), field.slice([[1, -1], [2, null]])];
  const laplacian: LinearOperator<"float64"> = (p) => {
    p.redistribute(inner);
    using result = evaluate<"float64">(
      (own, u, d, l, r) => own.multiply(4).subtract(u).subtract(d).subtract(l).subtract(r),
      [inner, up, down, left, right],
      { redistribute: true },
    );
    return result.redistribute(p.distribution);
  };
  const expected = (i: number, j: number) => (i * 5 + j * 3) % 4 - 1;
  using known = DistributedArray.generate(runtime, [rows, columns], Slab.X, expected);
  using b = laplacian(known);
  const plain = cg(laplacian, b, { tolerance: 1e-12 });
  assert(plain.isConverged && known.maxAbsDifference(plain.x) < 1e-9);
  const near = cg(laplacian, b, { tolerance: 1e-12, x0: plain.x });
  assert(near.isConverged && near.steps <= 1, `${near.steps} steps from the solution on`);
  assertEquals(cg(laplacian, b, { maxSteps: 3 }).steps, 3);
  assertEquals(cg(laplacian, b, { maxSteps: 3 }).isConverged, false);
  for (const value of [Infinity, NaN]) {
    using endless = DistributedArray.full(runtime, b.shape, b.distribution, value);
    assertEquals(cg(laplacian, endless, { maxSteps: 3 }).isConverged, false, `${value}`);
  }
  assert(cg(laplacian, b, { absoluteTolerance: 1e-3 }).residual <= Math.max(1e-3, 1e-5 * b.norm()));

  // A diagonal of many sizes: with its inverse before it one step is enough.
  using diagonal = DistributedArray.generate(runtime, [50], Slab.X, (i) => 1 + i ** 3);
  using ones = DistributedArray.full(runtime, [50], Slab.X, 1);
  const inverse = cg((p) => diagonal.multiply(p), ones, {
    tolerance: 1e-14,
    preconditioner: (r) => r.divide(diagonal),
  });
  assertEquals([inverse.steps, inverse.isConverged], [1, true]);
  const same = cg((p) => p, ones);
  assertEquals([same.steps, ...whole(same.x)], [1, ...whole(ones)], "a function that returns its operand");
  using nothing = DistributedArray.zeros(runtime, [50], Slab.X);
  const zero = cg((p) => diagonal.multiply(p), nothing);
  assertEquals([zero.steps, zero.residual, zero.isConverged, zero.x.norm()], [0, 0, true, 0]);
});

clusterTest("squares of numbers near the ends of a dtype are not lost", (runtime) => {
  for (const dtype of ["float32", "float64"] as const) {
    const ends = dtype === "float32" ? [1e-38, 1e-24, 1e20, 1e36] : [1e-308, 1e-170, 1e160, 1e300];
    for (const end of ends) {
      using b = DistributedArray.full(runtime, [8], Slab.X, end, { dtype });
      using x0 = DistributedArray.full(runtime, [8], Slab.X, end / 4, { dtype });
      for (const start of [undefined, x0]) {
        const { x, isConverged, residual } = cg((p) => p.multiply(2), b, { ...start && { x0: start } });
        assert(isConverged && residual <= 1e-5 * b.norm(), `${dtype} ${end}`);
        for (const value of whole(x)) assertAlmostEquals(value / end, 0.5, 1e-5);
      }
    }
    using small = DistributedArray.full(runtime, [8], Slab.X, ends[1], { dtype });
    const { x, isConverged } = cg((p) => p.multiply(1e-10), small);
    assert(isConverged);
    for (const value of whole(x)) assertAlmostEquals(value * 1e-10 / ends[1], 1, 1e-5);
  }
});

clusterTest("errors of a user's functions arrive as they are", (runtime) => {
  using a = secondDifferences(runtime, "float64");
  using b = DistributedArray.full(runtime, [n], Slab.X, 1);
  // deno-lint-ignore no-explicit-any
  const forgotten: any = (p: DistributedArray) => void p.multiply(2);
  const nothing = "cg: A must return a DistributedArray, not undefined";
  assertThrowsEverywhere(runtime, () => cg(forgotten, b), TypeError, nothing);
  const before = "cg: the preconditioner must return a DistributedArray, not undefined";
  assertThrowsEverywhere(runtime, () => cg(a, b, { preconditioner: forgotten }), TypeError, before);
  const other = (make: () => DistributedArray) => () => cg(make, b);
  const should = "cg: A must return an array of its operand's shape, distribution and dtype";
  const longer = other(() => DistributedArray.full(runtime, [n + 1], Slab.X, 1));
  assertThrowsEverywhere(runtime, longer, ShapeError, `${should}, [${n}] in Slab.X, float64; it returned [${n + 1}]`);
  const wider = other(() => DistributedArray.full(runtime, [n], Slab.X, [1, 0], { dtype: "complex128" }));
  assertThrowsEverywhere(runtime, wider, DTypeError, `${should}, [${n}] in Slab.X, float64; it returned [${n}]`);
  if (runtime.size > 1) {
    const blocks = new BlockCyclic(new ProcessGrid({ shape: [runtime.size] }), [1]);
    const elsewhere = other(() => DistributedArray.full(runtime, [n], blocks, 1));
    assertThrowsEverywhere(runtime, elsewhere, DistributionError, `${should}, [${n}] in Slab.X, float64; it returned`);
  }
  const boom: LinearOperator = () => {
    throw new SyntaxError("boom");
  };
  assertThrowsEverywhere(runtime, () => cg(a, b, { preconditioner: boom }), SyntaxError, "boom");
  assertThrowsEverywhere(runtime, () => cg(boom, b), SyntaxError, "boom");
  // What is none is told of as one.
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const none = "something was thrown that has no text";
  const thrown: [value: unknown, message: string][] = [
    [undefined, "undefined"],
    [Symbol("s"), "Symbol(s)"],
    ["just text", "just text"],
    [Object.create(null), none],
    [proxy, none],
    [Object.defineProperty(new Error(), "message", { get: () => JSON.parse("{") }), none],
  ];
  for (const [value, message] of thrown) {
    const fails: LinearOperator = () => {
      throw value;
    };
    assertThrowsEverywhere(runtime, () => cg(fails, b), Error, message);
    assertThrowsEverywhere(runtime, () => cg(a, b, { preconditioner: fails }), Error, message);
  }
});

clusterTest("an error of a user's function on one rank is that error there", { ranks: [2] }, (runtime) => {
  using a = secondDifferences(runtime, "float64");
  using b = DistributedArray.full(runtime, [n], Slab.X, 1);
  let told = "";
  try {
    cg(a, b, {
      preconditioner: (r) => {
        if (runtime.rank === 0) throw new SyntaxError("boom");
        return r;
      },
    });
  } catch (error) {
    told = (error as Error).name;
  }
  // The other one learns of it where they meet again.
  if (runtime.rank === 0) assertThrows(() => b.sum(), CollectiveError, "The ranks are in different operations");
  assertEquals(told, runtime.rank === 0 ? "SyntaxError" : "CollectiveError");
});

clusterTest("what is no system is refused, on every rank", (runtime) => {
  using a = secondDifferences(runtime, "float64");
  using b = DistributedArray.full(runtime, [n], Slab.X, 1);
  using short = DistributedArray.full(runtime, [n - 1], Slab.X, 1);
  using integers = DistributedArray.full(runtime, [n], Slab.X, 1, { dtype: "int32" });
  using single = DistributedArray.full(runtime, [n], Slab.X, 1, { dtype: "float32" });
  using negative = a.multiply(-1);
  const fails = (action: () => unknown, type: ErrorClass<Error>, message: string) =>
    assertThrowsEverywhere(runtime, action, type, message);
  // deno-lint-ignore no-explicit-any
  const wrong = (value: unknown) => value as any;
  fails(
    () => cg(a, short),
    ShapeError,
    "cg: A must be n x n and b have n elements; they have shapes [23,23] and [22].",
  );
  fails(() => cg((p) => p, integers), DTypeError, "cg takes float32, float64, complex64, complex128; got int32");
  fails(
    () => cg(wrong(a), single),
    DTypeError,
    "cg takes matrices of one dtype; got float64, float32. Convert with to(",
  );
  fails(() => cg(a, b, { x0: wrong(1) }), TypeError, "x0");
  fails(() => cg(wrong(3), b), TypeError, "cg: A must be a DistributedArray or a function of one, not 3");
  fails(() => cg(a, b, { x0: short }), ShapeError, "cg: x0 must have b's shape, dtype and distribution");
  fails(() => cg(a, b, { tolerance: -1 }), RangeError, "cg: tolerance must be a number of at least 0, not -1");
  fails(() => cg(a, b, { maxSteps: NaN }), RangeError, "cg: maxSteps must be a number of at least 0, not NaN");
  fails(() => cg(a, b, { maxSteps: 2.5 }), RangeError, "cg: maxSteps must be a whole number or Infinity, not 2.5");
  fails(() => cg(a, b, { preconditioner: wrong(1) }), TypeError, "cg: preconditioner must be a function of an array");
  fails(() => cg(negative, b), RangeError, "cg: A is not positive definite: p^H A p is -2 in step 1.");
  const nothing: LinearOperator<"float64"> = (r) => r.multiply(0);
  fails(
    () => cg(a, b, { preconditioner: nothing }),
    RangeError,
    "cg: the preconditioner is not positive definite, or its numbers are too small or too large to be multiplied: " +
      "r^H M r is 0 in step 0. In that case scale A or b by a number.",
  );
});

clusterTest("systems of 32 bits of small and large numbers are solved as others are", (runtime) => {
  for (const dtype of ["float32", "complex64"] as const) {
    const a = secondDifferences(runtime, dtype);
    const b = DistributedArray.full(runtime, [n], Slab.X, 1, { dtype });
    for (const [factor, size] of [[1, 1], [1e-20, 1e-11], [1e-25, 1e-11], [1e20, 1e10]]) {
      const { x, isConverged, steps } = cg(a.multiply(factor), b.multiply(size), { tolerance: 1e-5 });
      assert(isConverged && steps <= n + 2, `${dtype}, A ${factor}, b ${size}: ${steps} steps`);
      const scaled = x.multiply(factor / size);
      whole(dtype === "float32" ? scaled : scaled.real()).forEach((value, i) =>
        assertAlmostEquals(Number(value), solution[i], 1e-3 * solution[i])
      );
    }
  }
});

clusterTest("a b of zeros has the solution 0 wherever it begins, and a tolerance of 0 is no fault of A", (runtime) => {
  for (const dtype of ["float32", "float64"] as const) {
    for (const extent of [1, 8]) {
      const entry = (i: number, j: number) => i === j ? 1e-3 * (1 + i) : 1e-5;
      const a = DistributedArray.generate(runtime, [extent, extent], Slab.X, entry, { dtype });
      const [zeros, ones] = [0, 1].map((value) => DistributedArray.full(runtime, [extent], Slab.X, value, { dtype }));
      const none = cg(a, zeros, { x0: ones });
      assertEquals([none.x.norm(), none.steps, none.residual, none.isConverged], [0, 0, 0, true]);
      const { x, steps } = cg(a, ones, { tolerance: 0 });
      assert(steps <= 10 * extent);
      const product = matmul(a, reshape(x, [extent, 1]) as typeof a);
      assertAlmostEquals(Number(product.sum()), extent, 1e-4);
    }
  }
});
