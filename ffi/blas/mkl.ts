/**
 * Loading Intel's MKL: its libraries name no dependencies, so that each must be loaded, with global symbols, before the
 * one that uses it.
 *
 * Source: Intel's oneMKL link line advice.
 *
 * @module
 */
import { inspectLibrary } from "../elf.ts";
import { libcFunctions, loadGlobally, toCString } from "../memory.ts";

/** MKL's code for each kind of CPU, of which it loads one by itself. */
const MKL_KERNELS = ["def", "mc3", "avx2", "avx512", "avx10"];

const INTERFACE = "libmkl_intel_lp64.so";

/** The names of MKL's library with BLAS, FFTs and vector mathematics, newest first. */
export const MKL_INTERFACES: readonly string[] = [".3", ".2", ".1", ""].map((version) => INTERFACE + version);

/** Whether a file is called as one of {@linkcode MKL_INTERFACES}. */
export function isInterface(path: string): boolean {
  return path.slice(path.lastIndexOf("/") + 1).startsWith(INTERFACE);
}

/** What {@linkcode loadMkl} loaded. */
export interface Mkl {
  /** The library with the BLAS and the FFTs in it. */
  readonly interface: string;
  /** What the names of its files end with after `.so`, such as `.3`. */
  readonly version: string;
  readonly warnings: readonly string[];
}

/** The file's neighbour in the same folder. */
export function neighbour(path: string, file: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1) + file;
}

/** What follows `.so` in a file's name, such as `.3`. */
export function versionOf(path: string): string {
  return path.slice(path.lastIndexOf(".so") + 3);
}

/** Load the core of MKL, given its interface. */
export function loadInterface(path: string, threads: number): Mkl {
  return loadMkl(path, [versionOf(path)], threads);
}

/**
 * Load a library that others find the symbols of.
 *
 * @throws {Error} if it is missing or damaged.
 */
export function loadWhole(path: string): void {
  const file = inspectLibrary(path);
  if (file.state === "damaged") throw new Error(`${path}: ${file.reason}`);
  loadGlobally(path);
}

const OPENMP_SYMBOLS = {
  /** `int omp_get_max_threads(void)` */
  omp_get_max_threads: { parameters: [], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const SHARED_MEMORY_SYMBOLS = {
  /** `uid_t getuid(void)` */
  getuid: { parameters: [], result: "u32" },
  /** `int shm_unlink(const char* name)` */
  shm_unlink: { parameters: ["buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/**
 * Load Intel's OpenMP. At the first call it notes in memory with a name that the process has it, and a process that is
 * killed would leave that: the name goes at once. Source: LLVM's `kmp_runtime.cpp`, `__kmp_register_library_startup`.
 */
function loadOpenMp(path: string): void {
  loadWhole(path);
  Deno.dlopen(path, OPENMP_SYMBOLS).symbols.omp_get_max_threads();
  const { getuid, shm_unlink } = libcFunctions(SHARED_MEMORY_SYMBOLS);
  shm_unlink(toCString(`/__KMP_REGISTERED_LIB_${Deno.pid}_${getuid()}`));
}

/** The first of some files that is there, or the first of all. */
function firstPresent(paths: readonly string[]): string {
  return paths.find((path) => inspectLibrary(path).state !== "absent") ?? paths[0];
}

/**
 * Load MKL's threading layer, and return what to tell the user. GNU's is never taken: without libgomp beside it, it ends
 * the process.
 */
function loadThreading(beside: (file: string) => string, version: string, threads: number): string[] {
  const sequential = beside(`libmkl_sequential.so${version}`);
  if (threads === 1) {
    loadWhole(sequential);
    return [];
  }
  try {
    loadOpenMp(beside("libiomp5.so"));
    loadWhole(beside(`libmkl_intel_thread.so${version}`));
    return [];
  } catch (error) {
    loadWhole(sequential);
    const reason = error instanceof Error ? error.message : String(error);
    return [`${threads} threads were asked for, but MKL runs with one, since its OpenMP is missing: ${reason}`];
  }
}

const KERNEL_SYMBOLS = {
  /** `double cblas_dasum(MKL_INT n, const double* x, MKL_INT incx)` */
  cblas_dasum: { parameters: ["i32", "buffer", "i32"], result: "f64" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Have MKL load its code for this CPU, which it otherwise does amid the first product, and ends the process if it is lost. */
function loadKernel(interfaceFile: string): void {
  Deno.dlopen(interfaceFile, KERNEL_SYMBOLS).symbols.cblas_dasum(1, new Float64Array(1), 1);
}

/**
 * Load the core of the MKL that a file belongs to, of the first of some versions that is there.
 *
 * @throws {Error} with the loader's text if a part of it is missing or damaged.
 */
export function loadMkl(path: string, versions: readonly string[], threads: number): Mkl {
  const beside = (file: string): string => neighbour(path, file);
  const core = firstPresent(versions.map((version) => beside(`libmkl_core.so${version}`)));
  loadWhole(core);
  const version = versionOf(core);
  for (const kernel of MKL_KERNELS) {
    const library = beside(`libmkl_${kernel}.so${version}`);
    const file = inspectLibrary(library);
    if (file.state === "damaged") throw new Error(`${library}: ${file.reason}`);
  }
  const warnings = loadThreading(beside, version, threads);
  const interfaceFile = beside(`libmkl_intel_lp64.so${version}`);
  loadWhole(interfaceFile);
  loadKernel(interfaceFile);
  return { interface: interfaceFile, version, warnings };
}
