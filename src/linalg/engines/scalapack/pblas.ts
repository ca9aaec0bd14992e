/**
 * The PBLAS routines on CPUs.
 *
 * @module
 */
import { openPblas, type Pblas } from "../../../../ffi/blas/pblas.ts";
import { openScalapack } from "../../../../ffi/blas/scalapack.ts";
import type { Scalar, TypedArray } from "../../../dtype/dtype.ts";
import type { Runtime } from "../../../runtime/runtime.ts";
import {
  argumentsOf,
  type PblasCall,
  type PblasEngine,
  type PblasMatrix,
  type RoutineLetters,
} from "../../pblas/call.ts";
import type { AccumulatorDType } from "../../../dtype/dtype.ts";
import { BLAS_TYPES } from "../../../../ffi/blas/blas.ts";
import { multiplyRate } from "../../../blas/host_rate.ts";
import { leadingDimensionOf } from "../../../blas/gemm.ts";
import { integers, type NativeArgument, scalar, setScalar } from "../../../blas/arguments.ts";
import { arrayDescriptor } from "./descriptor.ts";
import { useGrid } from "./process_grids.ts";
import { libraryInWords } from "../host/library.ts";

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
  matrix({ distribution, local }: PblasMatrix, context: number): [bigint, bigint, bigint, bigint] {
    const descriptor = this.integer(...arrayDescriptor(distribution, context, leadingDimensionOf(local)));
    return [local.size === 0 ? 0n : local.address, this.#one, this.#one, descriptor];
  }
}

type NativeRoutine = (...addresses: bigint[]) => void;

function callRoutine(pblas: Pblas, call: PblasCall, context: number, passed: Arguments): void {
  const { routine, letters, dtype } = call;
  const values = argumentsOf<bigint>(routine, {
    side: passed.letter(letters.side),
    uplo: passed.letter(letters.uplo),
    trans: passed.letter(letters.trans),
    diag: passed.letter(letters.diag),
    m: passed.integer(call.m),
    n: passed.integer(call.n),
    k: passed.integer(call.k),
    alpha: passed.scalar(dtype, call.alpha),
    beta: passed.scalar(dtype, call.beta),
    a: passed.matrix(call.a, context),
    b: call.b ? passed.matrix(call.b, context) : [],
    result: passed.matrix(call.result, context),
    output: [],
    computeType: [],
  });
  (pblas[routine] as NativeRoutine)(...values);
}

/** ScaLAPACK's routines. */
export const scalapackPblas: PblasEngine = {
  name: "scalapack",
  squareOnly: [],
  operationsPerSecond: ({ threads }, dtype) => multiplyRate(openScalapack(threads).blas.gemm[BLAS_TYPES[dtype]], dtype),
  accepts: () => true,
  open: (runtime) => libraryInWords(runtime, openScalapack(runtime.threads)),
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
