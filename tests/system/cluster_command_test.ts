/** `cluster-test`: results of all ranks merged, JUnit XML, time limits, exit codes; under every MPI. */
import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { mpiInstallations } from "../mpi_installations.ts";
import { main, root, temporaryFolder } from "./command.ts";

const fixtures = `${root}tests/system/fixtures`;

for (const mpi of mpiInstallations.filter(({ name }) => name !== "MPI standard ABI")) {
  const clusterTest = (...args: string[]) =>
    main(["cluster-test", "--no-check", "--mpirun", mpi.mpirun, ...args], { cwd: fixtures, seconds: 60 });

  Deno.test(`cluster-test runs a file on several numbers of ranks [${mpi.name}]`, async () => {
    const { code, stdout, stderr } = await clusterTest("--ranks", "1,2", "passing_test.ts");
    assertEquals(code, 0, stdout + stderr);
    assertStringIncludes(stdout, "passing_test.ts on 1 rank ");
    assertStringIncludes(stdout, "passing_test.ts on 2 ranks ");
    assertStringIncludes(stdout, "  the ranks agree … ok");
    assertEquals(stdout.trim().split("\n").at(-1), "2 passed, 0 failed");
  });

  Deno.test(`cluster-test names the failing ranks and shows their output [${mpi.name}]`, async () => {
    using folder = temporaryFolder();
    const report = `${folder.path}/report.xml`;
    const { code, stdout } = await clusterTest("--ranks", "2", "--junit", report, "fails.ts");
    assertEquals(code, 1);
    assertStringIncludes(stdout, "  passes everywhere … ok");
    assertStringIncludes(stdout, "  fails on rank 1 … FAILED on rank 1");
    assertStringIncludes(stdout, "    Error: broken on purpose");
    assertStringIncludes(stdout, "  is left out … skipped");
    assertEquals(stdout.trim().split("\n").at(-1), "1 passed, 1 failed, 1 skipped");
    const xml = Deno.readTextFileSync(report);
    assertStringIncludes(xml, '<testsuites tests="3" failures="1" skipped="1">');
    assertMatch(xml, /<testcase name="fails on rank 1"[^>]*><failure message="failed on rank 1">Error: broken on/);
  });

  Deno.test(`cluster-test ends a file that hangs and says which rank [${mpi.name}]`, async () => {
    const { code, stdout } = await clusterTest("--ranks", "2", "--timeout", "3", "hangs.ts");
    assertEquals(code, 1);
    assertStringIncludes(stdout, "hangs on rank 1 … FAILED on rank 1");
    assertStringIncludes(stdout, "did not end within 3 s");
    assertStringIncludes(stdout, 'rank 1 after "passes everywhere"');
  });
}

Deno.test("cluster-test checks types before it starts the ranks", async () => {
  using folder = temporaryFolder();
  const file = `${folder.path}/wrong_test.ts`;
  Deno.writeTextFileSync(file, 'const text: number = "no number";\nDeno.test("never runs", () => void text);\n');
  const { code, stdout, stderr } = await main(["cluster-test", "--ranks", "1", file]);
  assertEquals(code, 1);
  assertStringIncludes(stderr, "type errors");
  assert(!stdout.includes("never runs"));
});

Deno.test("cluster-test refuses wrong arguments with exit code 2", async () => {
  for (
    const [args, message] of [
      [[], "needs test files"],
      [["--ranks", "1,x", "a_test.ts"], "--ranks takes"],
      [["nothing_test.ts"], "there is no file"],
    ] as const
  ) {
    const { code, stderr } = await main(["cluster-test", ...args], { cwd: fixtures });
    assertEquals(code, 2);
    assertStringIncludes(stderr, message);
  }
});
