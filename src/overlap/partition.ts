/**
 * Where: which part of a product each rank owns, needs and makes. Pure functions; who does what when is in `schedule.ts`.
 *
 * A product D = A B has the axes m, n and k: A is m x k, B is k x n, D is m x n. One matrix *travels*, in parts along one
 * of its axes, a part a rank; the others stay, in parts along the *fixed* axis. How a matrix lies in memory, row by row
 * or column by column, transposed or not, does not matter here.
 *
 * @module
 */

/** A part of an extent. */
export interface Part {
  /** The first index. */
  readonly start: number;
  /** The index after the last. */
  readonly end: number;
}

/** An axis of a product. */
export type Axis = "m" | "n" | "k";

/** A matrix of a product. */
export type MatrixName = "a" | "b" | "d";

/** The axes of each matrix: rows, then columns. */
export const MATRIX_AXES = {
  a: ["m", "k"],
  b: ["k", "n"],
  d: ["m", "n"],
} as const satisfies Record<MatrixName, readonly [Axis, Axis]>;

/** A part of each axis: a box of m x n x k, of which a matrix has two sides. */
export type Box = Readonly<Record<Axis, Part>>;

/**
 * What the ranks share. `gather`: a factor is in parts, and each rank needs all of it. `reduce`: each rank has a part of k,
 * and gets a part of the sum. `all_reduce`: the same, and each gets all of the sum.
 */
export type SharedKind = "gather" | "reduce" | "all_reduce";

/** Where everything is. */
export interface Partition {
  /** What the ranks share. */
  readonly kind: SharedKind;
  /** The whole product. */
  readonly extents: Readonly<Record<Axis, number>>;
  /** The number of ranks. */
  readonly size: number;
  /** The matrix that travels: a factor that is gathered, or the sum. */
  readonly travels: MatrixName;
  /** The axis along which it does. */
  readonly axis: Axis;
  /** Its parts, by rank; some may be empty. */
  readonly parts: readonly Part[];
  /** The axis along which the other two matrices are in parts. */
  readonly fixedAxis: Axis;
  /** Their parts, by rank. */
  readonly fixedParts: readonly Part[];
}

/** What a partition is made of. */
export interface PartitionOptions {
  /** What the ranks share. */
  readonly kind: SharedKind;
  /** The whole product. */
  readonly extents: Readonly<Record<Axis, number>>;
  /** The number of ranks. */
  readonly size: number;
  /** The factor that is gathered; D for sums. */
  readonly travels?: MatrixName;
  /** The axis along which it is in parts; m or n, whichever it has, when left out. */
  readonly axis?: Axis;
  /** Its parts; even ones when left out. */
  readonly parts?: readonly Part[];
  /** The parts of the others; even ones when left out. */
  readonly fixedParts?: readonly Part[];
}

/** An extent in parts that differ by at most one: the first ones are larger. */
export function evenParts(extent: number, count: number): Part[] {
  const [least, more] = [Math.floor(extent / count), extent % count];
  return Array.from({ length: count }, (_, i) => {
    const start = i * least + Math.min(i, more);
    return { start, end: start + least + (i < more ? 1 : 0) };
  });
}

/** How many indices a part has. */
export function lengthOf({ start, end }: Part): number {
  return end - start;
}

/** Tiles of products are powers of two, up to 256 wide, of which a GPU multiplies at least two at a time. */
const TILES = 512;

/**
 * Cut a part into pieces of some weights. They begin at multiples of some tiles from where the part begins, or of so small a
 * power of two that there are two for each piece: products of part of a tile, or of what begins anywhere, take longer.
 */
export function piecesOf({ start, end }: Part, weights: readonly number[]): Part[] {
  const [extent, total] = [end - start, weights.reduce((sum, weight) => sum + weight)];
  const unit = Math.min(TILES, 2 ** Math.floor(Math.log2(Math.max(1, extent / (2 * weights.length)))));
  const units = Math.ceil(extent / unit);
  let weight = 0;
  const ends = weights.map((own) => start + Math.min(extent, unit * Math.round((weight += own) / total * units)));
  return ends.map((end, i) => ({ start: ends[i - 1] ?? start, end }));
}

