/** A rank without memory: every operation fails on all ranks, with the same error. */
import { assert, assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runJob, testUnderEveryMpi, whyNoMounts, whyNoScalapack } from "../mpi_installations.ts";
import { temporaryFolder } from "../system/command.ts";
import { mockTest, mpi as mockMpi } from "../system/mock.ts";
import { assertCleanEnd } from "./clean_end.ts";

const pathOf = (name: string) => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url));
const config = fileURLToPath(new URL("../../deno.json", import.meta.url));
const script = (name: string) => [
  "run",
  "-A",
  "--no-check",
  "--v8-flags=--expose-gc",
  "--config",
  config,
  pathOf(name),
];

testUnderEveryMpi("no operation fails alone for want of memory, whichever allocation it is", async (mpi) => {
  const { code, output } = await runJob(mpi, 2, script("no_memory"), { seconds: 180 });
  assertEquals(code, 0, output);
  assert(Number(/done: (\d+) failures/.exec(output)?.[1]) > 100, output);
}, whyNoScalapack);

mockTest("no operation fails alone for want of memory of a GPU", async (environment) => {
  const { code, output } = await runJob(mockMpi, 2, script("no_memory"), { seconds: 300, environment });
  assertEquals(code, 0, output);
  assert(Number(/done: (\d+) failures/.exec(output)?.[1]) > 100, output);
  assertStringIncludes(output, "for want of device memory");
});

for (const name of ["to", "copy", "loadNpy", "matmul", "trsm"]) {
  testUnderEveryMpi(`the system refuses memory on one rank: ${name} throws the same on all`, async (mpi) => {
    using folder = temporaryFolder();
    const { output } = await runJob(mpi, 2, [...script("limited"), name, `${folder.path}/a.npy`]);
    const told = output.split("\n").filter((line) => /^rank \d: /.test(line)).map((line) =>
      line.slice("rank 0: ".length)
    );
    assertEquals(told.length, 2, output);
    assertEquals(told[0], told[1]);
    assert(
      /^RangeError: .*No memory for \d+ elements of \w+ \(\d+ bytes\).* \(on rank 1 of 2\)$/.test(told[0]),
      output,
    );
  }, ["matmul", "trsm"].includes(name) ? whyNoScalapack : null);
}

testUnderEveryMpi("a rank without memory ends the job if the script does not expect it", async (mpi) => {
  using folder = temporaryFolder();
  const names = ["a.npy"];
  const result = await runJob(mpi, 2, [...script("limited"), "loadNpy", `${folder.path}/a.npy`, "unhandled"]);
  const why = /error: Uncaught .*RangeError: .*No memory for \d+ elements of \w+ \(\d+ bytes\).* \(on rank 1 of 2\)$/m;
  assertCleanEnd(result, { rank: 1, why, code: 1, files: { folder: folder.path, names } });
});

testUnderEveryMpi("a rank without memory for the values of allGatherObject is told of on all", async (mpi) => {
  const { code, output } = await runJob(mpi, 2, [...script("limited"), "allGatherObject"]);
  assertEquals(code, 0, output);
  for (const rank of [0, 1]) {
    assertMatch(
      output,
      new RegExp(`rank ${rank}: RangeError: allGatherObject: rank 1 has no memory for the 671\\d+ bytes`),
    );
  }
});

testUnderEveryMpi("symmetric memory that /dev/shm has no room for is refused on every rank", async (mpi) => {
  using folder = temporaryFolder();
  // A launcher in a mount namespace of its own, where /dev/shm is small.
  const launcher = `${folder.path}/mpirun`;
  const mount = "mount -t tmpfs -o size=64m tmpfs /dev/shm";
  const text = `#!/bin/sh\nexec unshare -m sh -c '${mount} && exec "$0" "$@"' ${mpi.mpirun} "$@"\n`;
  Deno.writeTextFileSync(launcher, text, { mode: 0o755 });
  const run = (bytes: number) =>
    runJob({ ...mpi, mpirun: launcher }, 2, [...script("limited"), "symmetric", String(bytes)]);
  const { output } = await run(40_000_000);
  const told = output.split("\n").filter((line) =>
    line.includes("ConfigurationError: allocateSymmetricMemory: 40000000 bytes on each of 2 ranks need")
  );
  assertEquals(told.length, 2, output);
  assertStringIncludes(told[0], "--shm-size");
  const fits = await run(25_000_000);
  assertEquals(fits.output.match(/it succeeded/g)?.length, 2, fits.output);
  assertNotEquals(fits.code, 124);
}, whyNoMounts());
