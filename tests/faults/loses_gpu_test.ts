/** A GPU of the mock loses its memory, and NCCL its connection. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { launchers, slowdown } from "../mpi_installations.ts";
import { main } from "../system/command.ts";
import { mockTest } from "../system/mock.ts";
import { untilNoneHas } from "./processes.ts";

const script = fileURLToPath(new URL("./fixtures/loses_gpu.ts", import.meta.url));
const LONGEST_END_SECONDS = 10;

for (const mpi of launchers) {
  mockTest(
    `what a GPU lacks is told on all ranks, and an error of NCCL ends the job [${mpi.name}]`,
    async (env, folder) => {
      const args = ["run", "--mpirun", mpi.mpirun, "-n", "2", "--tag-output", script, folder];
      const { code, stdout, stderr } = await main(args, { env });
      const output = stdout + stderr;
      assertEquals(code, 1, output);
      const seconds = (Date.now() - Number(/fault at (\d+)/.exec(stdout)?.[1])) / 1000;
      assert(seconds < LONGEST_END_SECONDS * slowdown(), `${seconds} s: ${output}`);
      const told = [0, 1].map((rank) => new RegExp(`rank ${rank}: (DistmathError: .*)`).exec(stdout)?.[1]);
      assertEquals(told[0], told[1], output);
      assertStringIncludes(told[0] ?? "", "Free device memory");
      assertMatch(stderr, /\[1\] error: Uncaught .*NcclError: ncclSend failed with ncclSystemError/);
      assertStringIncludes(stderr, "error: rank 1 ended the job with exit code 1: an uncaught error");
      await untilNoneHas(folder);
      const shared = Array.from(stdout.matchAll(/shares (.*)/g), ([, names]) => names.split(" ")).flat().filter(
        Boolean,
      );
      assertEquals(shared.filter(existsSync), []);
    },
  );
}
