/**
 * The FFTW3 interface: discrete Fourier transforms of local arrays, from Intel's MKL or from FFTW itself.
 *
 * Plans are made by the guru interface with 64-bit strides: one dimension after the other with its extent and the
 * distances of neighbours in input and output, transformed ones first, then those that are looped over. MKL takes at
 * most one loop, and pays no attention to planning flags.
 *
 * Sources: the FFTW 3.3 manual and `fftw3.h`; oneMKL's developer reference, "FFTW interface to Intel oneMKL".
 *
 * @module
 */
import { openBlas } from "../blas/blas.ts";
import { isInterface, loadInterface, MKL_INTERFACES, neighbour } from "../blas/mkl.ts";
import { NativeError } from "../errors.ts";
import { LibraryNotFoundError, named, openLibrary, setLibraryVersion } from "../library.ts";
import { addressOfFunction, readCString, takeCString, toCString } from "../memory.ts";
import { taskCommand } from "../task_command.ts";

// The dimensions are arrays of { ptrdiff_t n, is, os }.
const PLAN_DFT = {
  parameters: [
    "i32", // int rank
    "buffer", // const fftw_iodim64* dims
    "i32", // int howmany_rank
    "buffer", // const fftw_iodim64* howmany_dims
    "u64", // fftw_complex* in
    "u64", // fftw_complex* out: the same as `in` for a transform in place
    "i32", // int sign: -1 or 1 in the exponent
    "u32", // unsigned flags
  ],
  result: "u64", // fftw_plan: NULL if there is no such plan
} as const satisfies Deno.ForeignFunction;

/** From real to complex, or back: the last of the dimensions is halved in what is complex. */
const PLAN_REAL = {
  // deno-fmt-ignore
  parameters: [
    /* rank */ "i32", /* dims */ "buffer", /* howmany_rank */ "i32", /* howmany_dims */ "buffer",
    /* in */ "u64", /* out */ "u64", /* flags */ "u32",
  ],
  result: "u64",
} as const satisfies Deno.ForeignFunction;

/** With a plan, on arrays that are laid out, and in place, as those that it was made for. */
const EXECUTE = {
  parameters: [/* plan */ "u64", /* in */ "u64", /* out */ "u64"],
  result: "void",
} as const satisfies Deno.ForeignFunction;

/** How long the planner may take from now on, about; below 0 without a limit. */
const SET_TIMELIMIT = { parameters: [/* seconds */ "f64"], result: "void" } as const satisfies Deno.ForeignFunction;

const DESTROY = { parameters: [/* plan */ "u64"], result: "void" } as const satisfies Deno.ForeignFunction;

/** Transforms of double precision. */
export const FFTW_SYMBOLS = {
  fftw_plan_guru64_dft: PLAN_DFT,
  fftw_plan_guru64_dft_r2c: PLAN_REAL,
  fftw_plan_guru64_dft_c2r: PLAN_REAL,
  fftw_execute_dft: EXECUTE,
  fftw_execute_dft_r2c: EXECUTE,
  fftw_execute_dft_c2r: EXECUTE,
  fftw_destroy_plan: DESTROY,
  fftw_set_timelimit: SET_TIMELIMIT,
} as const satisfies Deno.ForeignLibraryInterface;

