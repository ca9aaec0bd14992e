/**
 * When, in tiles: the order in which a kernel takes its tiles, for whom each is, and what it waits for: plain data.
 *
 * A *spot* is where a tile lies, a *tile* is a spot and what is done there. The blocks of a cluster take one tile
 * together, one above the other; cluster c takes the tiles c, c + clusters, c + 2 clusters and so on of the list.
 *
 * @module
 */
import { type FactorTypes, stepElements, TILE_ROWS, type TileShape } from "./executors/tile/configuration.ts";
import { evenParts, others, type Part } from "./partition.ts";

/**
 * What is multiplied, and what the ranks share: `gather`: each rank has a part of A's rows (or B's columns), and makes
 * all of D with its own other operand. `reduce`: each has a part of k, and gets a part of the sum's rows (or columns).
 * `all_reduce`: the same, and each gets all of the sum. `plain`: nothing is shared.
 */
export interface TileProblem extends FactorTypes {
  /** What the ranks share. */
  readonly kind: "plain" | "gather" | "reduce" | "all_reduce";
  /** Rows of D, of all parts together. */
  readonly m: number;
  /** Columns of D, of all parts together. */
  readonly n: number;
  /** What this rank sums over. */
  readonly k: number;
  /** Whether A (m x k) lies with its rows in sequence, or with its columns. */
  readonly isRowMajorA: boolean;
  /** Whether B (k x n) lies with its rows in sequence, or with its columns. D's rows always lie in sequence. */
  readonly isRowMajorB: boolean;
  /** What is in parts: rows of A and D, or columns of B and D. */
  readonly split: "rows" | "columns";
  /** This rank. */
  readonly rank: number;
  /** The number of ranks. */
  readonly size: number;
}

/** How it is done. */
export interface TileVariant {
  /** The kernel's tiles. */
  readonly shape: TileShape;
  /** How many tiles one above the other are taken before the next column: what clusters read at a time stays in the cache. */
  readonly band?: number;
  /**
   * For sums: how many tiles for others come before the first own one. When left out one for each cluster, and with
   * panels all of them.
   */
  readonly lead?: number;
  /**
   * For sums: whether ranks fetch partial sums from the memory of those that made them. Left out, those that make them
   * store them at their owner, and wait for the link.
   */
  readonly pulls?: boolean;
  /**
   * For sums: into how many panels the tiles for each other rank are divided, which the kernel stores beside it and copy
   * engines push. Left out, the kernel itself stores each tile at its owner, or leaves it where it is fetched from.
   */
  readonly panels?: number;
  /**
   * For a gathered factor: into how many pieces along k each part is divided; 1 when left out. A tile begins when the first
   * is here: that matters where there are hardly more tiles than clusters.
   */
  readonly pieces?: number;
  /**
   * For a gathered factor: whether the kernel's blocks push this rank's part, in no more than {@linkcode MOST_PUSHED_PIECES}
   * pieces. Left out, copy engines do: each piece takes the host some microseconds.
   */
  readonly blocksPush?: boolean;
  /** For sums over all ranks: whether each rank sends all tiles to all others, in place of to one that adds them up. */
  readonly isExchange?: boolean;
  /** Bytes that a thread sends at a time: fewer keep the link from stalling the loads of A and B. */
  readonly piece?: number;
}

/** A rectangle of D. */
export interface Region {
  /** Its rows. */
  readonly rows: Part;
  /** Its columns. */
  readonly columns: Part;
}

/** Where a tile lies. */
export interface Spot {
  /** Its first row. */
  readonly row: number;
  /** Its first column. */
  readonly column: number;
}

/** A tile, and what is done with it. */
export interface Tile extends Spot {
  /** The part of A that it reads. */
  readonly partA: number;
  /** The part of B that it reads. */
  readonly partB: number;
  /** The rank whose part of the gathered operand it waits for; `null` if it waits for nothing. */
  readonly awaits: number | null;
  /** The ranks that its partial sums go to. */
  readonly receivers: readonly number[];
  /** The ranks whose partial sums are added to it. */
  readonly senders: readonly number[];
  /** The matrices that the result is stored into: by part of a gathered D, or by rank. */
  readonly targets: readonly number[];
  /** Its number among the tiles of its receiver, or among those that the rank itself receives for. */
  readonly number: number;
}

