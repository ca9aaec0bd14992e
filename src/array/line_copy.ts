/**
 * Copies of many lines by a loop of the machine's own C compiler: one call for all of them, which write past the caches if that
 * is wanted. Of memory that no cache holds, the processor would read what it is about to write: of lines of 512 bytes two ranks
 * copied 32 MiB each in 3 ms past the caches, and in 5 by `memcpy`.
 *
 * It is a means to be faster, never a need: without a compiler there is none.
 *
 * @module
 */
import { findCompiler, writesPastCaches } from "../../ffi/compiler.ts";
import { compileLoops } from "./compiled_loops.ts";

/** A dimension of the copy: neighbours' distances in bytes, and runs of indices. Elements of the last one lie side by side. */
export interface LineAxis {
  readonly source: number;
  readonly target: number;
  readonly runs: readonly { readonly source: number; readonly target: number; readonly length: number }[];
}

/**
 * Bytes that are asked for before they are read, where lines leave gaps: processors look ahead only within a line. Lines of 512
 * bytes with as long gaps were read at 10 GB/s so, and at 4 without. Twice as many bytes gain no more; lines without gaps are
 * slower with them.
 */
const AHEAD_BYTES = 1024;

/** Copies all lines, given where the first ones of source and target begin. */
export type LineCopy = (source: bigint, target: bigint) => void;

/**
 * An axis is how many runs it has, both strides, and of each run where it begins and how long it is, all in bytes but for the
 * lengths of outer ones: as doubles, which JavaScript makes faster than integers of 64 bits. Whole cache lines of the target are
 * what is written past the caches; the fence has others see them before what this thread writes later.
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

struct how { int is_past, ahead; };

static void fetch(const char *source, const double *run, int ahead) {
  const int64_t from = run[0], bytes = run[2] < ahead ? run[2] : ahead;
  for (int64_t at = 0; at < bytes; at += LINE) __builtin_prefetch(source + from + at);
}

/* The lines of a row: runs, of the row after it only the source is known. */
static void copy_row(const double *runs, const double *end, const char *source, const char *next, char *target, struct how how) {
  const int64_t count = end - runs, ahead = 3 * (1 + how.ahead / ((int64_t)runs[2] + 1));
  for (int64_t at = 0; at < count; at += 3) {
    const char *from = source + (int64_t)runs[at];
    char *to = target + (int64_t)runs[at + 1];
    const int64_t bytes = runs[at + 2], later = at + ahead;
    if (how.ahead > 0) {
      if (later < count) fetch(source, runs + later, how.ahead);
      else if (next != 0 && later - count < count) fetch(next, runs + later - count, how.ahead);
    }
    if (how.is_past) copy_past(to, from, bytes);
    else memcpy(to, from, bytes);
  }
}

static void walk(const double *axis, int left, const char *source, const char *next, char *target, struct how how) {
  const double *runs = axis + 3, *end = runs + 3 * (int64_t)axis[0];
  if (left == 1) return copy_row(runs, end, source, next, target, how);
  const int64_t in_source = axis[1], in_target = axis[2];
  for (const double *run = runs; run < end; run += 3) {
    const char *from = source + (int64_t)run[0];
    char *to = target + (int64_t)run[1];
    for (int64_t i = run[2]; i > 0; i--, from += in_source, to += in_target) {
      walk(end, left - 1, from, i > 1 ? from + in_source : 0, to, how);
    }
  }
}

void copy_lines(const double *axes, int count, const char *source, char *target, int is_past, int ahead) {
  walk(axes, count, source, 0, target, (struct how){is_past, ahead});
  if (is_past) __builtin_ia32_sfence();
}
`;

const SYMBOLS = {
  copy_lines: { parameters: ["buffer", "i32", "u64", "u64", "i32", "i32"], result: "void" },
} as const satisfies Deno.ForeignLibraryInterface;

/** Get ready to copy lines; `null` if this machine, or this process, has no compiler that can. */
export function prepareLineCopy(axes: readonly LineAxis[], isPastCaches: boolean): LineCopy | null {
  const compiler = findCompiler();
  if (compiler === null || !writesPastCaches(compiler)) return null;
  const functions = compileLoops("lines", SOURCE, SYMBOLS);
  if (functions === null) return null;
  const words = wordsOf(axes);
  const [count, isPast, ahead] = [axes.length, Number(isPastCaches), followEachOther(axes) ? 0 : AHEAD_BYTES];
  return (source, target) => functions.copy_lines(words, count, source, target, isPast, ahead);
}

/** Whether each line of the source begins where the one before it ends. */
function followEachOther(axes: readonly LineAxis[]): boolean {
  const [{ runs, source }] = axes.slice(-1);
  const ends = runs.map((run) => run.source + run.length);
  const isGapless = runs.every((run, i) => i === 0 || run.source === ends[i - 1]);
  const outer = axes.at(-2);
  return isGapless && (outer === undefined || outer.source === source * (ends.at(-1)! - runs[0].source));
}

/** Filled one by one, since there may be many runs. */
function wordsOf(axes: readonly LineAxis[]): Float64Array<ArrayBuffer> {
  const words = new Float64Array(axes.reduce((sum, { runs }) => sum + 3 + 3 * runs.length, 0));
  let at = 0;
  axes.forEach(({ source, target, runs }, depth) => {
    const isLine = depth === axes.length - 1;
    words[at++] = runs.length;
    words[at++] = source;
    words[at++] = target;
    for (const run of runs) {
      words[at++] = run.source * source;
      words[at++] = run.target * target;
      words[at++] = isLine ? run.length * source : run.length;
    }
  });
  return words;
}
