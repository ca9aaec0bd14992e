/**
 * cuFFT: discrete Fourier transforms of arrays in the memory of one GPU.
 *
 * Source: `cufft.h` and `cufftXt.h` of CUDA 13.0; what is declared here is the same in CUDA 12.
 *
 * @module
 */
import { noteVersion, openCudaLibrary } from "./library.ts";
import type { EnumValue } from "../enums.ts";
import { enumName } from "../enums.ts";
import { NativeError } from "../errors.ts";
import type { Library } from "../library.ts";

/** The results of cuFFT (`cufftResult`, without `CUFFT_`). */
export const CufftResult = {
  SUCCESS: 0,
  INVALID_PLAN: 1,
  ALLOC_FAILED: 2,
  INVALID_TYPE: 3,
  INVALID_VALUE: 4,
  INTERNAL_ERROR: 5,
  EXEC_FAILED: 6,
  SETUP_FAILED: 7,
  INVALID_SIZE: 8,
  UNALIGNED_DATA: 9,
  INVALID_DEVICE: 11,
  NO_WORKSPACE: 13,
  NOT_IMPLEMENTED: 14,
  NOT_SUPPORTED: 16,
} as const;

/** What a plan transforms (`cufftType`, without `CUFFT_`): Z and D are of double precision. */
export const CufftType = {
  R2C: 42,
  C2R: 44,
  C2C: 41,
  D2Z: 106,
  Z2D: 108,
  Z2Z: 105,
} as const;
export type CufftType = EnumValue<typeof CufftType>;

/** The sign of the exponent (without `CUFFT_`). */
export const CufftDirection = {
  FORWARD: -1,
  INVERSE: 1,
} as const;
export type CufftDirection = EnumValue<typeof CufftDirection>;

/** The functions of cuFFT. A plan is a number. Dimensions are arrays of 64-bit integers, the outermost first. */
// deno-fmt-ignore
export const CUFFT_SYMBOLS = {
  cufftGetVersion: { parameters: [/* version */ "buffer"], result: "i32" },
  cufftCreate: { parameters: [/* handle */ "buffer"], result: "i32" },
  cufftSetAutoAllocation: { parameters: [/* plan */ "i32", /* autoAllocate */ "i32"], result: "i32" },
  cufftXtMakePlanMany: { result: "i32", parameters: [
    /* plan */ "i32", /* rank */ "i32", /* n */ "buffer", /* inembed */ "buffer", /* istride */ "i64",
    /* idist */ "i64", /* inputtype */ "i32", /* onembed */ "buffer", /* ostride */ "i64", /* odist */ "i64",
    /* outputtype */ "i32", /* batch */ "i64", /* workSize */ "buffer", /* executiontype */ "i32",
  ] },
  cufftSetWorkArea: { parameters: [/* plan */ "i32", /* workArea */ "u64"], result: "i32" },
  cufftSetStream: { parameters: [/* plan */ "i32", /* stream */ "u64"], result: "i32" },
  cufftXtExec: { result: "i32", parameters: [
    /* plan */ "i32", /* input */ "u64", /* output */ "u64", /* direction */ "i32",
  ] },
  cufftDestroy: { parameters: [/* plan */ "i32"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** A failed call of cuFFT or cuFFTMp. */
export class CufftError extends NativeError {}

export interface Cufft extends Library<typeof CUFFT_SYMBOLS> {
  /** The version, such as 12000 for 12.0. */
  version: number;
}

let cufft: Cufft | undefined;

/**
 * cuFFT, opened at the first call.
 *
 * @throws {LibraryNotFoundError} if it is not installed.
 */
export function openCufft(): Cufft {
  if (cufft) return cufft;
  const library = openCudaLibrary({
    name: "cuFFT",
    files: ["libcufft.so.12", "libcufft.so.11"],
    wheelFolders: ["cu13/lib", "cufft/lib"],
  }, CUFFT_SYMBOLS);
  const version = new Int32Array(1);
  library.symbols.cufftGetVersion(version);
  noteVersion(library.name, Math.floor(version[0] / 1000), Math.floor(version[0] % 1000 / 100), version[0] % 100);
  return cufft = { ...library, version: version[0] };
}

const HINTS: Readonly<Record<number, string>> = {
  [CufftResult.ALLOC_FAILED]: "Free device memory, or use smaller arrays or more GPUs.",
};

/**
 * Throw the {@linkcode CufftError} for a code other than success.
 *
 * @example
 * ```ts no-eval
 * import { checkCufft, openCufft } from "@distmath/distmath/ffi";
 * const plan = new Int32Array(1);
 * checkCufft(openCufft().symbols.cufftCreate(plan), "cufftCreate");
 * ```
 */
export function checkCufft(code: number, functionName: string): void {
  if (code === CufftResult.SUCCESS) return;
  const symbol = enumName(CufftResult, code, "CUFFT_");
  throw new CufftError({ functionName, code, symbol, text: symbol, hint: HINTS[code] });
}
