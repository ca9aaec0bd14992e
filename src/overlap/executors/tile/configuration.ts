/**
 * What a tile kernel is compiled for: the shape of its tiles and the layout of its operands.
 *
 * @module
 */

/** Rows of the tile that one block computes: two groups of warps with 64 rows each. */
export const TILE_ROWS = 128;

/** Columns and rows of the chunks in which a group of warps hands over its part of a tile: 64 x 64 elements. */
export const CHUNK = 64;

/** Bytes of such a chunk. */
export const CHUNK_BYTES = 8192;

/** Threads of a block: one group of 128 that moves data, two that multiply. */
export const TILE_THREADS = 384;

/** The dtypes of D, and of what travels of it. */
export type TileDType = "bfloat16" | "float16";

/** The dtypes of factors that are 8 bits wide. */
export type NarrowDType = "float8_e4m3" | "float8_e5m2";

/** What A and B hold. */
export interface FactorTypes {
  /** The dtype of D, and of A and B unless these are 8 bits wide; sums are float32. */
  readonly dtype: TileDType;
  /** The dtypes of A and B if they are 8 bits wide: both then lie with k in sequence. */
  readonly narrow?: readonly [a: NarrowDType, b: NarrowDType];
}

/** Bytes of a row that is loaded at a time. */
const ROW_BYTES = 128;

/** Bytes of an element of A and B. */
export function factorBytes({ narrow }: Pick<FactorTypes, "narrow">): 1 | 2 {
  return narrow === undefined ? 2 : 1;
}

/** How many loads of 128 bytes along k are a step: of 8 bits two, since the sums of a step are added to those before. */
export function loadsOfStep({ narrow }: Pick<FactorTypes, "narrow">): 1 | 2 {
  return narrow === undefined ? 1 : 2;
}

/** How many elements along k are a step. */
export function stepElements(types: Pick<FactorTypes, "narrow">): number {
  return loadsOfStep(types) * ROW_BYTES / factorBytes(types);
}

/** The shape of a kernel's tiles, and what of the shared memory goes where. */
export interface TileShape {
  /** Columns of a tile: a multiple of 8 from 64 to 256. */
  readonly columns: number;
  /** How many loads along k, of 128 bytes each, are in flight. */
  readonly stages: number;
  /** Chunks that each group of warps can have on their way out, a power of two. */
  readonly slots: number;
  /** Blocks that share each tile of B: 1 or 2, one above the other. */
  readonly cluster: 1 | 2;
}

/** What follows the product in a kernel, which has the code of no more: bias and gelu take half as long to compile as the rest. */
export interface CompiledEpilog {
  /** Whether a number is added to each row, or to each column. */
  readonly hasBias?: boolean;
  /** What is applied to each element then; gelu in its tanh form. */
  readonly activation?: "none" | "relu" | "gelu";
}

/** All that a kernel is compiled for. */
export interface TileConfiguration extends TileShape, FactorTypes, CompiledEpilog {
  /** Whether A lies with its rows in sequence (m x k in C order), or with its columns. */
  readonly isRowMajorA: boolean;
  /** Whether B lies with its rows in sequence (k x n in C order), or with its columns. */
  readonly isRowMajorB: boolean;
  /** Whether its blocks push this rank's part of a gathered operand. */
  readonly blocksPush?: boolean;
}

/** The shapes in use: each was the best one somewhere. */
export const TILE_SHAPES = {
  /** The fastest main loop. */
  wide: { columns: 256, stages: 4, slots: 2, cluster: 2 },
  /** A tile leaves at once: more room for what arrives and leaves. */
  roomy: { columns: 256, stages: 3, slots: 4, cluster: 2 },
  /** In between, and fewer sums to keep. */
  medium: { columns: 192, stages: 4, slots: 4, cluster: 2 },
  /** More tiles, for products with few rows. */
  narrow: { columns: 128, stages: 6, slots: 2, cluster: 2 },
  /** One row of tiles. */
  flat: { columns: 64, stages: 8, slots: 1, cluster: 1 },
} as const satisfies Record<string, TileShape>;

/** The name of one of {@linkcode TILE_SHAPES}, or of one with fewer columns: `wide 232`. */
export type TileShapeName = keyof typeof TILE_SHAPES | `${"wide" | "medium"} ${number}`;

/** The columns that tiles of a shape can have in place of its own: so many that they take as many chunks. */
const OTHER_COLUMNS: Readonly<Record<string, readonly number[]>> = {
  wide: [200, 208, 216, 224, 232, 240, 248],
  medium: [136, 144, 152, 160, 168, 176, 184],
};

