/**
 * The PBLAS routines on distributed arrays: triangular systems and products, updates of rank k and 2k, products with
 * symmetric and Hermitian matrices, sums. ScaLAPACK runs them on CPUs, cuBLASMp on GPUs.
 *
 * Operands may have any distribution and memory order. The routines run with all matrices in equal square blocks on one
 * grid; what is distributed otherwise is redistributed, in and out.
 *
 * @module
 */
import type { DistributedArray } from "../../array/distributed_array.ts";
import { BlockCyclic, type Distribution, Slab } from "../../distribution/mod.ts";
import type { DType, Scalar } from "../../dtype/dtype.ts";
import { keysOf } from "../../options.ts";
import { type Diagonal, type RoutineOf, type Side, traitsOf, type Transposition, type Triangle } from "./call.ts";
import { checkSameShape, checkSquare, type RoutineRequest } from "./checked_routine.ts";
import { run } from "./run.ts";

export type { Diagonal, Side, Transposition, Triangle } from "./call.ts";

/** Options of {@linkcode trsm} and {@linkcode trmm}. */
export interface TriangularOptions {
  /** On which side of B the triangular matrix stands. "left" if left out. */
  side?: Side;
  /** The triangle of A that is read. "lower" if left out. */
  uplo?: Triangle;
  /** What is done to A. "none" if left out. */
  trans?: Transposition;
  /** "unit" takes the diagonal of A to be one and does not read it. "non_unit" if left out. */
  diag?: Diagonal;
  /** Scales B. 1 if left out. */
  alpha?: Scalar;
  /** Write the result into B and return B. False if left out. */
  inplace?: boolean;
}

/** What the routines with an addend C share. */
export interface AddendOptions {
  /** The matrix that is added. Needs `beta`. */
  c?: DistributedArray;
  /** Scales the product, or A. 1 if left out. */
  alpha?: Scalar;
  /** Scales C. Needs `c`. */
  beta?: Scalar;
  /** Write the result into C and return C. False if left out. */
  inplace?: boolean;
  /**
   * The distribution of the result. If left out, C's if there is one, else what the routine says. With `inplace` it is C's.
   */
  distribution?: Distribution;
}

/** Options of {@linkcode syrk}, {@linkcode herk}, {@linkcode syr2k} and {@linkcode her2k}. */
export interface RankKOptions extends AddendOptions {
  /** The triangle of the result that is written. "lower" if left out. */
  uplo?: Triangle;
  /**
   * What is done to A, and to B where there is one: with "none" the result is A A^T, otherwise A^T A. "none" if left out.
   */
  trans?: Transposition;
}

/** Options of {@linkcode symm} and {@linkcode hemm}. */
export interface SymmOptions extends AddendOptions {
  /** On which side of B the symmetric or Hermitian matrix stands. "left" if left out. */
  side?: Side;
  /** The triangle of A that is read. "lower" if left out. */
  uplo?: Triangle;
}

/** Options of {@linkcode geadd}. */
export interface GeaddOptions extends AddendOptions {
  /** What is done to A. "none" if left out. */
  trans?: Transposition;
}

/** Options of {@linkcode tradd}. */
export interface TraddOptions extends GeaddOptions {
  /** The triangle of the result that is written. "lower" if left out. */
  uplo?: Triangle;
}

/**
 * Solve a triangular system with many right-hand sides: op(A) X = alpha B, or X op(A) = alpha B. Collective.
 *
 * A zero on the diagonal of A is no error: X is then infinite or NaN, as in ScaLAPACK.
 *
 * Source: `p?trsm` of PBLAS, `cublasMpTrsm`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, initialize, Slab, trsm } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.generate(runtime, [4, 4], Slab.X, (i, j) => i >= j ? 1 : 0);
 * using b = DistributedArray.full(runtime, [4, 2], Slab.X, 1);
 * using x = trsm(a, b, { uplo: "lower" });
 * console.assert(x.sum() === 2); // the first row of ones
 * ```
 *
 * @param a the triangular matrix, m x m on the left and n x n on the right; the other triangle is not read
 * @param b m x n
 * @returns X, m x n, with B's distribution and order; B itself with `inplace`
 * @throws {TypeError} if an option is unknown or of the wrong type
 * @throws {ShapeError | DTypeError | DistributionError} if the matrices do not fit each other
 * @throws {StateError} if a matrix was freed, or with `inplace` the result shares memory with a matrix that is read
 * @throws {ConfigurationError} if there is no ScaLAPACK, or on GPUs no cuBLASMp
 * @throws {CollectiveError} if ranks differ in what they ask for
 */
