/** The folder of compiled kernels and of measurements. */
import { assertEquals } from "@std/assert";
import { readCached, writeCached } from "../../../ffi/kernel_cache.ts";
import { readFacts, writeFacts } from "../../../src/linalg/engines/measurements.ts";

const namesIn = (folder: string) => Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();

Deno.test("what was written is read again, and replaced as a whole", () => {
  const folder = Deno.makeTempDirSync();
  const file = `${folder}/product.json`;
  for (const contents of [{ measured: [1, 2, 3] }, { measured: [] }]) {
    writeFacts(file, contents);
    assertEquals(readFacts(file), contents);
  }
  assertEquals(namesIn(folder), ["product.json"]);
  Deno.writeTextFileSync(file, '{ "measured": [1,');
  assertEquals(readFacts(file), null, "damaged");
  assertEquals(readFacts(`${folder}/other.json`), null);
  assertEquals(readFacts(undefined), null);
  writeFacts(undefined, {});
  Deno.removeSync(folder, { recursive: true });
});

Deno.test("a write that fails throws nothing and leaves no temporary file", () => {
  const folder = Deno.makeTempDirSync();
  // A file cannot take the place of a folder.
  Deno.mkdirSync(`${folder}/taken`);
  assertEquals(writeCached(`${folder}/taken`, Uint8Array.of(1)), false);
  writeFacts(`${folder}/taken`, { measured: [] });
  assertEquals(namesIn(folder), ["taken"]);
  assertEquals(readCached(`${folder}/taken`), undefined);
  Deno.removeSync(folder, { recursive: true });
});
