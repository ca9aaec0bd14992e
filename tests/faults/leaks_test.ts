/** Symmetric memory that nobody frees is reported at the end, with the place where it was allocated, and hangs nothing. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { type MpiInstallation, runJob, testUnderEveryMpi } from "../mpi_installations.ts";
import { assertCleanEnd } from "./clean_end.ts";

const FIXTURE = fileURLToPath(new URL("./fixtures/leaks.ts", import.meta.url));

const run = (mpi: MpiInstallation, how: string) => runJob(mpi, 2, ["run", "-A", FIXTURE, how]);

for (const how of ["finalize", "exit"]) {
  testUnderEveryMpi(`a leak of symmetric memory is reported once, at ${how}`, async (mpi) => {
    const { code, output } = await run(mpi, how);
    assertEquals(code, 0, output);
    const reports = output.split("\n").filter((line) => line.includes("were never freed"));
    assertEquals(reports.length, 1, output);
    assertStringIncludes(reports[0], "8192 bytes of symmetric memory");
    assertStringIncludes(reports[0], "fixtures/leaks.ts:5:14");
  });
}

testUnderEveryMpi("an error on one rank ends the job in spite of symmetric memory", async (mpi) => {
  assertCleanEnd(await run(mpi, "throw"), { rank: 1, why: "Error: broken on purpose", code: 1 });
});
