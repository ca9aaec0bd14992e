/**
 * What a product by a tile kernel is of, what its kernel is compiled for, and why some are refused.
 *
 * @module
 */
import { partsOf, type TileProblem, type TileVariant } from "../../tile_order.ts";
import { type CompiledEpilog, factorBytes, type TileConfiguration } from "./configuration.ts";
import { arePartsAligned, gatheredPart, isSplitInSequence, padded } from "./exchange.ts";
import { MOST_RANKS, type TileEpilog } from "./parameters.ts";

/** A matrix in a GPU's memory. */
export interface DeviceMatrix {
  /** Where it lies. */
  readonly address: bigint;
  /** Elements from a row to the next, or, where columns lie in sequence, from a column to the next. */
  readonly leading: number;
}

/** What a product is of. */
export interface TileOperands {
  /** A, or this rank's part of it. */
  readonly a: DeviceMatrix;
  /** B, or this rank's part of it. */
  readonly b: DeviceMatrix;
  /** D, or this rank's part of it. */
  readonly d: DeviceMatrix;
  /** For sums that their owners store into every rank's D: where those of the other ranks lie, by rank. */
  readonly peersOfD?: readonly bigint[];
  /** Where the parts of D lie that come from parts of a gathered B, if they are apart; the stride is D's. */
  readonly partsOfD?: readonly bigint[];
  /** For sums: where the parts of A's rows lie, or of B's columns, if they are apart; the stride is that of A or B. */
  readonly partsOfFactor?: readonly bigint[];
  /** What is added: of D's shape, perhaps D itself; or what D holds, wherever its parts lie. */
  readonly c?: DeviceMatrix | "in D" | null;
  /** What the product is multiplied by; 1 if left out. */
  readonly alpha?: number;
  /** What C is multiplied by; 1 if left out. */
  readonly beta?: number;
  /** What follows, before the result is rounded. */
  readonly epilog?: TileEpilog;
}

/** What the kernel of a product is compiled for. */
export function configurationOf(
  problem: TileProblem,
  { shape, blocksPush = false }: TileVariant,
  epilog: CompiledEpilog = {},
): TileConfiguration {
  const { kind, dtype, narrow, isRowMajorA, isRowMajorB } = problem;
  const pushes = kind === "gather" && blocksPush;
  return {
    ...shape,
    dtype,
    ...narrow && { narrow },
    isRowMajorA,
    isRowMajorB,
    // What it pushes takes the room of slots.
    ...pushes && { blocksPush, slots: 1 as const },
    ...epilog,
  };
}

/**
 * Why a tile kernel cannot do this, or `null` if it can. The leading dimensions are those of {@linkcode TileOperands}; what
 * pads rows of D to a multiple of 16 bytes may be overwritten.
 */
export function tileRefusal(
  problem: TileProblem,
  leading: Record<"a" | "b" | "d", number>,
  arePartsApart = false,
): string | null {
  const { kind, m, n, k, split, rank, size, narrow, isRowMajorA, isRowMajorB } = problem;
  if (narrow !== undefined && (!isRowMajorA || isRowMajorB)) return "8-bit factors have to lie with k in sequence";
  const itemSize = factorBytes(problem);
  if (size > MOST_RANKS) return `tile kernels know at most ${MOST_RANKS} ranks, not ${size}`;
  if (Math.min(m, n, k) < 1) return `tile kernels multiply no empty matrices, and m, n, k are ${m}, ${n}, ${k}`;
  for (const [name, value] of Object.entries(leading)) {
    if (value * (name === "d" ? 2 : itemSize) % 16 !== 0) {
      return `rows and columns have to begin at multiples of 16 bytes, and ${name.toUpperCase()} has one every ${value} elements`;
    }
  }
  const parts = partsOf(problem);
  const columns = kind === "reduce" && split === "columns" ? parts[rank].end - parts[rank].start : n;
  // The hardware stores 16 bytes at a time, also where a row of D ends.
  if (leading.d < padded(columns)) {
    return `rows of D need room for a multiple of 8 elements, and ${columns} lie ${leading.d} apart`;
  }
  if (kind === "plain" || kind === "all_reduce") return null;
  const extent = split === "rows" ? m : n;
  if (extent < size) return `each rank needs a part of the ${split}, and ${size} ranks share ${extent}`;
  // The hardware reads boxes that begin at multiples of 16 bytes, and stores nothing less.
  const isInSequence = kind === "reduce" ? isSplitInSequence(problem) : split === "columns";
  if (isInSequence && !arePartsApart && !arePartsAligned(problem)) {
    return `parts of the ${split} have to begin at multiples of 8, or lie apart, and ${size} ranks share ${extent}`;
  }
  if (kind === "reduce") return null;
  const [name, given] = split === "rows" ? ["A", leading.a] : ["B", leading.b];
  const dense = padded(gatheredPart(problem, parts[rank]).inner, itemSize);
  if (given !== dense) {
    return `the part of ${name} that is gathered has to be dense: a stride of ${dense}, not ${given}`;
  }
  return null;
}
