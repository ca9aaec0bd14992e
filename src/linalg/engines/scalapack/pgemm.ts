/**
 * The product by ScaLAPACK's p?gemm, on the arrays' own memory.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { Distribution } from "../../../distribution/mod.ts";
import { Algorithm, type AlgorithmContext } from "./algorithm.ts";
import { BLAS_TYPES } from "../../../../ffi/blas/blas.ts";
import { inMemory, transposeCode } from "../../../blas/gemm.ts";
import { character, integers, type NativeArgument, type ScalarArgument } from "../../../blas/arguments.ts";
import { arrayDescriptor, LEADING_DIMENSION } from "./descriptor.ts";
import { useGrid } from "./process_grids.ts";
import type { Use } from "../communicator_resources.ts";
import { asBlocks } from "../../partition.ts";

/** What ScaLAPACK is told about a matrix. */
interface Description {
  readonly descriptor: NativeArgument<Int32Array<ArrayBuffer>>;
  /** The least LLD_ that it accepts, also where this rank has no columns. */
  readonly localRows: number;
}

function describe(distribution: Distribution, context: number, rank: number): Description {
  return {
    descriptor: integers(...arrayDescriptor(distribution, context, 1)),
    localRows: asBlocks(distribution)!.localShape(rank)[0],
  };
}

/** p?gemm on one grid. */
export class Pgemm extends Algorithm {
  readonly #context: AlgorithmContext;
  #grid: Use<number> | null = null;
  readonly #operations: readonly NativeArgument<Uint8Array<ArrayBuffer>>[];
  readonly #extents: NativeArgument<Int32Array<ArrayBuffer>>;
  readonly #one = integers(1);
  #descriptions: readonly Description[] = [];

  /** Everything but the grid. */
  constructor(context: AlgorithmContext) {
    super(context);
    const { m, n, k, operationA, operationB } = this.problem;
    this.#context = context;
    this.#operations = [character(transposeCode(operationA)), character(transposeCode(operationB))];
    this.#extents = integers(m, n, k);
  }

  /** Make the grid, unless it is there already. Collective. */
  override open(): void {
    const { communicator, scalapack, strategy } = this.#context;
    const grid = this.#grid = useGrid(communicator, scalapack, strategy.grid!);
    this.#descriptions = [strategy.a, strategy.b, strategy.d].map((distribution) =>
      describe(distribution, grid.value, this.rank)
    );
  }

  override multiply(a: LocalArray, b: LocalArray, d: LocalArray, alpha: ScalarArgument, beta: ScalarArgument): void {
    // Ranks outside the grid take no part.
    if (this.#grid!.value < 0) return;
    const matrices = [a, b, d].map(inMemory);
    matrices.forEach(({ leadingDimension }, i) => {
      const { descriptor, localRows } = this.#descriptions[i];
      descriptor.values[LEADING_DIMENSION] = Math.max(leadingDimension, localRows);
    });
    const [operationA, operationB] = this.#operations.map(({ address }) => address);
    const [m, n, k] = [0n, 4n, 8n].map((offset) => this.#extents.address + offset);
    const [descriptorA, descriptorB, descriptorD] = this.#descriptions.map(({ descriptor }) => descriptor.address);
    const [atA, atB, atD] = matrices.map(({ address }) => address);
    const one = this.#one.address;
    // deno-fmt-ignore
    this.#context.scalapack.pgemm[BLAS_TYPES[this.problem.accumulator]](
      operationA, operationB, m, n, k,
      alpha.address, atA, one, one, descriptorA,
      atB, one, one, descriptorB,
      beta.address, atD, one, one, descriptorD,
    );
  }

  /** Let go of the grid. */
  override [Symbol.dispose](): void {
    this.#grid?.[Symbol.dispose]();
  }
}
