/**
 * Systems of equations by conjugate gradients: with a matrix, or with a function that multiplies.
 *
 * @module
 */
import { runtimeOf } from "../../array/base_array.ts";
import { DistributedArray } from "../../array/distributed_array.ts";
import { sumOfPairs } from "../../array/reductions/pair_products.ts";
import { axpy } from "../../array/reductions/products.ts";
import { expandDims, squeeze } from "../../array/shaping/shaping.ts";
import { Slab } from "../../distribution/mod.ts";
import { type DType, dtypeInfo, type Scalar } from "../../dtype/dtype.ts";
import { DistributionError, DTypeError, ShapeError } from "../../errors.ts";
import { describe, keysOf, readOptions } from "../../options.ts";
import { agree, asError, type Facts } from "../../runtime/agreement.ts";
import { Matmul } from "../matmul/matmul.ts";
import { checkBlasTypes, checkOperand } from "../operands.ts";

/** A linear function of arrays: what it returns has its operand's shape, distribution and dtype. It leaves the operand as it is. */
export type LinearOperator<D extends DType = DType> = (operand: DistributedArray<D>) => DistributedArray<D>;

/** Options of {@linkcode cg}. */
export interface CgOptions<D extends DType = DType> {
  /** Where to begin: zero if left out. It is not changed. */
  x0?: DistributedArray<D>;
  /** It ends when the residual's norm is at most this times that of b. 1e-5 if left out. */
  tolerance?: number;
  /** It also ends when the residual's norm is at most this. 0 if left out. */
  absoluteTolerance?: number;
  /** It ends after so many steps at most. Ten times the number of unknowns if left out. */
  maxSteps?: number;
  /** Multiplies by something near the inverse of A, which is symmetric or Hermitian and positive definite too. */
  preconditioner?: LinearOperator<D>;
}

/** What {@linkcode cg} has found. */
export interface CgResult<D extends DType = DType> {
  /** The solution: a new array, distributed as b is. */
  readonly x: DistributedArray<D>;
  /** How many steps were taken; each multiplies by A once. */
  readonly steps: number;
  /** The norm of b - A x, as the steps have carried it on. */
  readonly residual: number;
  /** Whether that is as small as it was to be. */
  readonly isConverged: boolean;
}

const KEYS = keysOf<CgOptions>({
  x0: true,
  tolerance: true,
  absoluteTolerance: true,
  maxSteps: true,
  preconditioner: true,
});

/**
 * Solve A x = b by conjugate gradients, for an A that is symmetric (of complex numbers: Hermitian) and positive definite: a
 * matrix, or a function that gives A p for p, for which there need be no matrix. What such functions return is freed here,
 * unless it is their operand. Collective: functions are called on all ranks.
 *
 * Source: Hestenes and Stiefel, Methods of conjugate gradients for solving linear systems, 1952; the options are SciPy's
 * `scipy.sparse.linalg.cg`.
 *
 * @example
 * ```ts
 * import { cg, DistributedArray, evaluate, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize({ device: "cpu" });
 * using weights = DistributedArray.generate(runtime, [100], Slab.X, (i) => i + 1);
 * using b = DistributedArray.full(runtime, [100], Slab.X, 1);
 * const { x, isConverged } = cg((p) => weights.multiply(p), b, { tolerance: 1e-10 });
 * console.assert(isConverged && Math.abs(x.at(3) - 1 / 4) < 1e-8);
 * ```
 *
 * @param a n x n, in any distribution; or a function of arrays of b's shape
 * @param b of n elements for a matrix, of any shape for a function
 * @throws {TypeError | RangeError} on every rank, if an option is none, or a function returns no array.
 * @throws {ShapeError | DTypeError} on every rank, if the arrays do not fit each other, or are not of floats or complex numbers
 * of 32 or 64 bits.
 * @throws {ShapeError | DistributionError | DTypeError} on every rank, if what a function returns does not fit its operand.
 * @throws {RangeError} on every rank, if A turns out not to be positive definite.
 * @throws {StateError} on every rank, if an array was freed.
 * @throws {CollectiveError} on every rank, if ranks differ in what they ask for.
 * @throws what the functions throw, as an Error if it is none
 */
