/** On a machine without a GPU: the mock's symmetric memory, and a GPU whose work has failed. */
import { assert, assertEquals, assertNotEquals, assertStringIncludes } from "@std/assert";
import { buildMockGpu } from "../gpu/mock/build.ts";
import { type JobResult, mpiInstallations, runJob } from "../mpi_installations.ts";

function hasCompiler(): boolean {
  try {
    return new Deno.Command("g++", { args: ["--version"], stdout: "null", stderr: "null" }).outputSync().success;
  } catch {
    return false;
  }
}

const [mpi] = mpiInstallations;
const reason = mpi === undefined ? "no MPI" : hasCompiler() ? null : "no g++";
const suffix = reason === null ? "" : ` (skipped: ${reason})`;

/** Run `deno` on two mock GPUs with some arguments. */
type Run = (args: readonly string[], extra?: Record<string, string>) => Promise<JobResult>;

async function withMock(body: (run: Run) => Promise<void>): Promise<void> {
  const folder = Deno.makeTempDirSync({ prefix: "distmath_mock_" });
  try {
    buildMockGpu(`${folder}/lib`);
    const environment = {
      DISTMATH_LIBRARY_PATH: `${folder}/lib`,
      DISTMATH_NATIVE: `${folder}/native`,
      MOCK_GPUS: "2",
      TMPDIR: folder,
    };
    await body((args, extra) => runJob(mpi, 2, args, { seconds: 240, environment: { ...environment, ...extra } }));
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const pathOf = (file: string) => new URL(`../${file}`, import.meta.url).pathname;

Deno.test({
  name: `symmetric memory of mock GPUs: both backends, every misuse, many rounds, what is never freed${suffix}`,
  ignore: reason !== null,
  fn: () =>
    withMock(async (run) => {
      for (const file of ["gpu/symmetric_test.ts", "cluster/symmetric_test.ts"]) {
        const { code, output } = await run(["test", "-A", pathOf(file)]);
        assertEquals(code, 0, `${file}:\n${output}`);
        assert(!output.includes("skipped: no GPU"), output);
      }
      const { code, output } = await run(["run", "-A", pathOf("faults/fixtures/leaks.ts"), "finalize", "auto"]);
      assertEquals(code, 0, output);
      const reports = output.split("\n").filter((line) => line.includes("were never freed"));
      assertEquals(reports.map((line) => /of symmetric memory a rank \((\w+)\)/.exec(line)?.[1]), ["nvshmem"], output);
    }),
});

Deno.test({
  name: `an error on a GPU whose work has failed is the one that is told, not that of freeing${suffix}`,
  ignore: reason !== null,
  fn: () =>
    withMock(async (run) => {
      const { code, output } = await run(["run", "-A", pathOf("faults/fixtures/lost_gpu.ts")], { MOCK_LOST: "1" });
      assertNotEquals(code, 0, output);
      assertStringIncludes(output, "Error: the first cause");
      assert(!output.includes("SuppressedError"), output);
    }),
});
