/**
 * The kernel's argument, as plain data and as bytes.
 *
 * @module
 */
import { createStruct, type StructLayout, writeField } from "../../../../ffi/struct.ts";
import {
  columnsOfBlock,
  type CompiledEpilog,
  stepElements,
  TILE_ROWS,
  type TileConfiguration,
} from "./configuration.ts";
import type { Part } from "../../partition.ts";
import type { Spot } from "../../tile_order.ts";
import { encodeTensorMap } from "./tensor_map.ts";

/** The most ranks that a kernel knows. */
export const MOST_RANKS = 8;

/** What a kernel marks of a tile: when each begins and ends, in nanoseconds; 0 where it did not happen. */
export const TILE_MARKS = ["part", "products", "sums"] as const;

/** For how many runs, the last ones, a kernel notes when it began and ended: two words of nanoseconds each. */
export const STAMPED_RUNS = 64;

/** `Parameters` of the kernel's source; what is an array there begins here. */
export const TILE_PARAMETERS = {
  name: "Parameters",
  size: 4032,
  fields: {
    a: [0, 1024],
    b: [1024, 1024],
    d: [2048, 1024],
    c: [3072, 128],
    tiles: [3200, "u64"],
    send: [3208, 64],
    raise: [3272, 64],
    arrive: [3336, 64],
    expect: [3400, 64],
    finish: [3464, 64],
    finished: [3528, 64],
    gathered: [3592, 64],
    error: [3656, "u64"],
    report: [3664, "u64"],
    patience: [3672, "u64"],
    bias: [3680, "u64"],
    rows: [3688, 32],
    firstA: [3720, 32],
    firstB: [3752, 32],
    firstRow: [3784, 32],
    firstColumn: [3816, 32],
    count: [3848, "u32"],
    steps: [3852, "u32"],
    rank: [3856, "u32"],
    call: [3860, "u32"],
    bytesA: [3864, "u32"],
    piece: [3868, "u32"],
    finishMask: [3872, "u32"],
    finishCount: [3876, "u32"],
    alpha: [3880, "f32"],
    beta: [3884, "f32"],
    hasAddend: [3888, "u32"],
    biasCount: [3892, "u32"],
    isBiasOfRows: [3896, "u32"],
    originRow: [3900, "i32"],
    originColumn: [3904, "i32"],
    panel: [3908, "u32"],
    isPushed: [3912, "u32"],
    stamps: [3920, "u64"],
    pieces: [3928, "u32"],
    pieceSteps: [3932, "u32"],
    marks: [3936, "u64"],
    pushed: [3944, "u64"],
    shares: [3952, "u64"],
    pushedRows: [3960, "u32"],
    pushedUnits: [3964, "u32"],
    pieceRows: [3968, "u32"],
    pieceUnits: [3972, "u32"],
    pitch: [3976, "u32"],
    putEvery: [3980, "u32"],
    takeEvery: [3984, "u32"],
  },
} as const satisfies StructLayout;

/** A matrix that is a part of A, B or D: the first and last of its rows and columns, as the whole counts them. */
export interface Operand {
  /** Where its first element lies. */
  readonly address: bigint;
  /** Elements from a row to the next, or, where columns lie in sequence, from a column to the next. */
  readonly leading: number;
  /** Its rows. */
  readonly rows: Part;
  /** Its columns. */
  readonly columns: Part;
}

/** Addresses by rank; 0 where there is none. */
export type ByRank = readonly bigint[];

/** What follows the product, before it is rounded. */
export interface TileEpilog {
  /** What is added to each row, or to each column: float32. */
  readonly bias?: { readonly address: bigint; readonly count: number; readonly isOfRows: boolean };
  /** What is applied to each element then. */
  readonly activation?: CompiledEpilog["activation"];
}

/** What a kernel has to be compiled with for an epilog. */
export function compiledEpilog({ bias, activation = "none" }: TileEpilog): CompiledEpilog {
  return { hasBias: bias !== undefined, activation };
}

