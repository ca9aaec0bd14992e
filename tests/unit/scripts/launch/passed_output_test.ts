import { assertEquals, assertRejects } from "@std/assert";
import { PassedOutput } from "../../../../scripts/launch/passed_output.ts";

/** Give both streams another way to write while `body` runs. */
async function withWrites(
  write: (stream: "stdout" | "stderr", bytes: Uint8Array) => Promise<number>,
  body: () => Promise<void>,
): Promise<void> {
  const before = [Deno.stdout.write, Deno.stderr.write];
  Deno.stdout.write = (bytes) => write("stdout", bytes);
  Deno.stderr.write = (bytes) => write("stderr", bytes);
  try {
    await body();
  } finally {
    [Deno.stdout.write, Deno.stderr.write] = before;
  }
}

Deno.test("PassedOutput writes to both streams in the order of the calls, and is full while nobody reads", async () => {
  const written: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const write = async (stream: string, bytes: Uint8Array) => {
    await promise;
    // A part of what it was given, as the system may do.
    const count = Math.min(bytes.length, 200_000);
    written.push(`${stream} ${count} ${new TextDecoder().decode(bytes.subarray(0, 1))}`);
    return count;
  };
  await withWrites(write, async () => {
    const output = new PassedOutput();
    output.write("stdout", "a");
    output.write("stderr", "b");
    output.write("stdout", "c".repeat(200_000));
    assertEquals(output.isFull, false);
    output.write("stdout", "d".repeat(100_000));
    await output.end(10);
    assertEquals([output.isFull, written], [true, []]);
    resolve();
    await output.end();
    assertEquals(output.isFull, false);
  });
  assertEquals(written, ["stdout 1 a", "stderr 1 b", "stdout 200000 c", "stdout 100000 d"]);
});

Deno.test("PassedOutput tells at once of what cannot be written, unless it may fail", async () => {
  await withWrites(() => Promise.reject(new RangeError("full")), async () => {
    const output = new PassedOutput();
    output.write("stderr", "a", true);
    await output.end();
    output.write("stdout", "b");
    await new Promise((resolve) => output.failed.addEventListener("abort", resolve));
    await assertRejects(() => output.end(), RangeError, "full");
  });
});
