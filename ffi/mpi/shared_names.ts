/**
 * The memory that MPICH's ranks of a machine share from their start to their end.
 *
 * MPICH 5 removes its name when it ends, which it does not when a rank is killed. Nobody looks for the name once all ranks
 * have started, and MPICH does not mind that it is gone.
 *
 * @module
 */
import { libcFunctions } from "../memory.ts";

const SYMBOLS = {
  /** `int open(const char* path, int flags, mode_t mode)` */
  open: { parameters: ["buffer", "i32", "u32"], result: "i32" },
  /** `ssize_t read(int fd, void* buf, size_t count)` */
  read: { parameters: ["i32", "buffer", "usize"], result: "isize" },
  /** `int close(int fd)` */
  close: { parameters: ["i32"], result: "i32" },
  /** `int unlink(const char* path)` */
  unlink: { parameters: ["buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const cString = (text: string) => new TextEncoder().encode(`${text}\0`);

/** Remove the names of MPICH's memory in this process: for the last rank of the machine to have started. */
export function removeSharedNames(): void {
  const { unlink } = libcFunctions(SYMBOLS);
  const paths = new Set(readMaps().match(/\/dev\/shm\/mpich_shm_\S+$/gm));
  for (const path of paths) unlink(cString(path));
}

/** What this process has mapped, read past Deno's permissions on files, which the smallest set does not have. */
function readMaps(): string {
  const { open, read, close } = libcFunctions(SYMBOLS);
  const file = open(cString("/proc/self/maps"), 0, 0);
  const decoder = new TextDecoder();
  const bytes = new Uint8Array(2 ** 16);
  let text = "";
  while (true) {
    const count = Number(read(file, bytes, BigInt(bytes.length)));
    if (count <= 0) break;
    text += decoder.decode(bytes.subarray(0, count), { stream: true });
  }
  close(file);
  return text;
}
