/**
 * The variants of tile kernels: their names, and which ones are worth measuring.
 *
 * @module
 */
import { H200_RATES } from "../../../overlap/cost_model.ts";
import { TILE_SHAPES, type TileShapeName } from "../../../overlap/executors/tile/configuration.ts";
import type { Partition } from "../../../overlap/partition.ts";
import type { TileVariant } from "../../../overlap/tile_order.ts";

/** The extents of a whole product, `m` being the one that is split. */
export type Extents = Readonly<Record<"m" | "n" | "k" | "size", number>>;

/** A kernel, and how it goes through its tiles. */
export interface NamedVariant {
  /** What reports and records call it. */
  readonly name: string;
  /** The name of its tiles' shape. */
  readonly shape: TileShapeName;
  readonly variant: TileVariant;
}

const ORDERS: Readonly<Record<string, Partial<TileVariant>>> = {
  "": {},
  ", peers first": { lead: Infinity },
  // Each panel takes the host some microseconds; more of them keep a link busy that has little time to spare.
  ", hybrid": { panels: 2 },
  ", hybrid in 4 panels": { panels: 4 },
  // Sums that go to all ranks are pushed as well, once there is much of them.
  ", hybrid both ways": { panels: 4, rectangles: 8 },
  // Parts of a factor in pieces along k: the first one is there sooner, which matters where there is one wave of tiles.
  ", in 4 pieces": { pieces: 4 },
  ", exchange": { isExchange: true },
};

/**
 * The variant of a name, such as `roomy, peers first`.
 *
 * @throws {RangeError} if there is none.
 */
export function variantNamed(name: string): NamedVariant {
  const [, shape, order] = /^(\w+)(.*)$/.exec(name) ?? [];
  const more = ORDERS[order];
  if (!Object.hasOwn(TILE_SHAPES, shape) || more === undefined) {
    throw new RangeError(`There is no variant "${name}" of tile kernels.`);
  }
  return { name, shape: shape as TileShapeName, variant: { shape: TILE_SHAPES[shape as TileShapeName], ...more } };
}

/** The time that partial sums take on the link over that of the product: H200s, by copy engines. */
function linkShare({ k, size }: Extents): number {
  const { flops, link } = H200_RATES;
  return (size - 1) * flops / (link * k);
}

/** Whether what a rank adds up of a sum for all is so much that its rectangles travel at the link's speed. */
function arePushesLarge({ m, n, size }: Extents): boolean {
  return m * n * 2 / size >= 64 * 2 ** 20;
}

/** Panels of fewer bytes, on four H200s, take longer than tiles that the kernel sends itself. */
const WORTH_PANEL_BYTES = 6e6;

/** How many bytes a panel has if there are four for each rank. */
function panelBytes({ m, n, size }: Extents): number {
  return m * n * 2 / (size * 4);
}

/** The variant that measured best on such a product (`bench/results/overlap_h200.json`, `overlap_4_h200.json`). */
export function usualVariant(kind: Partition["kind"], extents: Extents, isNarrow = false): string {
  const { m, n, k, size } = extents;
  const isSmall = m <= 512 || (m <= 2048 && size >= 4);
  if (isNarrow && (kind !== "all_reduce" || m > 256)) {
    // Products of 8 bits take half the time, and what travels of sums is as much as ever.
    return kind !== "reduce" || isSmall || linkShare(extents) > 0.4 ? "narrow" : "narrow, hybrid in 4 panels";
  }
  if (kind === "gather" && m <= 512) return "narrow, in 4 pieces";
  if (kind === "gather") return isSmall ? "narrow" : n / size >= 12_288 ? "roomy" : "wide";
  const isLong = k / size >= 8192 && n >= 8192;
  if (kind === "reduce") {
    if (isSmall) return "narrow";
    const share = linkShare(extents);
    if (share > 0.8) return "roomy";
    if (size > 2 && panelBytes(extents) < WORTH_PANEL_BYTES) return "medium";
    return isLong ? "roomy, hybrid" : share > 0.4 ? "wide, hybrid in 4 panels" : "wide, hybrid";
  }
  // What each rank sends to all others soon fills the links of more than two.
  if (m <= (size === 2 ? 128 : 64)) return "flat, exchange";
  if (m <= 256 && size === 2) return "narrow, exchange";
  if (isSmall) return "narrow";
  // Sums travel back as well.
  if (2 * linkShare(extents) > 0.8) return "medium";
  if (size === 2 && arePushesLarge(extents)) return "wide, hybrid both ways";
  return m <= 2048 ? "wide, hybrid" : isLong ? "roomy, hybrid in 4 panels" : "wide, hybrid in 4 panels";
}

/** The variants that are worth measuring, the usual one first. */
export function variantsWorthMeasuring(kind: Partition["kind"], extents: Extents, isNarrow = false): string[] {
  const { m } = extents;
  if (isNarrow) {
    const candidates = kind === "gather"
      ? ["narrow", "narrow, in 4 pieces", "flat"]
      : kind === "all_reduce" && m <= 512
      ? ["narrow", "flat, exchange", "narrow, exchange"]
      : ["narrow", "narrow, hybrid", "narrow, hybrid in 4 panels"];
    return [...new Set([usualVariant(kind, extents, isNarrow), ...candidates])];
  }
  const few = m <= 2048 ? "narrow" : "medium";
  const candidates = kind === "gather"
    ? ["wide", "roomy", few]
    : kind === "all_reduce" && m <= 512
    ? ["narrow", "wide", "flat, exchange", "narrow, exchange"]
    : [few, "wide", "wide, hybrid", "wide, hybrid in 4 panels", "roomy, hybrid in 4 panels"];
  if (kind === "all_reduce" && arePushesLarge(extents)) candidates.push("wide, hybrid both ways");
  return [...new Set([usualVariant(kind, extents), ...candidates])];
}
