/** A user's scripts and tests may import another version of the library than that of the command which runs them. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type MpiInstallation, newestLaunchers } from "../mpi_installations.ts";
import { type Ended, finish, root, start, temporaryFolder } from "./command.ts";
import { type Rewrite, serve } from "./server.ts";

/** A version in which words of the memory that ranks share have other meanings: read as those of this one they mislead. */
const otherLayout: Rewrite = (path, text) => {
  if (path !== "ffi/mpi/presence_page.ts") return text;
  const other = text.replace("FUNCTION: 3,", "NAME_BYTES: 3,").replace("NAME_BYTES: 8,", "FUNCTION: 8,");
  assert(other.includes("NAME_BYTES: 3,") && other.includes("FUNCTION: 8,"));
  return other;
};

/** Run a command on 2 ranks, `cluster-test` by its URL, with a file that imports the other version from `other`. */
async function runBeside(
  mpi: MpiInstallation,
  rewrite: Rewrite | undefined,
  command: string,
  name: string,
  source: (other: string) => string,
): Promise<Ended> {
  await using server = serve(rewrite);
  using folder = temporaryFolder();
  const origin = `http://127.0.0.1:${server.addr.port}`;
  Deno.writeTextFileSync(`${folder.path}/${name}`, source(`${origin}/other`));
  const main = command.startsWith("cluster-test") ? `${origin}/scripts/main.ts` : `${root}scripts/main.ts`;
  const args = ["run", "-A", "--quiet", main, ...command.split(" ")];
  const env = { DENO_DIR: `${folder.path}/deno`, DISTMATH_PATIENCE_SECONDS: "1" };
  return await finish(
    start(Deno.execPath(), [...args, "--mpirun", mpi.mpirun, name], { cwd: folder.path, env }),
  );
}

const tests = (other: string) => `
  import { clusterTest } from "${other}/src/testing/mod.ts";
  clusterTest("sums", ({ communicator, size }) => {
    const [sum] = communicator.allReduce(Float64Array.of(1));
    if (sum !== size) throw new Error(String(sum));
  });
  clusterTest("fails on rank 1", ({ rank }) => {
    if (rank === 1) throw new Error("broken on purpose");
  });
  clusterTest("hangs on rank 0", { timeoutSeconds: 4 }, ({ rank, communicator }) => {
    if (rank === 0) communicator.barrier();
  });
  clusterTest("comes after it", () => {});
`;

/** Rank 0 waits for rank 1 for some seconds. */
const script = (other: string) => `
  import { initialize } from "${other}/mod.ts";
  using runtime = initialize({ device: "cpu" });
  if (runtime.rank === 1) await new Promise((resolve) => setTimeout(resolve, 3500));
  runtime.communicator.barrier();
  console.log("rank " + runtime.rank + " is done");
`;

for (const mpi of newestLaunchers) {
  Deno.test(`cluster-test judges tests that import another version of the library [${mpi.name}]`, async () => {
    const { code, stdout } = await runBeside(mpi, otherLayout, "cluster-test --no-check --ranks 2", "a_test.ts", tests);
    assertEquals([code, stdout.trim().split("\n").at(-1)], [1, "2 passed, 2 failed"], stdout);
    for (const line of ["sums … ok", "fails on rank 1 … FAILED on rank 1\n", "comes after it … ok"]) {
      assertStringIncludes(stdout, line);
    }
    assertStringIncludes(stdout, "Error: broken on purpose");
    assertStringIncludes(stdout, "hangs on rank 0 … FAILED on rank 0\n");
  });
}

Deno.test("run sees ranks of another version wait, or is told that it cannot, and they tell themselves", async () => {
  const run = (rewrite?: Rewrite) => runBeside(newestLaunchers[0], rewrite, "run -n 2", "a.ts", script);
  const note =
    "distmath: the command that started this job is of another version than this library, and does not see where";
  for (const [rewrite, isSeen] of [[undefined, true], [otherLayout, false]] as const) {
    const { code, stdout, stderr } = await run(rewrite);
    assertEquals([code, stdout.trim().split("\n").sort()], [0, ["rank 0 is done", "rank 1 is done"]], stderr);
    assertEquals(stderr.split("distmath: rank 0 has waited for 1 s").length - 1, 1, stderr);
    assertEquals(stderr.split(note).length - 1, isSeen ? 0 : 1, stderr);
  }
});
