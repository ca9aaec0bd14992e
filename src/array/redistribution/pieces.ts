/**
 * Cutting what travels into pieces of bounded size: each is packed, moved and unpacked while it is in the caches, and no
 * message, and no buffer, becomes too large.
 *
 * @module
 */
import { lengthOf, type Order, type Run, sizeOfShape } from "../layout.ts";
import type { Transfer } from "./plan.ts";

/** What the positions of a transfer's runs count in the packed block: those of the target, of the source, or neither. */
export type Packed = "source" | "target" | null;

/**
 * A block in pieces of at most `most` elements, each with its place in the arrays and packed by itself. Both ranks cut it
 * alike: the outermost dimension of `order` first.
 */
export function piecesOf(transfer: Transfer, most: number, order: Order, packed: Packed): Transfer[] {
  const dimensions = transfer.shape.map((_, dimension) => dimension);
  return cut(transfer, most, order === "C" ? dimensions : dimensions.reverse(), packed);
}

/**
 * A block in halves of what is left, of about `least` elements in the end, cut as by {@linkcode piecesOf}: nothing travels any more
 * while the last one is brought into place.
 */
export function halvesOf(transfer: Transfer, least: number, order: Order, packed: Packed): Transfer[] {
  const size = sizeOfShape(transfer.shape);
  if (size < 2 * least) return [transfer];
  const [first, ...rest] = piecesOf(transfer, Math.ceil(size / 2), order, packed);
  return [first, ...rest.flatMap((each) => halvesOf(each, least, order, packed))];
}

/** What travels in each message: the n-th piece to or from each rank. */
export function roundsOf(transfers: readonly Transfer[], most: number, order: Order, packed: Packed): Transfer[][] {
  const pieces = transfers.map((transfer) => piecesOf(transfer, most, order, packed));
  const rounds = Math.max(0, ...pieces.map(({ length }) => length));
  return Array.from({ length: rounds }, (_, round) => pieces.flatMap((list) => list.slice(round, round + 1)));
}

/** A block in so many parts of about the same extent along a dimension, each with its place, and packed by itself. */
export function partsAlong(transfer: Transfer, dimension: number, parts: number, packed: Packed): Transfer[] {
  const { shape, runs } = transfer;
  const length = partLength(shape[dimension], parts);
  return chunksOf(runs[dimension], length, packed).map((chunk) => (
    { ...transfer, shape: shape.with(dimension, lengthOf(chunk)), runs: runs.with(dimension, chunk) }
  ));
}

/** The extent of all parts but the last, where so many are wanted. */
export function partLength(extent: number, parts: number): number {
  return Math.max(1, Math.ceil(extent / parts));
}

function cut(transfer: Transfer, most: number, [outer, ...rest]: readonly number[], packed: Packed): Transfer[] {
  const { peer, shape, runs } = transfer;
  const size = sizeOfShape(shape);
  if (size <= most || outer === undefined) return size === 0 ? [] : [transfer];
  const longest = Math.max(1, Math.floor(most / (size / shape[outer])));
  const length = Math.ceil(shape[outer] / Math.ceil(shape[outer] / longest));
  return chunksOf(runs[outer], length, packed).flatMap((chunk, i) => {
    const extent = Math.min(length, shape[outer] - i * length);
    return cut({ peer, shape: shape.with(outer, extent), runs: runs.with(outer, chunk) }, most, rest, packed);
  });
}

/** A list of runs in chunks of so many indices; the positions in a packed block begin again in each of them. */
function chunksOf(runs: readonly Run[], length: number, packed: Packed): Run[][] {
  const chunks: Run[][] = [];
  let chunk: Run[] = [];
  let filled = 0;
  for (const run of runs) {
    for (let done = 0; done < run.length;) {
      const taken = Math.min(run.length - done, length - filled);
      chunk.push({
        source: packed === "source" ? filled : run.source + done,
        target: packed === "target" ? filled : run.target + done,
        length: taken,
      });
      done += taken;
      filled += taken;
      if (filled < length) continue;
      chunks.push(chunk);
      [chunk, filled] = [[], 0];
    }
  }
  if (filled > 0) chunks.push(chunk);
  return chunks;
}
