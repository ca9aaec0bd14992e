import { assertEquals } from "@std/assert";

/** Have a thread do something, and end it. */
async function inThread(task: { path: string } | { blocks: number }): Promise<void> {
  const thread = new Worker(new URL("./fixtures/shared_page.ts", import.meta.url), { type: "module" });
  const { promise, resolve, reject } = Promise.withResolvers<unknown>();
  thread.onmessage = resolve;
  thread.onerror = reject;
  thread.postMessage(task);
  await promise;
  thread.terminate();
}

Deno.test("what is allocated after V8 has freed its arrays does not lie in the page that ranks share", async () => {
  const path = Deno.makeTempFileSync({ dir: "/dev/shm", prefix: "distmath-test-" });
  try {
    for (let i = 0; i < 3; i++) {
      await inThread({ path });
      // Threads that come later take over the heaps of those that have ended.
      await inThread({ blocks: 10_000 });
      await inThread({ blocks: 10_000 });
      const words = new Int32Array(Deno.readFileSync(path).buffer);
      assertEquals([...words.subarray(0, 192)], new Array(192).fill(77));
      assertEquals(words.subarray(192).some((word) => word !== 0), false);
    }
  } finally {
    Deno.removeSync(path);
  }
});
