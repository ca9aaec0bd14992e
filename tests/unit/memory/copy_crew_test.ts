import { assertEquals } from "@std/assert";
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
