/**
 * Large host memory that freed arrays leave for the next ones: writing to fresh pages takes as long as a copy, some 6 % of
 * a product of 1024 x 1024 matrices.
 *
 * @module
 */
import { Request } from "../mpi/request.ts";

/** What all kept buffers may hold together: arrays of 256 MiB, with what aligns them. */
const MOST_BYTES = 2 ** 28 + 2 ** 22;

const lendable = new WeakSet<ArrayBuffer>();
const spares: ArrayBuffer[] = [];
const pinned: ArrayBufferLike[] = [];

/** Let {@linkcode keepSpare} have this buffer later: nobody but its array will need it. */
export function lend(buffer: ArrayBuffer): void {
  lendable.add(buffer);
}

/**
 * Keep the buffer of a freed array, if it was lent and no message reads or writes it. It is detached: views that a script
 * still has are empty from now on, instead of showing another array's elements. What is not kept is given back at once: the
 * collector, which sees small objects, would let many of them come together.
 */
export function keepSpare(buffer: ArrayBuffer): void {
  if (!lendable.has(buffer) || Request.isUsing(buffer)) return;
  if (buffer.byteLength > MOST_BYTES) return void buffer.transfer(0);
  spares.push(buffer.transfer());
  let kept = spares.reduce((sum, { byteLength }) => sum + byteLength, 0);
  while (kept > MOST_BYTES) {
    const oldest = spares.shift()!;
    kept -= oldest.byteLength;
    oldest.transfer(0);
  }
}

/** Never let anybody else have this memory, also when its arrays are gone: another process may still write to it. */
export function pin(buffer: ArrayBufferLike): void {
  pinned.push(buffer);
  if (buffer instanceof ArrayBuffer) lendable.delete(buffer);
}

/** A kept buffer of exactly this size, with whatever is in it; `null` if there is none. */
export function takeSpare(byteLength: number): ArrayBuffer | null {
  const index = spares.findLastIndex((spare) => spare.byteLength === byteLength);
  return index < 0 ? null : spares.splice(index, 1)[0];
}