export function cg<D extends DType>(
  a: DistributedArray<D> | LinearOperator<D>,
  b: DistributedArray<D>,
  options?: CgOptions<D>,
): CgResult<D> {
  const { x0, tolerance, absoluteTolerance, maxSteps, preconditioner } = checked(a, b, options);
  using product = a instanceof DistributedArray ? new MatrixProduct(a, b) : null;
  const multiply = { name: "A", of: product === null ? a as LinearOperator<D> : product.of };
  const precondition = {
    name: "the preconditioner",
    of: preconditioner ?? ((residual: DistributedArray<D>) => residual),
  };
  const norm = b.norm();
  if (norm === 0) return { x: b.copy(), steps: 0, residual: 0, isConverged: true };
  // The system of b / scale, whose solution is x / scale, so that no square is lost.
  const scale = scaleFor(norm, b.dtype);
  const scaled = (array: DistributedArray<D>, factor: number) =>
    factor === 1 ? array : array.multiply(factor, { into: array });
  using kept = new DisposableStack();
  const x = kept.use(x0 === undefined ? b.copy().assign(0) : scaled(x0.copy(), 1 / scale));
  using r = scaled(b.copy(), 1 / scale);
  if (x0 !== undefined) taken(multiply, x, (ax) => axpy(-1, ax, r));
  using p = b.copy();
  const goal = Math.max(tolerance * norm, absoluteTolerance) / scale;
  let [steps, residual, squares] = [0, 0, 0];
  /** Whether a square is too small to be told from 0, which says nothing of A after some steps. */
  const isLost = (square: number) => square === 0 && steps > 0;
  /** Turn the direction, the first time into that of the residual. */
  const turn = (z: DistributedArray<D>): void => {
    const before = squares;
    squares = innerProduct(r, z);
    residual = z === r ? Math.sqrt(squares) : r.norm();
    if (!(squares > 0) && residual > goal && !isLost(squares)) {
      throw notPositive("the preconditioner", "r^H M r", squares, steps);
    }
    if (before === 0) p.assign(z);
    else p.multiply(squares / before, { into: p }).add(z, { into: p });
  };
  taken(precondition, r, turn);
  for (; residual > goal && !isLost(squares) && steps < maxSteps; steps++) {
    const hasMoved = taken(multiply, p, (q) => {
      const curvature = innerProduct(p, q);
      if (isLost(curvature)) return false;
      if (!(curvature > 0)) throw notPositive("A", "p^H A p", curvature, steps + 1);
      axpy(squares / curvature, p, x);
      axpy(-squares / curvature, q, r);
      return true;
    });
    if (!hasMoved) break;
    taken(precondition, r, turn);
  }
  scaled(x, scale);
  kept.move();
  return { x, steps, residual: residual * scale, isConverged: residual <= goal && residual < Infinity };
}

/** x^H y, a real number, whose products are exact also of 32 bits: none is too small or too large. */
function innerProduct<D extends DType>(x: DistributedArray<D>, y: DistributedArray<D>): number {
  return realOf(sumOfPairs("vdot", true, x, y, true));
}

/** What is told of something that is not positive definite, or whose numbers are too small or too large. */
function notPositive(what: string, form: string, value: number, step: number): RangeError {
  const [or, advice] = value < 0
    ? ["", ""]
    : [", or its numbers are too small or too large to be multiplied", " In that case scale A or b by a number."];
  return new RangeError(`cg: ${what} is not positive definite${or}: ${form} is ${value} in step ${step}.${advice}`);
}

/** Norms whose squares, and those of what is 1e-7 of them, are numbers; and the largest power of two for other norms. */
const RANGES = { 32: { least: 1e-12, most: 1e15, exponent: 126 }, 64: { least: 1e-145, most: 1e150, exponent: 1022 } };

/** 1 for ordinary norms; for others a power of two near them, by which numbers are divided without rounding. */
function scaleFor(norm: number, dtype: DType): number {
  const { itemSize, parts } = dtypeInfo(dtype);
  const { least, most, exponent } = itemSize / parts === 4 ? RANGES[32] : RANGES[64];
  if (!(norm > 0 && norm < Infinity) || norm >= least && norm <= most) return 1;
  return 2 ** Math.max(-exponent, Math.min(exponent, Math.round(Math.log2(norm))));
}

/** Products of a matrix and vectors like this one, planned once. */
class MatrixProduct<D extends DType> implements Disposable {
  readonly #vector: DistributedArray<D>;
  readonly #column: DistributedArray<D>;
  readonly #product: Matmul;

  constructor(a: DistributedArray<D>, like: DistributedArray<D>) {
    using made = new DisposableStack();
    this.#vector = made.use(like.copy());
    this.#column = expandDims(this.#vector, 1);
    this.#product = made.use(new Matmul(a, this.#column, { distribution: Slab.X }));
    this.#product.plan();
    made.move();
  }

  readonly of: LinearOperator<D> = (vector) => {
    this.#vector.assign(vector);
    using column = this.#product.execute() as DistributedArray<D>;
    return squeeze(column, 1).redistribute(vector.distribution);
  };

