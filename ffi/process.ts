/**
 * What is needed of the C library to tell of the end of a process, and to end it from any thread.
 *
 * @module
 */
import { libcFunctions } from "./memory.ts";

/** What ends a process from any thread. Source: libc. */
export const LAST_WORDS = {
  write: { parameters: ["i32", /* int fd */ "buffer", /* const void* buf */ "usize" /* count */], result: "isize" },
  _exit: { parameters: ["i32" /* int status */], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

/** What reads memory of this process from any thread. Source: libc. */
export const COPY = {
  memcpy: { parameters: ["buffer", /* void* dest */ "u64", /* const void* src */ "usize" /* n */], result: "u64" },
} as const satisfies Deno.ForeignLibraryInterface;

const THREAD_SYMBOLS = {
  gettid: { parameters: [], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const PARENT_SYMBOLS = {
  prctl: { parameters: ["i32", /* int operation */ "u64" /* unsigned long signal */], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9n;

/** Have this process killed when the one that started it ends. Source: prctl(2), PR_SET_PDEATHSIG. */
export function endWithParent(): void {
  libcFunctions(PARENT_SYMBOLS).prctl(PR_SET_PDEATHSIG, SIGKILL);
}

const STANDARD_ERROR = 2;

/** Write a line to standard error past whatever Deno (as `deno test` does) puts in between. Source: libc. */
export function writeImmediately(line: string): void {
  const bytes = new TextEncoder().encode(line + "\n");
  libcFunctions(LAST_WORDS).write(STANDARD_ERROR, bytes, BigInt(bytes.length));
}

/** Whether the process ends with this thread: not so in a worker, nor in a file that `deno test` runs. Source: libc. */
export function isMainThread(): boolean {
  return libcFunctions(THREAD_SYMBOLS).gettid() === Deno.pid;
}
