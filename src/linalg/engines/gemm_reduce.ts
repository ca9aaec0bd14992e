/**
 * Both factors are divided alike along k, so that every rank has one term of all of D; the terms are summed into D's
 * parts (`gemm_reduce_scatter`), or into a D that every rank holds (`gemm_all_reduce`).
 *
 * @module
 */
import { LocalArray } from "../../array/local_array.ts";
import { copyStrided } from "../../array/layout.ts";
import { Kernel, type KernelContext } from "./kernel.ts";
import { beginningAt, type GemmCall, inMemory, type MatrixInMemory } from "./local_gemm.ts";
import { scalar } from "./native_arguments.ts";
import { lengthAlong, splitAlong, summed } from "./strategy.ts";

/** One rank's part of D, as far as this rank contributes to it. */
interface Part {
  /** Where it begins along the dimension that is divided. */
  readonly start: number;
  /** This rank's term. */
  readonly term: LocalArray;
  /** The product that gives it. */
  readonly call: GemmCall;
}

/** The kernel of `gemm_reduce_scatter`. */
export class GemmReduceScatter extends Kernel {
  readonly #dimension: 0 | 1;
  /** The terms of all parts, one after the other. */
  readonly #terms: LocalArray;
  readonly #parts: readonly Part[];
  readonly #counts: readonly number[];
  #sum: LocalArray | null = null;
  readonly #zero = scalar(this.problem.accumulator, 0);

  /** Make the buffer of the terms, as large as all of D. */
  constructor(context: KernelContext) {
    super(context);
    const { problem: { m, n, accumulator }, strategy: { a, d }, rank, parts } = this;
    const rows = splitAlong(d, 0);
    this.#dimension = rows ? 0 : 1;
    const ranges = rows ?? splitAlong(d, 1)!;
    const k = lengthAlong(a, summed("a", this.problem), rank);
    this.#terms = LocalArray.zeros(accumulator, [m * n]);
    let offset = 0;
    this.#parts = ranges.map(([start, end]) => {
      const [height, width] = rows ? [end - start, n] : [m, end - start];
      const { data } = this.#terms;
      const term = new LocalArray({ data, dtype: accumulator, shape: [height, width], strides: [1, height], offset });
      offset += height * width;
      return { start, term, call: this.gemm({ m: height, n: width, k }) };
    });
    this.#counts = this.#parts.map(({ term }) => term.size * parts);
  }

  /** Bytes of buffers on this rank. */
  override get workspaceBytes(): number {
    return this.#terms.byteLength + (this.#sum?.byteLength ?? 0);
  }

  /** Take the addresses of other matrices. */
  protected override bind(a: MatrixInMemory, b: MatrixInMemory): void {
    const rowDimension = 1 - summed("a", this.problem) as 0 | 1;
    const columnDimension = 1 - summed("b", this.problem) as 0 | 1;
    for (const { start, term, call } of this.#parts) {
      const left = this.#dimension === 0 ? beginningAt(a, rowDimension, start, this.itemSize) : a;
      const right = this.#dimension === 1 ? beginningAt(b, columnDimension, start, this.itemSize) : b;
      call.setMatrices(left, right, inMemory(term));
    }
  }

  /** Multiply. */
  protected override run(_a: LocalArray, _b: LocalArray, d: LocalArray): void {
    // beta D is a part of this rank's own term.
    const own = this.#parts[this.rank].term;
    if (this.hasAddend) copyStrided(d, own, d.shape, this.parts);
    this.#parts.forEach(({ call, term }) =>
      call.run(this.alpha.address, term === own ? this.beta.address : this.#zero.address)
    );
    const sum = d.isDense("F") ? d : this.#sum ??= LocalArray.zeros(d.dtype, d.shape, "F");
    this.communicator.reduceScatter(this.#terms.data, { counts: this.#counts, into: sum.view() });
    if (sum !== d) copyStrided(sum, d, d.shape, this.parts);
  }
}

/** The kernel of `gemm_all_reduce`. */
export class GemmAllReduce extends Kernel {
  readonly #call: GemmCall;
  readonly #zero = scalar(this.problem.accumulator, 0);
  #a!: MatrixInMemory;
  #b!: MatrixInMemory;
  #dense: LocalArray | null = null;

  /** One product. */
  constructor(context: KernelContext) {
    super(context);
    const { problem: { m, n }, strategy: { a }, rank } = this;
    this.#call = this.gemm({ m, n, k: lengthAlong(a, summed("a", this.problem), rank) });
  }

  /** Bytes of buffers on this rank. */
  override get workspaceBytes(): number {
    return this.#dense?.byteLength ?? 0;
  }

  /** Take the addresses of other matrices. */
  protected override bind(a: MatrixInMemory, b: MatrixInMemory): void {
    [this.#a, this.#b] = [a, b];
  }

  /** Multiply. */
  protected override run(_a: LocalArray, _b: LocalArray, d: LocalArray): void {
    const term = d.isDense("F") ? d : this.#dense ??= LocalArray.zeros(d.dtype, d.shape, "F");
    // beta D is the same on all ranks, and a part of the first one's term.
    const isFirst = this.rank === 0;
    if (isFirst && term !== d && this.hasAddend) copyStrided(d, term, d.shape, this.parts);
    this.#call.setMatrices(this.#a, this.#b, inMemory(term));
    this.#call.run(this.alpha.address, isFirst ? this.beta.address : this.#zero.address);
    const data = term.view();
    this.communicator.allReduce(data, { into: data });
    if (term !== d) copyStrided(term, d, d.shape, this.parts);
  }
}
