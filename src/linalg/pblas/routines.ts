/**
 * The PBLAS routines on distributed arrays: triangular systems and products, rank-k updates, products with symmetric
 * matrices, sums. ScaLAPACK runs them on CPUs, cuBLASMp on GPUs.
 *
 * Operands may have any distribution and memory order. The routines run with all matrices in equal square blocks on one
 * grid; what is distributed otherwise is redistributed, in and out.
 *
 * @module
 */
import { DistributedArray, runtimeOf } from "../../array/distributed_array.ts";
import { type DType, dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { BlockCyclic, type Distribution, type Range, Slab } from "../../distribution/mod.ts";
import { DTypeError, ShapeError } from "../../errors.ts";
import { checkBoolean, checkName, keysOf, readOptions } from "../../options.ts";
import { agree } from "../../runtime/agreement.ts";
import { runOnce } from "../../runtime/operation.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import {
  checkAddend,
  checkAddendShape,
  checkAliasing,
  checkMatrix,
  checkScalar,
  matrixFact,
  resultDistribution,
  scalarFact,
  text,
} from "../operands.ts";
import { pblasEngineOf as engineOf } from "../engines/choice.ts";
import { isInPlace } from "../partition.ts";
import {
  canonicalLetters,
  chooseBlocks,
  type Diagonal,
  inBlocks,
  type PblasRoutine,
  type RoutineLetters,
  type Side,
  type Transposition,
  type Triangle,
} from "./call.ts";
import type { AccumulatorDType } from "../../dtype/dtype.ts";

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
  /** The distribution of the result. C's if there is one, else inferred from the operands. */
  distribution?: Distribution;
}

/** Options of {@linkcode syrk} and {@linkcode herk}. */
export interface RankKOptions extends AddendOptions {
  /** The triangle of the result that is written. "lower" if left out. */
  uplo?: Triangle;
  /** What is done to A: with "none" the result is A A^T, otherwise A^T A. "none" if left out. */
  trans?: Transposition;
}

