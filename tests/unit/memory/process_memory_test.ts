import { assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { addressOf } from "../../../ffi/memory.ts";
import { prepareProcessCopy, type Segments } from "../../../src/memory/process_memory.ts";
import { StateError } from "../../../src/errors.ts";

/** Ranges of so many bytes in all, with gaps between some of them, in another order than that of memory. */
function ranges(lengths: readonly number[], gaps: readonly number[]): { segments: Segments; bytes: number } {
  let end = 0;
  const starts = lengths.map((length, i) => {
    const start = end + gaps[i % gaps.length];
    end = start + length;
    return start;
  });
  return { segments: { starts: starts.toReversed(), lengths: lengths.toReversed() }, bytes: end };
}

/** The positions of bytes, in the order in which they travel. */
function positions({ starts, lengths }: Segments): number[] {
  return starts.flatMap((start, i) => Array.from({ length: lengths[i] }, (_, k) => start + k));
}

/** The same number of bytes in other pieces. */
function cutOtherwise(total: number, sizes: readonly number[]): number[] {
  const lengths: number[] = [];
  for (let left = total, i = 0; left > 0; i++) {
    lengths.push(Math.min(left, sizes[i % sizes.length]));
    left -= lengths[i];
  }
  return lengths;
}

Deno.test("ranges of bytes are copied into other ranges, in calls of few ranges and few bytes", () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 12 });
  const gaps = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 4 });
  const limits = [fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 30 })] as const;
  fc.assert(fc.property(sizes, sizes, gaps, gaps, ...limits, (one, other, a, b, mostRanges, mostBytes) => {
    const own = ranges(one, a);
    const there = ranges(cutOtherwise(one.reduce((sum, n) => sum + n, 0), other), b);
    const [here, away] = [new Uint8Array(own.bytes), Uint8Array.from({ length: there.bytes }, (_, i) => 1 + i % 255)];
    const expected = new Uint8Array(own.bytes);
    const [to, from] = [positions(own.segments), positions(there.segments)];
    to.forEach((at, i) => expected[at] = away[from[i]]);
    const [first, second] = [here, away].map((memory) => Number(addressOf(memory)));
    prepareProcessCopy("read", Deno.pid, own.segments, there.segments, mostRanges, mostBytes)(first, second);
    assertEquals(here, expected);
    const back = new Uint8Array(there.bytes);
    const write = prepareProcessCopy("write", Deno.pid, own.segments, there.segments, mostRanges, mostBytes);
    write(first, Number(addressOf(back)));
    assertEquals(from.map((at) => back[at]), from.map((at) => away[at]));
    // To another place, by the same ranges.
    const again = new Uint8Array(there.bytes);
    write(first, Number(addressOf(again)));
    assertEquals(again, back);
  }));
});

Deno.test("a process that is not there is told", () => {
  const all: Segments = { starts: [0], lengths: [8] };
  const address = Number(addressOf(new Uint8Array(8)));
  // No process has this number: Linux gives numbers below 2^22.
  const nobody = 2 ** 22 + 1;
  const message = (rest: string) =>
    `Of 8 bytes that were to be ${rest} of process ${nobody}, none came: that rank has ended`;
  const copy = (kind: "read" | "write") => () => prepareProcessCopy(kind, nobody, all, all)(address, address);
  assertThrows(copy("read"), StateError, message("read from the memory"));
  assertThrows(copy("write"), StateError, message("written to the memory"));
});
