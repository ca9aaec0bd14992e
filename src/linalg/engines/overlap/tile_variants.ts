/**
 * The variants of tile kernels: their names, and which ones are worth measuring.
 *
 * @module
 */
import { H200_RATES, tileSpeed } from "../../../overlap/cost_model.ts";
import {
  CHUNK,
  SHAPES_BETWEEN,
  TILE_ROWS,
  TILE_SHAPES,
  type TileShape,
  type TileShapeName,
  tileShapeNamed,
} from "../../../overlap/executors/tile/configuration.ts";
import type { Partition } from "../../../overlap/partition.ts";
import type { TileVariant } from "../../../overlap/tile_order.ts";

/** The extents of a whole product, `m` being the one that is split. */
export type Extents = Readonly<Record<"m" | "n" | "k" | "size", number>> & {
  /** Whether `m` are rows of the kernel's D, which they are when left out, or its columns. */
  readonly split?: "rows" | "columns";
};

/** A kernel, and how it goes through its tiles. */
export interface NamedVariant {
  /** What reports and records call it. */
  readonly name: string;
  /** The name of its tiles' shape. */
  readonly shape: TileShapeName;
  readonly variant: TileVariant;
}

/** Clusters of two blocks that work at the same time on an H100 or H200. */
const CLUSTERS = 66;

const ORDERS: Readonly<Record<string, Partial<TileVariant>>> = {
  "": {},
  ", peers first": { lead: Infinity },
  // Partial sums stay where they are made, and are fetched where they are added: nothing waits for a link that is not needed.
  ", pull": { pulls: true },
  ", pull, peers first": { pulls: true, lead: Infinity },
  // What is fetched travels sooner, and what is made is used a little later.
  ", pull, 4 waves later": { pulls: true, lead: 4 * CLUSTERS },
  // Each panel takes the host some microseconds; more of them keep a link busy that has little time to spare.
  ", hybrid": { panels: 2 },
  ", hybrid in 4 panels": { panels: 4 },
  // Parts of a factor in pieces along k: the first one is there sooner, which matters where a part has few waves of tiles.
  ", in 2 pieces": { pieces: 2 },
  ", in 4 pieces": { pieces: 4 },
  // The kernel's own blocks push: one launch for the host, in place of a copy and three calls for each piece.
  ", blocks push": { blocksPush: true },
  ", in 4 pieces, blocks push": { pieces: 4, blocksPush: true },
  ", exchange": { isExchange: true },
};

/**
 * The variant of a name, such as `roomy, peers first`.
 *
 * @throws {RangeError} if there is none.
 */
export function variantNamed(name: string): NamedVariant {
  const [, shapeName = "", order] = /^(\w+(?: \d+)?)(.*)$/.exec(name) ?? [];
  const [shape, more] = [tileShapeNamed(shapeName), ORDERS[order]];
  if (shape === null || more === undefined) throw new RangeError(`There is no variant "${name}" of tile kernels.`);
  return { name, shape: shapeName as TileShapeName, variant: { shape, ...more } };
}

/** The time that partial sums take on the link over that of the product: H200s, by copy engines. */
function linkShare({ k, size }: Extents): number {
  const { flops, link } = H200_RATES;
  return (size - 1) * flops / (link * k);
}

/** The variant that measured best on such a product (`bench/results/overlap_h200.json`, `overlap_4_h200.json`). */
export function usualVariant(kind: Partition["kind"], extents: Extents, isNarrow = false): string {
  if (isNarrow && (kind !== "all_reduce" || extents.m > 256)) return usualNarrow(kind, extents);
  return kind === "gather" ? usualGather(extents) : kind === "reduce" ? usualReduce(extents) : usualAllReduce(extents);
}

