/**
 * The memory that all ranks address, by which they exchange parts of operands and sums: what each rank has there, and where.
 *
 * @module
 */
import type { Part } from "../../partition.ts";
import { panelTiles, partsOf, spotsByRank, type TileProblem, type TileVariant } from "../../tile_order.ts";
import { CHUNK_BYTES, chunksOf, factorBytes } from "./configuration.ts";

/** The bytes of flags come first, in this many for each kind: parts that are here, blocks that have stored all, meetings. */
export const FLAG_BYTES = 256;

/** What a rank's part of the memory that all ranks address holds, and where. */
export interface ExchangeLayout {
  /** Bytes of it all. */
  readonly bytes: number;
  /** How many ranks send to one, or have others fetch. */
  readonly senders: number;
  /** Where the flags of a sender's tiles begin. */
  readonly tileFlags: number;
  /** Bytes of these. */
  readonly flagBytes: number;
  /** Where the rank counts what copy engines are to push to a receiver. */
  readonly counters: number;
  /** Bytes of these. */
  readonly counterBytes: number;
  /** Where data begins: for each parity of the call, for each sender, or for each receiver if it fetches. */
  readonly data: number;
  /** Bytes of the data for one of them. */
  readonly dataBytes: number;
}

const align = (bytes: number) => Math.ceil(bytes / 256) * 256;

/** Elements from a row or column to the next where it has so many: the hardware takes multiples of 16 bytes. */
export function padded(elements: number, itemSize = 2): number {
  const step = 16 / itemSize;
  return Math.ceil(elements / step) * step;
}

/** Whether what is split lies in sequence: A's rows, or B's columns. */
export function isSplitInSequence({ split, isRowMajorA, isRowMajorB }: TileProblem): boolean {
  return split === "rows" ? !isRowMajorA : isRowMajorB;
}

/** Whether all parts begin at multiples of 16 bytes, if they lie in sequence in one matrix. */
export function arePartsAligned(problem: TileProblem): boolean {
  return partsOf(problem).every(({ start }) => start % 8 === 0);
}

/** A part of the operand that is gathered: how many rows or columns of it lie in sequence, and how many follow each other. */
export function gatheredPart(
  problem: TileProblem,
  { start, end }: Part,
): { inner: number; outer: number } {
  const { k } = problem;
  return isSplitInSequence(problem) ? { inner: end - start, outer: k } : { inner: k, outer: end - start };
}

/** The layout of the memory that all ranks address: the same on all of them. */
export function exchangeLayout(problem: TileProblem, variant: TileVariant): ExchangeLayout {
  const { kind, size } = problem;
  const { cluster } = variant.shape;
  const tiles = Math.max(...spotsByRank(problem, variant).map(({ length }) => length)) * cluster;
  const isSum = kind === "reduce" || kind === "all_reduce";
  const flagBytes = isSum ? align(tiles * 2 * 4) : 0;
  const itemSize = factorBytes(problem);
  const gathered = () =>
    Math.max(
      ...partsOf(problem).map((part) => gatheredPart(problem, part)).map(({ inner, outer }) =>
        outer * padded(inner, itemSize) * itemSize
      ),
    );
  const dataBytes = kind === "gather"
    ? align(gathered())
    : isSum
    ? tiles * 2 * chunksOf(variant.shape) * CHUNK_BYTES
    : 0;
  const panel = panelTiles(problem, variant);
  const counterBytes = panel === null ? 0 : align(Math.ceil(tiles / cluster / panel) * 4);
  const tileFlags = 3 * FLAG_BYTES;
  const counters = tileFlags + size * flagBytes;
  const data = counters + (size - 1) * counterBytes;
  // A rank sends to itself where all have to add in the same order.
  const senders = variant.isExchange ? size : size - 1;
  const bytes = data + 2 * senders * dataBytes;
  return { bytes, senders, tileFlags, flagBytes, counters, counterBytes, data, dataBytes };
}
