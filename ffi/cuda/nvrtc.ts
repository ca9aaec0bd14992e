/**
 * NVRTC: CUDA C++ compiled to machine code or PTX while the program runs. It needs no GPU and no driver.
 *
 * Source: `nvrtc.h` of CUDA 13.0; what is declared here is the same in CUDA 12.
 *
 * @module
 */
import { noteVersion, openCudaLibrary } from "./library.ts";
import { enumName } from "../enums.ts";
import { NativeError } from "../errors.ts";
import type { Library } from "../library.ts";
import { readCString } from "../memory.ts";

/** The results of NVRTC (`nvrtcResult`, without `NVRTC_`). */
export const NvrtcResult = {
  SUCCESS: 0,
  ERROR_OUT_OF_MEMORY: 1,
  ERROR_PROGRAM_CREATION_FAILURE: 2,
  ERROR_INVALID_INPUT: 3,
  ERROR_INVALID_PROGRAM: 4,
  ERROR_INVALID_OPTION: 5,
  ERROR_COMPILATION: 6,
  ERROR_BUILTIN_OPERATION_FAILURE: 7,
  ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION: 8,
  ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION: 9,
  ERROR_NAME_EXPRESSION_NOT_VALID: 10,
  ERROR_INTERNAL_ERROR: 11,
  ERROR_TIME_FILE_WRITE_FAILED: 12,
  ERROR_NO_PCH_CREATE_ATTEMPTED: 13,
  ERROR_PCH_CREATE_HEAP_EXHAUSTED: 14,
  ERROR_PCH_CREATE: 15,
  ERROR_CANCELLED: 16,
  ERROR_TIME_TRACE_FILE_WRITE_FAILED: 17,
} as const;

/** The functions of NVRTC. Lists of strings are buffers of addresses. */
// deno-fmt-ignore
export const NVRTC_SYMBOLS = {
  // library
  nvrtcVersion: { parameters: [/* major */ "buffer", /* minor */ "buffer"], result: "i32" },
  nvrtcGetErrorString: { parameters: [/* result */ "i32"], result: "u64" },
  nvrtcGetNumSupportedArchs: { parameters: [/* numArchs */ "buffer"], result: "i32" },
  nvrtcGetSupportedArchs: { parameters: [/* supportedArchs */ "buffer"], result: "i32" },

  // programs
  nvrtcCreateProgram: { result: "i32", parameters: [
    /* prog */ "buffer", /* src */ "buffer", /* name */ "buffer", /* numHeaders */ "i32", /* headers */ "buffer",
    /* includeNames */ "buffer",
  ] },
  nvrtcDestroyProgram: { parameters: [/* prog */ "buffer"], result: "i32" },
  nvrtcCompileProgram: { result: "i32", parameters: [
    /* prog */ "u64", /* numOptions */ "i32", /* options */ "buffer",
  ] },
  nvrtcGetProgramLogSize: { parameters: [/* prog */ "u64", /* logSizeRet */ "buffer"], result: "i32" },
  nvrtcGetProgramLog: { parameters: [/* prog */ "u64", /* log */ "buffer"], result: "i32" },

  // results
  nvrtcGetPTXSize: { parameters: [/* prog */ "u64", /* ptxSizeRet */ "buffer"], result: "i32" },
  nvrtcGetPTX: { parameters: [/* prog */ "u64", /* ptx */ "buffer"], result: "i32" },
  nvrtcGetCUBINSize: { parameters: [/* prog */ "u64", /* cubinSizeRet */ "buffer"], result: "i32" },
  nvrtcGetCUBIN: { parameters: [/* prog */ "u64", /* cubin */ "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** A failed call of NVRTC, such as a kernel that does not compile. */
export class NvrtcError extends NativeError {}

export interface Nvrtc extends Library<typeof NVRTC_SYMBOLS> {
  /** The version, such as `[13, 0]`. */
  version: readonly [major: number, minor: number];
}

let nvrtc: Nvrtc | undefined;

/** NVRTC looks for its built-in functions by file name alone: opened from its own folder, they are found. */
function openBuiltins(nvrtcPath: string, major: number, minor: number): void {
  const folder = nvrtcPath.slice(0, nvrtcPath.lastIndexOf("/") + 1);
  try {
    Deno.dlopen(`${folder}libnvrtc-builtins.so.${major}.${minor}`, {});
  } catch {
    // They may lie where the OS loader looks; if not, a compilation says so.
  }
}

const HINTS: Readonly<Record<number, string>> = {
  [NvrtcResult.ERROR_BUILTIN_OPERATION_FAILURE]: "libnvrtc-builtins of the same version has to lie beside libnvrtc.",
};

/**
 * NVRTC, opened at the first call.
 *
 * @throws {LibraryNotFoundError} if it is not installed.
 */
export function openNvrtc(): Nvrtc {
  if (nvrtc) return nvrtc;
  const library = openCudaLibrary({
    name: "NVRTC",
    files: ["libnvrtc.so.13", "libnvrtc.so.12"],
    wheelFolders: ["cu13/lib", "cuda_nvrtc/lib"],
  }, NVRTC_SYMBOLS);
  const [major, minor] = [new Int32Array(1), new Int32Array(1)];
  library.symbols.nvrtcVersion(major, minor);
  noteVersion(library.name, major[0], minor[0]);
  openBuiltins(library.path, major[0], minor[0]);
  return nvrtc = { ...library, version: [major[0], minor[0]] };
}

/** The error for what a function of NVRTC returned; `hint` may carry the compiler's log. */
export function nvrtcError(functionName: string, code: number, hint: string | undefined = HINTS[code]): NvrtcError {
  return new NvrtcError({
    functionName,
    code,
    symbol: enumName(NvrtcResult, code, "NVRTC_"),
    text: readCString(openNvrtc().symbols.nvrtcGetErrorString(code)),
    hint,
  });
}

/**
 * Throw the {@linkcode NvrtcError} for a code other than success.
 *
 * @example
 * ```ts no-eval
 * import { checkNvrtc, openNvrtc } from "@distmath/distmath/ffi";
 * const count = new Int32Array(1);
 * checkNvrtc(openNvrtc().symbols.nvrtcGetNumSupportedArchs(count), "nvrtcGetNumSupportedArchs");
 * ```
 */
export function checkNvrtc(code: number, functionName: string): void {
  if (code !== NvrtcResult.SUCCESS) throw nvrtcError(functionName, code);
}
