/** Memory of freed arrays is kept for the next ones, or given back at once. */
import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import { keepSpare, lend, takeSpare } from "../../../src/memory/spare.ts";

const MIB = 2 ** 20;

/** A buffer with a value in each page, as that of an array that was computed. */
function written(bytes: number): ArrayBuffer {
  const buffer = new ArrayBuffer(bytes);
  const data = new Uint8Array(buffer);
  for (let at = 0; at < bytes; at += 4096) data[at] = 1;
  lend(buffer);
  return buffer;
}

Deno.test("a freed array's memory serves one of the same size, and nobody else sees it", () => {
  const buffer = written(8 * MIB);
  const view = new Uint8Array(buffer);
  keepSpare(buffer);
  assertEquals([buffer.detached, view.length], [true, 0]);
  assertEquals(takeSpare(4 * MIB), null);
  assertEquals(takeSpare(8 * MIB)?.byteLength, 8 * MIB);
  assertEquals(takeSpare(8 * MIB), null);
});

Deno.test("memory that was not lent stays as it is", () => {
  const buffer = new ArrayBuffer(8);
  keepSpare(buffer);
  assertEquals(buffer.detached, false);
  assertStrictEquals(takeSpare(8), null);
});

Deno.test("arrays of 256 MiB are kept with what aligns them; of larger ones nothing is left", () => {
  keepSpare(written(258 * MIB));
  assertEquals(takeSpare(258 * MIB)?.byteLength, 258 * MIB);
  keepSpare(written(8 * MIB));
  const before = Deno.memoryUsage().rss;
  for (let i = 0; i < 6; i++) {
    const buffer = written(300 * MIB);
    keepSpare(buffer);
    assert(buffer.detached);
    assertEquals(takeSpare(300 * MIB), null);
  }
  assertEquals(takeSpare(8 * MIB)?.byteLength, 8 * MIB);
  // What is pushed out, too.
  for (let i = 0; i < 6; i++) keepSpare(written(200 * MIB));
  const grown = (Deno.memoryUsage().rss - before) / MIB;
  assert(grown < 600, `${grown} MiB`);
});
