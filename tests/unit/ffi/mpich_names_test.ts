import { assertEquals } from "@std/assert";
import { existsSync } from "node:fs";
import { libcFunctions } from "../../../ffi/memory.ts";
import { MPICH_NAMES, removeMpichNames } from "../../../ffi/mpi/mpich_names.ts";

const [PRESENCE, MEMORY, NAMES] = ["mpi/presence.ts", "memory.ts", "mpi/mpich_names.ts"].map((file) =>
  new URL(`../../../ffi/${file}`, import.meta.url)
);

Deno.test("removeMpichNames() removes names of MPICH's memory, also those of another process", async () => {
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
    removeMpichNames(libcFunctions(MPICH_NAMES));
    assertEquals([existsSync(ours), existsSync(others)], [true, true]);
    removeMpichNames(libcFunctions(MPICH_NAMES), [child.pid]);
    assertEquals([existsSync(ours), existsSync(others)], [false, true]);
  } finally {
    child.kill("SIGKILL");
    await child.status;
    Deno.removeSync(others);
  }
});

Deno.test("removeMpichNames() removes the file about the machine that the process before this one has open", async () => {
  const folder = Deno.makeTempDirSync();
  const files = ["hydra_hwloc_xmlfile_Abc123", "other_xmlfile_Abc123"].map((name) => `${folder}/${name}`);
  const opened = files.map((file) => Deno.openSync(file, { write: true, create: true }));
  try {
    const script = `import { libcFunctions } from "${MEMORY}";
      import { MPICH_NAMES, removeMpichNames } from "${NAMES}";
      removeMpichNames(libcFunctions(MPICH_NAMES));`;
    const { code } = await new Deno.Command(Deno.execPath(), { args: ["eval", "--no-check", script] }).output();
    assertEquals([code, ...files.map((file) => existsSync(file))], [0, false, true]);
  } finally {
    for (const file of opened) file.close();
    Deno.removeSync(folder, { recursive: true });
  }
});