/** The ranks after one, in the order in which they follow it. */
export function others(rank: number, size: number): number[] {
  return Array.from({ length: size - 1 }, (_, i) => (rank + 1 + i) % size);
}

/**
 * Say where everything is.
 *
 * @throws {RangeError} if the matrix that travels has no such axis, or parts do not cover an extent once.
 */
export function partitionOf(options: PartitionOptions): Partition {
  const { kind, extents, size } = options;
  const travels = options.travels ?? (kind === "gather" ? "a" : "d");
  if ((kind === "gather") === (travels === "d")) {
    throw new RangeError(`${kind} cannot have ${travels.toUpperCase()} travel: a factor is gathered, and D is summed.`);
  }
  const axes: readonly Axis[] = MATRIX_AXES[travels];
  const axis = options.axis ?? axes.find((name) => name !== "k")!;
  if (!axes.includes(axis)) {
    throw new RangeError(`${travels.toUpperCase()} has the axes ${axes.join(" and ")}, not ${axis}.`);
  }
  const fixedAxis = travels === "d" ? "k" : travels === "a" ? "n" : "m";
  const parts = options.parts ?? evenParts(extents[axis], size);
  const fixedParts = options.fixedParts ?? evenParts(extents[fixedAxis], size);
  checkParts(axis, parts, extents[axis], size);
  checkParts(fixedAxis, fixedParts, extents[fixedAxis], size);
  return { kind, extents, size, travels, axis, parts, fixedAxis, fixedParts };
}

function checkParts(axis: Axis, parts: readonly Part[], extent: number, size: number): void {
  const full = parts.filter((part) => lengthOf(part) > 0).sort((one, other) => one.start - other.start);
  const covers = full.every(({ start }, i) => start === (i === 0 ? 0 : full[i - 1].end)) &&
    (full.at(-1)?.end ?? 0) === extent;
  if (parts.length === size && covers && parts.every(({ start, end }) => start <= end)) return;
  const list = parts.map(({ start, end }) => `${start}..${end}`).join(", ");
  throw new RangeError(`Parts of ${axis} have to cover 0..${extent} once, one for each of ${size} ranks; got ${list}.`);
}

function whole({ extents }: Partition): Box {
  const part = (axis: Axis): Part => ({ start: 0, end: extents[axis] });
  return { m: part("m"), n: part("n"), k: part("k") };
}

/** What a rank has of a matrix before the product, or, of D, after it. */
export function owned(partition: Partition, matrix: MatrixName, rank: number): Box {
  const { kind, travels, axis, parts, fixedAxis, fixedParts } = partition;
  const box = whole(partition);
  if (matrix === travels) return kind === "all_reduce" ? box : { ...box, [axis]: parts[rank] };
  return { ...box, [fixedAxis]: fixedParts[rank] };
}

/** What a rank needs of a factor for what it makes. */
export function needed(partition: Partition, factor: "a" | "b", rank: number): Box {
  return factor === partition.travels ? whole(partition) : owned(partition, factor, rank);
}

/** What a rank multiplies: all terms of a part of D, or some terms of all of D. */
export function made(partition: Partition, rank: number): Box {
  const { fixedAxis, fixedParts } = partition;
  return { ...whole(partition), [fixedAxis]: fixedParts[rank] };
}

/** How many elements of the matrix that travels have one index of the axis along which it does. */
export function lineElements({ travels, axis, extents }: Partition): number {
  const [rows, columns] = MATRIX_AXES[travels];
  return extents[rows === axis ? columns : rows];
}

/** The most elements that leave one rank, if every rank sends what the others need once. */
export function travelling(partition: Partition): number {
  const { kind, size, parts, extents, axis } = partition;
  const line = lineElements(partition);
  const largest = Math.max(...parts.map(lengthOf));
  if (kind === "gather") return (size - 1) * largest * line;
  const sums = (extents[axis] - Math.min(...parts.map(lengthOf))) * line;
  return kind === "reduce" ? sums : sums + (size - 1) * largest * line;
}
