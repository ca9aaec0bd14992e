/** A disk, a file, a library that a job had is lost while it runs. */
import { assertEquals, assertMatch } from "@std/assert";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import {
  type JobResult,
  type MpiInstallation,
  runJob,
  testUnderEveryMpi,
  whyNoMounts,
  whyNoScalapack,
} from "../mpi_installations.ts";
import { nativePrefix } from "../../internals.ts";
import { temporaryFolder } from "../system/command.ts";
import { assertCleanEnd } from "./clean_end.ts";

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url));
const config = fileURLToPath(new URL("../../deno.json", import.meta.url));

const fullDisk = (name: string) =>
  String.raw`ConfigurationError: .*${name}: No space left on device .*check permissions and free space`;

/** What is lost, and the words on it. */
const FAULTS: readonly [fault: string, words: string][] = [
  ["full disk", fullDisk("a.npy")],
  ["full disk, several arrays", fullDisk("b.npz")],
  [
    "cut short",
    String.raw`ConfigurationError: .*a\.npy: the file is too short: .* but it has 200\. Write it again`,
  ],
  [
    "damaged",
    String.raw`ConfigurationError: .*a\.npy: This is no \.npy file that distmath can read: .*Write it again`,
  ],
  ["lost library", String.raw`.*is gone.*\(on rank 1 of 2\)$`],
  ["full disk again", fullDisk("a.npy")],
];

/** Why something is not lost here, or not under this MPI; null if it is. */
const whyNot = (fault: string, mpi: MpiInstallation) =>
  whyNoMounts() ?? (fault === "lost library" ? whyNoScalapack(mpi) : null);

/** Runs a job by a launcher in a mount namespace of its own, which does this work. */
async function runMounting(mpi: MpiInstallation, work: string, script: string, ...args: string[]): Promise<JobResult> {
  using folder = temporaryFolder();
  const launcher = `${folder.path}/mpirun`;
  Deno.writeTextFileSync(launcher, `#!/bin/sh\nexec unshare -m sh -c '${work}' ${mpi.mpirun} "$@"\n`, { mode: 0o755 });
  const command = ["run", "-A", "--no-check", "--config", config, script, ...args];
  return await runJob({ ...mpi, mpirun: launcher }, 2, command);
}

/** Runs the job, of whose losses nobody handles one, on a small disk; what is on it at the end is listed. */
async function run(mpi: MpiInstallation, unhandled: string): Promise<JobResult> {
  using folder = temporaryFolder();
  const disk = `${folder.path}/a disk`;
  Deno.mkdirSync(disk);
  const work =
    `mount -t tmpfs -o size=1m tmpfs "${disk}" && "$0" "$@"; code=$?; ls -A "${disk}" | sed "s/^/left: /"; exit $code`;
  return await runMounting(mpi, work, fixture("loses"), `${disk}/a.npy`, unhandled);
}

for (const [i, [unhandled, words]] of FAULTS.entries()) {
  testUnderEveryMpi(
    `what is lost is told on all ranks, and ends a job that does not expect it: ${unhandled}`,
    async (mpi) => {
      const result = await run(mpi, unhandled);
      // What the fixture prints of the others names ranks as well.
      const output = result.output.replaceAll(/^rank \d, .*\n/gm, "");
      assertCleanEnd({ ...result, output }, { why: RegExp(`error: Uncaught .*${words}`, "m"), code: 1 });
      assertEquals(result.output.match(/^left: .*$/gm), ["left: a.npy"]);
      for (const [fault, words] of FAULTS.slice(0, i)) {
        if (whyNot(fault, mpi) !== null) continue;
        const told = [0, 1].map((rank) => RegExp(`^rank ${rank}, ${fault}: (.*)$`, "m").exec(result.output)?.[1] ?? "");
        assertEquals(told[0], told[1], result.output);
        assertMatch(told[0], RegExp(`^${words}`));
      }
    },
    (mpi) => whyNot(unhandled, mpi),
  );
}

const libraries = `${nativePrefix()}/cpu/lib`;
const whyNoMkl = existsSync(`${libraries}/libmkl_core.so.3`) ? null : "native install cpu has not been run";

testUnderEveryMpi("what is planned runs on when its libraries are gone from the disk", async (mpi) => {
  const { code, output, left } = await runMounting(mpi, 'exec "$0" "$@"', fixture("loses_libraries"), libraries);
  assertEquals([code, left], [0, []], output);
  assertEquals(output.match(/^rank [01] has its product$/gm)?.length, 2, output);
}, (mpi) => whyNoMounts() ?? whyNoScalapack(mpi) ?? whyNoMkl);
