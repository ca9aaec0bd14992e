/**
 * Both factors are divided alike along k, so that every rank has one term of all of D; the terms are summed into D's
 * parts (`gemm_reduce_scatter`), or into a D that every rank holds (`gemm_all_reduce`).
 *
 * For the parts, sums go round in a ring. The sum for rank r starts at rank r + 1 and ends at r; on its way each rank
 * adds its own term by multiplying onto what it received, so that no addition needs a pass of its own.
 *
 * @module
 */
import { addressOf } from "../../../../ffi/memory.ts";
import { allocate, type TypedArray } from "../../../dtype/dtype.ts";
import { copyStrided } from "../../../array/layout.ts";
import type { LocalArray } from "../../../array/local_array.ts";
import type { Communicator } from "../../../mpi/communicator.ts";
import type { Request } from "../../../mpi/request.ts";
import { Algorithm, type AlgorithmContext } from "./algorithm.ts";
import { beginningAt, type GemmCall, inMemory, type MatrixInMemory } from "../../../blas/gemm.ts";
import { isNothing, scalar, type ScalarArgument } from "../../../blas/arguments.ts";
import { type Use, usePrivateCommunicator } from "../communicator_resources.ts";
import { DenseCopy } from "../host/preparation.ts";
import { lengthAlong, splitAlong } from "../../matrix_division.ts";
import { summed } from "../../matmul/problem.ts";

/** One rank's part of D, as far as this rank contributes to it. */
interface Part {
  /** Where it begins along the dimension that is divided. */
  readonly start: number;
  readonly rows: number;
  readonly count: number;
  /** The product that gives this rank's term. */
  readonly call: GemmCall;
  /** The factors of that product. */
  left: MatrixInMemory;
  right: MatrixInMemory;
}

/** Numbers of the accumulator's type, and where they are. */
interface Buffer {
  readonly data: TypedArray;
  readonly address: bigint;
}

const NOWHERE: MatrixInMemory = { address: 0n, leadingDimension: 1 };

/** The algorithm `gemm_reduce_scatter`. */
export class GemmReduceScatter extends Algorithm {
  #own: Use<Communicator> | null = null;
  #alpha!: ScalarArgument;
  #beta!: ScalarArgument;
  readonly #dimension: 0 | 1;
  readonly #parts: readonly Part[];
  /** One holds the sum that is being sent, the other one the next. */
  readonly #buffers: readonly [Buffer, Buffer];
  readonly #zero = scalar(this.problem.accumulator, 0);
  readonly #one = scalar(this.problem.accumulator, 1);

