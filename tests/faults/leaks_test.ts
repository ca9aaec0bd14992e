/** Symmetric memory that nobody frees is reported at the end, with the place where it was allocated, and hangs nothing. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { type MpiInstallation, mpiInstallations, runJob, testUnderEveryMpi } from "../mpi_installations.ts";
import { lineOf } from "../script_lines.ts";
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
    assertMatch(reports[0], lineOf(FIXTURE, "const kept ="));
  });
}

Deno.test("a leak is reported with the script's line, however deep within the library its memory was allocated", async () => {
  const { code, output } = await run(mpiInstallations[0], "result");
  assertEquals(code, 0, output);
  const reports = output.split("\n").filter((line) => line.includes("were never freed"));
  assertEquals(reports.length, 1, output);
  assertMatch(reports[0], lineOf(FIXTURE, "// result"));
});

testUnderEveryMpi("an error on one rank ends the job in spite of symmetric memory", async (mpi) => {
  assertCleanEnd(await run(mpi, "throw"), { rank: 1, why: "Error: broken on purpose", code: 1 });
});