/** Of products of 8 bits: they take half the time, and what travels of sums is as much as ever. */
function usualNarrow(kind: Partition["kind"], extents: Extents): string {
  const { m, size } = extents;
  if (kind === "gather" && size === 2 && m <= 512) return "narrow, in 4 pieces, blocks push";
  if (kind !== "reduce") return "narrow";
  if (size === 2 && m > 512 && m <= 2048) return "narrow, pull";
  if (isSmall(extents) || linkShare(extents) > 0.4) return "narrow";
  return size === 2 ? "narrow, pull, peers first" : "narrow, hybrid in 4 panels";
}

function isSmall({ m, size }: Extents): boolean {
  return m <= 512 || (m <= 2048 && size >= 4);
}

/** Whether parts have so few rows that clusters of blocks, with 256 rows, have half of them empty. */
function arePartsFlat({ m, size }: Extents): boolean {
  return m / size <= TILE_ROWS;
}

function usualGather(extents: Extents): string {
  const { m, n, size } = extents;
  if (arePartsFlat(extents)) return "flat, blocks push";
  if (size === 2 && m <= 512) return "narrow, in 4 pieces, blocks push";
  const tiles = Math.ceil(m / 256) * Math.ceil(n / size / 256);
  // With few large tiles those of the last part, which all begin when it is here, leave most clusters with nothing to do.
  const isFew = tiles <= (size > 2 ? 2 : 1) * CLUSTERS;
  if (size > 2 && isFew && isSmall(extents)) return "flat";
  const pieces = size > 2 ? ", in 2 pieces" : "";
  // A part of one wave at most: the next wave would begin when all of the next part is here.
  const isShort = tiles <= CLUSTERS * size;
  if (isFew || isSmall(extents)) return isShort ? `narrow${pieces}` : "narrow";
  const between = shapeBetween(extents);
  // Waves that are all full leave no time to wait for a part.
  if (between !== null && between.gain >= LEAST_GAIN) return between.name + pieces;
  return isShort ? `wide${pieces}` : "wide";
}

/** What tiles of another width have to win to be taken unmeasured. */
const LEAST_GAIN = 1.01;

/** The speed of tiles whose columns are no whole chunks: the last one overlaps the one before. */
const OVERLAP_SPEED = 0.985;

/**
 * How long a gathered factor's product takes by tiles of a shape, in the time of a column of them. A GPU at its power limit
 * takes the longer the more tiles there are, another one the more waves of them; between the two lies what was measured of
 * five pairs of widths on two and four H200s, within 0.5 %. A sixth, of three waves, won more.
 */
function tilesTime({ m, n, size, split = "rows" }: Extents, shape: TileShape): number {
  const tiles = (rows: number, columns: number) =>
    Math.ceil(rows / (TILE_ROWS * shape.cluster)) * Math.ceil(columns / shape.columns);
  const [part, own] = [Math.ceil(m / size), Math.ceil(n / size)];
  const waves = size * (split === "rows" ? tiles(part, own) : tiles(own, part)) / CLUSTERS;
  const isWhole = shape.columns % CHUNK === 0;
  return Math.sqrt(waves * Math.ceil(waves)) * shape.columns /
    (tileSpeed(shape, H200_RATES) * (isWhole ? 1 : OVERLAP_SPEED));
}

/**
 * The width of tiles that takes the least time, if any is better than the widest, and by how much: 8192 x 2752 has 5.3 waves
 * of 256 columns, which take 6, and just under 6 of 232.
 */
function shapeBetween(extents: Extents): { readonly name: TileShapeName; readonly gain: number } | null {
  const widest = tilesTime(extents, TILE_SHAPES.wide);
  const gains = SHAPES_BETWEEN.map((name) => ({ name, gain: widest / tilesTime(extents, tileShapeNamed(name)!) }));
  const best = gains.reduce((one, other) => other.gain > one.gain ? other : one);
  return best.gain > 1 ? best : null;
}

