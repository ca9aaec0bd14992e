/** A GPU of the mock has no memory, NCCL loses its connection, and a start that waits for all ranks fails on one alone. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { launchers, type MpiInstallation, runAlone } from "../mpi_installations.ts";
import { root } from "../system/command.ts";
import { mockTest } from "../system/mock.ts";
import { runJobByHand } from "../system/ranks_by_hand.ts";
import { assertCleanEnd } from "./clean_end.ts";

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));
const [script, jointScript] = [fixture("loses_gpu.ts"), fixture("fails_jointly.ts")];

function run(mpi: MpiInstallation, environment: Record<string, string>, script: string, ...args: string[]) {
  const command = ["run", "-A", "--no-check", `${root}scripts/main.ts`, "run", "--mpirun", mpi.mpirun];
  return runAlone({ ...mpi, environment: {} }, [...command, "-n", "2", "--tag-output", script, ...args], {
    environment,
  });
}

for (const mpi of launchers) {
  mockTest(
    `what a GPU lacks is told on all ranks, and an error of NCCL ends the job [${mpi.name}]`,
    async (environment) => {
      const result = await run(mpi, environment, script);
      const why = /\[1\] error: Uncaught .*NcclError: ncclSend failed with ncclSystemError/;
      assertCleanEnd(result, { rank: 1, why, code: 1 });
      const { output } = result;
      const told = [0, 1].map((rank) => new RegExp(`rank ${rank}: (DistmathError: .*)`).exec(output)?.[1]);
      assertEquals(told[0], told[1], output);
      assertStringIncludes(told[0] ?? "", "Free device memory");
      assertStringIncludes(output, "error: rank 1 ended the job with exit code 1: an uncaught error");
    },
  );

  mockTest(`a GPU without memory ends a job that does not expect it [${mpi.name}]`, async (environment) => {
    const result = await run(mpi, environment, script, "unhandled");
    const why = /\[\d\] error: Uncaught .*DistmathError: .*Free device memory/;
    assertCleanEnd(result, { why, code: 1 });
  });

  mockTest(
    `a start of NCCL or NVSHMEM that fails on one rank alone ends the job [${mpi.name}]`,
    async (environment) => {
      const starts = [["nccl", "ncclCommInitRank"], ["nvshmem", "nvshmemx_hostlib_init_attr"]];
      // Each takes some seconds, and hardly any work.
      const results = await Promise.all(starts.map(([library]) => run(mpi, environment, jointScript, library)));
      for (const [i, [, call]] of starts.entries()) {
        const place = String.raw`distmath: ${call} at fails_jointly\.ts:\d+:\d+ failed on rank 1`;
        const why = RegExp(String.raw`${place}, and the other ranks .* exit code 1\. \w+Error: ${call} failed with `);
        assertCleanEnd(results[i], { rank: 1, why, code: 1 });
        const last = "error: rank 1 ended the job with exit code 1: an error on one rank alone";
        assertStringIncludes(results[i].output, last);
      }
    },
  );
}

mockTest("a GPU without the memory that NVSHMEM starts with is told on all ranks", async (environment) => {
  const { code, output } = await run(launchers[0], environment, jointScript, "memory");
  assertEquals(code, 0, output);
  const told = [0, 1].map((rank) => RegExp(`rank ${rank} goes on: (ConfigurationError: .*)`).exec(output)?.[1]);
  assertEquals(told[0], told[1], output);
  assertMatch(told[0] ?? "", /NVSHMEM takes up to \d+ bytes .* only 0 are free.* \(on rank 1 of 2\)/);
});

mockTest("without MPI, too, a start of NCCL that fails on one rank alone ends the job", async (environment) => {
  const { ranks, result } = await runJobByHand(2, ["run", "-A", "--no-check", jointScript, "nccl"], environment);
  assertCleanEnd(result, { rank: 1, why: "ncclCommInitRank at fails_jointly.ts", code: 1 });
  assertEquals(ranks.map(({ code }) => code), [1, 1], result.output);
});
