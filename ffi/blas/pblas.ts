/**
 * PBLAS: the triangular, symmetric and additive routines of ScaLAPACK, next to its p?gemm in `scalapack.ts`.
 *
 * Source: PBLAS 2 (ScaLAPACK 2.2). Every argument is an address; integers there have 32 bits. The routines are written
 * in C, so that characters have no hidden lengths.
 *
 * @module
 */
import type { BlasType } from "./blas.ts";
import { named } from "../library.ts";
import { A, B, C, openScalapack } from "./scalapack.ts";
import { noteWaiting } from "../waiting.ts";

/** B = alpha op(A)^-1 B and B = alpha op(A) B, or with op(A) on the right. */
// deno-fmt-ignore
const TRIANGULAR = [
  /* side */ "u64", /* uplo */ "u64", /* trans */ "u64", /* diag */ "u64", /* m */ "u64", /* n */ "u64",
  /* alpha */ "u64", ...A, ...B,
] as const;

/** C = alpha op(A) op(A)^T + beta C, or with the conjugate transpose; alpha and beta of herk are real. */
// deno-fmt-ignore
const RANK_K = [
  /* uplo */ "u64", /* trans */ "u64", /* n */ "u64", /* k */ "u64", /* alpha */ "u64", ...A, /* beta */ "u64", ...C,
] as const;

/** C = alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C, or with conjugates; beta of her2k is real. */
// deno-fmt-ignore
const RANK_2K = [
  /* uplo */ "u64", /* trans */ "u64", /* n */ "u64", /* k */ "u64",
  /* alpha */ "u64", ...A, ...B, /* beta */ "u64", ...C,
] as const;

/** C = alpha A B + beta C, or alpha B A + beta C. */
// deno-fmt-ignore
const SYMM = [
  /* side */ "u64", /* uplo */ "u64", /* m */ "u64", /* n */ "u64",
  /* alpha */ "u64", ...A, ...B, /* beta */ "u64", ...C,
] as const;

/** C = alpha op(A) + beta C. */
// deno-fmt-ignore
const GEADD = [
  /* trans */ "u64", /* m */ "u64", /* n */ "u64", /* alpha */ "u64", ...A, /* beta */ "u64", ...C,
] as const;

/** As geadd, on a triangle of C. */
// deno-fmt-ignore
const TRADD = [
  /* uplo */ "u64", /* trans */ "u64", /* m */ "u64", /* n */ "u64", /* alpha */ "u64", ...A, /* beta */ "u64", ...C,
] as const;

/** The routines, by their names after the letter of the type; those of Hermitian matrices exist for complex types only. */
export const PBLAS_SYMBOLS = {
  trsm: { parameters: TRIANGULAR, result: "void" },
  trmm: { parameters: TRIANGULAR, result: "void" },
  syrk: { parameters: RANK_K, result: "void" },
  herk: { parameters: RANK_K, result: "void", optional: true },
  syr2k: { parameters: RANK_2K, result: "void" },
  her2k: { parameters: RANK_2K, result: "void", optional: true },
  symm: { parameters: SYMM, result: "void" },
  hemm: { parameters: SYMM, result: "void", optional: true },
  geadd: { parameters: GEADD, result: "void" },
  tradd: { parameters: TRADD, result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

/** The routines of one type; `null` where there is none. */
export type Pblas = Deno.DynamicLibrary<typeof PBLAS_SYMBOLS>["symbols"];

let opened: Readonly<Record<BlasType, Pblas>> | undefined;

function open(path: string, type: BlasType): Pblas {
  const routines = { ...Deno.dlopen(path, named(PBLAS_SYMBOLS, (name) => `p${type}${name}_`)).symbols };
  const present = Object.entries(routines).filter(([, routine]) => routine !== null);
  noteWaiting(routines, Object.fromEntries(present.map(([name]) => [name, `p${type}${name}`])));
  return routines;
}

/**
 * The PBLAS routines of the ScaLAPACK for the MPI in use, by type; opened at the first call.
 *
 * @throws {ConfigurationError} if there is no ScaLAPACK.
 */
export function openPblas(threads = 1): Readonly<Record<BlasType, Pblas>> {
  const { path } = openScalapack(threads);
  return opened ??= { s: open(path, "s"), d: open(path, "d"), c: open(path, "c"), z: open(path, "z") };
}
