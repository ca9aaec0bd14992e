/** Arrays on GPUs, on a machine without one: the tests of tests/gpu/ on a mock GPU, whose kernels the CPU runs. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { buildMockGpu } from "../gpu/mock/build.ts";
import { mpiInstallations, runJob } from "../mpi_installations.ts";

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

/** Run something with the mock's libraries in a folder of its own. */
async function withMock(body: (environment: Record<string, string>) => Promise<void>): Promise<void> {
  const folder = Deno.makeTempDirSync({ prefix: "distmath_mock_" });
  try {
    buildMockGpu(`${folder}/lib`);
    // Compiled kernels are kept beside `native`.
    await body({ DISTMATH_LIBRARY_PATH: `${folder}/lib`, DISTMATH_NATIVE: `${folder}/native`, MOCK_GPUS: "2" });
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

const FILES = ["gpu/memory_test.ts", "gpu/arrays_test.ts", "cluster/arrays_test.ts", "cluster/redistribute_test.ts"];

Deno.test({
  name: `arrays on mock GPUs behave as on CPUs${suffix}`,
  ignore: reason !== null,
  fn: () =>
    withMock(async (environment) => {
      for (const file of FILES) {
        const path = new URL(`../${file}`, import.meta.url).pathname;
        const { code, output } = await runJob(mpi, 2, ["test", "-A", path], { seconds: 240, environment });
        assertEquals(code, 0, `${file}:\n${output}`);
        assert(!output.includes("skipped: no GPU"), output);
      }
    }),
});

Deno.test({
  name: `more ranks than GPUs are refused, with what to do${suffix}`,
  ignore: reason !== null,
  fn: () =>
    withMock(async (environment) => {
      const script = new URL("../faults/fixtures/alone.ts", import.meta.url).pathname;
      const three = await runJob(mpi, 3, ["run", "-A", script], { environment });
      assertStringIncludes(three.output, "where only 2 GPUs are visible, and each rank needs its own");
      assertStringIncludes(three.output, "DISTMATH_DEVICE=cpu");
      const shared = await runJob(mpi, 2, ["run", "-A", script], { environment: { ...environment, MOCK_GPUS: "1" } });
      assertStringIncludes(shared.output, "ranks 0 and 1 would share GPU 0");
      const cpu = await runJob(mpi, 3, ["run", "-A", script], {
        environment: { ...environment, DISTMATH_DEVICE: "cpu" },
      });
      assertEquals([cpu.code, cpu.output.includes("no error")], [0, true], cpu.output);
    }),
});