export function trsm<D extends DType>(
  a: DistributedArray<D>,
  b: DistributedArray<D>,
  options: TriangularOptions = {},
): DistributedArray<D> {
  return run(triangular("trsm", a, b, options));
}

/**
 * Multiply by a triangular matrix: alpha op(A) B, or alpha B op(A). Collective. Throws as {@linkcode trsm} does.
 *
 * Source: `p?trmm` of PBLAS, `cublasMpTrmm`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, initialize, Slab, trmm } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 4], Slab.X, 1);
 * using b = DistributedArray.full(runtime, [4, 2], Slab.X, 1);
 * using product = trmm(a, b, { uplo: "lower" });
 * console.assert(product.sum() === 2 * (1 + 2 + 3 + 4));
 * ```
 *
 * @param a the triangular matrix, m x m on the left and n x n on the right; the other triangle is not read
 * @param b m x n
 * @returns the product, m x n, with B's distribution and order; B itself with `inplace`
 */
export function trmm<D extends DType>(
  a: DistributedArray<D>,
  b: DistributedArray<D>,
  options: TriangularOptions = {},
): DistributedArray<D> {
  return run(triangular("trmm", a, b, options));
}

/**
 * A symmetric rank-k update: alpha op(A) op(A)^T + beta C, of which only one triangle is computed. Collective. Throws as
 * {@linkcode trsm} does.
 *
 * The other triangle is C's, or zero without C. For complex matrices `trans` must not be "conjugate_transpose": that is
 * {@linkcode herk}. Source: `p?syrk` of PBLAS, `cublasMpSyrk`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, initialize, Slab, syrk } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 8], Slab.X, 1);
 * using c = syrk(a, { uplo: "lower" });
 * console.assert(c.sum() === 8 * 10);
 * ```
 *
 * @param a n x k after `trans`
 * @returns n x n, with C's distribution and order, or without C in `Slab.X`, blocks on A's grid if A is block-cyclic, and
 * with A's order; C itself with `inplace`
 */
export function syrk<D extends DType>(a: DistributedArray<D>, options: RankKOptions = {}): DistributedArray<D> {
  return run(update("syrk", [a], options));
}

/**
 * A Hermitian rank-k update: alpha op(A) op(A)^H + beta C, of which only one triangle is computed; for complex matrices,
 * with real alpha and beta. Collective. Throws as {@linkcode trsm} does.
 *
 * `trans` is "none" or "conjugate_transpose". The other triangle is C's, or zero without C. The imaginary parts of the
 * diagonal become zero. Source: `p?herk` of PBLAS, `cublasMpHerk`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, herk, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 8], Slab.X, [0, 1], { dtype: "complex128" });
 * using c = herk(a, { uplo: "lower" });
 * console.assert(c.dtype === "complex128"); // every element of the lower triangle is 8
 * ```
 *
 * @param a n x k after `trans`
 * @returns n x n, with C's distribution and order, or without C in `Slab.X`, blocks on A's grid if A is block-cyclic, and
 * with A's order; C itself with `inplace`
 */
export function herk<D extends DType>(a: DistributedArray<D>, options: RankKOptions = {}): DistributedArray<D> {
  return run(update("herk", [a], options));
}

/**
 * A symmetric rank-2k update: alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C, of which only one triangle is computed.
 * Collective. Throws as {@linkcode trsm} does.
 *
 * The other triangle is C's, or zero without C. For complex matrices `trans` must not be "conjugate_transpose": that is
 * {@linkcode her2k}. Source: `p?syr2k` of PBLAS, `cublasMpSyr2k` (cuBLASMp 0.9 and newer).
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, initialize, Slab, syr2k } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 8], Slab.X, 1);
 * using b = DistributedArray.full(runtime, [4, 8], Slab.X, 3);
 * using c = syr2k(a, b, { uplo: "lower" });
 * console.assert(c.sum() === 2 * 3 * 8 * 10);
 * ```
 *
 * @param a n x k after `trans`
 * @param b as A
 * @returns n x n, with C's distribution and order, or without C in `Slab.X`, blocks on A's grid if A is block-cyclic, and
 * with A's order; C itself with `inplace`
 */
