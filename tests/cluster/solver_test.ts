/** Dense systems and eigenvalues against systems of small integers and known spectra. */
import { assert, assertEquals } from "@std/assert";
import {
  CollectiveError,
  DistributedArray,
  type Distribution,
  DistributionError,
  DTypeError,
  dtypeInfo,
  eigh,
  LocalArray,
  Replicated,
  type Runtime,
  ShapeError,
  Slab,
  solve,
  StateError,
} from "../../mod.ts";
import { assertSameOnAllRanks, assertThrowsEverywhere, clusterTest } from "../../src/testing/mod.ts";
import { apply, at, type Complex, type Dense, dense, integers, numbersOf, product } from "./matmul_oracle.ts";

const DTYPES = ["float32", "float64", "complex64", "complex128"] as const;
const ORDERS = ["C", "F"] as const;
const ASSUMPTIONS = ["general", "positive_definite"] as const;

type Kind = typeof DTYPES[number];

const isComplex = (dtype: Kind) => dtypeInfo(dtype).isComplex;
/** Some units in the last place of 1. */
const limitOf = (dtype: Kind) => dtypeInfo(dtype).real === "float32" ? 2e-5 : 1e-13;

/** A matrix, or its first column as a vector, on every rank, where the runtime computes. */
function place(
  runtime: Runtime,
  matrix: Dense,
  dtype: Kind,
  order: "C" | "F" = "C",
  { isVector = false, memory = runtime.stream ? "device" : "host" }: {
    isVector?: boolean;
    memory?: "host" | "device";
  } = {},
): DistributedArray<Kind> {
  const { rows, columns } = matrix;
  const element = (i: number, j = 0) => isComplex(dtype) ? at(matrix, i, j) : at(matrix, i, j)[0];
  const shape = isVector ? [rows] : [rows, columns];
  return DistributedArray.generate<Kind>(runtime, shape, Replicated, element as (i: number) => number, {
    dtype,
    order,
    memory,
  });
}

/** The elements that a rank holds; a vector is one column. */
function wholeOf(array: DistributedArray): Dense {
  const numbers = array.local.toNumbers();
  const { parts } = dtypeInfo(array.dtype);
  const [rows, columns = 1] = array.shape;
  const part = (i: number, j: number, of: number) => of < parts ? numbers[(i * columns + j) * parts + of] : 0;
  return dense(rows, columns, (i, j) => [part(i, j, 0), part(i, j, 1)]);
}

function assertClose(actual: Dense, expected: Dense, limit: number, message: string): void {
  assertEquals([actual.rows, actual.columns], [expected.rows, expected.columns], message);
  for (let i = 0; i < expected.rows; i++) {
    for (let j = 0; j < expected.columns; j++) {
      const [given, wanted] = [at(actual, i, j), at(expected, i, j)];
      const distance = Math.hypot(given[0] - wanted[0], given[1] - wanted[1]);
      assert(distance <= limit, `${message}: element (${i}, ${j}) is ${given}, not ${wanted}`);
    }
  }
}

/** The bits of a result, and that its elements are this rank's own. */
function assertSameBits(runtime: Runtime, array: DistributedArray, message: string): void {
  assertSameOnAllRanks(runtime, array.local.toTypedArray(), message);
}

const adjoint = (matrix: Dense) => apply(matrix, { isTranspose: true, isConjugate: true });
const identity = (n: number) => dense(n, n, (i, j) => [i === j ? 1 : 0, 0]);

/** A matrix whose pivots are not on its diagonal, and that is far from singular. */
function shuffled(n: number, hasImaginary: boolean): Dense {
  const noise = integers(n, n, 1, hasImaginary);
  return dense(n, n, (i, j) => {
    const [re, im] = at(noise, i, j);
    return [re + ((i + 1) % n === j ? 6 * n : 0), im];
  });
}

/** L L^H of a lower triangle L of integers, with positive diagonal: exact, and positive definite. */
function definite(n: number, hasImaginary: boolean): Dense {
  const noise = integers(n, n, 2, hasImaginary);
  const lower = dense(n, n, (i, j) => i === j ? [2 * n, 0] : i > j ? at(noise, i, j) : [0, 0]);
  return product(lower, adjoint(lower));
}

/** The matrix with other elements above the diagonal. */
const withUpper = (matrix: Dense, upper: Complex) =>
  dense(matrix.rows, matrix.columns, (i, j) => i < j ? upper : at(matrix, i, j));

