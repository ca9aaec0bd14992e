import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { dependenciesOf, inspectLibrary, realPath } from "../../../ffi/elf.ts";
import { fileOfFunction, LIBC_CANDIDATES } from "../../../ffi/memory.ts";

/** A library that every machine has. */
const library = fileOfFunction(LIBC_CANDIDATES.at(-1)!, "malloc")!;

function withCopy(size: number | null, use: (path: string) => void): void {
  const folder = Deno.makeTempDirSync();
  try {
    const path = `${folder}/libcopy.so.1`;
    Deno.copyFileSync(library, path);
    if (size !== null) Deno.truncateSync(path, size);
    use(path);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

Deno.test("inspectLibrary() tells a library that was cut short, wherever it was cut", () => {
  const { size } = Deno.statSync(library);
  withCopy(null, (path) => assertEquals(inspectLibrary(path), { state: "whole" }));
  for (const left of [0, 1, 63, 64, 1000, 4096, Math.floor(size / 2), size - 4096, size - 1]) {
    withCopy(left, (path) => {
      const file = inspectLibrary(path);
      assertEquals(file.state, "damaged", `${left} of ${size} bytes`);
      assertStringIncludes(JSON.stringify(file), String(left));
    });
  }
});

Deno.test("inspectLibrary() tells what is absent, for another machine, a linker's script", () => {
  assertEquals(inspectLibrary("/nonexistent/libcopy.so.1"), { state: "absent" });
  const machine = 18;
  withCopy(null, (path) => {
    using file = Deno.openSync(path, { read: true, write: true });
    file.seekSync(machine, Deno.SeekMode.Start);
    file.writeSync(Uint8Array.of(8, 0));
    assertEquals(inspectLibrary(path), { state: "foreign", reason: "it is built for another kind of machine" });
  });
  withCopy(0, (path) => {
    for (const text of ["/* GNU ld script\n*/", "INPUT(libncurses.so.6 -ltinfo)\n"]) {
      Deno.writeTextFileSync(path, text);
      assertEquals(inspectLibrary(path).state, "foreign");
    }
    Deno.writeTextFileSync(path, "something else");
    assertEquals(inspectLibrary(path), { state: "damaged", reason: "with 14 bytes it is no shared library" });
  });
});

Deno.test("dependenciesOf() reads what a library needs", () => {
  const { files } = dependenciesOf(library);
  assert(files.some((file) => file.startsWith("ld-linux")), files.join());
  assertEquals(dependenciesOf("/nonexistent/libcopy.so.1"), { files: [], folders: [] });
});

Deno.test("realPath() follows links", () => {
  const folder = Deno.realPathSync(Deno.makeTempDirSync());
  try {
    Deno.writeTextFileSync(`${folder}/file`, "");
    Deno.symlinkSync("file", `${folder}/link`);
    assertEquals(realPath(`${folder}/link`), `${folder}/file`);
    assertEquals(realPath(`${folder}/nothing`), null);
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
