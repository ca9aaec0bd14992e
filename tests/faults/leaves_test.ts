/** A rank that leaves with success while others wait for it ends the job, and one that is not waited for does not. */
import { assert, assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import {
  type JobResult,
  type MpiInstallation,
  mpiInstallations,
  runJob,
  testUnderEveryMpi,
  whyNoScalapack,
} from "../mpi_installations.ts";
import { lineOf } from "../script_lines.ts";
import { assertCleanEnd, MEMORY_AT_START } from "./clean_end.ts";

/** Shorter than the usual one, which tests/faults/command_test.ts waits for. */
const PATIENCE_SECONDS = 1;
/** Of ranks that work, or wait for each other, for parts of this time. */
const PEACE_SECONDS = 2;

const fixture = (name: string) => fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url));

const run = (mpi: MpiInstallation, ranks: number, name: string, way: string) =>
  runJob(mpi, ranks, ["run", "-A", fixture(name), way], {
    environment: { DISTMATH_PATIENCE_SECONDS: String(name === "leaves" ? PATIENCE_SECONDS : PEACE_SECONDS) },
  });

/** The job has ended for want of rank 1, and not before it was waited for. */
function assertEnded(result: JobResult, why: RegExp): void {
  assertCleanEnd(result, { rank: 1, why, code: 1, extraSeconds: PATIENCE_SECONDS });
  // Those that wait may have begun before the other one has left.
  const waitsAt = Number(/waits at (\d+)/.exec(result.output)?.[1]);
  assert(result.endedAt - waitsAt > PATIENCE_SECONDS * 1000, result.output);
}

const MULTIPLIES = "=> matmul(";

const WAITS: [way: string, place: string, line: string][] = [
  ["exits", "matmul > MPI_Allreduce", MULTIPLIES],
  ["returns", "matmul > MPI_Allreduce", MULTIPLIES],
  ["signal", "matmul > MPI_Allreduce", MULTIPLIES],
  ["finalizes", "matmul > MPI_Allreduce", MULTIPLIES],
  ["callback", "DistributedArray.generate > MPI_Allreduce", "() => 1)"],
  ["part", "MPI_Allreduce", "halves.allReduce("],
  ["product", "pdgemm", MULTIPLIES],
  ["receives", "MPI_Recv", 'way === "receives")'],
  ["receives from anyone", "MPI_Recv", 'way === "receives from anyone")'],
  ["receives what was prepared", "MPI_Recv", 'else if (way === "receives what was prepared")'],
  ["waits", "MPI_Wait", 'way === "waits")'],
  ["waits for any", "MPI_Wait", 'way === "waits for any")'],
  ["waits for all", "MPI_Iallreduce", 'way === "waits for all")'],
  ["waits for any of all", "MPI_Ibarrier", 'way === "waits for any of all")'],
  ["group", "MPI_Barrier", "group.barrier("],
  ["makes a group", "MPI_Comm_create_group", 'way === "makes a group")'],
  ["has caught", "MPI_Allreduce", "Float64Array.of(2)"],
  ["awaits", "MPI_Ibarrier", "return void world.ibarrier("],
  ["awaits a part", "MPI_Iallreduce", "halves.iallReduce("],
  ["tests", "MPI_Iallreduce", "testUntilComplete(world.iallReduce("],
  ["tests another", "MPI_Iallreduce", "() => world.iallReduce("],
  ["freed part", "MPI_Ibarrier", 'way === "freed part") halves.ibarrier('],
  ["tests a part", "MPI_Ibarrier", "testUntilComplete(halves.ibarrier("],
];

testUnderEveryMpi("a rank that leaves while others wait for it ends the job", async (mpi) => {
  // Each takes some seconds, and hardly any work.
  const waits = WAITS.filter(([way]) => way !== "product" || whyNoScalapack(mpi) === null);
  await Promise.all(waits.map(async ([way, place, line]) => {
    const result = await run(mpi, 2, "leaves", way);
    assertEnded(
      result,
      RegExp(
        `distmath: rank 0 has waited for more than ${PATIENCE_SECONDS} s in ${place} at ` +
          `${lineOf(fixture("leaves"), line).source} for rank 1, which has`,
      ),
    );
  }));
});

