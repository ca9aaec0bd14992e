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

/** Run something with the mock's libraries in a folder of its own. */
async function withMock(
  body: (environment: Record<string, string>) => Promise<void>,
  isLegacy = false,
): Promise<void> {
  const folder = Deno.makeTempDirSync({ prefix: "distmath_mock_" });
  try {
    buildMockGpu(`${folder}/lib`);
    buildMockCublasMp(`${folder}/lib`, isLegacy);
    await body({ DISTMATH_LIBRARY_PATH: `${folder}/lib`, DISTMATH_NATIVE: `${folder}/native`, MOCK_GPUS: "2" });
  } finally {
    Deno.removeSync(folder, { recursive: true });
  }
}

async function runTests(files: readonly string[], environment: Record<string, string>): Promise<void> {
  for (const file of files) {
    const path = new URL(`../${file}`, import.meta.url).pathname;
    const { code, output } = await runJob(mpi, 2, ["test", "-A", path], { seconds: 240, environment });
    assertEquals(code, 0, `${file}:\n${output}`);
    assert(!output.includes("skipped: no GPU"), output);
  }
}

const FILES = [
  "gpu/matmul_test.ts",
  "cluster/pblas_test.ts",
  "cluster/epilog_test.ts",
  "cluster/quantization_test.ts",
  "cluster/symmetric_matmul_test.ts",
];

Deno.test({
  name: `products on mock GPUs are those of CPUs${suffix}`,
  ignore: reason !== null,
  fn: () => withMock((environment) => runTests(FILES, environment)),
});

Deno.test({
  name: `products run on cuBLASMp 0.7, whose functions have other names${suffix}`,
  ignore: reason !== null,
  fn: () => withMock((environment) => runTests(["gpu/matmul_test.ts"], environment), true),
});

Deno.test({
  name: `a library that one rank lacks is an error on every rank${suffix}`,
  ignore: reason !== null,
  fn: () =>
    withMock(async (environment) => {
      const script = new URL("./fixtures/cublasmp_missing.ts", import.meta.url).pathname;
      const { code, output } = await runJob(mpi, 2, ["run", "-A", script], { environment });
      assertEquals(code, 0, output);
      for (const rank of [0, 1]) {
        const line = output.split("\n").find((line) => line.includes(`ConfigurationError on rank ${rank}`)) ?? "";
        assert(line.includes("was not found") && line.includes("(on rank 1 of 2)"), output);
      }
      assert(output.includes("sum 64"), output);
    }),
});
