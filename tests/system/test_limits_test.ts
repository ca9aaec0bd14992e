/** cluster-test without `--timeout`: the time limit is that of each test, not of all tests of a file together. */
import { assertEquals, assertMatch } from "@std/assert";
import { runTestFile } from "../../scripts/commands/cluster_tests.ts";
import { findLauncher } from "../../scripts/launch/launcher.ts";
import type { FileResult } from "../../scripts/results/merge.ts";
import { newestLaunchers, slowdown } from "../mpi_installations.ts";
import { main, root } from "./command.ts";

const [mpi] = newestLaunchers;
const file = `${root}tests/system/fixtures/takes_long.ts`;
const testSeconds = Math.ceil(3 * slowdown());

async function run(hangs: "before" | "late", filter?: string): Promise<FileResult> {
  const env = { STEP_SECONDS: String(testSeconds), HANGS: hangs, DISTMATH_DEVICE: "cpu" };
  return await runTestFile(await findLauncher(mpi.mpirun), file, 2, { testSeconds, env, filter });
}

Deno.test("sound tests may take longer together than one may; one that may take longer itself does; one that hangs is ended", async () => {
  const { tests } = await run("late");
  assertEquals(tests.map(({ outcome }) => outcome), ["passed", "passed", "passed", "passed", "failed"]);
  const { failedRanks, details } = tests.at(-1)!;
  assertEquals(failedRanks, [1]);
  assertMatch(
    details,
    new RegExp(
      `no test began or ended within ${testSeconds} s \\(clusterTest takes timeoutSeconds for a longer one\\): .*rank 1 was in "hangs on rank 1"`,
    ),
  );
});

Deno.test("a file that hangs before its first test is ended", async () => {
  const { tests, seconds } = await run("before");
  assertEquals(tests.map(({ name, outcome }) => [name, outcome]), [["(the whole file)", "failed"]]);
  assertMatch(tests[0].details, /^no test began or ended within/);
  assertEquals(seconds < 60, true);
});

Deno.test("--timeout is the limit of a whole job", async () => {
  const env = { STEP_SECONDS: "300", HANGS: "late", DISTMATH_DEVICE: "cpu" };
  const options = ["--no-check", "--mpirun", mpi.mpirun, "--ranks", "2", "--timeout", "3", "--filter", "/longer/"];
  const { code, stdout } = await main(["cluster-test", ...options, file], { env });
  assertEquals(code, 1);
  assertMatch(stdout, /the job did not end within 3 s/);
});

Deno.test("where ranks were at the limit is told, though none waited for another", async () => {
  const seconds = String(Math.ceil(6 * slowdown()));
  const env = { STEP_SECONDS: "300", HANGS: "late", DISTMATH_DEVICE: "cpu" };
  const options = ["--no-check", "--mpirun", mpi.mpirun, "--ranks", "2", "--timeout", seconds, "--filter", "/longer/"];
  const { stdout } = await main(["cluster-test", ...options, file], { env });
  const last = (rank: number) => ` +rank ${rank} is in no call that waits; its last one was MPI_\\w+.*\\n`;
  assertMatch(stdout, RegExp(`ranks of this machine were here:\\n${last(0)}${last(1)}`));
});
