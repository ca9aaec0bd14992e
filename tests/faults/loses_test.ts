/** A disk, a file, a library that a job had is lost while it runs. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runJob, slowdown, testUnderEveryMpi, whyNoMounts } from "../mpi_installations.ts";
import { temporaryFolder } from "../system/command.ts";
import { untilNoneHas } from "./processes.ts";

const LONGEST_END_SECONDS = 10;

testUnderEveryMpi("what is lost is told on all ranks, and leaves nothing half done", async (mpi) => {
  using folder = temporaryFolder();
  const [disk, launcher] = [`${folder.path}/a disk`, `${folder.path}/mpirun`];
  Deno.mkdirSync(disk);
  // A launcher in a mount namespace of its own, with a small disk, that tells what is on it at the end.
  const work =
    `mount -t tmpfs -o size=1m tmpfs "${disk}" && "$0" "$@"; code=$?; ls -A "${disk}" | sed "s/^/left: /"; exit $code`;
  Deno.writeTextFileSync(launcher, `#!/bin/sh\nexec unshare -m sh -c '${work}' ${mpi.mpirun} "$@"\n`, { mode: 0o755 });
  const script = fileURLToPath(new URL("./fixtures/loses.ts", import.meta.url));
  const command = ["run", "-A", "--no-check", "--config", fileURLToPath(new URL("../../deno.json", import.meta.url))];
  const { code, output, endedAt, left } = await runJob({ ...mpi, mpirun: launcher }, 2, [
    ...command,
    script,
    `${disk}/a.npy`,
  ]);
  assertEquals(code, 1, output);
  assertEquals(left, [], output);
  for (
    const [fault, message] of [
      [
        "full disk",
        /^ConfigurationError: .*a\.npy: No space left on device .*check permissions and free space/,
      ],
      [
        "cut short",
        /^ConfigurationError: .*a\.npy: the file is too short: .* but it has 200\. Write it again/,
      ],
      ["damaged", /^ConfigurationError: .*a\.npy: This is no \.npy file that distmath can read: .*Write it again/],
      ["lost library", /is gone.*\(on rank 1 of 2\)$|no ScaLAPACK exists for the MPI standard ABI/],
    ] as const
  ) {
    const told = [0, 1].map((rank) => new RegExp(`^rank ${rank}, ${fault}: (.*)$`, "m").exec(output)?.[1] ?? output);
    assertEquals(told[0], told[1]);
    assertMatch(told[0], message);
  }
  assertMatch(output, /error: Uncaught .*ConfigurationError: .*No space left on device/);
  assertEquals(output.match(/^left: .*$/gm), ["left: a.npy"]);
  const seconds = (endedAt - Number(/fault at (\d+)/.exec(output)?.[1])) / 1000;
  assert(seconds < LONGEST_END_SECONDS * slowdown(), `${seconds} s`);
  await untilNoneHas(disk);
}, whyNoMounts());