/** Solve a system whose solution is known. */
function checkSystem(
  runtime: Runtime,
  [dtype, order, assume]: [Kind, "C" | "F", typeof ASSUMPTIONS[number]],
  n: number,
  columns: number | null,
): void {
  const message = `${dtype} ${order} ${assume} ${n} x ${columns}`;
  const matrix = (assume === "general" ? shuffled : definite)(n, isComplex(dtype));
  const wanted = integers(n, columns ?? 1, 3, isComplex(dtype));
  const right = product(matrix, wanted);
  const given = assume === "general" ? matrix : withUpper(matrix, [NaN, NaN]);
  using a = place(runtime, given, dtype, order);
  using b = place(runtime, right, dtype, order === "C" ? "F" : "C", { isVector: columns === null });
  using x = solve(a, b, { assume });
  assertEquals([x.shape, x.dtype, x.order, x.memory], [b.shape, b.dtype, b.order, b.memory], message);
  assert(x.distribution.isReplicated && x.local.isDense(x.order), message);
  assertClose(wholeOf(x), wanted, 10 * limitOf(dtype), message);
  const scale = Math.max(1, ...right.re.map(Math.abs), ...right.im.map(Math.abs));
  assertClose(product(matrix, wholeOf(x)), right, 10 * limitOf(dtype) * scale, `${message}: residual`);
  assertEquals(
    [numbersOf(a), wholeOf(b)],
    [numbersOf(place(runtime, given, dtype, order)), right],
    `${message}: operands`,
  );
  assertSameBits(runtime, x, message);
}

for (const assume of ASSUMPTIONS) {
  clusterTest(`solve finds known solutions, assuming ${assume}`, (runtime) => {
    for (const dtype of DTYPES) {
      for (const order of ORDERS) {
        for (const [n, columns] of [[1, null], [2, 3], [7, null], [9, 1], [12, 20], [65, 5]] as const) {
          checkSystem(runtime, [dtype, order, assume], n, columns);
        }
      }
    }
  });
}

clusterTest("solve and eigh of nothing are nothing", (runtime) => {
  for (const dtype of DTYPES) {
    for (const assume of ASSUMPTIONS) {
      for (const shape of [[0], [0, 0], [0, 3], [4, 0]]) {
        using a = place(runtime, identity(shape[0]), dtype);
        using b = DistributedArray.zeros(runtime, shape, Replicated, { dtype });
        using x = solve(a, b, { assume });
        assertEquals([x.shape, x.dtype, x.local.size], [shape, dtype, 0]);
      }
    }
    using a = place(runtime, identity(0), dtype);
    using found = eigh(a);
    assertEquals([found.values.shape, found.vectors.shape], [[0], [0, 0]]);
    assertEquals([found.values.dtype, found.vectors.dtype], [dtypeInfo(dtype).real, dtype]);
  }
});

clusterTest("solve takes slices, transposed arrays, and the same array twice", (runtime) => {
  const matrix = shuffled(5, false);
  using around = place(
    runtime,
    dense(9, 8, (i, j) => i >= 2 && i < 7 && j < 5 ? at(matrix, i - 2, j) : [NaN, 0]),
    "float64",
  );
  const a = around.slice([[2, 7], [0, 5]]);
  using one = solve(a, a);
  assertClose(wholeOf(one), identity(5), 1e-13, "the same array");
  const wanted = integers(5, 5, 4);
  using b = place(runtime, product(apply(matrix, { isTranspose: true }), wanted), "float64");
  using x = solve(a.transpose(), b);
  assertClose(wholeOf(x), wanted, 1e-13, "transposed");
  using y = solve(a.transpose(), b.slice([null, [1, 4, 2]]));
  assertClose(wholeOf(y), dense(5, 2, (i, j) => at(wanted, i, 1 + 2 * j)), 1e-13, "columns 1 and 3");
});

clusterTest("solve leaves elements where B has them", (runtime) => {
  const wanted = integers(6, 2, 1);
  using a = place(runtime, shuffled(6, false), "float64");
  using b = place(runtime, product(shuffled(6, false), wanted), "float64", "F", { memory: "host" });
  using x = solve(a, b);
  assertEquals(x.memory, "host");
  assertClose(wholeOf(x), wanted, 1e-13, "in host memory");
});

/** The second difference, with other phases in a complex matrix: similar to it, and so of the same eigenvalues. */
function secondDifference(n: number, hasImaginary: boolean): Dense {
  return dense(n, n, (i, j) => {
    if (i === j) return [2, 0];
    if (Math.abs(i - j) !== 1) return [0, 0];
    return hasImaginary ? [0, i > j ? -1 : 1] : [-1, 0];
  });
}

