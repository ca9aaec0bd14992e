/**
 * The thread that tells of ranks that wait for long (`onlooking.ts`).
 *
 * @module
 */
import { LongWaits, type PageReading } from "./long_waits.ts";

/** What reads memory through the kernel, and tells people. Source: libc. */
export const READ_MEMORY = {
  open: { parameters: ["buffer", /* const char* path */ "i32" /* int flags */], result: "i32" },
  pread: {
    parameters: ["i32", /* int fd */ "buffer", /* void* buf */ "usize", /* size_t n */ "i64" /* off_t offset */],
    result: "isize",
  },
  write: { parameters: ["i32", /* int fd */ "buffer", /* const void* buf */ "usize" /* count */], result: "isize" },
} as const satisfies Deno.ForeignLibraryInterface;

/** What the thread is given. */
export interface OnlookingState {
  /** Where the memory is that the ranks of this machine share, and how it is read. */
  readonly address: bigint;
  readonly byteLength: number;
  readonly reading: PageReading;
  /** How many ranks the job has. */
  readonly size: number;
  readonly patienceSeconds: number;
  /** Whether it is to end. */
  readonly end: Int32Array<SharedArrayBuffer>;
}

/** Runs in a thread, where it sees nothing of this module. */
export function lookOn(
  { address, byteLength, reading, size, patienceSeconds, end }: OnlookingState,
  libc: Deno.DynamicLibrary<typeof READ_MEMORY>["symbols"],
): void {
  const [closeOnExec, standardError] = [0o2000000, 2];
  // The memory may go before this thread does when the process ends: reading a file then fails, and nothing crashes.
  const file = libc.open(new TextEncoder().encode("/proc/self/mem\0"), closeOnExec);
  const waits = new LongWaits(patienceSeconds, size, reading);
  const words = new Int32Array(byteLength / 4);
  const bytes = new Uint8Array(words.buffer);
  while (Atomics.wait(end, 0, 0, Math.min(1, patienceSeconds / 4) * 1000) === "timed-out") {
    if (Number(libc.pread(file, bytes, BigInt(byteLength), address)) !== byteLength) return;
    const text = waits.look(words);
    if (text === null) continue;
    const line = new TextEncoder().encode(`${text}\n`);
    libc.write(standardError, line, BigInt(line.length));
  }
}
