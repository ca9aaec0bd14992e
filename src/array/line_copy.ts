/**
 * Copies of many lines by a loop of the machine's own C compiler: one call for all of them, which write past the caches if that
 * is wanted. Of memory that no cache holds, the processor would read what it is about to write: of lines of 512 bytes two ranks
 * copied 32 MiB each in 3 ms past the caches, and in 5 by `memcpy`.
 *
 * It is a means to be faster, never a need: without a compiler there is none.
 *
 * @module
 */
import { compileFunctions, findCompiler } from "../../ffi/compiler.ts";
import { recorder } from "../runtime/recorder.ts";

/** A dimension of the copy: neighbours' distances in bytes, and runs of indices; those of the last one are bytes. */
export interface LineAxis {
  readonly source: number;
  readonly target: number;
  readonly runs: readonly { readonly source: number; readonly target: number; readonly length: number }[];
}

/** Copies all lines, given where the first ones of source and target begin. */
export type LineCopy = (source: bigint, target: bigint) => void;

/**
 * An axis is how many runs it has, both strides, and three words a run. Past the caches are written whole cache lines of the
 * target; the fence has others see them in the order of what this thread writes later.
 */
const SOURCE = `
#include <stdint.h>
#include <string.h>
typedef long long two __attribute__((vector_size(16)));
enum { LINE = 64 };

static void copy_past(char *target, const char *source, size_t bytes) {
  size_t head = -(uintptr_t)target % LINE;
  if (head > bytes) head = bytes;
  memcpy(target, source, head);
  target += head, source += head, bytes -= head;
  for (; bytes >= LINE; target += LINE, source += LINE, bytes -= LINE) {
    two part[LINE / sizeof(two)];
    memcpy(part, source, LINE);
    for (int i = 0; i < LINE / sizeof(two); i++) __builtin_ia32_movntdq((two *)target + i, part[i]);
  }
  memcpy(target, source, bytes);
}

static void walk(const int64_t *axis, int64_t left, const char *source, char *target, int is_past) {
  const int64_t count = axis[0], *runs = axis + 3, *end = runs + 3 * count;
  for (const int64_t *run = runs; run < end; run += 3) {
    const char *from = source + run[0];
    char *to = target + run[1];
    if (left > 1) for (int64_t i = 0; i < run[2]; i++, from += axis[1], to += axis[2]) walk(end, left - 1, from, to, is_past);
    else if (is_past) copy_past(to, from, run[2]);
    else memcpy(to, from, run[2]);
  }
}

void copy_lines(const int64_t *axes, int64_t count, const char *source, char *target, int is_past) {
  walk(axes, count, source, target, is_past);
  if (is_past) __builtin_ia32_sfence();
}
`;

const SYMBOLS = {
  copy_lines: { parameters: ["buffer", "i64", "u64", "u64", "i32"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Get ready to copy lines; `null` if this machine, or this process, has no compiler that can. */
export function prepareLineCopy(axes: readonly LineAxis[], isPastCaches: boolean): LineCopy | null {
  const macros = findCompiler()?.macros;
  if (!macros?.has("__x86_64__") || macros.has("__clang__")) return null;
  const functions = compileFunctions("lines", SOURCE, SYMBOLS, () => {
    const span = recorder?.begin("compute", "compiling for the CPU");
    return span && (() => span.end());
  });
  if (functions === null) return null;
  const words = BigInt64Array.from(axes.flatMap(wordsOf), BigInt);
  const [count, isPast] = [BigInt(axes.length), Number(isPastCaches)];
  return (source, target) => functions.copy_lines(words, count, source, target, isPast);
}

function wordsOf({ source, target, runs }: LineAxis): number[] {
  return [
    runs.length,
    source,
    target,
    ...runs.flatMap((run) => [run.source * source, run.target * target, run.length]),
  ];
}
