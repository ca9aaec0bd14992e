/** MPI is used by one thread, which is no Worker; another one is told so, and the job goes on. */
import { assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { type MpiInstallation, runAlone, runJob, testUnderEveryMpi } from "../mpi_installations.ts";

const fixture = (name: string): string => fileURLToPath(new URL(`./fixtures/threads/${name}.ts`, import.meta.url));

const run = (mpi: MpiInstallation, who: string) => runJob(mpi, 2, ["run", "-A", fixture("main"), who]);

const REFUSAL = "StateError: MPI cannot be used in a Worker, which does not learn that the process ends";

for (const who of ["both", "worker first"]) {
  testUnderEveryMpi(`a Worker is refused MPI, and the main thread goes on: ${who}`, async (mpi) => {
    const { code, output } = await run(mpi, who);
    assertEquals(code, 0, output);
    const lines = output.split("\n");
    const told = lines.filter((line) => line.startsWith(`worker: ${REFUSAL}`) && !line.includes("|"));
    assertEquals([told.length, lines.filter((line) => line === "main: 2").length], [2, 2], output);
  });
}

testUnderEveryMpi("a Worker's refusal that nobody catches ends the job and tells why", async (mpi) => {
  const { code, output } = await run(mpi, "uncaught");
  assertNotEquals(code, 0, output);
  assertNotEquals(code, 124, output);
  assertStringIncludes(output, REFUSAL);
});

testUnderEveryMpi("a second thread is refused MPI, and the first one goes on", async (mpi) => {
  const folder = Deno.makeTempDirSync();
  try {
    const files = ["first", "second"].map(fixture);
    const { code, output } = await runAlone(mpi, ["test", "-A", "--no-check", "--parallel", ...files, "--", folder], {
      environment: { DENO_JOBS: "2" },
    });
    assertEquals(code, 0, output);
    assertStringIncludes(output, "second: StateError: MPI was started by another thread of this process");
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
});
