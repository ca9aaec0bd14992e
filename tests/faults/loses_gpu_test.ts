/** A GPU of the mock has no memory, and NCCL loses its connection. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { launchers, type MpiInstallation, runAlone } from "../mpi_installations.ts";
import { root } from "../system/command.ts";
import { mockTest } from "../system/mock.ts";
import { assertCleanEnd } from "./clean_end.ts";

const script = fileURLToPath(new URL("./fixtures/loses_gpu.ts", import.meta.url));

function run(mpi: MpiInstallation, environment: Record<string, string>, ...args: string[]) {
  const command = ["run", "-A", "--no-check", `${root}scripts/main.ts`, "run", "--mpirun", mpi.mpirun];
  return runAlone({ ...mpi, environment: {} }, [...command, "-n", "2", "--tag-output", script, ...args], {
    environment,
  });
}

for (const mpi of launchers) {
  mockTest(
    `what a GPU lacks is told on all ranks, and an error of NCCL ends the job [${mpi.name}]`,
    async (environment) => {
      const result = await run(mpi, environment);
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
    const result = await run(mpi, environment, "unhandled");
    const why = /\[\d\] error: Uncaught .*DistmathError: .*Free device memory/;
    assertCleanEnd(result, { why, code: 1 });
  });
}
