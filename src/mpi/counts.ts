/**
 * Counts and displacements of the methods whose parts differ in length.
 *
 * @module
 */
import { LARGEST_INT, refuseLong } from "./buffers.ts";

/** One number a rank, in entries. */
export type Counts = readonly number[] | Int32Array;

/** Checked and copied, each number read once: getters may give another one the next time. */
function integers(method: string, what: string, values: Counts, size: number): Int32Array {
  if (!Array.isArray(values) && !(values instanceof Int32Array)) {
    throw new TypeError(`${method}: ${what} must be an array with one integer a rank.`);
  }
  const { length } = values;
  if (length !== size) {
    throw new RangeError(`${method}: ${what} has ${length} numbers, it needs one for each of the ${size} ranks.`);
  }
  const copy = new Int32Array(size);
  for (let rank = 0; rank < size; rank++) {
    const value = values[rank];
    if (!(Number.isInteger(value) && value >= 0 && value <= LARGEST_INT)) {
      throw new RangeError(
        `${method}: ${what}[${rank}] is ${String(value)}, it must be an integer from 0 to 2^31 - 1.`,
      );
    }
    copy[rank] = value;
  }
  return copy;
}

/** Counts, checked, as C wants them. */
export function entryCounts(method: string, what: string, counts: Counts | undefined, size: number): Int32Array {
  if (counts === undefined) throw new TypeError(`${method}: ${what} is missing, the length of each rank's part.`);
  return integers(method, what, counts, size);
}

/** Displacements, checked, as C wants them; one part after the other when left out. */
export function entryDisplacements(
  method: string,
  what: string,
  displacements: Counts | undefined,
  counts: Int32Array,
): Int32Array {
  if (displacements !== undefined) return integers(method, what, displacements, counts.length);
  const starts = new Int32Array(counts.length);
  let end = 0;
  for (let rank = 0; rank < counts.length; rank++) {
    if (end > LARGEST_INT) refuseLong(method, "all parts in entries", end);
    starts[rank] = end;
    end += counts[rank];
  }
  return starts;
}

/** The number of entries that an array with these parts has at least. */
export function extent(method: string, counts: Int32Array, displacements: Int32Array): number {
  let end = 0;
  for (let rank = 0; rank < counts.length; rank++) {
    if (counts[rank] > 0) end = Math.max(end, displacements[rank] + counts[rank]);
  }
  if (end > LARGEST_INT) refuseLong(method, "all parts in entries", end);
  return end;
}

export function sumOf(counts: Int32Array): number {
  let sum = 0;
  for (const count of counts) sum += count;
  return sum;
}

/** Parts of an array, one a rank. */
export interface Parts {
  /** Their lengths. */
  counts: Int32Array;
  displacements: Int32Array;
  /** The length that the array needs. */
  extent: number;
}

/** The parts that counts and displacements describe. */
export function checkedParts(
  method: string,
  size: number,
  counts: Counts | undefined,
  displacements: Counts | undefined,
  countsName = "counts",
  displacementsName = "displacements",
): Parts {
  const lengths = entryCounts(method, countsName, counts, size);
  const starts = entryDisplacements(method, displacementsName, displacements, lengths);
  return { counts: lengths, displacements: starts, extent: extent(method, lengths, starts) };
}

/**
 * As {@linkcode checkedParts}, of an array that receives them.
 *
 * @throws {RangeError} also if two have an entry in common, in which MPI may leave either.
 */
export function receivedParts(...given: Parameters<typeof checkedParts>): Parts {
  const parts = checkedParts(...given);
  const [method, , , displacements, countsName = "counts", displacementsName = "displacements"] = given;
  const common = displacements === undefined ? null : ranksInCommon(parts);
  if (common === null) return parts;
  throw new RangeError(
    `${method}: the parts of ranks ${common[0]} and ${common[1]} have entries in common, by ${countsName} and ` +
      `${displacementsName}. Receive them apart.`,
  );
}

/** Two ranks whose parts have an entry in common; `null` if there are none. */
function ranksInCommon({ counts, displacements }: Parts): [number, number] | null {
  const ranks = [...counts.keys()].filter((rank) => counts[rank] > 0);
  ranks.sort((a, b) => displacements[a] - displacements[b]);
  for (let i = 1; i < ranks.length; i++) {
    const [before, rank] = [ranks[i - 1], ranks[i]];
    if (displacements[before] + counts[before] > displacements[rank]) return [before, rank];
  }
  return null;
}

/** Refuse an array whose length is not the count of this rank. */
export function checkOwnPart(method: string, rank: number, counts: Int32Array, length: number, what = "send"): void {
  if (counts[rank] === length) return;
  throw new RangeError(`${method}: ${what} has ${length} entries, but the count of this rank is ${counts[rank]}.`);
}

/** The length of the equal parts that an array divides into; `instead` says what takes others. */
export function equalPart(
  method: string,
  what: string,
  length: number,
  size: number,
  instead = "give each part as many",
): number {
  if (length % size === 0) return length / size;
  throw new RangeError(
    `${method}: ${what} has ${length} entries, which do not divide into ${size} equal parts; ${instead}.`,
  );
}

/** The length of equal parts together. */
export function checkedTotal(method: string, part: number, size: number): number {
  const total = part * size;
  if (total > LARGEST_INT) refuseLong(method, "the result", total);
  return total;
}
