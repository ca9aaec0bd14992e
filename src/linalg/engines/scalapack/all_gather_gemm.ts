/**
 * One factor and D are divided alike; the other factor's blocks travel.
 *
 * All blocks are under way before the first product, which is the one with this rank's own block. Each block is used as
 * it lies in its receive buffer: it gives some columns (or rows) of D if the travelling factor is divided along D's
 * other dimension, or one term of all of D if it is divided along k.
 *
 * @module
 */
import { LocalArray } from "../../../array/local_array.ts";
import type { Communicator } from "../../../mpi/communicator.ts";
import type { Request } from "../../../mpi/request.ts";
import { Algorithm, type AlgorithmContext } from "./algorithm.ts";
import { beginningAt, type GemmCall, inMemory, type MatrixInMemory } from "../../../blas/gemm.ts";
import { scalar, type ScalarArgument } from "../../../blas/arguments.ts";
import { type Use, usePrivateCommunicator } from "../communicator_resources.ts";
import { DenseCopy } from "../host/preparation.ts";
import { lengthAlong, splitAlong } from "../../matrix_division.ts";
import { summed } from "../../matmul/problem.ts";

/** One rank's block of the travelling factor, and the product that it takes part in here. */
interface Block {
  readonly rank: number;
  /** Where it begins along the dimension that is divided. */
  readonly start: number;
  /** Where it is received; null for this rank's own. */
  readonly buffer: LocalArray | null;
  readonly call: GemmCall;
}

/** The algorithm `all_gather_gemm`. */
export class AllGatherGemm extends Algorithm {
  readonly #travelling: "a" | "b";
  /** Whether each block gives one term of the sum over k, not one part of D. */
  readonly #givesTerms: boolean;
  readonly #blocks: readonly Block[];
  readonly #one = scalar(this.problem.accumulator, 1);
  readonly #dense = new DenseCopy();
  #own: Use<Communicator> | null = null;

  /** Make the receive buffers. */
  constructor(context: AlgorithmContext) {
    super(context);
    const { problem, strategy, rank } = this;
    this.#travelling = strategy.travels as "a" | "b";
    const distribution = strategy[this.#travelling];
    const dimension = summed(this.#travelling, problem);
    const parts = splitAlong(distribution, dimension === 0 ? 1 : 0);
    this.#givesTerms = parts === null;
    const ranges = parts ?? splitAlong(distribution, dimension)!;
    const [m, n] = this.#travelling === "a"
      ? [problem.m, lengthAlong(strategy.d, 1, rank)]
      : [lengthAlong(strategy.d, 0, rank), problem.n];
    const extentsOf = (count: number) =>
      this.#givesTerms
        ? { m, n, k: count }
        : this.#travelling === "a"
        ? { m: count, n, k: problem.k }
        : { m, n: count, k: problem.k };
    // This rank's own block first, then those of the ranks after it.
    const owners = ranges.map((_, step) => (rank + step) % ranges.length).filter((owner) =>
      ranges[owner][0] < ranges[owner][1]
    );
    this.#blocks = owners.map((owner) => {
      const [start, end] = ranges[owner];
      const buffer = owner === rank ? null : LocalArray.zeros(problem.accumulator, distribution.localShape(owner), "F");
      return { rank: owner, start, buffer, call: this.gemm(extentsOf(end - start)) };
    });
  }

  /** Make a communicator for the blocks. Collective. */
  override open(): void {
    this.#own = usePrivateCommunicator(this.communicator);
  }

  /** Make room for a copy of this rank's block, if it has gaps. */
  override prepare(a: LocalArray, b: LocalArray): void {
    const own = this.#travelling === "a" ? a : b;
    if (own.size > 0) this.#dense.reserve(own);
  }

  /** Bytes of buffers on this rank. */
  override get workspaceBytes(): number {
    return this.#blocks.reduce((sum, { buffer }) => sum + (buffer?.byteLength ?? 0), this.#dense.byteLength);
  }

  /** Let go of the communicator. */
  override [Symbol.dispose](): void {
    this.#own?.[Symbol.dispose]();
  }

  override multiply(a: LocalArray, b: LocalArray, d: LocalArray, alpha: ScalarArgument, beta: ScalarArgument): void {
    this.#bind(inMemory(a), inMemory(b), inMemory(d));
    const receives = this.#blocks.map(({ buffer, rank }) => buffer && this.#own!.value.ireceive(buffer.data, rank));
    const sends = this.#send(this.#travelling === "a" ? a : b);
    let factor = beta.address;
    this.#blocks.forEach(({ call }, i) => {
      receives[i]?.wait();
      call.run(alpha.address, factor);
      if (this.#givesTerms) factor = this.#one.address;
    });
    for (const request of sends) request.wait();
  }

  /** Take the addresses of other matrices. */
  #bind(a: MatrixInMemory, b: MatrixInMemory, d: MatrixInMemory): void {
    const isA = this.#travelling === "a";
    const [own, other] = isA ? [a, b] : [b, a];
    const dimensionOfOther = summed(isA ? "b" : "a", this.problem);
    for (const { start, buffer, call } of this.#blocks) {
      const block = buffer ? inMemory(buffer) : own;
      const partner = this.#givesTerms ? beginningAt(other, dimensionOfOther, start, this.itemSize) : other;
      const result = this.#givesTerms ? d : beginningAt(d, isA ? 0 : 1, start, this.itemSize);
      call.setMatrices(isA ? block : partner, isA ? partner : block, result);
    }
  }

  /** This rank's block to all others. */
  #send(own: LocalArray): Request<unknown>[] {
    if (own.size === 0) return [];
    const data = this.#dense.of(own);
    return Array.from({ length: this.communicator.size - 1 }, (_, step) => {
      const target = (this.rank + this.communicator.size - 1 - step) % this.communicator.size;
      return this.#own!.value.isend(data, target);
    });
  }
}
