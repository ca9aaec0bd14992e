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

/** The dtypes of tile kernels. */
export type TileDType = "bfloat16" | "float16";

/** The shape of a kernel's tiles, and what of the shared memory goes where. */
export interface TileShape {
  /** Columns of a tile: 64, 128, 192 or 256. */
  readonly columns: number;
  /** How many steps of 64 along k are in flight. */
  readonly stages: number;
  /** Chunks that each group of warps can have on their way out, a power of two. */
  readonly slots: number;
  /** Blocks that share each tile of B: 1 or 2, one above the other. */
  readonly cluster: 1 | 2;
}

/** All that a kernel is compiled for. */
export interface TileConfiguration extends TileShape {
  /** The dtype of A, B and D; sums are float32. */
  readonly dtype: TileDType;
  /** Whether A lies with its rows in sequence (m x k in C order), or with its columns. */
  readonly isRowMajorA: boolean;
  /** Whether B lies with its rows in sequence (k x n in C order), or with its columns. */
  readonly isRowMajorB: boolean;
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

/** The name of one of {@linkcode TILE_SHAPES}. */
export type TileShapeName = keyof typeof TILE_SHAPES;

/** The most shared memory that a block of compute capability 9.0 may have. */
const MOST_SHARED_BYTES = 232448;

/** Bytes of shared memory that a kernel needs: stages, slots, barriers, and what aligning to 1024 takes. */
export function sharedBytes({ columns, stages, slots }: TileShape): number {
  const stage = (TILE_ROWS + columns) * 64 * 2;
  const barriers = 8 * (2 * stages + 2 * 2 * slots);
  return 1024 + stages * stage + 2 * slots * CHUNK_BYTES + barriers;
}

/**
 * Check that a kernel of this shape can be built.
 *
 * @throws {RangeError} if it cannot.
 */
export function checkTileShape(shape: TileShape): void {
  const { columns, stages, slots, cluster } = shape;
  const say = (what: string): never => {
    throw new RangeError(`A tile kernel cannot have ${what}.`);
  };
  if (![64, 128, 192, 256].includes(columns)) say(`${columns} columns: 64, 128, 192 and 256 are possible`);
  if (!(Number.isInteger(stages) && stages >= 2)) say(`${stages} stages: at least 2 are needed`);
  if (![1, 2, 4, 8].includes(slots)) say(`${slots} slots: 1, 2, 4 and 8 are possible`);
  if (cluster !== 1 && cluster !== 2) say(`a cluster of ${cluster}: 1 and 2 are possible`);
  const bytes = sharedBytes(shape);
  if (bytes > MOST_SHARED_BYTES) {
    say(`${bytes} bytes of shared memory: ${MOST_SHARED_BYTES} is the most, take fewer stages or slots`);
  }
}