  [Symbol.dispose](): void {
    this.#product[Symbol.dispose]();
    this.#vector.free();
  }
}

/** What `use` makes of an operator's value, which is freed then; it is collective, and refuses what is no array. */
function taken<D extends DType, R>(
  { name, of }: { readonly name: string; readonly of: LinearOperator<D> },
  operand: DistributedArray<D>,
  use: (value: DistributedArray<D>) => R,
): R {
  let value: unknown;
  try {
    value = of(operand);
  } catch (error) {
    throw asError(error);
  }
  try {
    return use(value as DistributedArray<D>);
  } catch (error) {
    throw refused(name, operand, value, error);
  } finally {
    if (value instanceof DistributedArray && value !== operand) value.free();
  }
}

/** What is thrown where an operator's value was refused: in words of the operator, if it is the value that is wrong. */
function refused(name: string, operand: DistributedArray, value: unknown, cause: unknown): unknown {
  if (!(value instanceof DistributedArray)) {
    return new TypeError(`cg: ${name} must return a DistributedArray, not ${describe(value)}. Return the product.`, {
      cause,
    });
  }
  const kind = [ShapeError, DistributionError, DTypeError].find((one) => cause instanceof one);
  const [wanted, given] = [operand, value].map(({ shape, distribution, dtype }) =>
    `[${shape}] in ${distribution}, ${dtype}`
  );
  if (kind === undefined || wanted === given) return cause;
  return new kind(
    `cg: ${name} must return an array of its operand's shape, distribution and dtype, ${wanted}; it returned ${given}.`,
    { cause },
  );
}

/** The real part of a number. */
function realOf(value: Scalar): number {
  return Number(Array.isArray(value) ? value[0] : value);
}

type Checked<D extends DType> =
  & Required<Omit<CgOptions<D>, "x0" | "preconditioner">>
  & Pick<CgOptions<D>, "x0" | "preconditioner">;

/** Check what a user gave, on all ranks. */
function checked<D extends DType>(a: unknown, b: DistributedArray<D>, options: CgOptions<D> | undefined): Checked<D> {
  let given!: Checked<D>;
  const runtime = runtimeOf(a, b);
  agree(runtime, "cg", (): Facts => {
    checkOperand("b", b, runtime);
    const { shape, dtype, size } = b;
    const isMatrix = a instanceof DistributedArray;
    if (!isMatrix && typeof a !== "function") {
      throw new TypeError(`cg: A must be a DistributedArray or a function of one, not ${describe(a)}.`);
    }
    if (isMatrix) checkOperand("a", a, runtime);
    checkBlasTypes("cg", isMatrix ? [a, b] : [b]);
    if (isMatrix && (shape.length !== 1 || a.shape.join() !== `${size},${size}`)) {
      throw new ShapeError(`cg: A must be n x n and b have n elements; they have shapes [${a.shape}] and [${shape}].`);
    }
    const read = readOptions<CgOptions<D>>("the options of cg", options, KEYS);
    const { x0, preconditioner } = read;
    if (x0 !== undefined) {
      checkOperand("x0", x0, runtime);
      if (x0.shape.join() !== shape.join() || x0.dtype !== dtype || !x0.distribution.equals(b.distribution)) {
        throw new ShapeError(`cg: x0 must have b's shape, dtype and distribution, ${b}; it is ${x0}.`);
      }
    }
    if (preconditioner !== undefined && typeof preconditioner !== "function") {
      throw new TypeError(`cg: preconditioner must be a function of an array, not ${describe(preconditioner)}.`);
    }
    const { tolerance = 1e-5, absoluteTolerance = 0, maxSteps = 10 * size } = read;
    for (const [name, value] of Object.entries({ tolerance, absoluteTolerance, maxSteps })) {
      if (typeof value === "number" && value >= 0) continue;
      const kind = typeof value === "number" ? RangeError : TypeError;
      throw new kind(`cg: ${name} must be a number of at least 0, not ${describe(value)}.`);
    }
    if (!Number.isInteger(maxSteps) && maxSteps !== Infinity) {
      throw new RangeError(`cg: maxSteps must be a whole number or Infinity, not ${maxSteps}.`);
    }
    given = { ...read, tolerance, absoluteTolerance, maxSteps };
    const facts = { shape, dtype, distribution: String(b.distribution), isMatrix, hasStart: x0 !== undefined };
    return { ...facts, hasPreconditioner: preconditioner !== undefined, tolerance, absoluteTolerance, maxSteps };
  });
  return given;
}
