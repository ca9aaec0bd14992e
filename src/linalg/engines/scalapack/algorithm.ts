/**
 * What an algorithm is, once its matrices lie as it wants them: d = alpha op(a) op(b) + beta d.
 *
 * @module
 */
import type { Scalapack } from "../../../../ffi/blas/scalapack.ts";
import { dtypeInfo } from "../../../dtype/dtype.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import type { Communicator } from "../../../mpi/communicator.ts";
import type { MatmulProblem } from "../../matmul/problem.ts";
import { BLAS_TYPES } from "../../../../ffi/blas/blas.ts";
import { type Extents, GemmCall } from "../../../blas/gemm.ts";
import type { ScalarArgument } from "../../../blas/arguments.ts";
import type { Multiplier } from "../host/plan.ts";
import type { Strategy } from "../host/strategy.ts";

export interface AlgorithmContext {
  /** The problem; what its distributions say does not count here. */
  readonly problem: MatmulProblem;
  /** The algorithm, and the distributions that count. */
  readonly strategy: Strategy;
  readonly communicator: Communicator;
  /** The native library. */
  readonly scalapack: Scalapack;
}

/** This rank's part of a product by one algorithm. All matrices are of the accumulator's type. */
export abstract class Algorithm implements Multiplier {
  readonly way = "by messages";
  protected readonly problem: MatmulProblem;
  /** The algorithm and the distributions. */
  protected readonly strategy: Strategy;
  protected readonly communicator: Communicator;
  protected readonly rank: number;
  /** Bytes of one element. */
  protected readonly itemSize: number;
  /** Numbers of one element. */
  protected readonly parts: 1 | 2;
  readonly #scalapack: Scalapack;

  /** Prepare everything that does not depend on where the matrices are, nor on other ranks. */
  constructor({ problem, strategy, communicator, scalapack }: AlgorithmContext) {
    this.problem = problem;
    this.strategy = strategy;
    this.communicator = communicator;
    this.rank = communicator.rank;
    this.#scalapack = scalapack;
    ({ itemSize: this.itemSize, parts: this.parts } = dtypeInfo(problem.accumulator));
  }

  /** Make what all ranks make together, before the first product. Collective. */
  open(): void {}

  /** Bytes of buffers on this rank. */
  get workspaceBytes(): number {
    return 0;
  }

  /** Allocate what a product of these parts needs. */
  prepare(_a: LocalArray, _b: LocalArray, _d: LocalArray): void {}

  // Addresses are taken anew each time, in some 0.2 microseconds: a plan must not keep released operands alive.
  abstract multiply(a: LocalArray, b: LocalArray, d: LocalArray, alpha: ScalarArgument, beta: ScalarArgument): void;

  /** Free what is not left to the garbage collector. */
  [Symbol.dispose](): void {}

  /** A local product with the problem's operations. */
  protected gemm(extents: Extents): GemmCall {
    const { accumulator, operationA, operationB } = this.problem;
    return new GemmCall(this.#scalapack.blas.gemm[BLAS_TYPES[accumulator]], operationA, operationB, extents);
  }
}