export function syr2k<D extends DType>(
  a: DistributedArray<D>,
  b: DistributedArray<D>,
  options: RankKOptions = {},
): DistributedArray<D> {
  return run(update("syr2k", [a, b], options));
}

/**
 * A Hermitian rank-2k update: alpha op(A) op(B)^H + conj(alpha) op(B) op(A)^H + beta C, of which only one triangle is
 * computed; for complex matrices, with real beta. Collective. Throws as {@linkcode trsm} does.
 *
 * `trans` is "none" or "conjugate_transpose". The other triangle is C's, or zero without C. The imaginary parts of the
 * diagonal become zero. Source: `p?her2k` of PBLAS, `cublasMpHer2k`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, her2k, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 8], Slab.X, [0, 1], { dtype: "complex128" });
 * using b = DistributedArray.full(runtime, [4, 8], Slab.X, 3, { dtype: "complex128" });
 * using c = her2k(a, b, { alpha: [0, 1] });
 * console.assert(c.dtype === "complex128"); // every element of the lower triangle is -48
 * ```
 *
 * @param a n x k after `trans`
 * @param b as A
 * @returns n x n, with C's distribution and order, or without C in `Slab.X`, blocks on A's grid if A is block-cyclic, and
 * with A's order; C itself with `inplace`
 */
export function her2k<D extends DType>(
  a: DistributedArray<D>,
  b: DistributedArray<D>,
  options: RankKOptions = {},
): DistributedArray<D> {
  return run(update("her2k", [a, b], options));
}

/**
 * Multiply by a symmetric matrix: alpha A B + beta C, or alpha B A + beta C. Collective. Throws as {@linkcode trsm} does.
 *
 * Source: `p?symm` of PBLAS, `cublasMpSymm`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, initialize, Slab, symm } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 4], Slab.X, 1);
 * using b = DistributedArray.full(runtime, [4, 2], Slab.X, 1);
 * using product = symm(a, b, { side: "left" });
 * console.assert(product.sum() === 4 * 4 * 2);
 * ```
 *
 * @param a the symmetric matrix, m x m on the left and n x n on the right; only one triangle is read
 * @param b m x n
 * @returns m x n, with C's distribution and order, or B's without C; C itself with `inplace`
 */
export function symm<D extends DType>(
  a: DistributedArray<D>,
  b: DistributedArray<D>,
  options: SymmOptions = {},
): DistributedArray<D> {
  return run(symmetric("symm", a, b, options));
}

/**
 * Multiply by a Hermitian matrix: alpha A B + beta C, or alpha B A + beta C; for complex matrices. Collective. Throws as
 * {@linkcode trsm} does.
 *
 * The imaginary parts of A's diagonal are taken to be zero. Source: `p?hemm` of PBLAS, `cublasMpHemm`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, hemm, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * const value = (i: number, j: number): [number, number] => i === j ? [2, 0] : [0, i - j];
 * using a = DistributedArray.generate(runtime, [4, 4], Slab.X, value, { dtype: "complex128" });
 * using b = DistributedArray.full(runtime, [4, 2], Slab.X, 1, { dtype: "complex128" });
 * using product = hemm(a, b, { uplo: "lower" });
 * console.assert(product.shape.join() === "4,2");
 * ```
 *
 * @param a the Hermitian matrix, m x m on the left and n x n on the right; only one triangle is read
 * @param b m x n
 * @returns m x n, with C's distribution and order, or B's without C; C itself with `inplace`
 */
export function hemm<D extends DType>(
  a: DistributedArray<D>,
  b: DistributedArray<D>,
  options: SymmOptions = {},
): DistributedArray<D> {
  return run(symmetric("hemm", a, b, options));
}

/**
 * Add two matrices: alpha op(A) + beta C. Collective. Throws as {@linkcode trsm} does.
 *
 * Source: `p?geadd` of PBLAS, `cublasMpGeadd`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, geadd, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [2, 4], Slab.X, 1);
 * using c = DistributedArray.full(runtime, [4, 2], Slab.X, 3);
 * using sum = geadd(a, { trans: "transpose", c, beta: 2 });
 * console.assert(sum.sum() === (1 + 2 * 3) * 8);
 * ```
 *
 * @param a m x n after `trans`
 * @returns m x n, with C's distribution and order, or without C with op(A)'s distribution and A's order; C itself with
 * `inplace`
 */
export function geadd<D extends DType>(a: DistributedArray<D>, options: GeaddOptions = {}): DistributedArray<D> {
  return run(add("geadd", a, options));
}