/** Threads of double precision, in a library of their own where it is FFTW's. */
export const FFTW_THREADS_SYMBOLS = {
  fftw_init_threads: { parameters: [], result: "i32" },
  fftw_plan_with_nthreads: { parameters: [/* nthreads */ "i32"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

/** What the planner has found out, which it does not measure again; in a library of FFTW's own only. */
export const FFTW_WISDOM_SYMBOLS = {
  fftw_forget_wisdom: { parameters: [], result: "void" },
  fftw_export_wisdom_to_string: {
    parameters: [],
    result: "u64", /* char*, the caller's to free; NULL without memory */
  },
  fftw_import_wisdom_from_string: { parameters: [/* const char* */ "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const inSingle = (name: string) => name.replace("fftw_", "fftwf_");

/** Transforms of single precision. */
export const FFTWF_SYMBOLS: typeof FFTW_SYMBOLS = named(FFTW_SYMBOLS, inSingle);

/** Threads of single precision. */
export const FFTWF_THREADS_SYMBOLS: typeof FFTW_THREADS_SYMBOLS = named(FFTW_THREADS_SYMBOLS, inSingle);

/** Wisdom of single precision. */
export const FFTWF_WISDOM_SYMBOLS: typeof FFTW_WISDOM_SYMBOLS = named(FFTW_WISDOM_SYMBOLS, inSingle);

/** The sign in the exponent. */
export const FftwSign = { FORWARD: -1, BACKWARD: 1 } as const;

/** How plans are made, and what they may do. */
export const FftwFlags = {
  MEASURE: 0,
  DESTROY_INPUT: 1 << 0,
  UNALIGNED: 1 << 1,
  PRESERVE_INPUT: 1 << 4,
  PATIENT: 1 << 5,
  ESTIMATE: 1 << 6,
  NO_BUFFERING: 1 << 11,
  WISDOM_ONLY: 1 << 21,
} as const;

export class FftwError extends NativeError {}

/** The type of the real numbers, and of the parts of complex ones. */
export type FftwPrecision = "float32" | "float64";

/** The functions of one precision. */
export type FftwFunctions = Deno.DynamicLibrary<typeof FFTW_SYMBOLS>["symbols"];

/** What a planner has found out in this process. */
export interface FftwWisdom {
  forget(): void;
  /** Everything, as text. */
  known(): string;
  /** Add what is known to what the planner knows. */
  add(known: string): void;
}

/** The transforms of one precision. */
export interface Fftw {
  readonly vendor: "mkl" | "fftw";
  /** The library's own words. */
  readonly version: string;
  readonly path: string;
  /** The most dimensions that a plan may loop over. */
  readonly mostLoops: number;
  /**
   * What planning with other flags than `ESTIMATE` has found out, which measures, and overwrites the arrays; `null` if
   * planning never measures.
   */
  readonly wisdom: FftwWisdom | null;
  readonly planComplex: FftwFunctions["fftw_plan_guru64_dft"];
  /** Plan a transform of real numbers, of whose spectrum half is kept. */
  readonly planRealToComplex: FftwFunctions["fftw_plan_guru64_dft_r2c"];
  /** Plan the way back from half a spectrum. */
  readonly planComplexToReal: FftwFunctions["fftw_plan_guru64_dft_c2r"];
  /** Execute a plan of complex numbers on other arrays that lie alike. */
  readonly executeComplex: FftwFunctions["fftw_execute_dft"];
  /** Execute a plan of real numbers likewise. */
  readonly executeRealToComplex: FftwFunctions["fftw_execute_dft_r2c"];
  /** Execute a plan of the way back likewise; it overwrites the spectrum. */
  readonly executeComplexToReal: FftwFunctions["fftw_execute_dft_c2r"];
  readonly destroyPlan: FftwFunctions["fftw_destroy_plan"];
  /** Limit the time that making each plan takes from now on; below 0 there is no limit. */
  readonly limitSeconds: FftwFunctions["fftw_set_timelimit"];
  /** Set how many threads plans have that are made from now on. */
  setThreads(threads: number): void;
  /** What to tell the user about this choice. */
  readonly warnings: readonly string[];
}

/** What differs between the precisions. */
const PRECISIONS = {
  float64: {
    name: "FFTW",
    file: "libfftw3",
    table: FFTW_SYMBOLS,
    threads: FFTW_THREADS_SYMBOLS,
    wisdom: FFTW_WISDOM_SYMBOLS,
  },
  float32: {
    name: "FFTW (float32)",
    file: "libfftw3f",
    table: FFTWF_SYMBOLS,
    threads: FFTWF_THREADS_SYMBOLS,
    wisdom: FFTWF_WISDOM_SYMBOLS,
  },
} as const;

const opened: Partial<Record<FftwPrecision, readonly Fftw[]>> = {};

/**
 * The transforms of one precision: of the first folder that has any, MKL's before FFTW's; if they are MKL's, FFTW's own
 * come second, where they are there too. Found and opened at the first call. `threads` is the number of threads of plans
 * that are made from now on.
 *
 * @throws {ConfigurationError} if there is no such library, listing what was tried.
 */
export function openFftw(precision: FftwPrecision, threads = 1): readonly Fftw[] {
  const found = opened[precision] ??= findFftw(precision, threads);
  for (const { setThreads } of found) setThreads(threads);
  return found;
}

function findFftw(precision: FftwPrecision, threads: number): Fftw[] {
  const { name, file } = PRECISIONS[precision];
  const own = `${file}.so.3`;
  const first = load(precision, name, [...MKL_INTERFACES, own], threads);
  if (first.vendor === "fftw") return [first];
  try {
    return [first, load(precision, file, [own], threads)];
  } catch (error) {
    if (!(error instanceof LibraryNotFoundError)) throw error;
    return error.isDamaged ? [{ ...first, warnings: [...first.warnings, error.message] }] : [first];
  }
}

/** The first of some files that is there. */
function load(precision: FftwPrecision, name: string, files: readonly string[], threads: number): Fftw {
  const warnings: string[] = [];
  const { path } = openLibrary({
    name,
    files,
    install: `${taskCommand("native install cpu")}   (or: apt-get install libfftw3-double3 libfftw3-single3)`,
    prepare: (path) => {
      if (isInterface(path)) warnings.push(...loadInterface(path, threads).warnings);
    },
  }, {});
  const functions = Deno.dlopen(path, PRECISIONS[precision].table).symbols;
  const vendor = isInterface(path) ? "mkl" : "fftw";
  const version = vendor === "mkl"
    ? openBlas(path).version
    : readCString(addressOfFunction(path, precision === "float64" ? "fftw_version" : "fftwf_version"));
  setLibraryVersion(name, version);
  return {
    vendor,
    version,
    path,
    mostLoops: vendor === "mkl" ? 1 : Infinity,
    wisdom: vendor === "fftw" ? openWisdom(precision, path) : null,
    planComplex: functions.fftw_plan_guru64_dft,
    planRealToComplex: functions.fftw_plan_guru64_dft_r2c,
    planComplexToReal: functions.fftw_plan_guru64_dft_c2r,
    executeComplex: functions.fftw_execute_dft,
    executeRealToComplex: functions.fftw_execute_dft_r2c,
    executeComplexToReal: functions.fftw_execute_dft_c2r,
    destroyPlan: functions.fftw_destroy_plan,
    limitSeconds: functions.fftw_set_timelimit,
    setThreads: openThreads(precision, path, threads, warnings),
    warnings,
  };
}

function openWisdom(precision: FftwPrecision, path: string): FftwWisdom {
  const { fftw_forget_wisdom, fftw_export_wisdom_to_string, fftw_import_wisdom_from_string } =
    Deno.dlopen(path, PRECISIONS[precision].wisdom).symbols;
  return {
    forget: fftw_forget_wisdom,
    known: () => takeCString(fftw_export_wisdom_to_string()),
    add: (known) => void fftw_import_wisdom_from_string(toCString(known)),
  };
}

/** What sets the number of threads: FFTW's own are in a library beside it, which may be missing. */
function openThreads(
  precision: FftwPrecision,
  path: string,
  threads: number,
  warnings: string[],
): (threads: number) => void {
  const { file, threads: table } = PRECISIONS[precision];
  const open = (library: string) => {
    const { fftw_init_threads, fftw_plan_with_nthreads } = Deno.dlopen(library, table).symbols;
    fftw_init_threads();
    return (threads: number) => fftw_plan_with_nthreads(threads);
  };
  if (isInterface(path)) return open(path);
  const library = neighbour(path, `${file}_threads.so.3`);
  try {
    return open(library);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    if (threads > 1) warnings.push(`${threads} threads were asked for, but FFTW runs with one: ${library}: ${reason}`);
    return () => {};
  }
}
