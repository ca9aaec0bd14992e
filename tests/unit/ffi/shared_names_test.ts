import { assertEquals } from "@std/assert";
import { existsSync } from "node:fs";
import { libcFunctions } from "../../../ffi/memory.ts";
import { removeSharedNames, SHARED_NAMES } from "../../../ffi/mpi/shared_names.ts";

const PRESENCE = new URL("../../../ffi/mpi/presence.ts", import.meta.url);

Deno.test("removeSharedNames() removes names of MPICH's memory, also those of another process", async () => {
  const [ours, others] = ["mpich_shar_tmp", "other"].map((name) => `/dev/shm/${name}.${crypto.randomUUID()}`);
  const script = `import { mapShared } from "${PRESENCE}";
    globalThis.held = ["${ours}", "${others}"].map((path) => mapShared(new TextEncoder().encode(path + "\\0"), 16));
    console.log("mapped");
    await new Promise((resolve) => setTimeout(resolve, 60_000));`;
  const child = new Deno.Command(Deno.execPath(), { args: ["eval", "--no-check", script], stdout: "piped" }).spawn();
  try {
    const reader = child.stdout.getReader();
    await reader.read();
    await reader.cancel();
    removeSharedNames(libcFunctions(SHARED_NAMES));
    assertEquals([existsSync(ours), existsSync(others)], [true, true]);
    removeSharedNames(libcFunctions(SHARED_NAMES), [child.pid]);
    assertEquals([existsSync(ours), existsSync(others)], [false, true]);
  } finally {
    child.kill("SIGKILL");
    await child.status;
    Deno.removeSync(others);
  }
});