/**
 * Add two matrices in one triangle (for m x n: trapezoid) only: alpha op(A) + beta C. Collective. Throws as
 * {@linkcode trsm} does.
 *
 * The rest is C's, or zero without C. Source: `p?tradd` of PBLAS, `cublasMpTradd`.
 *
 * @example
 * ```ts no-eval
 * import { DistributedArray, initialize, Slab, tradd } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [4, 4], Slab.X, 1);
 * using lower = tradd(a, { uplo: "lower" });
 * console.assert(lower.sum() === 10);
 * ```
 *
 * @param a m x n after `trans`
 * @returns m x n, with C's distribution and order, or without C with op(A)'s distribution and A's order; C itself with
 * `inplace`
 */
export function tradd<D extends DType>(a: DistributedArray<D>, options: TraddOptions = {}): DistributedArray<D> {
  return run(add("tradd", a, options));
}

const ADDEND_KEYS = { c: true, alpha: true, beta: true, inplace: true, distribution: true } as const;
const TRIANGULAR_KEYS = keysOf<TriangularOptions>({
  side: true,
  uplo: true,
  trans: true,
  diag: true,
  alpha: true,
  inplace: true,
});
const RANK_K_KEYS = keysOf<RankKOptions>({ ...ADDEND_KEYS, uplo: true, trans: true });
const SYMM_KEYS = keysOf<SymmOptions>({ ...ADDEND_KEYS, side: true, uplo: true });
const GEADD_KEYS = keysOf<GeaddOptions>({ ...ADDEND_KEYS, trans: true });
const TRADD_KEYS = keysOf<TraddOptions>({ ...ADDEND_KEYS, trans: true, uplo: true });

function triangular(
  routine: RoutineOf<"triangular">,
  a: DistributedArray,
  b: DistributedArray,
  options: TriangularOptions,
): RoutineRequest {
  return {
    routine,
    given: [a, b],
    options,
    keys: TRIANGULAR_KEYS,
    describe: (options) => {
      const [m, n] = b.shape;
      checkSquare("a", a, options.side === "right" ? n : m);
      return { a, b: null, shape: [m, n], k: 0, like: b, pattern: () => b.distribution };
    },
  };
}

function update(
  routine: RoutineOf<"rank_k" | "rank_2k">,
  factors: readonly [DistributedArray, DistributedArray?],
  options: RankKOptions,
): RoutineRequest {
  return {
    routine,
    given: factors,
    options,
    keys: RANK_K_KEYS,
    describe: (options) => {
      const [a, b = null] = factors;
      if (b !== null) checkSameShape(a, b);
      const isTransposed = (options.trans ?? "none") !== "none";
      const [n, k] = isTransposed ? a.shape.toReversed() : a.shape;
      return { a, b, shape: [n, n], k, like: a, pattern: () => squareLike(a.distribution, isTransposed) };
    },
  };
}

function symmetric(
  routine: RoutineOf<"symmetric">,
  a: DistributedArray,
  b: DistributedArray,
  options: SymmOptions,
): RoutineRequest {
  return {
    routine,
    given: [a, b],
    options,
    keys: SYMM_KEYS,
    describe: (options) => {
      const [m, n] = b.shape;
      checkSquare("a", a, options.side === "right" ? n : m);
      return { a, b, shape: [m, n], k: 0, like: b, pattern: () => b.distribution };
    },
  };
}

function add(
  routine: RoutineOf<"sum" | "sum_in_triangle">,
  a: DistributedArray,
  options: TraddOptions,
): RoutineRequest {
  return {
    routine,
    given: [a],
    options,
    keys: traitsOf(routine).kind === "sum_in_triangle" ? TRADD_KEYS : GEADD_KEYS,
    describe: (options) => {
      const isTransposed = (options.trans ?? "none") !== "none";
      const [m, n] = isTransposed ? a.shape.toReversed() : a.shape;
      const pattern = () => isTransposed ? a.distribution.transpose() : a.distribution;
      return { a, b: null, shape: [m, n], k: 0, like: a, pattern };
    },
  };
}

/** The distribution of op(A) op(A)^T: blocks on the grid of A, or rows. */
function squareLike(a: Distribution, isTransposed: boolean): Distribution {
  if (!(a instanceof BlockCyclic)) return Slab.X;
  const blockSize = a.blockSizes[isTransposed ? 1 : 0];
  return new BlockCyclic(a.grid, [blockSize, blockSize]);
}
