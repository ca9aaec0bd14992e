/**
 * Where Open MPI's ranks of a machine share memory.
 *
 * Open MPI names that memory by 16 bits of a hash of the launcher's process number (`opal_pmix_convert_nspace`): of the
 * pairs of jobs that run on a machine at the same time, one in 65,536 has the same names, and the ranks of both end by a
 * segmentation fault. Ranks tell each other where theirs is, so that each may have it in a folder of its own.
 *
 * @module
 */
import { addressOfPointer, libcFunctions } from "../memory.ts";

const SYMBOLS = {
  /** `char* mkdtemp(char* template)` */
  mkdtemp: { parameters: ["buffer"], result: "u64" },
  /** `int rmdir(const char* path)`, for its address. */
  rmdir: { type: "pointer" },
  /** `char* strdup(const char* s)` */
  strdup: { parameters: ["buffer"], result: "u64" },
  /** `int __cxa_atexit(void (*function)(void*), void* argument, void* library)` */
  __cxa_atexit: { parameters: ["u64", "u64", "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** The components that share memory: for messages, of Open MPI 5 and 4, and for windows. */
export const SEGMENT_SETTINGS = ["btl_sm", "btl_vader", "osc_sm"].map((name) => `OMPI_MCA_${name}_backing_directory`);

/**
 * Make a folder for this process, which goes when the process ends after MPI has; what a killed process leaves is removed
 * with what else it has left.
 *
 * @returns its path; `null` where there is no `/dev/shm`.
 */
export function makeSegmentFolder(): string | null {
  const { mkdtemp, rmdir, strdup, __cxa_atexit } = libcFunctions(SYMBOLS);
  const path = new TextEncoder().encode(`/dev/shm/distmath_sm.${Deno.pid}.XXXXXX\0`);
  if (mkdtemp(path) === 0n) return null;
  __cxa_atexit(addressOfPointer(rmdir), strdup(path), 0n);
  return new TextDecoder().decode(path.subarray(0, -1));
}