/** Options of {@linkcode symm}. */
export interface SymmOptions extends AddendOptions {
  /** On which side of B the symmetric matrix stands. "left" if left out. */
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
 * @throws {StateError} if a matrix was freed
 * @throws {CollectiveError} if ranks differ in what they ask for
 */
export function trsm(a: DistributedArray, b: DistributedArray, options: TriangularOptions = {}): DistributedArray {
  return triangular("trsm", a, b, options);
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
export function trmm(a: DistributedArray, b: DistributedArray, options: TriangularOptions = {}): DistributedArray {
  return triangular("trmm", a, b, options);
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
 * @returns n x n, with C's distribution and order; C itself with `inplace`
 */
export function syrk(a: DistributedArray, options: RankKOptions = {}): DistributedArray {
  return rankK("syrk", a, options);
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
 * @returns n x n, with C's distribution and order; C itself with `inplace`
 */
export function herk(a: DistributedArray, options: RankKOptions = {}): DistributedArray {
  return rankK("herk", a, options);
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
export function symm(a: DistributedArray, b: DistributedArray, options: SymmOptions = {}): DistributedArray {
  return run({
    routine: "symm",
    given: [a, b],
    options,
    keys: SYMM_KEYS,
    describe: (options) => {
      const [m, n] = b.shape;
      checkSquare("a", a, options.side === "right" ? n : m);
      return { a, b, shape: [m, n], k: 0, like: b, pattern: () => b.distribution };
    },
  });
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
 * @returns m x n, with C's distribution and order, or those of op(A) without C; C itself with `inplace`
 */
export function geadd(a: DistributedArray, options: GeaddOptions = {}): DistributedArray {
  return add("geadd", a, options);
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
 * @returns m x n, with C's distribution and order, or those of op(A) without C; C itself with `inplace`
 */
export function tradd(a: DistributedArray, options: TraddOptions = {}): DistributedArray {
  return add("tradd", a, options);
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
const TRANSPOSITIONS: readonly Transposition[] = ["none", "transpose", "conjugate_transpose"];
const DTYPES: readonly DType[] = ["float32", "float64", "complex64", "complex128"];

/** Every option that a routine may have. */
type AnyOptions = TriangularOptions & AddendOptions;

/** What follows from the arguments of a routine once they are known to be matrices. */
interface Described {
  /** The matrix that is only read. */
  readonly a: DistributedArray;
  /** The second factor of symm. */
  readonly b: DistributedArray | null;
  /** The shape of the result. */
  readonly shape: readonly [number, number];
  /** What syrk and herk sum over. */
  readonly k: number;
  /** A matrix that has the order of the result if there is no C. */
  readonly like: DistributedArray;
  /** The distribution of the result if there is no C and none is asked for. */
  readonly pattern: () => Distribution;
}

/** A routine as its function passes it on. */
interface Request {
  readonly routine: PblasRoutine;
  /** The matrices that the function takes by position. */
  readonly given: readonly unknown[];
  readonly options: AnyOptions;
  readonly keys: readonly (keyof AnyOptions)[];
  /** Check the shapes. */
  readonly describe: (options: AnyOptions) => Described;
}

/** Everything about a call, checked. */
interface Checked extends Described {
  readonly letters: RoutineLetters;
  readonly alpha: Scalar;
  readonly beta: Scalar;
  /** What the result starts from: C, or B of trsm and trmm; null for zeros. */
  readonly start: DistributedArray | null;
  /** Whether the result is written into `start`. */
  readonly inplace: boolean;
  readonly order: "C" | "F";
  readonly distribution: Distribution;
}

function triangular(
  routine: "trsm" | "trmm",
  a: DistributedArray,
  b: DistributedArray,
  options: TriangularOptions,
): DistributedArray {
  return run({
    routine,
    given: [a, b],
    options,
    keys: TRIANGULAR_KEYS,
    describe: (options) => {
      const [m, n] = b.shape;
      checkSquare("a", a, options.side === "right" ? n : m);
      return { a, b: null, shape: [m, n], k: 0, like: b, pattern: () => b.distribution };
    },
  });
}

function rankK(routine: "syrk" | "herk", a: DistributedArray, options: RankKOptions): DistributedArray {
  return run({
    routine,
    given: [a],
    options,
    keys: RANK_K_KEYS,
    describe: (options) => {
      const isTransposed = (options.trans ?? "none") !== "none";
      const [n, k] = isTransposed ? a.shape.toReversed() : a.shape;
      return { a, b: null, shape: [n, n], k, like: a, pattern: () => squareLike(a.distribution, isTransposed) };
    },
  });
}

function add(routine: "geadd" | "tradd", a: DistributedArray, options: TraddOptions): DistributedArray {
  return run({
    routine,
    given: [a],
    options,
    keys: routine === "tradd" ? TRADD_KEYS : GEADD_KEYS,
    describe: (options) => {
      const isTransposed = (options.trans ?? "none") !== "none";
      const [m, n] = isTransposed ? a.shape.toReversed() : a.shape;
      const pattern = () => isTransposed ? a.distribution.transpose() : a.distribution;
      return { a, b: null, shape: [m, n], k: 0, like: a, pattern };
    },
  });
}

/** The distribution of op(A) op(A)^T: blocks on the grid of A, or rows. */
function squareLike(a: Distribution, isTransposed: boolean): Distribution {
  if (!(a instanceof BlockCyclic)) return Slab.X;
  const blockSize = a.blockSizes[isTransposed ? 1 : 0];
  return new BlockCyclic(a.grid, [blockSize, blockSize]);
}

function run(request: Request): DistributedArray {
  const runtime = runtimeOf(...request.given);
  return runOnce(runtime, request.routine, () => {
    const checked = check(runtime, request);
    const library = engineOf(runtime).open?.(runtime) ?? "";
    return { facts: { ...factsOf(checked), library }, run: () => carryOut(runtime, request.routine, checked) };
  });
}

function carryOut(runtime: Runtime, routine: PblasRoutine, checked: Checked): DistributedArray {
  const [rows, columns] = checked.shape;
  if (rows === 0 || columns === 0) return withoutElements(runtime, checked);
  if (checked.a.shape.includes(0)) return withoutSums(runtime, routine, checked);
  const inParts = rows !== columns && engineOf(runtime).squareOnly.includes(routine);
  return inParts ? traddInParts(runtime, checked) : execute(runtime, routine, checked);
}

function check(runtime: Runtime, { routine, given, options: asked, keys, describe }: Request): Checked {
  const options = readOptions(`the options of ${routine}`, asked, keys);
  given.forEach((array, i) => checkMatrix("ab"[i], array, runtime));
  const { c, side = "left", uplo = "lower", trans = "none", diag = "non_unit", inplace = false } = options;
  checkName("side", side, ["left", "right"]);
  checkName("uplo", uplo, ["lower", "upper"]);
  checkName("trans", trans, TRANSPOSITIONS);
  checkName("diag", diag, ["non_unit", "unit"]);
  checkBoolean("inplace", inplace);
  if (c !== undefined) checkMatrix("c", c, runtime);
  const described = describe(options);
  const isTriangular = routine === "trsm" || routine === "trmm";
  const start = isTriangular ? described.like : c ?? null;
  const arrays = [...given, c].filter((array) => array !== undefined) as DistributedArray[];
  checkTypes(routine, arrays, trans);
  if (!isTriangular) checkAddend(options);
  if (c !== undefined) checkAddendShape(c, described.shape);
  const { shape, pattern } = described;
  const distribution = resultDistribution(options.distribution, start, inplace, shape, runtime.size, pattern);
  const { dtype } = described.a;
  const realBecause = routine === "herk"
    ? "herk keeps its result Hermitian with a real one"
    : dtypeInfo(dtype).isComplex
    ? null
    : `the result is ${dtype}`;
  const checked: Checked = {
    ...described,
    letters: { side, uplo, trans: realTransposition(trans, dtype), diag },
    alpha: checkScalar("alpha", options.alpha === undefined ? 1 : options.alpha, realBecause),
    beta: checkScalar("beta", options.beta === undefined ? 0 : options.beta, realBecause),
    start,
    inplace,
    order: start?.order ?? described.like.order,
    distribution,
  };
  const { a, b } = described;
  if (inplace) checkAliasing(isTriangular ? "b" : "c", start!, { a, b });
  return checked;
}

/** A real matrix is its own conjugate. */
function realTransposition(trans: Transposition, dtype: DType): Transposition {
  return trans === "conjugate_transpose" && !dtypeInfo(dtype).isComplex ? "transpose" : trans;
}

function checkSquare(name: string, { shape: [rows, columns] }: DistributedArray, extent: number): void {
  if (rows === extent && columns === extent) return;
  throw new ShapeError(`${name} has shape ${text([rows, columns])}, but must be ${extent} x ${extent}, to fit b.`);
}

function checkTypes(routine: PblasRoutine, arrays: readonly DistributedArray[], trans: Transposition): void {
  const [{ dtype }] = arrays;
  if (arrays.some((array) => array.dtype !== dtype)) {
    const given = arrays.map((array) => array.dtype).join(", ");
    throw new DTypeError(`${routine} takes matrices of one dtype; got ${given}. Convert with to({ dtype }).`);
  }
  if (!DTYPES.includes(dtype)) {
    throw new DTypeError(`${routine} takes ${DTYPES.join(", ")}; got ${dtype}. Convert with to({ dtype: "float32" }).`);
  }
  const { isComplex } = dtypeInfo(dtype);
  if (routine === "herk" && !isComplex) {
    throw new DTypeError(`herk is for complex matrices; got ${dtype}. Use syrk, which is the same for real ones.`);
  }
  if (routine === "herk" && trans === "transpose") {
    throw new TypeError('herk takes trans "none" or "conjugate_transpose"; got "transpose". Use syrk for that.');
  }
  if (routine === "syrk" && isComplex && trans === "conjugate_transpose") {
    throw new TypeError('syrk takes trans "none" or "transpose" for complex matrices. Use herk to conjugate.');
  }
}

function factsOf(checked: Checked): Record<string, unknown> {
  const { a, b, start, letters, alpha, beta, inplace, distribution } = checked;
  const fact = (array: DistributedArray | null) =>
    array === null ? "none" : `${matrixFact(array)}, ${array.memory} memory`;
  return {
    a: fact(a),
    b: fact(b),
    result: fact(start),
    ...letters,
    alpha: scalarFact(alpha),
    beta: scalarFact(beta),
    inplace,
    distribution: String(distribution),
  };
}

/** A result without elements: C itself, a copy of it, or a new one. */
function withoutElements(
  runtime: Runtime,
  { a, start, inplace, shape, distribution, order }: Checked,
): DistributedArray {
  if (inplace) return start!;
  return start === null
    ? DistributedArray.zeros(runtime, shape, distribution, like(a, order))
    : moved(start, distribution);
}

/** The update of C by no columns at all: by one of zeros, whatever alpha is. */
function withoutSums(runtime: Runtime, routine: PblasRoutine, checked: Checked): DistributedArray {
  const { a, letters } = checked;
  const extents = letters.trans === "none" ? [a.shape[0], 1] : [1, a.shape[1]];
  using zeros = DistributedArray.zeros(runtime, extents, Slab.X, like(a, a.order));
  return execute(runtime, routine, { ...checked, a: zeros, k: 1, alpha: 1 });
}

/**
 * tradd where the library takes square matrices only: the square at the top left by tradd, and what a lower trapezoid
 * has below it, or an upper one on its right, by geadd.
 */
function traddInParts(runtime: Runtime, checked: Checked): DistributedArray {
  const { a, start, inplace, order, distribution, letters: { uplo, trans }, alpha, beta } = checked;
  const [rows, columns] = checked.shape;
  const result = inplace
    ? start!
    : start === null
    ? DistributedArray.zeros(runtime, [rows, columns], distribution, like(a, order))
    : moved(start, distribution);
  const square = Math.min(rows, columns);
  const add = (routine: typeof tradd, [r, c]: [Range, Range]) => {
    using part = result.slice([r, c]);
    using given = a.slice(trans === "none" ? [r, c] : [c, r]);
    routine(given, { ...routine === tradd && { uplo }, trans, alpha, c: part, beta, inplace: true });
  };
  add(tradd, [[0, square], [0, square]]);
  if (uplo === "lower" && rows > square) add(geadd, [[square, rows], [0, columns]]);
  if (uplo === "upper" && columns > square) add(geadd, [[0, rows], [square, columns]]);
  return result;
}

/** A copy in another distribution, where an engine can read it. */
function moved(array: DistributedArray, distribution: Distribution): DistributedArray {
  if (isReachable(array)) return array.redistribute(distribution);
  using near = array.to({ memory: "device" });
  return near.redistribute(distribution);
}

function execute(runtime: Runtime, routine: PblasRoutine, checked: Checked): DistributedArray {
  const temporary: DistributedArray[] = [];
  let finished: DistributedArray | null = null;
  try {
    finished = compute(runtime, routine, checked, (array) => {
      temporary.push(array);
      return array;
    });
    return finished;
  } finally {
    for (const array of temporary) if (array.local !== finished?.local) array.free();
  }
}

/** Run a routine; `keep` is told of every array that it makes on its way. */
function compute(
  runtime: Runtime,
  routine: PblasRoutine,
  checked: Checked,
  keep: (array: DistributedArray) => DistributedArray,
): DistributedArray {
  const { start, inplace, order, distribution, shape: [rows, columns], k, alpha, beta } = checked;
  const reachable = (array: DistributedArray) => isReachable(array) ? array : keep(array.to({ memory: "device" }));
  const inOrder = (array: DistributedArray) => array.order === order ? array : keep(array.to({ order }));
  let a = reachable(checked.a);
  let letters = canonicalLetters(routine, checked.letters, { a: a.order, result: order });
  if (letters === null) {
    a = inOrder(a);
    letters = canonicalLetters(routine, checked.letters, { a: order, result: order })!;
  }
  const b = checked.b && inOrder(reachable(checked.b));

  const engine = engineOf(runtime);
  const wanted = columnMajor(distribution, order);
  const stored = [start ? columnMajor(start.distribution, order) : wanted, columnMajor(a.distribution, a.order)];
  if (b) stored.push(columnMajor(b.distribution, order));
  const blocks = chooseBlocks(stored, (grid) => engine.accepts(runtime, grid, routine, letters!));
  const place = (array: DistributedArray) => {
    const there = inBlocks(blocks, columnMajor(array.distribution, array.order));
    const target = columnMajor(there, array.order);
    const placed = isInPlace(array.distribution, target) ? array : keep(array.redistribute(target));
    const local = array.order === "F" ? placed.local : placed.local.transpose();
    return { array: placed, matrix: { distribution: there, local } };
  };
  const first = start ?? keep(DistributedArray.zeros(runtime, [rows, columns], distribution, like(a, order)));
  let result = place(reachable(first));
  if (result.array === start && !inplace) result = place(keep(start.copy()));

  const [m, n] = order === "F" ? [rows, columns] : [columns, rows];
  engine.run(runtime, {
    routine,
    dtype: a.dtype as AccumulatorDType,
    letters,
    blocks,
    m,
    n,
    k,
    alpha,
    beta: start === null ? 0 : beta,
    a: place(a).matrix,
    b: b && place(b).matrix,
    result: result.matrix,
  });
  return deliver(runtime, result.array, checked);
}

/** Whether an engine can read an array: a GPU cannot read the memory of the host. */
function isReachable({ runtime: { stream }, memory }: DistributedArray): boolean {
  return stream === null || memory !== "host";
}

function like(array: DistributedArray, order: "C" | "F") {
  return { dtype: array.dtype, memory: isReachable(array) ? array.memory : "device", order } as const;
}

/** A distribution seen column-major; the same function leads back. */
function columnMajor(distribution: Distribution, order: "C" | "F"): Distribution {
  return order === "F" ? distribution : distribution.transpose();
}

/** The result where it is wanted. */
function deliver(runtime: Runtime, result: DistributedArray, checked: Checked): DistributedArray {
  const { start, inplace, distribution, order } = checked;
  if (inplace) {
    if (result !== start) {
      using back = result.redistribute(start!.distribution);
      const { memory, local } = start!;
      if (memory === back.memory) local.set(back.local);
      else agree(runtime, "DistributedArray.to", () => local.set(back.local));
    }
    return start!;
  }
  if (!isInPlace(result.distribution, distribution)) return result.redistribute(distribution);
  return DistributedArray.wrap(runtime, result.local, distribution, order);
}