testUnderEveryMpi("all ranks that wait for one that has left are named", async (mpi) => {
  const place = `matmul > MPI_Allreduce at ${lineOf(fixture("leaves"), MULTIPLIES).source}`;
  const words =
    `rank [02] has waited for more than ${PATIENCE_SECONDS} s in ${place}, rank [02] in ${place} for rank 1, which has ended`;
  assertEnded(await run(mpi, 3, "leaves", "exits"), RegExp(`distmath: ${words} with exit code 0`));
});

for (const way of ["exits", "returns"]) {
  testUnderEveryMpi(`a rank that waits in MPI_Init for one that leaves is ended: ${way}`, async (mpi) => {
    const result = await run(mpi, 2, "leaves", `late ${way} before start`);
    const { source } = lineOf(fixture("leaves"), "= initialize(");
    const why = RegExp(
      `distmath: rank 0 waits in MPI_Init at ${source} for rank 1, which has ended with exit code 0`,
    );
    assertCleanEnd(result, { rank: 1, why, code: 1, mayLeave: MEMORY_AT_START });
  });

  testUnderEveryMpi(`MPI does not start without a rank that has left: ${way}`, async (mpi) => {
    const result = await run(mpi, 2, "leaves", `${way} before start`);
    const why = "StateError: MPI cannot start: rank 1 ended with exit code 0 before starting it";
    assertCleanEnd(result, { rank: 1, why, code: 1 });
  });
}

testUnderEveryMpi("ranks that leave early do not disturb others that work or wait for each other", async (mpi) => {
  const result = await run(mpi, 4, "leaves_in_peace", "");
  const { code, output, left } = result;
  assertEquals([code, left], [0, []], output);
  assertEquals(output.match(/is done/g)?.length, 4, output);
});

testUnderEveryMpi("a rank that has ended says for whom it waits, and the job goes on", async (mpi) => {
  const { code, output, left } = await run(mpi, 2, "works_on", "");
  assertEquals([code, left, output.match(/is done/g)?.length], [0, [], 2], output);
  const told =
    `distmath: rank 1 has ended, and has waited for more than ${PEACE_SECONDS} s for the others of this machine ` +
    "to end: rank 0, which is in no call that waits. The job goes on.";
  assertEquals(output.split(told).length, 2, output);
});

testUnderEveryMpi("a message that is awaited beside other work, and never comes, disturbs nobody", async (mpi) => {
  const { code, output } = await run(mpi, 2, "awaits_in_peace", "");
  assertEquals([code, output.match(/is done/g)?.length], [0, 2], output);
});

for (const [limit, ranks, what] of [["0", 3, "one that has left"], ["2", 2, "the time limit"]] as const) {
  testUnderEveryMpi(
    `a collective request that is asked for beside other work disturbs nobody: ${what}`,
    async (mpi) => {
      const { code, output } = await run(mpi, ranks, "tests_in_peace", limit);
      assertEquals([code, output.match(/is done/g)?.length], [0, ranks], output);
    },
  );
}

for (const way of ["a stopped rank", "a stopped sender"]) {
  Deno.test(`ranks that wait for a stopped one are left alone by one that has left: ${way}`, async () => {
    const mpi = mpiInstallations.find(({ family }) => family === "open_mpi") ?? mpiInstallations[0];
    const { code, output } = await run(mpi, 4, "leaves_beside_messages", way);
    assertEquals(code, 0, output);
    assertEquals(output.match(/is done/g)?.length, 4, output);
  });
}

/** Long messages travel piece by piece, as long as the sender works on them. */
const WITHOUT_SINGLE_COPIES = {
  OMPI_MCA_smsc: "^cma,xpmem,knem",
  OMPI_MCA_btl_vader_single_copy_mechanism: "none",
};

testUnderEveryMpi("a rank that has left sends on what it has begun to", async (mpi) => {
  const { code, output } = await runJob(mpi, 2, ["run", "-A", fixture("leaves_beside_messages"), "unawaited"], {
    environment: { ...WITHOUT_SINGLE_COPIES, DISTMATH_PATIENCE_SECONDS: String(PATIENCE_SECONDS) },
  });
  assertEquals([code, output.match(/is done/g)?.length], [0, 2], output);
});

testUnderEveryMpi("a job in which no rank starts MPI ends well", async (mpi) => {
  const result = await run(mpi, 2, "leaves_in_peace", "without MPI");
  assertEquals([result.code, result.output, result.left], [0, "", []]);
});
