/**
 * The matrices and numbers of an operation on matrices, checked on this rank: the same for products and PBLAS routines.
 *
 * @module
 */
import { checkAlive } from "../array/base_array.ts";
import { DistributedArray } from "../array/distributed_array.ts";
import { leadingDimension } from "../array/layout.ts";
import { bindTo } from "../distribution/distribution.ts";
import type { Distribution } from "../distribution/mod.ts";
import { type DType, dtypeInfo, type Scalar } from "../dtype/dtype.ts";
import { isPair } from "../dtype/scalar.ts";
import { DistributionError, DTypeError, ShapeError, StateError } from "../errors.ts";
import { describe } from "../options.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { sharesElements } from "./aliasing.ts";

/** A user's matrix as an array describes it, before it is made canonical. */
export interface DescribedMatrix {
  /** Global `[rows, columns]`. */
  readonly shape: readonly [number, number];
  /** The memory order of the local parts. */
  readonly order: "C" | "F";
  /** Who owns what; bound to `shape`. */
  readonly distribution: Distribution;
  readonly dtype: DType;
}

/** The options of an addend C. */
export interface Addend {
  readonly c?: DistributedArray | null;
  readonly beta?: Scalar;
  /** Whether the result is written into it. */
  readonly inplace?: boolean;
}

/**
 * Refuse what is no array of this runtime.
 *
 * @throws {TypeError | StateError} naming the operand
 */
export function checkOperand(name: string, array: unknown, runtime: Runtime): asserts array is DistributedArray {
  if (!(array instanceof DistributedArray)) {
    throw new TypeError(`${name} must be a DistributedArray; got ${describe(array)}.`);
  }
  checkAlive(name, array);
  if (array.runtime !== runtime) {
    throw new StateError(`${name} belongs to another runtime than a. All operands must come from one initialize().`);
  }
}

/** BLAS on CPUs has integers of 32 bits. */
const MOST_OF_BLAS = 2 ** 31 - 1;

/**
 * Refuse what is no matrix of this runtime with dense rows or columns, or one whose lines BLAS cannot find.
 *
 * @throws {TypeError | StateError | ShapeError} naming the operand
 */
export function checkMatrix(name: string, array: unknown, runtime: Runtime): asserts array is DistributedArray {
  checkOperand(name, array, runtime);
  if (array.shape.length !== 2) {
    throw new ShapeError(
      `${name} has shape ${
        text(array.shape)
      }; it must be a matrix, of 2 dimensions. Write a vector as a matrix of one ` +
        `column.`,
    );
  }
  const { local, order } = array;
  if (local.size === 0) return;
  const found = leadingDimension(local, order);
  if (found?.order !== order) {
    throw new ShapeError(
      `${name} is in order "${order}", but its local strides are [${local.strides}]: neither rows nor columns are ` +
        `dense. Pass ${name}.copy().`,
    );
  }
  if (!local.isOnDevice && found.leadingDimension > MOST_OF_BLAS) {
    const lines = order === "C" ? "rows" : "columns";
    throw new ShapeError(
      `The ${lines} of ${name} lie ${found.leadingDimension} elements apart on this rank, and BLAS counts in 32 bits, up to ` +
        `${MOST_OF_BLAS}. Pass ${name}.copy().`,
    );
  }
}

const BLAS_DTYPES: readonly DType[] = ["float32", "float64", "complex64", "complex128"];

/** Refuse arrays of several dtypes, or of one that BLAS and LAPACK do not compute in. */
export function checkBlasTypes(routine: string, arrays: readonly DistributedArray[]): void {
  const [{ dtype }] = arrays;
  if (arrays.some((array) => array.dtype !== dtype)) {
    const given = arrays.map((array) => array.dtype).join(", ");
    throw new DTypeError(`${routine} takes matrices of one dtype; got ${given}. Convert with to({ dtype }).`);
  }
  if (BLAS_DTYPES.includes(dtype)) return;
  const near = dtypeInfo(dtype).isComplex ? "complex64" : "float32";
  throw new DTypeError(
    `${routine} takes ${BLAS_DTYPES.join(", ")}; got ${dtype}. Convert with to({ dtype: "${near}" }).`,
  );
}

/** Refuse C without beta, and beta or `inplace` without C. */
export function checkAddend({ c = null, beta, inplace }: Addend): void {
  if (c !== null && beta === undefined) {
    throw new TypeError("c needs beta, which scales it. Pass beta: 1 to add c as it is.");
  }
  if (c === null && beta !== undefined) {
    throw new TypeError("beta scales c, and there is no c. Pass c, or leave beta out.");
  }
  if (c === null && inplace) {
    throw new TypeError(
      "inplace writes the result into c, and there is no c. Pass c and beta (0 if c is only a buffer).",
    );
  }
}

/** Refuse a C that has not the shape of the result. */
export function checkAddendShape(c: DistributedArray, shape: readonly number[]): void {
  if (c.shape.join() === shape.join()) return;
  throw new ShapeError(`c has shape ${text(c.shape)}, but the result has ${text(shape)}. They must be equal.`);
}

/** A factor; `realBecause` tells why it must not be complex. */
export function checkScalar(name: string, value: unknown, realBecause: string | null): Scalar {
  if (typeof value === "number") return value;
  if (!isPair(value)) {
    throw new TypeError(`${name} must be a number, or [re, im] for complex matrices; got ${describe(value)}.`);
  }
  if (realBecause !== null) throw new DTypeError(`${name} is complex, [${value}], but ${realBecause}. Pass a number.`);
  return [value[0], value[1]];
}

/**
 * Refuse a result that is written over what it is computed from.
 *
 * @throws {StateError} naming the operand.
 */
export function checkAliasing(
  name: string,
  written: DistributedArray,
  read: Readonly<Record<string, DistributedArray | null>>,
): void {
  for (const [other, array] of Object.entries(read)) {
    if (array === null || !sharesElements(written.local, array.local)) continue;
    throw new StateError(
      `inplace: ${name} shares memory with ${other}, which is read while the result is written. Pass ${name}.copy().`,
    );
  }
}

/** The distribution of the result, bound: the one that was asked for, or that of what it starts from, or another. */
export function resultDistribution(
  asked: Distribution | undefined,
  start: DistributedArray | null,
  inplace: boolean,
  shape: readonly [number, number],
  size: number,
  otherwise: () => Distribution,
): Distribution {
  if (asked === undefined) return start?.distribution ?? otherwise().bind(shape, size);
  const bound = bindTo(asked, shape, size, "the result");
  if (!inplace) return bound;
  if (start!.distribution.coincidesWith(bound)) return start!.distribution;
  throw new DistributionError(
    `inplace: the result is to be distributed as ${bound}, and c is ${start!.distribution}. Leave distribution out.`,
  );
}

/** A matrix, as all ranks must agree on it. */
export function matrixFact({ shape, dtype, distribution, order }: DescribedMatrix | DistributedArray): string {
  return `${dtype}, ${text(shape)}, ${distribution}, order ${order}`;
}

/** A factor, as all ranks must agree on it: JSON knows no NaN, Infinity or -0. */
export function scalarFact(value: Scalar): string {
  return Array.isArray(value) ? value.map(scalarFact).join() : Object.is(value, -0) ? "-0" : String(value);
}

export function text(shape: readonly number[]): string {
  return `[${shape.join(", ")}]`;
}
