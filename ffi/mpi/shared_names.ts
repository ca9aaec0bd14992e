/**
 * Names of the memory that MPICH's ranks of a machine share.
 *
 * MPICH 5 removes the name of what they share from start to end when it ends, which it does not when a rank is killed.
 * Nobody looks for the name once all ranks have started, and MPICH does not mind that it is gone. What it shares later has
 * a name while it is made, with which a rank may wait for one that does not come.
 *
 * @module
 */

/** What {@linkcode removeSharedNames} needs of the C library. */
export const SHARED_NAMES = {
  open: { parameters: ["buffer", /* const char* path */ "i32" /* int flags */], result: "i32" },
  read: { parameters: ["i32", /* int fd */ "buffer", /* void* buf */ "usize" /* count */], result: "isize" },
  close: { parameters: ["i32" /* int fd */], result: "i32" },
  unlink: { parameters: ["buffer" /* const char* path */], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/**
 * Remove the names of MPICH's memory in this process: when all ranks of the machine have started, or when the job is about
 * to end with an error, then also in the other processes of the machine, which the launcher kills. Reads past Deno's
 * permissions on files, which the smallest set does not have. Also runs in threads, where it sees nothing of this module.
 */
export function removeSharedNames(
  { open, read, close, unlink }: Deno.DynamicLibrary<typeof SHARED_NAMES>["symbols"],
  others: readonly number[] = [],
): void {
  const cString = (text: string) => new TextEncoder().encode(`${text}\0`);
  const bytes = new Uint8Array(2 ** 16);
  for (const process of ["self", ...others]) {
    const file = open(cString(`/proc/${process}/maps`), 0);
    if (file < 0) continue;
    let maps = "";
    for (let count = 1; count > 0;) {
      count = Number(read(file, bytes, BigInt(bytes.length)));
      maps += String.fromCharCode(...bytes.subarray(0, Math.max(0, count)));
    }
    close(file);
    // Those that are gone already end with " (deleted)".
    for (const path of new Set(maps.match(/\/dev\/shm\/mpich_\S+$/gm))) unlink(cString(path));
  }
}