function usualReduce(extents: Extents): string {
  const { m, n, size } = extents;
  const share = linkShare(extents);
  if (size === 2) {
    if (isSmall(extents)) return arePartsFlat(extents) ? "flat, pull" : "narrow, pull";
    return share > 0.8 ? "wide" : share > 0.4 ? "wide, pull, 4 waves later" : "wide, pull, peers first";
  }
  if (arePartsFlat(extents)) return "flat";
  if (isSmall(extents)) return "narrow";
  if (share > 0.8) return "roomy";
  // The copy of a small panel takes as long to begin as to go on.
  const panelBytes = m * n * 2 / (size * 4);
  if (share > 0.6 && panelBytes < 6e6) return "medium";
  return share > 0.4 ? "wide, hybrid in 4 panels" : "wide, hybrid";
}

function usualAllReduce(extents: Extents): string {
  const { m, n, size } = extents;
  // What each rank sends to all others soon fills the links of more than two.
  if (m <= (size === 2 ? 128 : 32)) return "flat, exchange";
  if (m <= 256) return size === 2 ? "narrow, exchange" : "flat";
  if (size === 2) {
    if (isSmall(extents)) return "narrow, pull";
    // What is fetched takes some of the link for asking.
    if (2 * linkShare(extents) > 0.8) return "wide";
    return isLong(extents) ? "wide, pull, 4 waves later" : "wide, pull";
  }
  if (isSmall(extents)) return "narrow";
  // Sums travel back as well.
  if (2 * linkShare(extents) > 0.8) return "medium";
  if (m <= 2048 || m * n <= 8 * 2 ** 20) return "wide, hybrid";
  return isLong(extents) ? "roomy, hybrid in 4 panels" : "wide, hybrid in 4 panels";
}

function isLong({ n, k, size }: Extents): boolean {
  return k / size >= 8192 && n >= 8192;
}

/** The variants that are worth measuring, the usual one first. */
export function variantsWorthMeasuring(kind: Partition["kind"], extents: Extents, isNarrow = false): string[] {
  const usual = usualVariant(kind, extents, isNarrow);
  const between = kind === "gather" && !isNarrow && !isSmall(extents) ? shapeBetween(extents) : null;
  return [...new Set([usual, ...candidatesOf(kind, extents, isNarrow), ...between === null ? [] : [between.name]])];
}

function candidatesOf(kind: Partition["kind"], extents: Extents, isNarrow: boolean): string[] {
  const { m, size } = extents;
  const isFlat = m <= 512;
  const few = m <= 2048 ? "narrow" : "medium";
  if (kind === "gather") {
    const inPieces = ["narrow, in 4 pieces", "narrow, in 4 pieces, blocks push"];
    if (isFlat) return ["narrow", ...inPieces, "flat", "flat, blocks push"];
    if (isNarrow) return ["narrow", "narrow, in 4 pieces", "flat"];
    return isSmall(extents) ? ["wide", few, ...inPieces, "flat, blocks push"] : ["wide", "roomy", few, "narrow"];
  }
  if (kind === "all_reduce" && isFlat) {
    return ["narrow", ...size === 2 ? ["narrow, pull"] : [], "flat", "flat, exchange", "narrow, exchange"];
  }
  const pulled = (shape: string) => ["", ", peers first"].map((order) => `${shape}, pull${order}`);
  const pushed = (shape: string) => ["", " in 4 panels"].map((order) => `${shape}, hybrid${order}`);
  if (isNarrow) return ["narrow", ...size === 2 ? pulled("narrow") : pushed("narrow")];
  if (isFlat) return ["narrow", ...size === 2 ? ["narrow, pull", "flat, pull", "wide, pull"] : ["wide", "flat"]];
  if (size > 2) return [few, "wide", ...pushed("wide"), "roomy, hybrid in 4 panels"];
  const hybrid = kind === "reduce" && linkShare(extents) > 0.4 ? ["wide, hybrid in 4 panels"] : [];
  return [few, "wide", ...pulled("wide"), "wide, pull, 4 waves later", ...hybrid];
}
