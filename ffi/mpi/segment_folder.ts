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
  /** `int open(const char* path, int flags, mode_t mode)` */
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  /** `int flock(int fd, int operation)` */
  flock: { parameters: ["i32", "i32"], result: "i32" },
  /** `int close(int fd)` */
  close: { parameters: ["i32"], result: "i32" },
  /** `int rmdir(const char* path)`, for its address. */
  rmdir: { type: "pointer" },
  /** `char* strdup(const char* s)` */
  strdup: { parameters: ["buffer"], result: "u64" },
  /** `int __cxa_atexit(void (*function)(void*), void* argument, void* library)` */
  __cxa_atexit: { parameters: ["u64", "u64", "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** The components that share memory: for messages, of Open MPI 5 and 4, and for windows. */
export const SEGMENT_SETTINGS = ["btl_sm", "btl_vader", "osc_sm"].map((name) => `OMPI_MCA_${name}_backing_directory`);

const FOLDER = "/dev/shm";
const NAME = "distmath_sm.";
const O_CLOEXEC = 0o2000000;
const O_NOFOLLOW = 0o400000;
const LOCK_ALONE_AT_ONCE = 2 | 4;

const cString = (text: string) => new TextEncoder().encode(`${text}\0`);

/**
 * Make a folder for this process, which goes when the process ends after MPI has; of a killed process the launcher removes
 * it (`launcher_cleanup.ts`), or a later job.
 *
 * @returns its path; `null` where there is no `/dev/shm`.
 */
export function makeSegmentFolder(): string | null {
  removeAbandonedFolders(FOLDER);
  const { mkdtemp, rmdir, strdup, __cxa_atexit } = libcFunctions(SYMBOLS);
  const path = cString(`${FOLDER}/${NAME}${Deno.pid}.XXXXXX`);
  if (mkdtemp(path) === 0n) return null;
  // Never closed: who removes what the dead have left may see another container's processes as dead.
  lock(path);
  __cxa_atexit(addressOfPointer(rmdir), strdup(path), 0n);
  return new TextDecoder().decode(path.subarray(0, -1));
}

/** Lock a file or folder; returns it open, or `null` if that cannot be: a process that is alive may have locked it. */
function lock(path: Uint8Array<ArrayBuffer>): number | null {
  const { open, flock, close } = libcFunctions(SYMBOLS);
  const file = open(path, O_CLOEXEC | O_NOFOLLOW, 0);
  if (file < 0) return null;
  if (flock(file, LOCK_ALONE_AT_ONCE) === 0) return file;
  close(file);
  return null;
}

/** Whether a process that is alive, in whatever container, holds a folder or file; so it is if we may not look. */
export function isHeld(path: string): boolean {
  const file = lock(cString(path));
  if (file !== null) libcFunctions(SYMBOLS).close(file);
  return file === null;
}

/** What is younger may be about to be locked. */
const YOUNG_MILLISECONDS = 60_000;

/** Remove the folders of earlier jobs whose launchers were killed, too; nothing without permission to look and to remove. */
export function removeAbandonedFolders(shared: string): void {
  const isPermitted = (["read", "write"] as const)
    .every((name) => Deno.permissions.querySync({ name, path: shared }).state === "granted");
  if (!isPermitted) return;
  try {
    const paths = Array.from(Deno.readDirSync(shared)).filter(({ name }) => name.startsWith(NAME))
      .map(({ name }) => `${shared}/${name}`);
    for (const path of paths.filter(isOld)) if (!isHeld(path)) Deno.removeSync(path, { recursive: true });
  } catch {
    // Another job has come first.
  }
}

function isOld(path: string): boolean {
  return Date.now() - Deno.lstatSync(path).mtime!.getTime() >= YOUNG_MILLISECONDS;
}
