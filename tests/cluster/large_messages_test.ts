/** Messages of more bytes than 32-bit counts can tell. */
import { Buffer } from "node:buffer";
import { assertEquals, assertThrows } from "@std/assert";
import { Box, DistributedArray, LocalArray, matmul, Redistribution, ShapeError, Slab, syrk } from "../../mod.ts";
import { openChannels } from "../../src/memory/peer_channels.ts";
import { clusterTest } from "../../src/testing/mod.ts";

/** Beyond the largest 32-bit integer. */
const LENGTH = 2 ** 31 + 4096;

/** What both ranks hold of it, their buffers for messages, and as much again for the machine. */
const BYTES = 5 * LENGTH;

/** Numbers that tell where in a block they are; the first one, in which block. */
const block = Uint32Array.from({ length: 2 ** 18 }, (_, i) => Math.imul(i, 2654435761));

const BLOCK = block.byteLength;

/** The elements of the block that begins there. */
function blockAt(start: number): Uint8Array {
  block[0] = start / BLOCK;
  return new Uint8Array(block.buffer, 0, Math.min(BLOCK, LENGTH - start));
}

const isSmall = Deno.systemMemoryInfo().available < BYTES;

clusterTest(
  "more than 2^31 bytes go from one rank to another",
  { ranks: [2], timeoutSeconds: 120, ...isSmall && { ignore: `it takes ${BYTES / 2 ** 30} GiB of memory` } },
  (runtime) => {
    const [first, second] = [new Box([[[0], [LENGTH]], [[0], [0]]]), new Box([[[0], [0]], [[0], [LENGTH]]])];
    using array = DistributedArray.zeros(runtime, [LENGTH], first, { dtype: "uint8" });
    const sent = array.local.data as Uint8Array;
    for (let start = 0; start < sent.length; start += BLOCK) sent.set(blockAt(start), start);
    using there = new Redistribution(array, second);
    const mayReach = openChannels(runtime.communicator)?.processes != null;
    const ways = ["packed_alltoallv", "derived_types", "shared_window", "direct_copies"] as const;
    for (const algorithm of ways.slice(0, mayReach ? 4 : 3)) {
      there.plan({ algorithm });
      using moved = there.execute();
      const received = moved.local.data as Uint8Array;
      assertEquals(received.length, runtime.rank === 0 ? 0 : LENGTH);
      for (let start = 0; start < received.length; start += BLOCK) {
        const expected = blockAt(start);
        const found = received.subarray(start, start + expected.length);
        assertEquals(Buffer.compare(found, expected), 0, `${algorithm}: from ${start} on`);
      }
    }
  },
);

/** More words than 32 bits count. */
const WORDS = 2 ** 31 + 4096;

clusterTest("what lies behind 2^31 words of a part is sent from there", { ranks: [2] }, (runtime) => {
  // Memory that nobody writes to is none of the machine's.
  const part = LocalArray.empty("float64", [WORDS]);
  (part.data as Float64Array).fill(runtime.rank + 1, WORDS - 1000);
  using whole = DistributedArray.fromLocal(runtime, part, Slab.X);
  const last = whole.slice([[2 * WORDS - 1000, 2 * WORDS]]);
  using there = new Redistribution(last, new Box([[[0], [1000]], [[0], [0]]]));
  there.plan({ algorithm: "packed_alltoallv" });
  using moved = there.execute();
  assertEquals(moved.sum(), 2000);
});

clusterTest("matrices whose lines lie further apart than BLAS counts are refused", { ranks: [1] }, (runtime) => {
  const [rows, columns] = [2 ** 16, 2 ** 15 + 64];
  const tall = DistributedArray.fromLocal(runtime, LocalArray.empty("float32", [rows, columns]), Slab.X);
  const ends = tall.slice([[0, rows, rows - 1], [0, 2]]);
  const words = `The rows of a lie ${(rows - 1) * columns} elements apart on this rank, and BLAS counts in 32 bits`;
  for (const call of [() => matmul(ends, ends), () => syrk(ends)]) assertThrows(call, ShapeError, words);
  const copy = ends.copy().assign(2);
  assertEquals(matmul(copy, copy).sum(), 32);
});
