/**
 * Names that MPICH leaves on a machine: of the memory that its ranks share, and of a file of its launcher.
 *
 * MPICH 5 removes the name of what they share from start to end when it ends, which it does not when a rank is killed.
 * Nobody looks for the name once all ranks have started, and MPICH does not mind that it is gone. What it shares later has
 * a name while it is made, with which a rank may wait for one that does not come. Its launcher's process on the machine
 * writes a file about that for ranks that start, and leaves it where a rank ends the job.
 *
 * @module
 */

/** What {@linkcode removeMpichNames} needs of the C library. */
export const MPICH_NAMES = {
  open: { parameters: ["buffer", /* const char* path */ "i32" /* int flags */], result: "i32" },
  read: { parameters: ["i32", /* int fd */ "buffer", /* void* buf */ "usize" /* count */], result: "isize" },
  close: { parameters: ["i32" /* int fd */], result: "i32" },
  unlink: { parameters: ["buffer" /* const char* path */], result: "i32" },
  readlink: {
    parameters: ["buffer", /* const char* path */ "buffer", /* char* buf */ "usize" /* bufsiz */],
    result: "isize",
  },
  getppid: { parameters: [], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/**
 * Remove the names of MPICH's memory in this process, and its launcher's file: when all ranks of the machine have started,
 * or when the job is about to end with an error, then also in the other processes of the machine, which the launcher kills.
 * Reads past Deno's permissions on files, which the smallest set does not have. Also runs in threads, where it sees nothing
 * of this module.
 */
export function removeMpichNames(
  { open, read, close, unlink, readlink, getppid }: Deno.DynamicLibrary<typeof MPICH_NAMES>["symbols"],
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
  /** So many numbers in a row that are no open file: there are no more. */
  const manyMissing = 64;
  const launcher = getppid();
  for (let file = 0, missing = 0; missing < manyMissing; file++) {
    const length = Number(readlink(cString(`/proc/${launcher}/fd/${file}`), bytes, BigInt(bytes.length)));
    missing = length < 0 ? missing + 1 : 0;
    const path = String.fromCharCode(...bytes.subarray(0, Math.max(0, length)));
    if (/\/hydra_hwloc_xmlfile_\w+$/.test(path)) unlink(cString(path));
  }
}
