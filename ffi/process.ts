/**
 * Ending the process without running anything more in it.
 *
 * @module
 */
import { libcFunctions } from "./memory.ts";

/** What ends a process from any thread. Source: libc. */
export const LAST_WORDS = {
  write: { parameters: ["i32", /* int fd */ "buffer", /* const void* buf */ "usize" /* count */], result: "isize" },
  _exit: { parameters: ["i32" /* int status */], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

const STANDARD_ERROR = 2;

/**
 * Write a line to standard error and end the process at once: from any thread, also while another one waits in a native
 * call, and past whatever Deno (as `deno test` does) puts between a script and standard error. Source: libc.
 */
export function exitImmediately(code: number, line: string): never {
  const bytes = new TextEncoder().encode(line + "\n");
  try {
    const { write, _exit } = libcFunctions(LAST_WORDS);
    write(STANDARD_ERROR, bytes, BigInt(bytes.length));
    _exit(code);
  } catch {
    // Without libc, the ordinary way has to do.
  }
  return Deno.exit(code);
}
