/** clusterTest(): the ranks agree on the outcome of each test, and a job never hangs. */
import { assert, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { type JobResult, type MpiInstallation, runJob, testUnderEveryMpi } from "../mpi_installations.ts";

const FIXTURE = fileURLToPath(new URL("./fixtures/cluster_tests.ts", import.meta.url));

function run(mpi: MpiInstallation, filter: string): Promise<JobResult> {
  return runJob(mpi, 2, ["test", "-A", "--no-check", "--filter", filter, FIXTURE]);
}

testUnderEveryMpi("a failure on one rank fails the test on all, and the next test is in step", async (mpi) => {
  const { code, output } = await run(mpi, "/fails on rank 1|goes on|3 ranks/");
  assertNotEquals(code, 0);
  assert(output.includes("1 passed | 1 failed | 1 ignored"), output);
  assertStringIncludes(output, 'rank 1 failed "fails on rank 1": RangeError: broken on purpose');
  assertMatch(output, /rank 1 failed "fails on rank 1": .*\n( +at .*\n)+Caused by: TypeError: the reason of it\n/);
});

testUnderEveryMpi("ranks that a failure leaves in a collective call are ended", async (mpi) => {
  const { code, output } = await run(mpi, "leaves the others");
  assertNotEquals(code, 0);
  assertStringIncludes(output, 'rank 1 failed "leaves the others in a collective call": RangeError: broken on purpose');
  assertStringIncludes(
    output,
    "rank 0 has waited for more than 2 s (timeoutSeconds) in leaves the others in a collective call > MPI_Barrier",
  );
});

testUnderEveryMpi("a test that takes too long on one rank ends", async (mpi) => {
  const { code, output } = await run(mpi, "never ends");
  assertNotEquals(code, 0);
  // Who notices first: the late rank itself, the one that waits for it, or the watchdog of that one.
  assertMatch(output, /took more than 2 s|has waited 2 s for the other ranks|has waited for more than 2 s/);
});

testUnderEveryMpi("a test that takes too long in no call tells which was the last one", async (mpi) => {
  const { code, output } = await run(mpi, "never comes");
  assertNotEquals(code, 0);
  for (const rank of [0, 1]) {
    assertMatch(
      output,
      RegExp(
        `The test took more than 2 s; rank ${rank} is in no call that waits; its last one was ` +
          String.raw`MPI_Barrier at cluster_tests\.ts:\d+:\d+, collective call \d+\.`,
      ),
    );
  }
});
