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

/** The parameters of the routines, by what they compute. */
// deno-fmt-ignore
const PARAMETERS = {
  /** B = alpha op(A)^-1 B and B = alpha op(A) B, or with op(A) on the right. */
  triangular: [
    /* side */ "u64", /* uplo */ "u64", /* trans */ "u64", /* diag */ "u64", /* m */ "u64", /* n */ "u64",
    /* alpha */ "u64", ...A, ...B,
  ],
  /** C = alpha op(A) op(A)^T + beta C, or with the conjugate transpose; alpha and beta of herk are real. */
  rank_k: [
    /* uplo */ "u64", /* trans */ "u64", /* n */ "u64", /* k */ "u64", /* alpha */ "u64", ...A, /* beta */ "u64", ...C,
  ],
  /** C = alpha op(A) op(B)^T + alpha op(B) op(A)^T + beta C, or with conjugates; beta of her2k is real. */
  rank_2k: [
    /* uplo */ "u64", /* trans */ "u64", /* n */ "u64", /* k */ "u64",
    /* alpha */ "u64", ...A, ...B, /* beta */ "u64", ...C,
  ],
  /** C = alpha A B + beta C, or alpha B A + beta C. */
  symmetric: [
    /* side */ "u64", /* uplo */ "u64", /* m */ "u64", /* n */ "u64",
    /* alpha */ "u64", ...A, ...B, /* beta */ "u64", ...C,
  ],
  /** C = alpha op(A) + beta C. */
  sum: [/* trans */ "u64", /* m */ "u64", /* n */ "u64", /* alpha */ "u64", ...A, /* beta */ "u64", ...C],
  /** As geadd, on a triangle of C. */
  sum_in_triangle: [
    /* uplo */ "u64", /* trans */ "u64", /* m */ "u64", /* n */ "u64", /* alpha */ "u64", ...A, /* beta */ "u64", ...C,
  ],
} as const;

/**
 * The routines, by their names after the letter of the type: what each computes, and for which one for symmetric matrices
 * it stands if it is for Hermitian ones, thus for complex types only.
 */
export const PBLAS_ROUTINES = {
  trsm: { kind: "triangular", symmetricTwin: null },
  trmm: { kind: "triangular", symmetricTwin: null },
  syrk: { kind: "rank_k", symmetricTwin: null },
  herk: { kind: "rank_k", symmetricTwin: "syrk" },
  syr2k: { kind: "rank_2k", symmetricTwin: null },
  her2k: { kind: "rank_2k", symmetricTwin: "syr2k" },
  symm: { kind: "symmetric", symmetricTwin: null },
  hemm: { kind: "symmetric", symmetricTwin: "symm" },
  geadd: { kind: "sum", symmetricTwin: null },
  tradd: { kind: "sum_in_triangle", symmetricTwin: null },
} as const satisfies Record<string, { kind: keyof typeof PARAMETERS; symmetricTwin: string | null }>;

type Routines = typeof PBLAS_ROUTINES;

type SymbolOf<Kind extends keyof typeof PARAMETERS, Twin extends string | null> =
  & { readonly parameters: typeof PARAMETERS[Kind]; readonly result: "void" }
  & (Twin extends null ? unknown : { readonly optional: true });

/** The functions of {@linkcode PBLAS_ROUTINES}, by the same names. */
export const PBLAS_SYMBOLS: {
  readonly [R in keyof Routines]: SymbolOf<Routines[R]["kind"], Routines[R]["symmetricTwin"]>;
} = Object.fromEntries(
  Object.entries(PBLAS_ROUTINES).map(([name, { kind, symmetricTwin }]) => [
    name,
    { parameters: PARAMETERS[kind], result: "void", ...symmetricTwin && { optional: true } },
  ]),
) as typeof PBLAS_SYMBOLS;

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
