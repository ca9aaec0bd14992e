/**
 * cuFFTMp: discrete Fourier transforms of arrays that are distributed over GPUs, and moves of their parts, in memory of
 * NVSHMEM.
 *
 * Source: `cufftMp.h` and `cufftXt.h` of cuFFTMp 12.1.3. Its `cufftMpMakePlan2d`, `…3d` and `…Decomposition` exist in the
 * header only: they attach a communicator, set the boxes and call `cufftMakePlan2d` or `…3d`. Plans, types and results are
 * those of cuFFT, whose functions the library has too.
 *
 * @module
 */
import type { EnumValue } from "../enums.ts";
import type { Library } from "../library.ts";
import { noteWaiting } from "../waiting.ts";
import { noteVersion, openCudaLibrary } from "./library.ts";
import { openNvshmem } from "./nvshmem.ts";
import { CUFFTMP_WAITS } from "./waiting_functions.ts";

/** How cuFFTMp finds the other processes (`cufftMpCommType`, without `CUFFT_`). */
export const CufftMpComm = {
  COMM_MPI: 0,
  COMM_NONE: 1,
} as const;

/** Where the elements of a part are from (`cufftXtSubFormat`, without `CUFFT_XT_FORMAT_`): of slabs along the first axis, or shuffled along the second; or of the boxes that were set. */
export const CufftMpFormat = {
  INPLACE: 2,
  INPLACE_SHUFFLED: 3,
  DISTRIBUTED_INPUT: 5,
  DISTRIBUTED_OUTPUT: 6,
} as const;
export type CufftMpFormat = EnumValue<typeof CufftMpFormat>;

/** The functions of cuFFTMp. A plan is a number; corners and strides of boxes are arrays of 64-bit integers. */
// deno-fmt-ignore
export const CUFFTMP_SYMBOLS = {
  cufftGetVersion: { parameters: [/* version */ "buffer"], result: "i32" },
  cufftCreate: { parameters: [/* handle */ "buffer"], result: "i32" },
  cufftSetAutoAllocation: { parameters: [/* plan */ "i32", /* autoAllocate */ "i32"], result: "i32" },
  cufftMpAttachComm: { parameters: [/* plan */ "i32", /* comm_type */ "i32", /* comm_handle */ "u64"], result: "i32" },
  cufftXtSetDistribution: { result: "i32", parameters: [
    /* plan */ "i32", /* rank */ "i32", /* lower_input */ "buffer", /* upper_input */ "buffer",
    /* lower_output */ "buffer", /* upper_output */ "buffer", /* strides_input */ "buffer",
    /* strides_output */ "buffer",
  ] },
  cufftXtSetSubformatDefault: { result: "i32", parameters: [
    /* plan */ "i32", /* subformat_forward */ "i32", /* subformat_inverse */ "i32",
  ] },
  cufftMakePlan2d: { result: "i32", parameters: [
    /* plan */ "i32", /* nx */ "i32", /* ny */ "i32", /* type */ "i32", /* workSize */ "buffer",
  ] },
  cufftMakePlan3d: { result: "i32", parameters: [
    /* plan */ "i32", /* nx */ "i32", /* ny */ "i32", /* nz */ "i32", /* type */ "i32", /* workSize */ "buffer",
  ] },
  cufftSetWorkArea: { parameters: [/* plan */ "i32", /* workArea */ "u64"], result: "i32" },
  cufftSetStream: { parameters: [/* plan */ "i32", /* stream */ "u64"], result: "i32" },
  cufftXtExec: { result: "i32", parameters: [
    /* plan */ "i32", /* input */ "u64", /* output */ "u64", /* direction */ "i32",
  ] },
  cufftDestroy: { parameters: [/* plan */ "i32"], result: "i32" },

  // moves of parts
  cufftMpCreateReshape: { parameters: [/* handle */ "buffer"], result: "i32" },
  __cufftMpMakeReshape_11_4: { result: "i32", parameters: [
    /* handle */ "u64", /* element_size */ "usize", /* rank */ "i32", /* lower_input */ "buffer",
    /* upper_input */ "buffer", /* strides_input */ "buffer", /* lower_output */ "buffer", /* upper_output */ "buffer",
    /* strides_output */ "buffer", /* comm_handle */ "u64", /* comm_type */ "i32",
  ] },
  cufftMpGetReshapeSize: { parameters: [/* handle */ "u64", /* workspace_size */ "buffer"], result: "i32" },
  cufftMpExecReshapeAsync: { result: "i32", parameters: [
    /* handle */ "u64", /* data_out */ "u64", /* data_in */ "u64", /* workspace */ "u64", /* stream */ "u64",
  ] },
  cufftMpDestroyReshape: { parameters: [/* handle */ "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

export interface CufftMp extends Library<typeof CUFFTMP_SYMBOLS> {
  /** The version, such as 12103 for 12.1.3. */
  version: number;
}

let cufftMp: CufftMp | undefined;

/**
 * cuFFTMp, opened at the first call, and NVSHMEM before it: it finds the one that is open.
 *
 * @throws {LibraryNotFoundError} if one of them is not installed.
 */
export function openCufftMp(): CufftMp {
  if (cufftMp) return cufftMp;
  openNvshmem();
  const library = openCudaLibrary({
    name: "cuFFTMp",
    files: ["libcufftMp.so.12", "libcufftMp.so.11"],
    wheelFolders: ["cufftmp/cu13/lib", "cufftmp/cu12/lib"],
  }, CUFFTMP_SYMBOLS);
  const version = new Int32Array(1);
  library.symbols.cufftGetVersion(version);
  noteVersion(library.name, Math.floor(version[0] / 1000), Math.floor(version[0] % 1000 / 100), version[0] % 100);
  noteWaiting(library.symbols, CUFFTMP_WAITS);
  return cufftMp = { ...library, version: version[0] };
}
