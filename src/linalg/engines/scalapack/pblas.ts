/**
 * The PBLAS routines on CPUs.
 *
 * @module
 */
import { openPblas, type Pblas } from "../../../../ffi/blas/pblas.ts";
import { openScalapack } from "../../../../ffi/blas/scalapack.ts";
import type { Scalar, TypedArray } from "../../../dtype/dtype.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import type { PblasCall, PblasEngine, PblasMatrix, RoutineLetters } from "../../pblas/call.ts";
import type { AccumulatorDType } from "../../../dtype/dtype.ts";
import { BLAS_TYPES } from "../../../../ffi/blas/blas.ts";
import { inMemory } from "../../../blas/gemm.ts";
import { integers, type NativeArgument, scalar, setScalar } from "../../../blas/arguments.ts";
import { useGrid } from "./process_grids.ts";
import { scalapackLibrary } from "./library.ts";

const LETTERS = {
  left: "L",
  right: "R",
  lower: "L",
  upper: "U",
  none: "N",
  transpose: "T",
  conjugate_transpose: "C",
  non_unit: "N",
  unit: "U",
} as const;

/** DTYPE_ of a dense matrix in blocks, in a descriptor. */
const BLOCK_CYCLIC_2D = 1;

/** The array descriptor: DTYPE_, CTXT_, M_, N_, MB_, NB_, RSRC_, CSRC_, LLD_. */
function descriptor(call: PblasCall, { distribution, local }: PblasMatrix, context: number): Int32Array<ArrayBuffer> {
  const [rows, columns] = distribution.globalShape!;
  // A block that covers the matrix may be larger than a 32-bit integer.
  const blockSize = Math.min(call.blocks.blockSize, Math.max(1, rows, columns));
  const leading = Math.max(1, local.shape[0], local.size === 0 ? 1 : inMemory(local).leadingDimension);
  return Int32Array.of(BLOCK_CYCLIC_2D, context, rows, columns, blockSize, blockSize, 0, 0, leading);
}

/** Everything that a call passes by address. */
class Arguments {
  readonly #kept: unknown[] = [];
  readonly #one: bigint;

  constructor() {
    this.#one = this.integer(1);
  }

  integer(...values: number[]): bigint {
    return this.#keep(integers(...values));
  }

  scalar(dtype: AccumulatorDType, value: Scalar): bigint {
    const cell = scalar(dtype, 0);
    setScalar(cell, value);
    return this.#keep(cell);
  }

  /** Let go of them, after the call: until then this object keeps their memory. */
  release(): void {
    this.#kept.length = 0;
  }

  #keep(argument: NativeArgument<TypedArray>): bigint {
    this.#kept.push(argument);
    return argument.address;
  }

  /** A character; the bytes after it do not matter. */
  letter(name: RoutineLetters[keyof RoutineLetters]): bigint {
    return this.integer(LETTERS[name].charCodeAt(0));
  }

  /** A whole matrix: its address, its first row and column, its descriptor. */
  matrix(call: PblasCall, matrix: PblasMatrix, context: number): [bigint, bigint, bigint, bigint] {
    const address = matrix.local.size === 0 ? 0n : matrix.local.address;
    return [address, this.#one, this.#one, this.integer(...descriptor(call, matrix, context))];
  }
}

function callRoutine(pblas: Pblas, call: PblasCall, context: number, passed: Arguments): void {
  const { routine, letters, m, n, k, dtype } = call;
  const [side, uplo] = [passed.letter(letters.side), passed.letter(letters.uplo)];
  const [trans, diag] = [passed.letter(letters.trans), passed.letter(letters.diag)];
  const [rows, columns] = [passed.integer(m), passed.integer(n)];
  const [alpha, beta] = [passed.scalar(dtype, call.alpha), passed.scalar(dtype, call.beta)];
  const a = passed.matrix(call, call.a, context);
  const result = passed.matrix(call, call.result, context);
  switch (routine) {
    case "trsm":
    case "trmm":
      return pblas[routine](side, uplo, trans, diag, rows, columns, alpha, ...a, ...result);
    case "syrk":
    case "herk":
      return pblas[routine]!(uplo, trans, columns, passed.integer(k), alpha, ...a, beta, ...result);
    case "symm": {
      const b = passed.matrix(call, call.b!, context);
      return pblas.symm(side, uplo, rows, columns, alpha, ...a, ...b, beta, ...result);
    }
    case "geadd":
      return pblas.geadd(trans, rows, columns, alpha, ...a, beta, ...result);
    case "tradd":
      return pblas.tradd(uplo, trans, rows, columns, alpha, ...a, beta, ...result);
  }
}

/** ScaLAPACK's routines. */
export const scalapackPblas: PblasEngine = {
  squareOnly: [],
  accepts: () => true,
  open: scalapackLibrary,
  run(runtime: Runtime, call: PblasCall): void {
    const scalapack = openScalapack(runtime.threads);
    using grid = useGrid(runtime.communicator, scalapack, call.blocks.grid);
    // Ranks outside the grid take no part.
    if (grid.value < 0) return;
    const passed = new Arguments();
    callRoutine(openPblas(runtime.threads)[BLAS_TYPES[call.dtype]], call, grid.value, passed);
    passed.release();
  },
};
