/**
 * Where the elements of a block lie, as ranges of bytes in the order in which they travel. Pure.
 *
 * @module
 */
import type { Segments } from "../../memory/process_memory.ts";
import { lengthOf, type Order, type Run, sizeOfShape } from "../layout.ts";

/** A block in an array: which of its indices, on which side of the runs, and how far apart neighbours are, in elements. */
export interface Block {
  readonly runs: readonly (readonly Run[])[];
  readonly side: "source" | "target";
  readonly strides: readonly number[];
}

/** Neighbours in an array: the first, and how many. */
export interface Neighbours {
  readonly start: number;
  readonly length: number;
}

/** The indices of a dimension on one side, where runs that follow each other are one. */
function neighboursOn(runs: readonly Run[], side: Block["side"]): Neighbours[] {
  const merged: { start: number; length: number }[] = [];
  for (const { [side]: start, length } of runs) {
    const last = merged.at(-1);
    if (last !== undefined && last.start + last.length === start) last.length += length;
    else if (length > 0) merged.push({ start, length });
  }
  return merged;
}

/** What a block consists of: so many elements in one piece, where the first of them is, and the dimensions around. */
export interface Pieces {
  readonly inner: number;
  readonly start: number;
  /** Outermost first. */
  readonly around: readonly { readonly indices: readonly Neighbours[]; readonly stride: number }[];
  /** Whether neighbours of the innermost of these lie in one piece. */
  readonly isLine: boolean;
}

/** See {@linkcode Pieces}. */
export function piecesIn({ runs, side, strides }: Block, order: Order): Pieces {
  const around = runs.map((list, d) => ({ indices: neighboursOn(list, side), stride: strides[d] }));
  if (order === "F") around.reverse();
  let [inner, start] = [1, 0];
  for (let last = around.at(-1); last !== undefined; last = around.at(-1)) {
    const { indices: [first, ...others], stride } = last;
    if (others.length > 0 || first.length !== 1 && stride !== inner) break;
    start += first.start * stride;
    inner *= first.length;
    around.pop();
  }
  return { inner, start, around, isLine: around.at(-1)?.stride === inner };
}

/** How many elements of a block lie in one piece, on average. */
export function elementsInOnePiece(block: Block, order: Order): number {
  const size = sizeOfShape(block.runs.map(lengthOf));
  if (size === 0) return 0;
  const { around, isLine } = piecesIn(block, order);
  const counts = around.map(({ indices }, i) =>
    isLine && i === around.length - 1 ? indices.length : indices.reduce((sum, { length }) => sum + length, 0)
  );
  return size / sizeOfShape(counts);
}

/** The bytes of a block in this order, counted from the first element of the array. */
export function segmentsOf(block: Block, order: Order, itemSize: number): Segments {
  const [starts, lengths]: [number[], number[]] = [[], []];
  if (block.runs.some((list) => lengthOf(list) === 0)) return { starts, lengths };
  const { inner, start, around, isLine } = piecesIn(block, order);
  let end = -1;
  const add = (at: number, elements: number) => {
    const from = at * itemSize;
    if (from === end) lengths[lengths.length - 1] += elements * itemSize;
    else {
      starts.push(from);
      lengths.push(elements * itemSize);
    }
    end = from + elements * itemSize;
  };
  const walk = (depth: number, at: number) => {
    if (depth === around.length) return add(at, inner);
    const { indices, stride } = around[depth];
    for (const { start, length } of indices) {
      const from = at + start * stride;
      if (isLine && depth === around.length - 1) add(from, inner * length);
      else for (let i = 0; i < length; i++) walk(depth + 1, from + i * stride);
    }
  };
  walk(0, start);
  return { starts, lengths };
}