const spectrum = (n: number) => Array.from({ length: n }, (_, k) => 2 - 2 * Math.cos((k + 1) * Math.PI / (n + 1)));

/** Find the eigenpairs of a Hermitian matrix, given its lower triangle alone. */
function checkEigenpairs(
  runtime: Runtime,
  dtype: Kind,
  order: "C" | "F",
  matrix: Dense,
  expected: readonly number[] | null,
): void {
  const n = matrix.rows;
  const message = `${dtype} ${order} ${n}`;
  const given = withUpper(matrix, [NaN, NaN]);
  using a = place(runtime, given, dtype, order);
  using found = eigh(a);
  const { values, vectors } = found;
  const { real } = dtypeInfo(dtype);
  assertEquals([values.shape, values.dtype, values.memory, values.order], [[n], real, a.memory, order], message);
  assertEquals(
    [vectors.shape, vectors.dtype, vectors.memory, vectors.order],
    [[n, n], dtype, a.memory, order],
    message,
  );
  const [lambda, v] = [values.local.toNumbers(), wholeOf(vectors)];
  const size = Math.max(1, ...lambda.map(Math.abs));
  const limit = 10 * limitOf(dtype) * size;
  assertEquals(lambda, lambda.toSorted((x, y) => x - y), message);
  if (expected !== null) {
    assertClose(dense(n, 1, (k) => [lambda[k], 0]), dense(n, 1, (k) => [expected[k], 0]), limit, message);
  }
  assertClose(product(adjoint(v), v), identity(n), 10 * limitOf(dtype), `${message}: orthonormal`);
  const scaled = dense(n, n, (i, j) => at(v, i, j).map((part) => part * lambda[j]) as unknown as Complex);
  assertClose(product(matrix, v), scaled, limit, `${message}: A V = V diag(values)`);
  assertEquals(wholeOf(a), wholeOf(place(runtime, given, dtype, order)), `${message}: a afterwards`);
  assertSameBits(runtime, values, message);
  assertSameBits(runtime, vectors, message);
}

clusterTest("eigh finds known eigenvalues, and eigenvectors", (runtime) => {
  for (const dtype of DTYPES) {
    for (const order of ORDERS) {
      for (const n of [1, 2, 5, 33, 70]) {
        checkEigenpairs(runtime, dtype, order, secondDifference(n, isComplex(dtype)), spectrum(n));
        checkEigenpairs(runtime, dtype, order, definite(n, isComplex(dtype)), null);
      }
    }
  }
});

clusterTest("imaginary parts of the diagonal of a Hermitian matrix are taken to be zero", (runtime) => {
  for (const dtype of ["complex64", "complex128"] as const) {
    const matrix = definite(6, true);
    const given = dense(6, 6, (i, j) => i === j ? [at(matrix, i, i)[0], 5 + i] : at(matrix, i, j));
    using a = place(runtime, given, dtype);
    const wanted = integers(6, 2, 1, true);
    using b = place(runtime, product(matrix, wanted), dtype);
    using x = solve(a, b, { assume: "positive_definite" });
    assertClose(wholeOf(x), wanted, 10 * limitOf(dtype), dtype);
    using found = eigh(a);
    using clean = place(runtime, matrix, dtype);
    using expected = eigh(clean);
    assertEquals(found.values.local.toNumbers(), expected.values.local.toNumbers());
  }
});

clusterTest("the result of eigh is freed by using", (runtime) => {
  using a = place(runtime, identity(3), "float64");
  const kept = (() => {
    using found = eigh(a);
    return found;
  })();
  assert(kept.values.isFreed && kept.vectors.isFreed && !a.isFreed);
});

clusterTest("rank 0's elements count, and every rank gets its bits", (runtime) => {
  const local = LocalArray.zeros("float64", [2, 2]);
  local.set(runtime.rank === 0 ? [2, 0, 0, 4] : [0, 0, 0, 0]);
  using a = DistributedArray.fromLocal(runtime, local, Replicated);
  using b = DistributedArray.full(runtime, [2], Replicated, 4);
  using x = solve(a, b);
  assertEquals(x.local.toNumbers(), [2, 1]);
  using found = eigh(a);
  assertEquals(found.values.local.toNumbers(), [2, 4]);
});

