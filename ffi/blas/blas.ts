/**
 * BLAS: the general matrix product, in its Fortran interface, from the BLAS that ScaLAPACK itself uses.
 *
 * Every argument is an address, also those of scalars: a caller that keeps its scalars in one buffer takes the
 * addresses once, and a call then costs some 10 ns. Integers are 32 bits wide (LP64).
 *
 * Sources: the reference BLAS 3.12 (`dgemm.f`); the developer guides of Intel oneMKL, OpenBLAS and BLIS for the
 * functions that give a version and set the number of threads.
 *
 * @module
 */
import { named } from "../library.ts";
import { fromCString, readCString } from "../memory.ts";
import { taskCommand } from "../task_command.ts";

/**
 * `?gemm_`: addresses, and the lengths of the two characters, which Fortran passes unseen. Leading dimensions are at least 1;
 * a beta of 0 overwrites C without reading it.
 */
export const GEMM = {
  // deno-fmt-ignore
  parameters: [
    /* transa */ "u64", /* transb */ "u64", /* m */ "u64", /* n */ "u64", /* k */ "u64", /* alpha */ "u64",
    /* a */ "u64", /* lda */ "u64", /* b */ "u64", /* ldb */ "u64", /* beta */ "u64", /* c */ "u64", /* ldc */ "u64",
    /* length of transa */ "usize", /* length of transb */ "usize",
  ],
  result: "void",
} as const satisfies Deno.ForeignFunction;

/** A function for each type, by its letter. */
export function ofTypes<F extends Deno.ForeignFunction>(declaration: F, name: string): Record<BlasType, F> {
  const [s, d, c, z] = [declaration, declaration, declaration, declaration];
  return named({ s, d, c, z }, (type) => name.replace("?", type)) as Record<BlasType, F>;
}

/** What tells the vendors apart, and sets their threads. */
const VENDOR_SYMBOLS = {
  /** `void MKL_Get_Version_String(char* buffer, int length)` */
  MKL_Get_Version_String: { parameters: ["buffer", "i32"], result: "void", optional: true },
  /** `void MKL_Set_Num_Threads(int threads)` */
  MKL_Set_Num_Threads: { parameters: ["i32"], result: "void", optional: true },
  /** `char* openblas_get_config(void)` */
  openblas_get_config: { parameters: [], result: "u64", optional: true },
  /** `void openblas_set_num_threads(int threads)` */
  openblas_set_num_threads: { parameters: ["i32"], result: "void", optional: true },
  /** `const char* bli_info_get_version_str(void)` */
  bli_info_get_version_str: { parameters: [], result: "u64", optional: true },
  /** `void bli_thread_set_num_threads(dim_t threads)` */
  bli_thread_set_num_threads: { parameters: ["i64"], result: "void", optional: true },
} as const satisfies Deno.ForeignLibraryInterface;

/** The letter with which BLAS and ScaLAPACK name a type: float32, float64, complex64, complex128. */
export type BlasType = "s" | "d" | "c" | "z";

/** BLAS's letters for types of elements. */
export const BLAS_TYPES = { float32: "s", float64: "d", complex64: "c", complex128: "z" } as const;

/** `?gemm_`: fifteen addresses and lengths. */
export type GemmFunction = Deno.DynamicLibrary<{ gemm: typeof GEMM }>["symbols"]["gemm"];

export type BlasVendor = "mkl" | "openblas" | "blis" | "reference";

export interface Blas {
  /** Who made it; `reference` when nobody says so. */
  readonly vendor: BlasVendor;
  /** The library's own words. */
  readonly version: string;
  /** The file through which it was reached. */
  readonly path: string;
  /** The general matrix product of each type. */
  readonly gemm: Readonly<Record<BlasType, GemmFunction>>;
  /** Set the number of threads that a product may use; the reference BLAS has one only. */
  setThreads(threads: number): void;
}

type VendorFunctions = Deno.DynamicLibrary<typeof VENDOR_SYMBOLS>["symbols"];

function firstLine(text: string): string {
  return text.split("\n")[0].trim();
}

function identify(library: VendorFunctions): Pick<Blas, "vendor" | "version" | "setThreads"> {
  if (library.MKL_Get_Version_String) {
    const text = new Uint8Array(200);
    library.MKL_Get_Version_String(text, text.length);
    return {
      vendor: "mkl",
      version: firstLine(fromCString(text)),
      setThreads: (n) => library.MKL_Set_Num_Threads?.(n),
    };
  }
  if (library.openblas_get_config) {
    const version = firstLine(readCString(library.openblas_get_config()));
    return { vendor: "openblas", version, setThreads: (n) => library.openblas_set_num_threads?.(n) };
  }
  if (library.bli_info_get_version_str) {
    const version = firstLine(`BLIS ${readCString(library.bli_info_get_version_str())}`);
    return { vendor: "blis", version, setThreads: (n) => library.bli_thread_set_num_threads?.(BigInt(n)) };
  }
  return { vendor: "reference", version: "reference BLAS", setThreads: () => {} };
}

/**
 * Open the BLAS that is found through a library: the file itself, or one that it depends on. Given ScaLAPACK's file it
 * is the very BLAS that ScaLAPACK calls.
 *
 * @throws {Error} with the loader's text if no `?gemm_` is found.
 */
export function openBlas(path: string): Blas {
  const gemm = Deno.dlopen(path, ofTypes(GEMM, "?gemm_")).symbols;
  return { path, gemm, ...identify(Deno.dlopen(path, VENDOR_SYMBOLS).symbols) };
}

/** What to tell the user about a BLAS; null when it is a fast one. */
export function blasWarning(blas: Blas): string | null {
  if (blas.vendor !== "reference") return null;
  return `the BLAS of ${blas.path} is the reference implementation, about 7 times slower than an optimised one. ` +
    `Install one: apt-get install libopenblas0-pthread, or ${taskCommand("native install cpu")}`;
}
