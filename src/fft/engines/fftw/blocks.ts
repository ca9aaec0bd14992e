/**
 * Passes in blocks: some lines at a time are copied to memory that stays in the caches, and transformed there.
 *
 * Transforms jump about, for which caches are made and memory is not; a copy goes straight through.
 *
 * @module
 */
import { addressOf, type CopyMemory, fastCopy } from "../../../../ffi/memory.ts";
import { LocalArray } from "../../../array/local_array.ts";
import { type DType, dtypeInfo } from "../../../dtype/dtype.ts";
import type { PassPlan } from "../staged/local_transform.ts";
import { type Dimension, offsetsOf, type Pass, placesOn } from "../staged/pass_plan.ts";

/**
 * A block has about `bytes`: more make fewer calls, but leave the first-level cache further behind. Lines, or planes, of more
 * than `mostBytes` leave the second-level cache too.
 */
export const blocking = { bytes: 2 ** 16, mostBytes: 2 ** 20 };

/** What is read may have gaps that are small beside it. */
const MOST_SPREAD = 1.25;

/** Blocks of a smaller share of the bytes lose to whole passes by what their calls cost, and there are millions of them. */
const LEAST_SHARE = 1 / 16;

/** Memory for blocks begins at multiples of this, and so do the places at which plans are compared. */
export const PAGE_BYTES = 2 ** 12;

/** One block of a pass. */
export interface Block {
  /** The block alone, called for all of them. */
  readonly pass: Pass;
  /** Elements from the first one that is read to the last one. */
  readonly sourceSpan: number;
  /** Elements of the result if it is copied too; `null` if it is written to where it belongs. */
  readonly targetSpan: number | null;
}

/** The blocks of a pass between two types; `null` if what one reads is little, lies far apart, or another one writes to it. */
export function blockOf(pass: Pass, from: DType, to: DType, isInPlace: boolean): Block | null {
  const bytes = { source: dtypeInfo(from).itemSize, target: dtypeInfo(to).itemSize };
  const line = placesOn({ ...pass, looped: [] }, "source");
  if (line.span * bytes.source > blocking.mostBytes || line.span > MOST_SPREAD * line.count) return null;
  const [inner, ...others] = pass.looped.toSorted((a, b) => a.source - b.source);
  if (inner === undefined) return null;
  const isClose = inner.source <= MOST_SPREAD * line.span;
  const lines = isClose ? largestDivisor(inner.extent, blocking.bytes / (inner.source * bytes.source)) : 1;
  const looped = lines > 1 ? [{ ...inner, extent: lines }] : [];
  const next = { extent: inner.extent / lines, source: inner.source * lines, target: inner.target * lines };
  const outer = [next, ...others].filter(({ extent }) => extent > 1);
  const block: Pass = { ...pass, looped, called: outer, isInPlace };
  const [read, written] = [placesOn(block, "source"), placesOn(block, "target")];
  const span = Math.max(read.span * bytes.source, written.span * bytes.target);
  if (outer.length === 0 || read.span * bytes.source < LEAST_SHARE * blocking.bytes) return null;
  if (isInPlace && !areApart(outer, bytes, span)) return null;
  // What lies between the elements of an array is somebody else's.
  const targetSpan = !isInPlace && written.span === written.count ? written.span : null;
  return { pass: block, sourceSpan: read.span, targetSpan };
}

/** The largest divisor of a number up to a limit, at least 1. */
function largestDivisor(n: number, limit: number): number {
  let divisor = Math.max(1, Math.min(n, Math.floor(limit)));
  while (n % divisor > 0) divisor--;
  return divisor;
}

/** Whether each block is written where it was read, and none reaches into another. */
function areApart(outer: readonly Dimension[], bytes: { source: number; target: number }, span: number): boolean {
  if (outer.some(({ source, target }) => source * bytes.source !== target * bytes.target)) return false;
  const starts = offsetsOf(outer, "source", bytes.source).map(Number).sort((a, b) => a - b);
  return starts.every((start, i) => i === 0 || start - starts[i - 1] >= span);
}

/** A block with memory to transform it in. */
export interface BlockInMemory extends Block {
  readonly source: LocalArray;
  /** `null` where results are written to where they belong. */
  readonly target: LocalArray | null;
  readonly copy: CopyMemory;
}

/** Have memory for one block; `null` in a process that may not copy by address. */
export function inMemory(block: Block, from: DType, to: DType): BlockInMemory | null {
  const copy = fastCopy();
  if (copy === null) return null;
  const { sourceSpan, targetSpan } = block;
  return { ...block, source: page(from, sourceSpan), target: targetSpan === null ? null : page(to, targetSpan), copy };
}

/** Memory that begins with a page: no vector lies in two cache lines. */
function page(dtype: DType, count: number): LocalArray {
  const { array, itemSize, parts } = dtypeInfo(dtype);
  const buffer = new ArrayBuffer(count * itemSize + PAGE_BYTES);
  const data = new array(buffer, PAGE_BYTES - Number(addressOf(buffer) % BigInt(PAGE_BYTES)), count * parts);
  return new LocalArray({ data, dtype, shape: [count], strides: [1] });
}

/** A plan for all of a pass by a plan for one of its blocks. */
export function inBlocks(
  { pass: { called }, source, target, copy }: BlockInMemory,
  plan: PassPlan,
  to: DType,
): PassPlan {
  const starts = offsetsOf(called, "source", dtypeInfo(source.dtype).itemSize);
  const ends = offsetsOf(called, "target", dtypeInfo(to).itemSize);
  const [read, written] = [BigInt(source.byteLength), BigInt(target?.byteLength ?? 0)];
  const [inside, outside] = [source.address, target?.address];
  return {
    library: `${plan.library} in blocks`,
    execute(from, to) {
      for (let i = 0; i < starts.length; i++) {
        copy(inside, from + starts[i], read);
        plan.execute(inside, outside ?? to + ends[i]);
        if (outside !== undefined) copy(to + ends[i], outside, written);
      }
      // Only addresses were used: the memory has to stay alive for them.
      return void [source, target];
    },
    [Symbol.dispose]: () => plan[Symbol.dispose](),
  };
}
