/**
 * Dense systems and eigenvalues of matrices that every rank has, by LAPACK in host memory.
 *
 * @module
 */
import { type Lapack, openLapack } from "../../../ffi/blas/lapack.ts";
import { BLAS_TYPES } from "../../../ffi/blas/blas.ts";
import { runtimeOf } from "../../array/base_array.ts";
import type { DistributedArray } from "../../array/distributed_array.ts";
import { LocalArray } from "../../array/local_array.ts";
import { type AccumulatorDType, type DType, dtypeInfo } from "../../dtype/dtype.ts";
import type { RealOf } from "../../dtype/element_types.ts";
import { checkName, keysOf, readOptions } from "../../options.ts";
import { runOnce } from "../../runtime/operation.ts";
import { checkHermitian, checkSystem, operandFact } from "./checked_matrices.ts";
import { type Assumption, prepareEigenpairs, prepareSolution } from "./lapack.ts";
import { prepareOnRoot } from "./on_root.ts";

export type { Assumption } from "./lapack.ts";

/** Options of {@linkcode solve}. */
export interface SolveOptions {
  /**
   * What is known of A: nothing, or that it is symmetric (Hermitian) and positive definite, which takes half the time; then
   * its lower triangle alone is read. "general" if left out.
   */
  assume?: Assumption;
}

const SOLVE_KEYS = keysOf<SolveOptions>({ assume: true });
const ASSUMPTIONS: readonly Assumption[] = ["general", "positive_definite"];

/** What {@linkcode eigh} finds. `using` frees both arrays. */
export interface Eigenpairs<D extends DType = DType> extends Disposable {
  /** The eigenvalues, ascending: [n], real. */
  readonly values: DistributedArray<RealOf<D>>;
  /** The eigenvectors: [n, n], orthonormal; column j belongs to value j. */
  readonly vectors: DistributedArray<D>;
}

/**
 * Solve a system of linear equations, A X = B, of a matrix that every rank has. Collective.
 *
 * Rank 0 computes, from its elements, and all ranks get the same bits. For larger matrices, triangular ones, there is
 * {@linkcode trsm}. Source: `?gesv` of LAPACK, or `?posv`, which takes the imaginary parts of the diagonal to be zero.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Replicated, solve } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using a = DistributedArray.generate(runtime, [3, 3], Replicated, (i, j) => i === j ? 2 : 1);
 * using b = DistributedArray.full(runtime, [3], Replicated, 4);
 * using x = solve(a, b, { assume: "positive_definite" });
 * console.log(x.allGather()); // 1, 1, 1, or close to it
 * ```
 *
 * @param a n x n, Replicated; float32, float64, complex64 or complex128
 * @param b [n] or [n, k], Replicated, of the same dtype
 * @returns X, a new array of B's shape and order, in host memory if B is there, else on the GPU
 * @throws {TypeError} if an option is unknown or of the wrong type
 * @throws {ShapeError | DTypeError | DistributionError} if the arrays do not fit each other, or are not Replicated
 * @throws {RangeError} if A is singular, is not positive definite though it was said to be, or is not finite
 * @throws {StateError} if an array was freed
 * @throws {ConfigurationError} if there is no LAPACK
 * @throws {CollectiveError} if ranks differ in what they ask for
 */
export function solve<D extends DType>(
  a: DistributedArray<D>,
  b: DistributedArray<D>,
  options: SolveOptions = {},
): DistributedArray<D> {
  const runtime = runtimeOf(a, b);
  const [x] = runOnce(runtime, "solve", () => {
    const { assume = "general" } = readOptions("the options of solve", options, SOLVE_KEYS);
    checkName("assume", assume, ASSUMPTIONS);
    checkSystem(runtime, a, b);
    const prepare = () => prepareSolution(lapackFor(a), a.local.toHost("F"), b.local.toHost("F"), assume);
    return {
      facts: { a: operandFact(a), b: operandFact(b), assume },
      run: prepareOnRoot(runtime, "solve", b, [b], prepare),
    };
  });
  return x as DistributedArray<D>;
}

/**
 * The eigenvalues and eigenvectors of a symmetric or Hermitian matrix that every rank has. Collective.
 *
 * Its lower triangle is read; the imaginary parts of the diagonal are taken to be zero. Rank 0 computes, from its elements,
 * and all ranks get the same bits. Source: `?syevd` and `?heevd` of LAPACK.
 *
 * @example
 * ```ts
 * import { DistributedArray, eigh, initialize, Replicated } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using a = DistributedArray.generate(runtime, [3, 3], Replicated, (i, j) => i === j ? 2 : 1);
 * using found = eigh(a);
 * const { values, vectors } = found;
 * console.log(values.allGather(), vectors.shape); // 1, 1, 4, or close to it; [3, 3]
 * ```
 *
 * @param a n x n, Replicated; float32, float64, complex64 or complex128; n up to 32766
 * @returns new arrays of A's order, in host memory if A is there, else on the GPU
 * @throws {ShapeError | DTypeError | DistributionError} if A is not square, of another dtype or not Replicated
 * @throws {RangeError} if the eigenvalues do not converge, or A is not finite
 * @throws {StateError} if A was freed
 * @throws {ConfigurationError} if there is no LAPACK
 * @throws {CollectiveError} if ranks differ in what they ask for
 */
export function eigh<D extends DType>(a: DistributedArray<D>): Eigenpairs<D> {
  const runtime = runtimeOf(a);
  const [values, vectors] = runOnce(runtime, "eigh", () => {
    checkHermitian(runtime, a);
    const plan = { dtype: dtypeInfo(a.dtype).real, shape: [a.shape[0]] };
    const prepare = () =>
      prepareEigenpairs(lapackFor(a), a.local.toHost("F"), LocalArray.empty(plan.dtype, plan.shape));
    return { facts: { a: operandFact(a) }, run: prepareOnRoot(runtime, "eigh", a, [plan, a], prepare) };
  });
  return {
    values: values as DistributedArray<RealOf<D>>,
    vectors: vectors as DistributedArray<D>,
    [Symbol.dispose]: () => [values, vectors].forEach((array) => array.free()),
  };
}

/** LAPACK's routines for the dtype of a checked matrix. */
function lapackFor({ dtype, runtime }: DistributedArray): Lapack {
  return openLapack(runtime.threads)[BLAS_TYPES[dtype as AccumulatorDType]];
}