  /** Make the buffers, each as large as the largest part of D. */
  constructor(context: AlgorithmContext) {
    super(context);
    const { problem: { m, n, accumulator }, strategy: { a, d }, rank, parts } = this;
    const rows = splitAlong(d, 0);
    const k = lengthAlong(a, summed("a", this.problem), rank);
    this.#dimension = rows ? 0 : 1;
    this.#parts = (rows ?? splitAlong(d, 1)!).map(([start, end]) => {
      const extents = rows ? { m: end - start, n, k } : { m, n: end - start, k };
      const count = extents.m * extents.n * parts;
      return { start, rows: extents.m, count, call: this.gemm(extents), left: NOWHERE, right: NOWHERE };
    });
    const largest = Math.max(...this.#parts.map(({ count }) => count)) / parts;
    const buffer = (): Buffer => {
      const data = allocate(accumulator, largest);
      return { data, address: addressOf(data) };
    };
    this.#buffers = [buffer(), buffer()];
  }

  /** Make a communicator for the sums. Collective. */
  override open(): void {
    this.#own = usePrivateCommunicator(this.communicator);
  }

  /** Bytes of buffers on this rank. */
  override get workspaceBytes(): number {
    return 2 * this.#buffers[0].data.byteLength;
  }

  /** Let go of the communicator. */
  override [Symbol.dispose](): void {
    this.#own?.[Symbol.dispose]();
  }

  override multiply(a: LocalArray, b: LocalArray, d: LocalArray, alpha: ScalarArgument, beta: ScalarArgument): void {
    [this.#alpha, this.#beta] = [alpha, beta];
    this.#bind(inMemory(a), inMemory(b));
    this.#run(d);
  }

  /** Take the addresses of other matrices. */
  #bind(a: MatrixInMemory, b: MatrixInMemory): void {
    const rowDimension = 1 - summed("a", this.problem) as 0 | 1;
    const columnDimension = 1 - summed("b", this.problem) as 0 | 1;
    for (const part of this.#parts) {
      part.left = this.#dimension === 0 ? beginningAt(a, rowDimension, part.start, this.itemSize) : a;
      part.right = this.#dimension === 1 ? beginningAt(b, columnDimension, part.start, this.itemSize) : b;
    }
  }

  #run(d: LocalArray): void {
    const { rank } = this;
    const { size } = this.communicator;
    const sends: (Request<void> | undefined)[] = [];
    for (let step = 0; step < size - 1; step++) {
      const part = this.#parts[(rank + size - 1 - step) % size];
      if (part.count === 0) continue;
      const buffer = this.#buffers[step % 2];
      sends[step % 2]?.wait();
      const sum = buffer.data.subarray(0, part.count);
      if (step > 0) this.#receive(sum);
      const target = { address: buffer.address, leadingDimension: part.rows };
      this.#multiply(part, target, step > 0 ? this.#one.address : this.#zero.address);
      sends[step % 2] = this.#own!.value.isend(sum, (rank + 1) % size);
    }
    if (this.#parts[rank].count > 0) this.#finish(this.#parts[rank], d, sends, (size - 1) % 2);
    for (const request of sends) request?.wait();
  }

  /** Add this rank's own term, and beta D, to the sum of the others' terms. */
  #finish(part: Part, d: LocalArray, sends: (Request<void> | undefined)[], spare: number): void {
    const target = inMemory(d);
    if (this.communicator.size === 1) return this.#multiply(part, target, this.#beta.address);
    if (isNothing(this.#beta) && d.isDense("F")) {
      this.#receive(d.view());
      return this.#multiply(part, target, this.#one.address);
    }
    sends[spare]?.wait();
    const sum = this.#buffers[spare].data.subarray(0, part.count);
    this.#receive(sum);
    this.#multiply(part, target, this.#beta.address);
    add(sum as Float32Array | Float64Array, d, this.parts);
  }

  #multiply({ call, left, right }: Part, target: MatrixInMemory, beta: bigint): void {
    call.setMatrices(left, right, target);
    call.run(this.#alpha.address, beta);
  }

  /** A sum comes from the rank before this one. */
  #receive(into: TypedArray): void {
    const { size } = this.communicator;
    this.#own!.value.ireceive(into, (this.rank + size - 1) % size).wait();
  }
}

/** Add a dense column-major matrix to a local one. */
function add(dense: Float32Array | Float64Array, to: LocalArray, parts: 1 | 2): void {
  const data = to.data as Float32Array | Float64Array;
  const [rows, columns] = to.shape;
  const length = rows * parts;
  for (let column = 0, from = 0; column < columns; column++) {
    const start = (to.offset + column * to.strides[1]) * parts;
    for (let i = start; i < start + length; i++) data[i] += dense[from++];
  }
}

/** The algorithm `gemm_all_reduce`. */
export class GemmAllReduce extends Algorithm {
  readonly #call: GemmCall;
  readonly #zero = scalar(this.problem.accumulator, 0);
  readonly #dense = new DenseCopy();

  constructor(context: AlgorithmContext) {
    super(context);
    const { problem: { m, n }, strategy: { a }, rank } = this;
    this.#call = this.gemm({ m, n, k: lengthAlong(a, summed("a", this.problem), rank) });
  }

  /** Bytes of buffers on this rank. */
  override get workspaceBytes(): number {
    return this.#dense.byteLength;
  }

  /** Make room for this rank's term, if D has gaps. */
  override prepare(_a: LocalArray, _b: LocalArray, d: LocalArray): void {
    this.#dense.reserve(d);
  }

  override multiply(a: LocalArray, b: LocalArray, d: LocalArray, alpha: ScalarArgument, beta: ScalarArgument): void {
    const term = d.isDense("F") ? d : this.#dense.reserve(d)!;
    // beta D is the same on all ranks, and a part of the first one's term.
    const isFirst = this.rank === 0;
    if (isFirst && term !== d && !isNothing(beta)) copyStrided(d, term, d.shape, this.parts);
    this.#call.setMatrices(inMemory(a), inMemory(b), inMemory(term));
    this.#call.run(alpha.address, isFirst ? beta.address : this.#zero.address);
    const data = term.view();
    this.communicator.allReduce(data, { into: data });
    if (term !== d) copyStrided(term, d, d.shape, this.parts);
  }
}