/** A part of a gathered operand that blocks push; extents are in units of 16 bytes. */
export interface PushedPart {
  /** Where it lies. */
  readonly address: bigint;
  /** Where the shares are counted that blocks took of it. */
  readonly shares: bigint;
  /** How many rows it has, of whatever lies in sequence. */
  readonly rows: number;
  /** Units of a row. */
  readonly units: number;
  /** By how many rows a piece begins after the one before; 0 if each has all rows. */
  readonly pieceRows: number;
  /** By how many units a piece begins after the one before; 0 if each has whole rows. */
  readonly pieceUnits: number;
  /** Units from a row to the next. */
  readonly pitch: number;
}

/** What a kernel is told. */
export interface TileArguments {
  /** The parts of A. */
  readonly a: readonly Operand[];
  /** The parts of B. */
  readonly b: readonly Operand[];
  /** The matrices that results are stored into; `null` where no tile names one. */
  readonly d: readonly (Operand | null)[];
  /** Where the list of tiles lies. */
  readonly tiles: bigint;
  /** How many there are. */
  readonly count: number;
  /** The extent that is summed over. */
  readonly k: number;
  /** This rank. */
  readonly rank: number;
  /** How many halves of tiles, as one group of warps has them, share a flag. */
  readonly panel: number;
  /** Whether copy engines push partial sums on from where the kernel stores them; the flags to raise count these halves. */
  readonly isPushed: boolean;
  /** Where partial sums for a rank go. */
  readonly send: ByRank;
  /** Their flags. */
  readonly raise: ByRank;
  /** Where partial sums of a rank arrive. */
  readonly arrive: ByRank;
  /** Their flags. */
  readonly expect: ByRank;
  /** Where a rank learns which blocks of this one have stored all. */
  readonly finish: ByRank;
  /** Where this rank learns it of the others. */
  readonly finished: ByRank;
  /** How many blocks' threads count there. */
  readonly finishCount: number;
  /** Flags of the parts of the gathered operand. */
  readonly gathered: ByRank;
  /** This rank's part of it, if blocks push it to where partial sums would go; else null. */
  readonly pushed: PushedPart | null;
  /** What is added to the result: a matrix, what D holds, or nothing. */
  readonly c: Operand | "in D" | null;
  /** The row and column of the whole product where this rank's D begins, and so do C and the bias. */
  readonly origin: Spot;
  /** Where the first error is noted on the GPU. */
  readonly error: bigint;
  /** Where it is noted for the host. */
  readonly report: bigint;
  /** What is added to rows or columns, if the kernel has a bias. */
  readonly bias: TileEpilog["bias"];
  /** How long other ranks are waited for. */
  readonly patienceSeconds: number;
  /** Bytes that are sent at a time. */
  readonly piece: number;
  /** How many pieces along k parts of a gathered factor have. */
  readonly pieces: number;
  /** How many of its steps a piece has. */
  readonly pieceSteps: number;
  /** How many steps lie between two chunks that leave. */
  readonly putEvery: number;
  /** How many steps lie between two chunks that are added. */
  readonly takeEvery: number;
  /** Where the kernel notes when it began and ended; 0 for nowhere. */
  readonly stamps: bigint;
}

/** The rows of A that are loaded at a time: fewer than a tile has where A has fewer. */
function boxRowsOf(a: readonly Operand[]): number {
  const most = Math.max(...a.map(({ rows }) => rows.end - rows.start));
  return Math.min(TILE_ROWS, Math.ceil(most / 8) * 8);
}

function indices<T>(parts: readonly T[], index: (part: T) => number): Uint8Array {
  return new Uint8Array(Int32Array.from(parts, index).buffer);
}

