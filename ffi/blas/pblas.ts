/**
 * PBLAS: the triangular, symmetric and additive routines of ScaLAPACK, next to its p?gemm in `scalapack.ts`.
 *
 * Source: PBLAS 2 (ScaLAPACK 2.2). Every argument is an address; integers there have 32 bits. The routines are written
 * in C, so that characters have no hidden lengths.
 *
 * @module
 */
import type { BlasType } from "./blas.ts";
import { openScalapack } from "./scalapack.ts";
import { noteWaiting } from "../waiting.ts";

// One distributed matrix: its local part, first row and column (from 1), and its descriptor of nine integers.
const A = [/* a */ "u64", /* ia */ "u64", /* ja */ "u64", /* desca */ "u64"] as const;
const B = [/* b */ "u64", /* ib */ "u64", /* jb */ "u64", /* descb */ "u64"] as const;
const C = [/* c */ "u64", /* ic */ "u64", /* jc */ "u64", /* descc */ "u64"] as const;

/** B = alpha op(A)^-1 B and B = alpha op(A) B, or with op(A) on the right. */
const TRIANGULAR = {
  // deno-fmt-ignore
  parameters: [
    /* side */ "u64", /* uplo */ "u64", /* trans */ "u64", /* diag */ "u64", /* m */ "u64", /* n */ "u64",
    /* alpha */ "u64", ...A, ...B,
  ],
  result: "void",
} as const satisfies Deno.ForeignFunction;

/** C = alpha op(A) op(A)^T + beta C, or with the conjugate transpose; alpha and beta of herk are real. */
const RANK_K = {
  // deno-fmt-ignore
  parameters: [
    /* uplo */ "u64", /* trans */ "u64", /* n */ "u64", /* k */ "u64",
    /* alpha */ "u64", ...A, /* beta */ "u64", ...C,
  ],
  result: "void",
} as const satisfies Deno.ForeignFunction;

/** C = alpha A B + beta C, or alpha B A + beta C. */
const SYMM = {
  // deno-fmt-ignore
  parameters: [
    /* side */ "u64", /* uplo */ "u64", /* m */ "u64", /* n */ "u64",
    /* alpha */ "u64", ...A, ...B, /* beta */ "u64", ...C,
  ],
  result: "void",
} as const satisfies Deno.ForeignFunction;

/** C = alpha op(A) + beta C. */
const GEADD = {
  // deno-fmt-ignore
  parameters: [
    /* trans */ "u64", /* m */ "u64", /* n */ "u64", /* alpha */ "u64", ...A, /* beta */ "u64", ...C,
  ],
  result: "void",
} as const satisfies Deno.ForeignFunction;

/** As geadd, on a triangle of C. */
const TRADD = {
  // deno-fmt-ignore
  parameters: [
    /* uplo */ "u64", /* trans */ "u64", /* m */ "u64", /* n */ "u64", /* alpha */ "u64", ...A, /* beta */ "u64", ...C,
  ],
  result: "void",
} as const satisfies Deno.ForeignFunction;

/** The routines of the four types; herk exists for complex ones only. */
export const PBLAS_SYMBOLS = {
  pstrsm_: TRIANGULAR,
  pdtrsm_: TRIANGULAR,
  pctrsm_: TRIANGULAR,
  pztrsm_: TRIANGULAR,
  pstrmm_: TRIANGULAR,
  pdtrmm_: TRIANGULAR,
  pctrmm_: TRIANGULAR,
  pztrmm_: TRIANGULAR,
  pssyrk_: RANK_K,
  pdsyrk_: RANK_K,
  pcsyrk_: RANK_K,
  pzsyrk_: RANK_K,
  pcherk_: RANK_K,
  pzherk_: RANK_K,
  pssymm_: SYMM,
  pdsymm_: SYMM,
  pcsymm_: SYMM,
  pzsymm_: SYMM,
  psgeadd_: GEADD,
  pdgeadd_: GEADD,
  pcgeadd_: GEADD,
  pzgeadd_: GEADD,
  pstradd_: TRADD,
  pdtradd_: TRADD,
  pctradd_: TRADD,
  pztradd_: TRADD,
} as const satisfies Deno.ForeignLibraryInterface;

export type PblasSymbols = Deno.DynamicLibrary<typeof PBLAS_SYMBOLS>["symbols"];

export interface Pblas {
  readonly trsm: PblasSymbols["pdtrsm_"];
  readonly trmm: PblasSymbols["pdtrmm_"];
  readonly syrk: PblasSymbols["pdsyrk_"];
  /** `p?herk_`; null for real types. */
  readonly herk: PblasSymbols["pzherk_"] | null;
  readonly symm: PblasSymbols["pdsymm_"];
  readonly geadd: PblasSymbols["pdgeadd_"];
  readonly tradd: PblasSymbols["pdtradd_"];
}

let opened: Readonly<Record<BlasType, Pblas>> | undefined;

function table(symbols: PblasSymbols): Record<BlasType, Pblas> {
  const of = (type: BlasType): Pblas => {
    const routines: Pblas = {
      trsm: symbols[`p${type}trsm_`],
      trmm: symbols[`p${type}trmm_`],
      syrk: symbols[`p${type}syrk_`],
      herk: type === "c" || type === "z" ? symbols[`p${type}herk_`] : null,
      symm: symbols[`p${type}symm_`],
      geadd: symbols[`p${type}geadd_`],
      tradd: symbols[`p${type}tradd_`],
    };
    const present = Object.entries(routines).filter(([, routine]) => routine !== null);
    noteWaiting(routines, Object.fromEntries(present.map(([name]) => [name, `p${type}${name}`])));
    return routines;
  };
  return { s: of("s"), d: of("d"), c: of("c"), z: of("z") };
}

/**
 * The PBLAS routines of the ScaLAPACK for the MPI in use, by type; opened at the first call.
 *
 * @throws {ConfigurationError} if there is no ScaLAPACK.
 */
export function openPblas(threads = 1): Readonly<Record<BlasType, Pblas>> {
  const { path } = openScalapack(threads);
  return opened ??= table(Deno.dlopen(path, PBLAS_SYMBOLS).symbols);
}
