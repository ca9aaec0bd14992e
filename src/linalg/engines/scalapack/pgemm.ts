/**
 * The product by ScaLAPACK's p?gemm, on the arrays' own memory.
 *
 * @module
 */
import type { LocalArray } from "../../../array/local_array.ts";
import type { Distribution } from "../../../distribution/mod.ts";
import { Algorithm, type AlgorithmContext } from "./algorithm.ts";
import { BLAS_TYPES, type BlasType } from "../../../../ffi/blas/blas.ts";
import { inMemory, transposeCode } from "../../../blas/gemm.ts";
import { character, integers, type NativeArgument, type ScalarArgument } from "../../../blas/arguments.ts";
import { arrayDescriptor, LEADING_DIMENSION } from "./descriptor.ts";
import { useGrid } from "./process_grids.ts";
import type { Use } from "../communicator_resources.ts";
import { asBlocks } from "../../matrix_division.ts";

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

/** The address of a matrix, whose leading dimension is noted in its descriptor. */
function placed(local: LocalArray, { descriptor, localRows }: Description): bigint {
  const { address, leadingDimension } = inMemory(local);
  descriptor.values[LEADING_DIMENSION] = Math.max(leadingDimension, localRows);
  return address;
}

/** p?gemm on one grid. */
export class Pgemm extends Algorithm {
  readonly #context: AlgorithmContext;
  #grid: Use<number> | null = null;
  readonly #type: BlasType;
  readonly #operationA: NativeArgument<Uint8Array<ArrayBuffer>>;
  readonly #operationB: NativeArgument<Uint8Array<ArrayBuffer>>;
  readonly #extents: NativeArgument<Int32Array<ArrayBuffer>>;
  readonly #one = integers(1);
  #descriptions: readonly Description[] = [];

  /** Everything but the grid. */
  constructor(context: AlgorithmContext) {
    super(context);
    const { m, n, k, accumulator, operationA, operationB } = this.problem;
    this.#context = context;
    this.#type = BLAS_TYPES[accumulator];
    this.#operationA = character(transposeCode(operationA));
    this.#operationB = character(transposeCode(operationB));
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
    const { address: one } = this.#one;
    const { address: m } = this.#extents;
    const [descriptionA, descriptionB, descriptionD] = this.#descriptions;
    // deno-fmt-ignore
    this.#context.scalapack.pgemm[this.#type](
      this.#operationA.address, this.#operationB.address, m, m + 4n, m + 8n,
      alpha.address, placed(a, descriptionA), one, one, descriptionA.descriptor.address,
      placed(b, descriptionB), one, one, descriptionB.descriptor.address,
      beta.address, placed(d, descriptionD), one, one, descriptionD.descriptor.address,
    );
  }

  /** Let go of the grid. */
  override [Symbol.dispose](): void {
    this.#grid?.[Symbol.dispose]();
  }
}
