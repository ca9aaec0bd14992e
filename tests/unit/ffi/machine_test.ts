/** What libc says about the machine, compared with what Deno and the kernel's own files say. */
import { assert, assertEquals } from "@std/assert";
import { totalmem } from "node:os";
import { allowedCores, machineCores, machineMemoryBytes } from "../../../ffi/machine.ts";
import { fileOfFunction, keepLoaded, LIBC_CANDIDATES } from "../../../ffi/memory.ts";

Deno.test("memory and cores are those of the machine", () => {
  assertEquals(machineMemoryBytes(), totalmem());
  const processors = Deno.readTextFileSync("/proc/cpuinfo").match(/^processor\s*:/gm)!;
  assertEquals(machineCores(), processors.length);
});

const bits = (byte: number) => [0, 1, 2, 3, 4, 5, 6, 7].filter((bit) => byte >> bit & 1);

Deno.test("the cores that a process may use are those of its affinity mask", async () => {
  const cores = (mask: Uint8Array) => [...mask].flatMap((byte, i) => bits(byte).map((bit) => 8 * i + bit));
  assert(cores(allowedCores()).length >= navigator.hardwareConcurrency);
  const code = `import { allowedCores } from ${
    JSON.stringify(new URL("../../../ffi/machine.ts", import.meta.url).href)
  };
    console.log(allowedCores().join());`;
  const [last] = cores(allowedCores()).slice(-1);
  const script = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(script, code);
    const args = ["-c", String(last), Deno.execPath(), "run", "-A", script];
    const { stdout } = await new Deno.Command("taskset", { args, env: { NO_COLOR: "1" } }).output();
    const mask = Uint8Array.from(new TextDecoder().decode(stdout).trim().split(","), Number);
    assertEquals(cores(mask), [last]);
  } finally {
    await Deno.remove(script);
  }
});

Deno.test("a library that the OS loader finds by its name has an absolute path", () => {
  const path = keepLoaded("libc.so.6");
  assert(path.startsWith("/") && path.endsWith("/libc.so.6"), path);
  assert(Deno.statSync(path).isFile);
  const [absolute] = LIBC_CANDIDATES.filter((candidate) => candidate.startsWith("/")).filter((candidate) => {
    try {
      return Deno.statSync(candidate).isFile;
    } catch {
      return false;
    }
  });
  assertEquals(keepLoaded(absolute), absolute);
});

Deno.test("the file that has a function is found, also through a library that depends on it", () => {
  const libc = keepLoaded("libc.so.6");
  assertEquals(fileOfFunction("libm.so.6", "memcpy"), libc);
  assertEquals(fileOfFunction("libm.so.6", "cos"), keepLoaded("libm.so.6"));
  assertEquals(fileOfFunction("libm.so.6", "no_such_function"), null);
});