/** The bytes of the kernel's argument; the call's number and scalars are still to be set. */
export function packArguments(configuration: TileConfiguration, given: TileArguments): Uint8Array<ArrayBuffer> {
  const { dtype, narrow = [dtype, dtype], isRowMajorA, isRowMajorB, cluster } = configuration;
  const boxRows = isRowMajorA ? boxRowsOf(given.a) : 64;
  const boxRowsB = isRowMajorB ? 64 / cluster : columnsOfBlock(configuration);
  const { bias } = given;
  const words = (addresses: ByRank) => new Uint8Array(BigUint64Array.from(addresses).buffer);
  const bytes = createStruct(TILE_PARAMETERS, {
    tiles: given.tiles,
    send: words(given.send),
    raise: words(given.raise),
    arrive: words(given.arrive),
    expect: words(given.expect),
    finish: words(given.finish),
    finished: words(given.finished),
    gathered: words(given.gathered),
    error: given.error,
    report: given.report,
    bias: bias?.address ?? 0n,
    biasCount: bias?.count ?? 0,
    isBiasOfRows: Number(bias?.isOfRows ?? false),
    hasAddend: given.c === null ? 0 : given.c === "in D" ? 2 : 1,
    originRow: given.origin.row,
    originColumn: given.origin.column,
    patience: BigInt(Math.round(given.patienceSeconds * 1e9)),
    rows: indices(given.a, ({ rows }) => rows.end),
    firstA: indices(given.a, ({ rows }) => rows.start),
    firstB: indices(given.b, ({ columns }) => columns.start),
    firstRow: indices(given.d, (part) => part?.rows.start ?? 0),
    firstColumn: indices(given.d, (part) => part?.columns.start ?? 0),
    count: given.count,
    steps: Math.ceil(given.k / stepElements(configuration)),
    rank: given.rank,
    bytesA: isRowMajorA ? boxRows * 128 : TILE_ROWS * 128,
    piece: given.piece,
    pieces: given.pieces,
    pieceSteps: given.pieceSteps,
    stamps: given.stamps,
    panel: given.panel,
    isPushed: Number(given.isPushed),
    finishMask: given.finish.reduce((mask, address, rank) => address === 0n ? mask : mask | 1 << rank, 0),
    finishCount: given.finishCount,
    pushed: given.pushed?.address ?? 0n,
    shares: given.pushed?.shares ?? 0n,
    pushedRows: given.pushed?.rows ?? 0,
    pushedUnits: given.pushed?.units ?? 0,
    pieceRows: given.pushed?.pieceRows ?? 0,
    pieceUnits: given.pushed?.pieceUnits ?? 0,
    pitch: given.pushed?.pitch ?? 0,
    putEvery: given.putEvery,
    takeEvery: given.takeEvery,
  });
  const write = (
    field: "a" | "b" | "c" | "d",
    index: number,
    part: Operand,
    isRowMajor: boolean,
    rowsOfBox: number,
    type: typeof dtype | typeof narrow[number] = dtype,
  ) => {
    const [outer, inner] = isRowMajor ? [part.rows, part.columns] : [part.columns, part.rows];
    const { address, leading } = part;
    const [rows, inRow] = [outer, inner].map(({ start, end }) => end - start);
    const offset = TILE_PARAMETERS.fields[field][0] + 128 * index;
    encodeTensorMap(bytes, offset, { dtype: type, address, rows, columns: inRow, leading, boxRows: rowsOfBox });
  };
  given.a.forEach((part, i) => write("a", i, part, isRowMajorA, boxRows, narrow[0]));
  given.b.forEach((part, i) => write("b", i, part, isRowMajorB, boxRowsB, narrow[1]));
  given.d.forEach((part, i) => part && write("d", i, part, true, 64));
  if (given.c !== null && given.c !== "in D") write("c", 0, given.c, true, 64);
  return bytes;
}

/** What sets the number of the call, and what the product and C are multiplied by, in a kernel's argument. */
export function callSetter(bytes: Uint8Array<ArrayBuffer>): (call: number, alpha: number, beta: number) => void {
  const [integers, floats] = [new Uint32Array(bytes.buffer), new Float32Array(bytes.buffer)];
  const [call, alpha, beta] = (["call", "alpha", "beta"] as const).map((name) => TILE_PARAMETERS.fields[name][0] / 4);
  return (number, ofProduct, ofC) => {
    integers[call] = number;
    floats[alpha] = ofProduct;
    floats[beta] = ofC;
  };
}

/** Have a run mark what it does with its tiles; 0 for none. */
export function setMarks(bytes: Uint8Array, marks: bigint): void {
  writeField(TILE_PARAMETERS, bytes, "marks", marks);
}
