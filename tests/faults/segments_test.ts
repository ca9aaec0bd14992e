/**
 * Open MPI's jobs that run at the same time do not share memory, though names of it may be the same; none outlives a job, nor
 * does what MPICH's launcher has for ranks that start.
 */
import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { mpiInstallations, runJob, testUnderEveryMpi } from "../mpi_installations.ts";

const script = fileURLToPath(new URL("./fixtures/segments.ts", import.meta.url));

for (const mpi of mpiInstallations.filter(({ family }) => family === "open_mpi")) {
  Deno.test(`each rank shares memory in a folder of its own, which goes with it [${mpi.name}]`, async () => {
    const { code, output, left } = await runJob(mpi, 3, ["run", "-A", script]);
    assertEquals(code, 0, output);
    const ranks = [...output.matchAll(/^rank \d of process (\d+) is true: (.+)$/gm)];
    assertEquals(ranks.length, 3, output);
    for (const [, pid, paths] of ranks) {
      assert(RegExp(`/dev/shm/distmath_sm\\.${pid}\\.\\w+/(sm|vader)_segment\\.`).test(paths), output);
      assert(paths.includes("/osc_sm."), output);
      for (const path of paths.split(" ")) {
        assert(ranks.some(([, one]) => path.startsWith(`/dev/shm/distmath_sm.${one}.`)), path);
      }
    }
    assertEquals(left, []);
  });
}

for (const killed of ["one", "all"]) {
  testUnderEveryMpi(`ranks that are killed leave no name of memory: ${killed}`, async (mpi) => {
    const { code, output, left } = await runJob(mpi, 3, ["run", "-A", script, killed]);
    assertNotEquals(code, 0, output);
    assertEquals(output.match(/^rank \d of process/gm)?.length, 3, output);
    const files = Array.from(output.matchAll(/^the launcher has (.*)$/gm), ([, file]) => file.includes(" (deleted)"));
    assertEquals(files, mpi.family === "mpich" && mpi.release === 5 ? [true, true, true] : [], output);
    assertEquals(left, []);
  });
}
