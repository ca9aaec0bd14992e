/** A time limit ends a job whose ranks wait for one that does not come, and tells where all are. */
import { assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { type MpiInstallation, runJob, slowdown, testUnderEveryMpi, whyNoScalapack } from "../mpi_installations.ts";
import { lineOf } from "../script_lines.ts";
import { assertCleanEnd } from "./clean_end.ts";

const fixture = fileURLToPath(new URL("./fixtures/stuck.ts", import.meta.url));

const run = (mpi: MpiInstallation, ranks: number, ...args: string[]) =>
  runJob(mpi, ranks, ["run", "-A", fixture, ...args]);

/** A limit of a whole job that ranks keep which come: on a busy machine they are further apart. */
const limitSeconds = () => Math.min(15, 1 + Math.ceil(slowdown()));

for (
  const [where, call, text] of [
    ["agreement", "matmul > MPI_Allreduce", "=> agree("],
    // Not its first call, which opens the function.
    ["barrier", "MPI_Barrier", "barrier: () =>"],
    ["stopped", "MPI_Barrier", "stopped: () =>"],
    ["awaited", "MPI_Iallreduce", "awaited: () =>"],
    ["awaited beside a message", "MPI_Iallreduce", "iallReduce(Float64Array.of(1)).then(); // beside"],
    ["tested", "MPI_Iallreduce", "iallReduce(Float64Array.of(1)); // tested"],
    ["product", "pdgemm", "return () => product.execute(); // pgemm"],
    ["overlap", "waitForFlag", "return () => product.execute(); // overlap"],
  ]
) {
  testUnderEveryMpi(`timeoutSeconds ends the job when a rank does not come: ${where}`, async (mpi) => {
    const limit = where === "barrier" ? limitSeconds() : 1;
    const result = await run(mpi, 2, where, String(limit));
    const line = `at ${lineOf(fixture, text).source}`;
    const words = `rank 0 has waited for more than ${limit} s \\(timeoutSeconds\\) in ${call} ${line};`;
    assertCleanEnd(result, { rank: 1, why: RegExp(words), code: 124, extraSeconds: limit });
    assertMatch(result.output, RegExp(`^ {2}rank 0 waits in .* ${line}`, "m"));
    assertMatch(result.output, /^ {2}rank 1 has not arrived: it is in no call that waits/m);
  }, ["product", "overlap"].includes(where) ? whyNoScalapack : null);
}

// Rank 1 waits for the other's end, and may be the first to tell where both are. That it is, if rank 0 works before it waits,
// which has then just made memory for MPICH's barriers, whose name goes once the others have come.
for (const [name, work] of [["", "0"], [", and the other one waits later", "900"]]) {
  testUnderEveryMpi(`timeoutSeconds ends the job when a rank leaves early with code 0${name}`, async (mpi) => {
    const why =
      /^distmath: rank [01] has waited for more than 1 s \(timeoutSeconds\) .*\n(.*\n)? {2}rank 0 waits in MPI_Barrier/m;
    assertCleanEnd(await run(mpi, 2, "exit", "1", work), { rank: 1, why, code: 124, extraSeconds: 1 });
  });
}

testUnderEveryMpi("of four ranks a time limit tells where each is, and its exit code is not lost", async (mpi) => {
  const limit = limitSeconds();
  const result = await run(mpi, 4, "barrier", String(limit));
  assertCleanEnd(result, { rank: 1, why: `more than ${limit} s (timeoutSeconds)`, code: 124, extraSeconds: limit });
  const waits = result.output.matchAll(
    /^ {2}rank (\d) waits in MPI_Barrier at stuck\.ts:\d+:\d+, collective call (\d+)$/gm,
  );
  const calls = new Map(Array.from(waits, ([, rank, call]) => [rank, call]));
  assertEquals([...calls.keys()].sort(), ["0", "2", "3"], result.output);
  assertEquals(new Set(calls.values()).size, 1, result.output);
  assertMatch(result.output, /^ {2}rank 1 has not arrived: it is in no call that waits/m);
});