/** The shapes between those in use: products whose tiles would leave much of the last wave idle take one of them. */
export const SHAPES_BETWEEN: readonly TileShapeName[] = Object.entries(OTHER_COLUMNS).flatMap(([name, list]) =>
  list.map((columns) => `${name as "wide" | "medium"} ${columns}` as const)
);

/** The shape of a name; `null` if there is none. */
export function tileShapeNamed(name: string): TileShape | null {
  const [base, columns] = name.split(" ");
  if (!Object.hasOwn(TILE_SHAPES, base)) return null;
  const shape = TILE_SHAPES[base as keyof typeof TILE_SHAPES];
  if (columns === undefined) return shape;
  return SHAPES_BETWEEN.includes(name as TileShapeName) ? { ...shape, columns: Number(columns) } : null;
}

/** How many chunks a tile's columns take: the last one overlaps the one before where they are no multiple of its own. */
export function chunksOf({ columns }: TileShape): number {
  return Math.ceil(columns / CHUNK);
}

/** Columns of B, lying in sequence along k, that each block of a cluster loads: whole groups of 8, some of them twice. */
export function columnsOfBlock({ columns, cluster }: TileShape): number {
  return 8 * Math.ceil(columns / cluster / 8);
}

/** In so many chunks each block has what it pushes of a gathered operand: one is loaded while the other one leaves. */
export const PUSH_BUFFERS = 2;

/** The most shared memory that a block of compute capability 9.0 may have. */
const MOST_SHARED_BYTES = 232448;

/** A shape, and what else takes shared memory. */
type SharedMemory = TileShape & Pick<TileConfiguration, "blocksPush">;

/** Bytes of shared memory that a kernel needs: stages, slots, what it pushes, barriers, and what aligning to 1024 takes. */
export function sharedBytes(shape: SharedMemory): number {
  const { stages, slots, blocksPush = false } = shape;
  const stage = (TILE_ROWS + CHUNK * chunksOf(shape)) * ROW_BYTES;
  const barriers = 8 * (2 * stages + 2 * 2 * slots);
  const pushed = blocksPush ? PUSH_BUFFERS * (CHUNK_BYTES + 8) : 0;
  return 1024 + stages * stage + 2 * slots * CHUNK_BYTES + pushed + barriers;
}

/**
 * The most columns of tiles of 8-bit factors: tensor cores sum their products with few bits, so that sums of each step are
 * kept apart, and added to those before.
 */
export const MOST_NARROW_COLUMNS = 128;

/**
 * Check that a kernel of this shape can be built.
 *
 * @throws {RangeError} if it cannot.
 */
export function checkTileShape(shape: SharedMemory): void {
  const { columns, stages, slots, cluster } = shape;
  const say = (what: string): never => {
    throw new RangeError(`A tile kernel cannot have ${what}.`);
  };
  if (!(columns >= CHUNK && columns <= 256 && columns % 8 === 0)) {
    say(`${columns} columns: multiples of 8 from 64 to 256 are possible`);
  }
  if (!(Number.isInteger(stages) && stages >= 2)) say(`${stages} stages: at least 2 are needed`);
  if (![1, 2, 4, 8].includes(slots)) say(`${slots} slots: 1, 2, 4 and 8 are possible`);
  if (cluster !== 1 && cluster !== 2) say(`a cluster of ${cluster}: 1 and 2 are possible`);
  const bytes = sharedBytes(shape);
  if (bytes > MOST_SHARED_BYTES) {
    say(`${bytes} bytes of shared memory: ${MOST_SHARED_BYTES} is the most, take fewer stages or slots`);
  }
}

/**
 * Check that a kernel can be built.
 *
 * @throws {RangeError} if it cannot.
 */
export function checkConfiguration(configuration: TileConfiguration): void {
  checkTileShape(configuration);
  const { columns, stages, narrow, isRowMajorA, isRowMajorB } = configuration;
  if (narrow === undefined) return;
  if (stages % loadsOfStep(configuration) !== 0) {
    throw new RangeError(`A tile kernel of 8-bit factors cannot have ${stages} stages: it takes two at a time.`);
  }
  if (columns > MOST_NARROW_COLUMNS) {
    throw new RangeError(
      `A tile kernel of 8-bit factors cannot have ${columns} columns: ${MOST_NARROW_COLUMNS} is the most.`,
    );
  }
  if (!isRowMajorA || isRowMajorB) {
    throw new RangeError("A tile kernel of 8-bit factors has them with k in sequence: A by rows, B by columns.");
  }
}
