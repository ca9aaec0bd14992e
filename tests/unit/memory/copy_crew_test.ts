import { assert, assertEquals } from "@std/assert";
import { addressOf } from "../../../ffi/memory.ts";
import { CHUNK_BYTES, CopyCrew, SLOTS } from "../../../src/memory/copy_crew.ts";

const isAlone = navigator.hardwareConcurrency < 2;

/** Wait until chunks were copied, without helping. */
async function waitFor(crew: CopyCrew, from: number, to: number): Promise<void> {
  for (let chunk = from; chunk < to; chunk++) {
    while (!crew.hasCopied(chunk)) await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

Deno.test({
  name: `threads copy while the main one does not${isAlone ? " (skipped: one core, no threads)" : ""}`,
  ignore: isAlone,
  fn: async () => {
    const chunks = SLOTS + 2;
    const host = new Uint8Array((chunks - 1) * CHUNK_BYTES + 5).map((_, i) => i % 251);
    const staging = new Uint8Array(SLOTS * CHUNK_BYTES);
    const back = new Uint8Array(host.length);
    const crew = new CopyCrew();
    crew.start();
    for (const [memory, isFromHost] of [[host, true], [back, false]] as const) {
      crew.begin(addressOf(memory), addressOf(staging), memory.length, isFromHost);
      crew.allow(SLOTS);
      await waitFor(crew, 0, SLOTS);
      if (isFromHost) assertEquals(staging, host.subarray(0, staging.length));
      // The last two take the first two slots again.
      crew.allow(chunks);
      await waitFor(crew, SLOTS, chunks);
      if (isFromHost) assertEquals(staging.subarray(0, CHUNK_BYTES + 5), host.subarray(staging.length));
    }
    const expected = Uint8Array.from(staging);
    assertEquals(back.subarray(2 * CHUNK_BYTES, staging.length), expected.subarray(2 * CHUNK_BYTES));
    assertEquals(back.subarray(staging.length), expected.subarray(0, CHUNK_BYTES + 5));
  },
});

Deno.test({
  name: `a copy that fails leaves nobody copying${isAlone ? " (skipped: one core, no threads)" : ""}`,
  ignore: isAlone,
  fn: async () => {
    const host = new Uint8Array(SLOTS * CHUNK_BYTES).fill(1);
    const staging = new Uint8Array(SLOTS * CHUNK_BYTES);
    const crew = new CopyCrew();
    crew.start();
    for (let round = 0; round < 10; round++) {
      crew.begin(addressOf(host), addressOf(staging), host.length, true);
      crew.allow(SLOTS);
      await waitFor(crew, 0, 1);
      crew.end();
      host.fill(2);
      await new Promise((resolve) => setTimeout(resolve, 5));
      assert(!staging.includes(2), `round ${round}`);
      host.fill(1);
    }
  },
});

Deno.test("the numbers of chunks wrap around", () => {
  const chunks = 5;
  const host = new Uint8Array(chunks * CHUNK_BYTES).map((_, i) => i % 251);
  const staging = new Uint8Array(SLOTS * CHUNK_BYTES);
  const crew = new CopyCrew(2 ** 31 - 2);
  crew.begin(addressOf(host), addressOf(staging), host.length, true);
  crew.allow(chunks);
  for (let turn = 0; turn < chunks; turn++) crew.help();
  for (let chunk = 0; chunk < chunks; chunk++) assert(crew.hasCopied(chunk), String(chunk));
  assert(!crew.hasCopied(chunks));
  assertEquals(staging.subarray(0, host.length), host);
});