clusterTest("a matrix that LAPACK refuses is an error on every rank", (runtime) => {
  const refused = (action: () => unknown, message: string) => {
    assertEquals(assertThrowsEverywhere(runtime, action, RangeError, message).message, message);
  };
  for (const dtype of DTYPES) {
    // Its third row is the sum of the first two, and elimination is exact.
    using singular = place(runtime, dense(3, 3, (i, j) => [[[2, 1, 1], [0, 1, 3], [2, 2, 4]][i][j], 0]), dtype);
    using indefinite = place(runtime, dense(3, 3, (i, j) => [[[1, 0, 0], [2, 1, 0], [0, 0, 1]][i][j], 0]), dtype);
    using b = place(runtime, integers(3, 2, 1), dtype);
    using none = place(runtime, dense(3, 0, () => [0, 0]), dtype);
    for (const right of [b, none]) {
      refused(() => solve(singular, right), "solve: the matrix is singular: pivot 3 is zero.");
    }
    refused(
      () => solve(indefinite, b, { assume: "positive_definite" }),
      "solve: the matrix is not positive definite: its leading minor of order 2 is not positive.",
    );
    for (const value of [NaN, Infinity]) {
      using broken = place(runtime, withUpper(definite(3, false), [value, 0]), dtype);
      refused(() => solve(broken, b), "solve: the matrix has elements that are not finite.");
      const lower = broken.transpose();
      refused(
        () => solve(lower, b, { assume: "positive_definite" }),
        "solve: the matrix has elements that are not finite.",
      );
      refused(() => eigh(lower), "eigh: the matrix has elements that are not finite.");
    }
  }
  using a = place(runtime, identity(3), "float64");
  using x = solve(a, a);
  assertClose(wholeOf(x), identity(3), 0, "afterwards");
});

clusterTest("arguments that do not fit are errors on every rank", (runtime) => {
  const zeros = (
    shape: number[],
    distribution: Distribution = Replicated,
    dtype: Kind | "int32" | "float16" = "float64",
  ) => DistributedArray.zeros(runtime, shape, distribution, { dtype }) as DistributedArray;
  const [a, b] = [zeros([4, 4]), zeros([4, 2])];
  const refused = (action: () => unknown, error: new (...given: never[]) => Error, message: string) =>
    assertThrowsEverywhere(runtime, action, error as new () => Error, message);
  const toReplicate = "but LAPACK takes matrices that fit one rank. Pass a.redistribute(Replicated).";
  for (const action of [(a: DistributedArray) => solve(a, b), eigh]) {
    refused(() => action(zeros([4, 4], Slab.X)), DistributionError, `a is distributed as Slab.X, ${toReplicate}`);
    refused(() => action(zeros([4, 3])), ShapeError, "a has shape [4, 3]; it must be a square matrix.");
    refused(() => action(zeros([4])), ShapeError, "a has shape [4]; it must be a square matrix.");
    refused(() => action(5 as unknown as DistributedArray), TypeError, "a must be a DistributedArray; got 5.");
    const freed = zeros([4, 4]);
    freed.free();
    refused(() => action(freed), StateError, "a was freed.");
  }
  refused(() => solve(a, zeros([4, 2], Slab.Y)), DistributionError, "Pass b.redistribute(Replicated).");
  const fit = "but must have [4] or [4, k], to fit a, which has [4, 4].";
  for (const shape of [[3], [3, 4], [4, 2, 2]]) {
    refused(() => solve(a, zeros(shape)), ShapeError, `b has shape [${shape.join(", ")}], ${fit}`);
  }
  refused(
    () => solve(a, zeros([4], Replicated, "float32")),
    DTypeError,
    "solve takes matrices of one dtype; got float64, float32. Convert with to({ dtype }).",
  );
  for (const dtype of ["int32", "float16"] as const) {
    refused(
      () => eigh(zeros([4, 4], Replicated, dtype)),
      DTypeError,
      `eigh takes float32, float64, complex64, complex128; got ${dtype}. Convert with to({ dtype: "float32" }).`,
    );
  }
  refused(
    () => solve(a, b, { assume: "symmetric" as "general" }),
    TypeError,
    'assume must be one of general, positive_definite; got "symmetric".',
  );
  refused(() => solve(a, b, { asume: "general" } as object), TypeError, 'did you mean "assume"?');
});

clusterTest("ranks that ask for different things learn of it", { ranks: [2, 3] }, (runtime) => {
  using a = place(runtime, identity(3), "float64");
  assertThrowsEverywhere(
    runtime,
    () => solve(a, a, { assume: runtime.rank === 1 ? "positive_definite" : "general" }),
    CollectiveError,
    "solve: the ranks disagree on assume",
  );
  assertThrowsEverywhere(
    runtime,
    () => runtime.rank === 1 ? eigh(a) : solve(a, a),
    CollectiveError,
    "The ranks are in different operations",
  );
});