/** For so many pieces there are flags of their own. */
export const MOST_PUSHED_PIECES = 8;

/**
 * The tiles of a region. Clusters that work at the same time read few rows of A and few columns of B, so that these stay
 * in the cache: bands of `band` tiles, each band column by column.
 */
export function spotsOf({ rows, columns }: Region, { columns: width, cluster }: TileShape, band: number): Spot[] {
  const height = TILE_ROWS * cluster;
  const spots: Spot[] = [];
  for (let top = rows.start; top < rows.end; top += band * height) {
    for (let column = columns.start; column < columns.end; column += width) {
      for (let row = top; row < Math.min(top + band * height, rows.end); row += height) spots.push({ row, column });
    }
  }
  return spots;
}

const PLAIN = {
  partA: 0,
  partB: 0,
  awaits: null,
  receivers: [],
  senders: [],
  targets: [0],
  number: 0,
} as const;

/** The tiles of a product on one GPU. */
export function plainOrder(spots: readonly Spot[]): Tile[] {
  return spots.map((spot) => ({ ...PLAIN, ...spot }));
}

/**
 * All-gather GEMM: the tiles of the rank's own part first, then those of the others in the order in which they arrive.
 * `partName` says which operand is gathered.
 */
function gatherOrder(
  spots: readonly (readonly Spot[])[],
  rank: number,
  partName: "partA" | "partB",
): Tile[] {
  return [rank, ...others(rank, spots.length)].flatMap((part) =>
    spots[part].map((spot) => ({
      ...PLAIN,
      ...spot,
      [partName]: part,
      awaits: part === rank ? null : part,
      targets: [part],
    }))
  );
}

/** What GEMM reduce-scatter and all-reduce choose. */
export interface ReduceOptions {
  /** How many tiles for others come before the first own one; the rest alternates. All for `Infinity`. */
  readonly lead: number;
  /** How many tiles for one rank make a panel; `null` if each travels by itself. */
  readonly panel: number | null;
  /** Which operand's parts the ranks own; `null` if ranks own tiles here and there. */
  readonly partName: "partA" | "partB" | null;
  /** The matrices that an own tile's result is stored into. */
  readonly targets: readonly number[];
}

/**
 * GEMM reduce-scatter: tiles for other ranks go to their owner, own tiles add what arrives. It goes in rounds, the same on
 * all ranks: in each the rank sends as many tiles as there are others, and, `lead` tiles later, finishes one of its own.
 * Without panels these are tile i of each other rank in round i; so an own tile waits for tiles of earlier rounds only, and
 * no rank can wait for another in a circle. With panels they come panel after panel, and an own tile waits for all of a
 * panel: the lead has to be so long that it comes after its own rank's tiles of that panel. If all tiles for others come
 * first, they come rank by rank: panels that go to several ranks by turns meet others at their receivers.
 */
export function reduceOrder(spots: readonly (readonly Spot[])[], rank: number, options: ReduceOptions): Tile[] {
  const peers = others(rank, spots.length);
  const senders = peers.toSorted((one, other) => one - other);
  const { panel, targets, partName } = options;
  const part = (owner: number) => partName === null ? {} : { [partName]: owner };
  const most = mostOf(spots);
  const sent = (owner: number, from: number, count: number) =>
    spots[owner].slice(from, from + count).map((spot, i): Tile => ({
      ...PLAIN,
      ...spot,
      ...part(owner),
      receivers: [owner],
      targets: [],
      number: from + i,
    }));
  const step = panel === null ? 1 : isRankByRank(options.lead) ? most : panel;
  const turns = Array.from(
    { length: Math.ceil(most / step) },
    (_, turn) => peers.flatMap((owner) => sent(owner, turn * step, step)),
  );
  const rounds = panel === null ? turns : inPieces(turns.flat(), peers.length);
  const lead = leadRounds(options.lead, peers.length, most);
  return Array.from({ length: most + lead }, (_, round): Tile[] => {
    const own = spots[rank].slice(Math.max(0, round - lead), Math.max(0, round - lead + 1));
    const number = round - lead;
    return [
      ...rounds[round] ?? [],
      ...own.map((spot): Tile => ({
        ...PLAIN,
        ...spot,
        ...part(rank),
        senders,
        targets,
        number,
      })),
    ];
  }).flat();
}

