/**
 * LAPACK: dense systems and eigenvalues, in its Fortran interface, from the libraries that ScaLAPACK itself uses, or, on
 * machines without ScaLAPACK, from OpenBLAS or the reference LAPACK of the system.
 *
 * Every argument is an address, also those of scalars, but for the lengths of characters, which Fortran passes unseen
 * after all others. Matrices are column-major, leading dimensions at least 1, integers 32 bits wide (LP64).
 *
 * Source: the reference LAPACK 3.12 (`dgesv.f`, `dposv.f`, `dsyevd.f`, `zheevd.f`).
 *
 * @module
 */
import { ConfigurationError } from "../errors.ts";
import { named, openLibrary } from "../library.ts";
import { taskCommand } from "../task_command.ts";
import type { BlasType } from "./blas.ts";
import { openScalapack } from "./scalapack.ts";

/** The routines, by their names after the letter of the type; the last two exist for real or for complex types only. */
const ROUTINES = {
  /** A X = B by LU with partial pivoting; A becomes its factors, B becomes X. */
  gesv: {
    // deno-fmt-ignore
    parameters: [
      /* n */ "u64", /* nrhs */ "u64", /* a */ "u64", /* lda */ "u64", /* ipiv */ "u64", /* b */ "u64", /* ldb */ "u64",
      /* info */ "u64",
    ],
    result: "void",
  },
  /** A X = B by Cholesky, which reads one triangle of A. */
  posv: {
    // deno-fmt-ignore
    parameters: [
      /* uplo */ "u64", /* n */ "u64", /* nrhs */ "u64", /* a */ "u64", /* lda */ "u64", /* b */ "u64", /* ldb */ "u64",
      /* info */ "u64", /* length of uplo */ "usize",
    ],
    result: "void",
  },
  /** Eigenvalues, ascending, and eigenvectors, which overwrite A, of which one triangle is read. */
  syevd: {
    // deno-fmt-ignore
    parameters: [
      /* jobz */ "u64", /* uplo */ "u64", /* n */ "u64", /* a */ "u64", /* lda */ "u64", /* w */ "u64",
      /* work */ "u64", /* lwork */ "u64", /* iwork */ "u64", /* liwork */ "u64", /* info */ "u64",
      /* length of jobz */ "usize", /* length of uplo */ "usize",
    ],
    result: "void",
    optional: true,
  },
  /** The same of Hermitian matrices. */
  heevd: {
    // deno-fmt-ignore
    parameters: [
      /* jobz */ "u64", /* uplo */ "u64", /* n */ "u64", /* a */ "u64", /* lda */ "u64", /* w */ "u64",
      /* work */ "u64", /* lwork */ "u64", /* rwork */ "u64", /* lrwork */ "u64", /* iwork */ "u64", /* liwork */ "u64",
      /* info */ "u64", /* length of jobz */ "usize", /* length of uplo */ "usize",
    ],
    result: "void",
    optional: true,
  },
} as const satisfies Deno.ForeignLibraryInterface;

/** The routines of one type; `null` where there is none. */
export type Lapack = Deno.DynamicLibrary<typeof ROUTINES>["symbols"];

const INSTALL = `${taskCommand("native install cpu")}   (or: apt-get install liblapack3 libopenblas0-pthread)`;

let opened: Readonly<Record<BlasType, Lapack>> | undefined;

/** The file through which LAPACK is reached. */
function findFile(threads: number): string {
  try {
    return openScalapack(threads).blas.path;
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const request = { name: "LAPACK", files: ["libopenblas.so.0", "liblapack.so.3"], install: INSTALL };
    return openLibrary(request, { dgesv_: ROUTINES.gesv }).path;
  }
}

function open(path: string, type: BlasType): Lapack {
  try {
    return Deno.dlopen(path, named(ROUTINES, (name) => `${type}${name}_`)).symbols;
  } catch (error) {
    const reason = error instanceof Error ? error.message.split("\n")[0] : String(error);
    throw new ConfigurationError(
      `LAPACK: neither ${path} nor what it depends on has all of it: ${reason}. To install it: ${INSTALL}`,
    );
  }
}

/**
 * LAPACK by type, found through the file of ScaLAPACK's BLAS, or by itself where there is no ScaLAPACK; opened at the first
 * call. `threads` is the number of threads that ScaLAPACK's may use.
 *
 * @throws {ConfigurationError} if there is none.
 */
export function openLapack(threads = 1): Readonly<Record<BlasType, Lapack>> {
  if (opened !== undefined) return opened;
  const path = findFile(threads);
  return opened = { s: open(path, "s"), d: open(path, "d"), c: open(path, "c"), z: open(path, "z") };
}
