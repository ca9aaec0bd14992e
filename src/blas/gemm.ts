/**
 * The product of matrices in the memory of one rank, by BLAS.
 *
 * @module
 */
import type { GemmFunction } from "../../ffi/blas/blas.ts";
import { leadingDimension } from "../array/layout.ts";
import type { LocalArray } from "../array/local_array.ts";
import { ShapeError } from "../errors.ts";
import { recorder } from "../runtime/recorder.ts";
import type { Operation } from "./transposition.ts";
import { character, integers, type TransposeCode } from "./arguments.ts";

/** BLAS's letter for an operation. What BLAS cannot do, to conjugate alone, is done to a copy before. */
export function transposeCode({ transpose, conjugate }: Operation): TransposeCode {
  return transpose ? conjugate ? "C" : "T" : "N";
}

/** A matrix in memory, column by column. */
export interface MatrixInMemory {
  /** The address of its first element. */
  readonly address: bigint;
  /** Elements from one column to the next; at least 1, and at least its rows. */
  readonly leadingDimension: number;
}

/** Where a local matrix is. */
export function inMemory(local: LocalArray): MatrixInMemory {
  const { shape, strides } = local;
  // The usual case, without what the general one allocates.
  if (strides[0] === 1 && strides[1] >= shape[0] && strides[1] > 0) {
    return { address: local.address, leadingDimension: strides[1] };
  }
  const leading = leadingDimension(local, "F");
  if (leading?.order === "F") return { address: local.address, leadingDimension: leading.leadingDimension };
  throw new ShapeError(
    `a local matrix of shape [${local.shape}] with strides [${local.strides}] is not dense along its columns; copy it`,
  );
}

/** The leading dimension of a local matrix that may have no elements: at least 1, and at least its rows. */
export function leadingDimensionOf(local: LocalArray): number {
  return Math.max(1, local.shape[0], local.size === 0 ? 1 : inMemory(local).leadingDimension);
}

/** The part of a matrix that begins at an index of one dimension. */
export function beginningAt(matrix: MatrixInMemory, dimension: 0 | 1, start: number, itemSize: number): MatrixInMemory {
  const { address, leadingDimension } = matrix;
  const skipped = dimension === 0 ? start : start * leadingDimension;
  return { address: address + BigInt(skipped * itemSize), leadingDimension };
}

/** The extents of a product: D is m x n, and k is summed over. */
export interface Extents {
  /** Rows of op(A) and D. */
  readonly m: number;
  /** Columns of op(B) and D. */
  readonly n: number;
  /** Columns of op(A), rows of op(B). */
  readonly k: number;
}

/** One call of `?gemm_` of fixed extents, to be made again and again. */
export class GemmCall {
  readonly #gemm: GemmFunction;
  /** What lies at the addresses below. */
  readonly #arguments: readonly { readonly address: bigint }[];
  readonly #operationA: bigint;
  readonly #operationB: bigint;
  readonly #m: bigint;
  readonly #n: bigint;
  readonly #k: bigint;
  readonly #leading: Int32Array;
  readonly #leadingA: bigint;
  readonly #leadingB: bigint;
  readonly #leadingD: bigint;
  readonly #rowsOfA: number;
  readonly #rowsOfB: number;
  readonly #isEmpty: boolean;
  readonly #extents: Extents;
  #a = 0n;
  #b = 0n;
  #d = 0n;

  /** Prepare the call. */
  constructor(gemm: GemmFunction, operationA: Operation, operationB: Operation, given: Extents) {
    const { m, n, k } = this.#extents = given;
    const [codeA, codeB] = [character(transposeCode(operationA)), character(transposeCode(operationB))];
    const [extents, leading] = [integers(m, n, k), integers(1, 1, 1)];
    this.#gemm = gemm;
    this.#arguments = [codeA, codeB, extents, leading];
    this.#operationA = codeA.address;
    this.#operationB = codeB.address;
    this.#m = extents.address;
    this.#n = extents.address + 4n;
    this.#k = extents.address + 8n;
    this.#leading = leading.values;
    this.#leadingA = leading.address;
    this.#leadingB = leading.address + 4n;
    this.#leadingD = leading.address + 8n;
    this.#rowsOfA = operationA.transpose ? k : m;
    this.#rowsOfB = operationB.transpose ? n : k;
    this.#isEmpty = m === 0 || n === 0;
  }

  setMatrices(a: MatrixInMemory, b: MatrixInMemory, d: MatrixInMemory): void {
    this.#a = a.address;
    this.#b = b.address;
    this.#d = d.address;
    // BLAS checks these even where k is 0, and an empty local matrix may have any shape.
    this.#leading[0] = Math.max(a.leadingDimension, this.#rowsOfA);
    this.#leading[1] = Math.max(b.leadingDimension, this.#rowsOfB);
    this.#leading[2] = d.leadingDimension;
  }

  /** D = alpha op(A) op(B) + beta D, with the addresses of alpha and beta. */
  run(alpha: bigint, beta: bigint): void {
    if (this.#isEmpty) return;
    const span = recorder?.begin("gemm", this.#label());
    this.#gemm(
      this.#operationA,
      this.#operationB,
      this.#m,
      this.#n,
      this.#k,
      alpha,
      this.#a,
      this.#leadingA,
      this.#b,
      this.#leadingB,
      beta,
      this.#d,
      this.#leadingD,
      1n,
      1n,
    );
    span?.end();
  }

  #label(): string {
    const { m, n, k } = this.#extents;
    return `gemm ${m} x ${n} x ${k}`;
  }
}
