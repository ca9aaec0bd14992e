/**
 * What a process does when it ends by itself, with whatever code: after all of its JavaScript, and not if a signal ends it.
 * What is asked for last is done first.
 *
 * @module
 */
import { addressOfPointer, libcFunctions, toCString } from "./memory.ts";

const LIBC_SYMBOLS = {
  /** `FILE* fdopen(int fd, const char* mode)` */
  fdopen: { parameters: ["i32", "buffer"], result: "pointer" },
  /** `int setvbuf(FILE* stream, char* buf, int mode, size_t size)` */
  setvbuf: { parameters: ["pointer", "pointer", "i32", "usize"], result: "i32" },
  /** `int fputs(const char* s, FILE* stream)` */
  fputs: { parameters: ["buffer", "pointer"], result: "i32" },
  /** `void __fpurge(FILE* stream)`: forget what it has not written. */
  __fpurge: { parameters: ["pointer"], result: "void" },
  /** `int fflush(FILE* stream)`, for its address. */
  fflush: { type: "pointer" },
  /** `int usleep(useconds_t usec)`, likewise. */
  usleep: { type: "pointer" },
  /** `int __cxa_atexit(void (*function)(void*), void* argument, void* library)` */
  __cxa_atexit: { parameters: ["u64", "u64", "u64"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

const _IOFBF = 0;
const LARGEST_TEXT = 4096n;

export function pauseAtExit(microseconds: bigint): void {
  const { usleep, __cxa_atexit } = libcFunctions(LIBC_SYMBOLS);
  __cxa_atexit(addressOfPointer(usleep), microseconds, 0n);
}

/** Text to write to an open file or socket; none at first. */
export class TextAtExit {
  readonly #stream: Deno.PointerValue;

  constructor(file: number) {
    const { fdopen, setvbuf, fflush, __cxa_atexit } = libcFunctions(LIBC_SYMBOLS);
    this.#stream = fdopen(file, toCString("w"));
    if (this.#stream === null) return;
    setvbuf(this.#stream, null, _IOFBF, LARGEST_TEXT);
    __cxa_atexit(addressOfPointer(fflush), addressOfPointer(this.#stream), 0n);
  }

  /** Have this text written, and none that was given before. */
  set(text: string): void {
    if (this.#stream === null) return;
    const { fputs, __fpurge } = libcFunctions(LIBC_SYMBOLS);
    __fpurge(this.#stream);
    fputs(toCString(text), this.#stream);
  }
}