const mostOf = (spots: readonly (readonly Spot[])[]) => Math.max(...spots.map(({ length }) => length));

/** How many rounds come before the first own tile. */
const leadRounds = (lead: number, peers: number, most: number) => Math.min(most, Math.ceil(lead / peers));

function inPieces<T>(list: readonly T[], length: number): T[][] {
  return Array.from({ length: Math.ceil(list.length / length) }, (_, i) => list.slice(i * length, (i + 1) * length));
}

/**
 * GEMM all-reduce in one exchange, for few rows: every rank sends each tile to all others, and adds theirs. More than two
 * ranks send it to themselves, too: so all add in the same order, and have the same bits.
 */
function exchangeOrder(spots: readonly Spot[], rank: number, size: number): Tile[] {
  const ranks = Array.from({ length: size }, (_, other) => other).filter((other) => size > 2 || other !== rank);
  return spots.map((spot, number) => ({
    ...PLAIN,
    ...spot,
    receivers: ranks,
    senders: ranks,
    targets: [rank],
    number,
  }));
}

/** The spots of D dealt out to the ranks in turn: who adds up which tile of an all-reduce. */
function dealtSpots(spots: readonly Spot[], size: number): Spot[][] {
  return Array.from({ length: size }, (_, rank) => spots.filter((_, i) => i % size === rank));
}

/** Tiles one above the other that clusters work on at the same time. */
const BAND = 8;

/** The parts of the extent that is split, by rank. */
export function partsOf({ m, n, split, size }: TileProblem): Part[] {
  return evenParts(split === "rows" ? m : n, size);
}

/** Where the tiles of each rank's part lie; of all of D where it has no parts. */
export function spotsByRank(problem: TileProblem, variant: TileVariant): Spot[][] {
  const { kind, m, n, split, size } = problem;
  const { shape, isExchange } = variant;
  // Where ranks' parts are worked on by turns from the second wave on, the bands of all of them share the cache.
  const isByTurns = kind === "reduce" && variant.panels === undefined && variant.lead === undefined;
  const band = variant.band ?? (isByTurns ? Math.max(2, Math.floor(BAND / size)) : BAND);
  const [rows, columns] = [{ start: 0, end: m }, { start: 0, end: n }];
  const whole = () => spotsOf({ rows, columns }, shape, band);
  if (kind === "plain") return [whole()];
  if (kind === "all_reduce") return isExchange ? Array.from({ length: size }, whole) : dealtSpots(whole(), size);
  return partsOf(problem).map((part) =>
    spotsOf(split === "rows" ? { rows: part, columns } : { rows, columns: part }, shape, band)
  );
}

/** How many tiles for one rank make a panel; `null` if each travels by itself. */
export function panelTiles(problem: TileProblem, variant: TileVariant): number | null {
  const { panels, isExchange = false } = variant;
  const isSum = problem.kind === "reduce" || problem.kind === "all_reduce" && !isExchange;
  return panels === undefined || !isSum ? null : Math.ceil(mostOf(spotsByRank(problem, variant)) / panels);
}

/** Whether the panels for a rank follow each other, in place of the first panels for all ranks, the second ones, and so on. */
const isRankByRank = (lead = Infinity) => lead === Infinity;

/** A panel for a rank: the number among its panels. */
export interface SentPanel {
  readonly receiver: number;
  readonly index: number;
}

/** The panels that copy engines push, in the order in which they are complete. */
export function sentPanels(problem: TileProblem, variant: TileVariant): SentPanel[] {
  const panel = panelTiles(problem, variant);
  if (panel === null) return [];
  const counts = spotsByRank(problem, variant).map(({ length }) => Math.ceil(length / panel));
  const panels = others(problem.rank, problem.size).flatMap((receiver) =>
    Array.from({ length: counts[receiver] }, (_, index): SentPanel => ({ receiver, index }))
  );
  return isRankByRank(variant.lead) ? panels : panels.toSorted((one, other) => one.index - other.index);
}

