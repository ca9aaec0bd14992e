/** Several programs in the name of a rank: those that it starts, and those that a shell runs one after the other. */
import { assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runAlone, runJob, runPrograms, testUnderEveryMpi } from "../mpi_installations.ts";
import { root } from "../system/command.ts";

const [starts, imports, ends] = ["starts_programs", "imports_only", "ends"].map((name) =>
  fileURLToPath(new URL(`./fixtures/${name}.ts`, import.meta.url))
);

for (const when of ["early", "late"]) {
  for (const [how, code] of [["well", 0], ["fails", 1]]) {
    testUnderEveryMpi(`a program that a rank starts is no rank: ${when}, ${how}`, async (mpi) => {
      const { code: whole, output, left } = await runJob(mpi, 2, [
        "run",
        "-A",
        "--no-check",
        starts,
        when,
        String(how),
      ]);
      assertEquals([whole, left], [0, []], output);
      assertEquals(output.includes(`the helper ended with exit code ${code}\n`), true, output);
      assertEquals(output.match(/is done/g)?.length, 2, output);
    });
  }
}

testUnderEveryMpi(
  "a program that a rank starts, and that starts MPI in its place, is refused, and the rank goes on",
  async (mpi) => {
    const { code, output, left } = await runJob(mpi, 2, ["run", "-A", "--no-check", starts, "late", "joins"]);
    assertEquals([code, left], [0, []], output);
    assertMatch(output, /StateError: This process was started by rank 0, process \d+, /);
    assertEquals(output.includes("the helper ended with exit code 1\n"), true, output);
    assertEquals(output.match(/is done/g)?.length, 2, output);
  },
);

testUnderEveryMpi("a program that a rank starts under run is no rank", async (mpi) => {
  for (const when of ["early", "late"]) {
    const command = ["run", "-A", `${root}scripts/main.ts`, "run", "--mpirun", mpi.mpirun, "-n", "2"];
    const { code, output, left } = await runAlone({ ...mpi, environment: {} }, [...command, starts, when, "well"]);
    assertEquals([code, left], [0, []], output);
    assertEquals([output.match(/is done/g)?.length, output.includes("has ended")], [2, false], output);
  }
});

testUnderEveryMpi("a rank may be several programs, one after the other", async (mpi) => {
  const script = '"$0" run -A --no-check "$1" well 1000 && "$0" run -A --no-check "$2"';
  const command = ["sh", "-c", script, Deno.execPath(), imports, ends];
  const { code, output, left } = await runPrograms(mpi, [{ ranks: 2, command }]);
  assertEquals([code, left], [0, []], output);
  assertEquals(output.match(/is done/g)?.length, 2, output);
});
