/**
 * Who owns which index of one dimension: pure functions, no ranks, no shapes.
 *
 * An {@linkcode IndexSet} is what one part holds, ascending; an {@linkcode IndexMap} divides a whole dimension among
 * its parts. Everything else in this folder is a product of these over the dimensions.
 *
 * @module
 */
import { checkInteger } from "./check.ts";

/** A half-open range of indices, `[start, end)`. */
export type Range = readonly [start: number, end: number];

/** An ascending set of indices of one dimension. */
export interface IndexSet {
  /** How many indices it has. */
  readonly count: number;
  /** How many of them lie below `index`; for a member this is its local index. */
  before(index: number): number;
  /** The global index of local index `local`. */
  at(local: number): number;
  /** The members within `[from, to)`, by default all, as ascending, disjoint ranges. */
  ranges(from?: number, to?: number): Range[];
}

/** A dimension divided into parts; every index has exactly one owner. */
export interface IndexMap {
  /** The part that owns an index. */
  owner(index: number): number;
  /** What a part owns. */
  part(part: number): IndexSet;
}

/** Integer division that is exact for every safe integer. */
function quotient(dividend: number, divisor: number): number {
  return (dividend - dividend % divisor) / divisor;
}

function clamp(value: number, lowest: number, highest: number): number {
  return Math.min(Math.max(value, lowest), highest);
}

/** The set of all indices of `[start, end)`. */
export function interval(start: number, end: number): IndexSet {
  return {
    count: end - start,
    before: (index) => clamp(index, start, end) - start,
    at: (local) => start + local,
    ranges: (from = start, to = end) => {
      const [low, high] = [Math.max(start, from), Math.min(end, to)];
      return low < high ? [[low, high]] : [];
    },
  };
}

/** A whole dimension in the hands of one part. */
export function whole(extent: number): IndexMap {
  return evenly(extent, 1);
}

/** One contiguous run a part, as even as possible: the first `extent % parts` parts hold one more. */
export function evenly(extent: number, parts: number): IndexMap {
  const remainder = extent % parts;
  const base = quotient(extent, parts);
  const firstShort = remainder * (base + 1);
  const start = (part: number) => part * base + Math.min(part, remainder);
  return {
    owner: (index) => index < firstShort ? quotient(index, base + 1) : remainder + quotient(index - firstShort, base),
    part: (part) => interval(start(part), start(part + 1)),
  };
}

/**
 * How many of the indices `0..n-1` process `iproc` owns when blocks of `nb` are dealt to `nprocs` processes in turn,
 * the first one to process `isrc`.
 *
 * Source: ScaLAPACK's tool routine NUMROC, with indices from 0.
 *
 * @throws {RangeError | TypeError} if one is no whole number, or out of range.
 *
 * @example
 * ```ts
 * import { numroc } from "@distmath/distmath";
 * console.assert(numroc(10, 3, 0, 0, 2) === 6); // blocks 0..2 and 6..8
 * console.assert(numroc(10, 3, 1, 0, 2) === 4); // blocks 3..5 and 9
 * ```
 */
export function numroc(n: number, nb: number, iproc: number, isrc: number, nprocs: number): number {
  checkInteger("n", n, 0);
  checkInteger("nb", nb, 1);
  checkInteger("nprocs", nprocs, 1);
  checkInteger("iproc", iproc, 0, nprocs - 1);
  checkInteger("isrc", isrc, 0, nprocs - 1);
  return ownedOf(n, nb, iproc, isrc, nprocs);
}

/** As {@linkcode numroc}, of numbers that are known to be right. */
function ownedOf(n: number, nb: number, iproc: number, isrc: number, nprocs: number): number {
  const distance = (nprocs + iproc - isrc) % nprocs;
  const blocks = quotient(n, nb);
  const extra = blocks % nprocs;
  const full = quotient(blocks, nprocs) * nb;
  return full + (distance < extra ? nb : distance === extra ? n % nb : 0);
}