/**
 * The pieces along k in which parts of a gathered factor travel: each a number of the kernel's steps, the last perhaps fewer.
 *
 * @throws {RangeError} if blocks of the kernel cannot push so many.
 */
export function gatheredPieces(problem: TileProblem, { pieces = 1, blocksPush }: TileVariant): Part[] {
  const { kind, k } = problem;
  if (blocksPush && pieces > MOST_PUSHED_PIECES) {
    throw new RangeError(`Blocks push a part in up to ${MOST_PUSHED_PIECES} pieces, not in ${pieces}.`);
  }
  const step = stepElements(problem);
  const length = step * Math.ceil(Math.ceil(k / step) / (kind === "gather" ? pieces : 1));
  return Array.from({ length: Math.ceil(k / length) }, (_, i) => ({
    start: i * length,
    end: Math.min(k, (i + 1) * length),
  }));
}

/**
 * How many tiles for others come before the first own one.
 *
 * @throws {RangeError} if ranks could wait for each other's panels in a circle: before all clusters may have come to own
 * tiles, the first panel for every other rank has to be full.
 */
function leadOf(problem: TileProblem, variant: TileVariant, clusters: number): number {
  const panel = panelTiles(problem, variant);
  if (panel === null) return variant.lead ?? clusters;
  const { lead = Infinity } = variant;
  const peers = problem.size - 1;
  const least = peers * panel + clusters;
  const all = peers * mostOf(spotsByRank(problem, variant));
  if (lead >= Math.min(least, all)) return lead;
  throw new RangeError(
    `A lead of ${lead} tiles is too short for panels of ${panel} tiles for each of ${peers} ranks on ${clusters} clusters: ` +
      `${least} is the least, or leave it out.`,
  );
}

/**
 * A rank's list of tiles.
 *
 * @throws {RangeError} if the variant contradicts itself.
 */
export function tileOrder(problem: TileProblem, variant: TileVariant, clusters: number): Tile[] {
  const { kind, split, rank, size } = problem;
  if (variant.pulls && (variant.panels !== undefined || variant.isExchange)) {
    const other = variant.isExchange ? "isExchange" : `panels: ${variant.panels}`;
    throw new RangeError(
      `A variant has pulls, or panels, or isExchange, not pulls and ${other}: leave one of them out.`,
    );
  }
  const spots = spotsByRank(problem, variant);
  const partName = split === "rows" ? "partA" : "partB";
  const whenToSend = () => ({ lead: leadOf(problem, variant, clusters), panel: panelTiles(problem, variant) });
  switch (kind) {
    case "plain":
      return plainOrder(spots[0]);
    case "gather":
      return gatherOrder(spots, rank, partName);
    case "reduce":
      return reduceOrder(spots, rank, { ...whenToSend(), partName, targets: [rank] });
    case "all_reduce": {
      if (variant.isExchange) return exchangeOrder(spots[rank], rank, size);
      const all = Array.from({ length: size }, (_, target) => target);
      return reduceOrder(spots, rank, { ...whenToSend(), partName: null, targets: all });
    }
  }
}

function bits(ranks: readonly number[]): number {
  return ranks.reduce((mask, rank) => mask | 1 << rank, 0);
}

/** The list as the kernel reads it: four words a tile. `cluster` tiles of the kernel's count are one of the list. */
export function packTiles(order: readonly Tile[], cluster: number): Uint32Array<ArrayBuffer> {
  const words = new Uint32Array(4 * order.length);
  order.forEach((tile, i) => {
    const awaits = tile.awaits === null ? 0 : tile.awaits + 1;
    words.set([
      tile.row,
      tile.column,
      tile.number * cluster | bits(tile.targets) << 24,
      tile.partA | tile.partB << 4 | awaits << 8 | bits(tile.receivers) << 16 |
      bits(tile.senders) << 24,
    ], 4 * i);
  });
  return words;
}
