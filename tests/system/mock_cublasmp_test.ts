/** Products and PBLAS routines on GPUs, on a machine without one: the engine on a mock GPU and a mock cuBLASMp. */
import { assert, assertEquals } from "@std/assert";
import { buildMockGpu } from "../gpu/mock/build.ts";
import { buildMockCublasMp } from "../gpu/mock/build_cublasmp.ts";
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
const FILES = ["gpu/matmul_test.ts", "cluster/pblas_test.ts", "cluster/epilog_test.ts"];

Deno.test({
  name: `products on mock GPUs are those of CPUs${suffix}`,
  ignore: reason !== null,
  fn: async () => {
    const folder = Deno.makeTempDirSync({ prefix: "distmath_mock_" });
    try {
      buildMockGpu(`${folder}/lib`);
      buildMockCublasMp(`${folder}/lib`);
      const environment = {
        DISTMATH_LIBRARY_PATH: `${folder}/lib`,
        DISTMATH_NATIVE: `${folder}/native`,
        MOCK_GPUS: "2",
      };
      for (const file of FILES) {
        const path = new URL(`../${file}`, import.meta.url).pathname;
        const { code, output } = await runJob(mpi, 2, ["test", "-A", path], { seconds: 240, environment });
        assertEquals(code, 0, `${file}:\n${output}`);
        assert(!output.includes("skipped: no GPU"), output);
      }
    } finally {
      Deno.removeSync(folder, { recursive: true });
    }
  },
});