/** Blocks of `blockSize` dealt to the parts in turn, the first one to part `first`: ScaLAPACK's distribution. */
export function blockCyclic(extent: number, blockSize: number, parts: number, first = 0): IndexMap {
  const stride = blockSize * parts;
  const set = (part: number): IndexSet => {
    const distance = (parts + part - first) % parts;
    return {
      count: ownedOf(extent, blockSize, part, first, parts),
      before: (index) => ownedOf(clamp(index, 0, extent), blockSize, part, first, parts),
      at: (local) => quotient(local, blockSize) * stride + distance * blockSize + local % blockSize,
      ranges: (from = 0, to = extent) => {
        const ranges: Range[] = [];
        const end = Math.min(to, extent);
        const skipped = quotient(Math.max(from, 0), stride) * stride;
        for (let start = skipped + distance * blockSize; start < end; start += stride) {
          const low = Math.max(start, from);
          const high = Math.min(start + blockSize, end);
          if (low < high) ranges.push([low, high]);
        }
        return ranges;
      },
    };
  };
  return {
    owner: (index) => (quotient(index, blockSize) + first) % parts,
    part: (part) => parts === 1 ? interval(0, extent) : set(part),
  };
}

/** The block size that gives every part at most one block: `ceil(extent / parts)`, and 1 for an empty dimension. */
export function singleBlockSize(extent: number, parts: number): number {
  return Math.max(1, quotient(extent, parts) + (extent % parts > 0 ? 1 : 0));
}

/** The members of a set within `[start, end)`, counted from `start`. */
export function sliceSet(set: IndexSet, [start, end]: Range): IndexSet {
  const skipped = set.before(start);
  return {
    count: set.before(end) - skipped,
    before: (index) => set.before(clamp(start + index, start, end)) - skipped,
    at: (local) => set.at(skipped + local) - start,
    ranges: (from = 0, to = end - start) =>
      set.ranges(start + Math.max(from, 0), Math.min(start + to, end)).map((
        [low, high],
      ) => [low - start, high - start]),
  };
}

/** The multiples of `step` among a set, counted from 0 on: 0, 1, 2 for 0, step, 2 step. */
export function everyNth(set: IndexSet, step: number): IndexSet {
  if (step === 1) return set;
  const multiples = (below: number) => Math.ceil(below / step);
  const runs = set.ranges().map(([start, end]): Range => [multiples(start), multiples(end)]).filter(([a, b]) => a < b);
  const starts: number[] = [];
  let count = 0;
  for (const [start, end] of runs) {
    starts.push(count);
    count += end - start;
  }
  /** The last run whose key is not above a number. */
  const find = (keys: (run: number) => number, number: number): number => {
    let [low, high] = [0, runs.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (keys(middle) <= number) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  };
  return {
    count,
    before: (index) => {
      const run = find((i) => runs[i][0], index);
      return run < 0 ? 0 : starts[run] + Math.min(index, runs[run][1]) - runs[run][0];
    },
    at: (local) => {
      const run = find((i) => starts[i], local);
      return runs[run][0] + local - starts[run];
    },
    ranges: (from = 0, to = Infinity) =>
      runs.map(([start, end]): Range => [Math.max(start, from), Math.min(end, to)]).filter(([a, b]) => a < b),
  };
}

/**
 * The local indices of the multiples of `step` among a set, as the first of them, if their distance is `step`; null if they lie
 * otherwise, as where blocks that `step` does not divide are dealt in turn.
 */
export function firstOfEven(set: IndexSet, step: number): number | null {
  let [first, next] = [0, -1];
  for (const [start, end] of set.ranges()) {
    const multiple = Math.ceil(start / step) * step;
    if (multiple >= end) continue;
    const local = set.before(start) + multiple - start;
    if (next < 0) first = local;
    else if (local !== next) return null;
    next = local + Math.ceil((end - multiple) / step) * step;
  }
  return first;
}

/** Whether a set is one run of neighbours, or empty. */
export function isContiguous(set: IndexSet): boolean {
  return set.count === 0 || set.at(set.count - 1) - set.at(0) === set.count - 1;
}

/** Whether two sets have the same members. */
export function sameSet(a: IndexSet, b: IndexSet): boolean {
  if (a.count !== b.count) return false;
  if (a.count === 0) return true;
  if (a.at(0) !== b.at(0) || a.at(a.count - 1) !== b.at(b.count - 1)) return false;
  if (isContiguous(a)) return true;
  const others = b.ranges();
  return a.ranges().every(([start, end], index) => start === others[index]?.[0] && end === others[index][1]);
}
