/** Products and PBLAS routines on GPUs, on a machine without one: the engine on a mock GPU and a mock cuBLASMp. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { buildOldCublasMp } from "../gpu/mock/build_cublasmp.ts";
import { runJob } from "../mpi_installations.ts";
import { mockTest, mpi } from "./mock.ts";
import { runRanks } from "./ranks_by_hand.ts";

const FILES = [
  "gpu/matmul_test.ts",
  "gpu/recording_test.ts",
  "gpu/overlap_test.ts",
  "gpu/copy_engine_test.ts",
  "cluster/pblas_test.ts",
  "cluster/epilog_test.ts",
  "cluster/empty_test.ts",
  "cluster/matmul_random_test.ts",
  "cluster/quantization_test.ts",
  "cluster/staged_product_test.ts",
  "cluster/symmetric_matmul_test.ts",
];

for (const file of FILES) {
  mockTest(`products on mock GPUs are those of CPUs: ${file}`, async (environment) => {
    const path = fileURLToPath(new URL(`../${file}`, import.meta.url));
    const { code, output } = await runJob(mpi, 2, ["test", "-A", "--no-check", path], { seconds: 240, environment });
    assertEquals(code, 0, output);
    assert(!output.includes("skipped: no GPU"), output);
  });
}

mockTest("cuBLASMp 0.7 is refused with what to do, and passed over where there is a newer one", async (env, path) => {
  const { DISTMATH_LIBRARY_PATH: mock } = env;
  const [old, others] = [`${path}/old`, `${path}/others`];
  for (const folder of [old, others]) Deno.mkdirSync(folder);
  buildOldCublasMp(old);
  for (const { name } of Deno.readDirSync(mock)) {
    if (name !== "libcublasmp.so.0") Deno.copyFileSync(`${mock}/${name}`, `${others}/${name}`);
  }
  const script = fileURLToPath(new URL("./fixtures/multiplies_on_gpu.ts", import.meta.url));
  const run = (folders: string[]) =>
    runJob(mpi, 2, ["run", "-A", script], { environment: { ...env, DISTMATH_LIBRARY_PATH: folders.join(":") } });
  const refused = await run([old, others]);
  for (const rank of [0, 1]) {
    assertStringIncludes(
      refused.output,
      `ConfigurationError on rank ${rank}: cuBLASMp 0.7.0 (${old}/libcublasmp.so.0) is too old: ` +
        "distmath needs 0.8 or newer. Run: deno task native install cuda",
    );
  }
  const taken = await run([old, mock]);
  assertStringIncludes(taken.output, `sum 512 by ${mock}/libcublasmp.so.0`);
});

mockTest("a product of ranks that were started without MPI", async (environment) => {
  const script = fileURLToPath(new URL("./fixtures/multiplies_on_gpu.ts", import.meta.url));
  for (const { code, output } of await runRanks(2, ["run", "-A", "--no-check", script], environment)) {
    assertEquals(code, 0, output);
    assertStringIncludes(output, `sum 512 by ${environment.DISTMATH_LIBRARY_PATH}/libcublasmp.so.0`);
  }
});

mockTest("engine overlap needs NVLink and NVSHMEM, and else cuBLASMp multiplies", async (environment, path) => {
  const script = fileURLToPath(new URL("./fixtures/overlaps_on_gpu.ts", import.meta.url));
  const run = async (changes: Record<string, string>) => {
    const { code, output } = await runJob(mpi, 2, ["run", "-A", script], {
      environment: { ...environment, ...changes },
    });
    assertEquals(code, 0, output);
    return output;
  };
  const all = await run({});
  assertStringIncludes(all, "auto: sum 4096 by overlap");
  assertStringIncludes(all, "overlap: sum 4096 by overlap");
  const slow = await run({ MOCK_PCIE: "1" });
  assertStringIncludes(slow, "auto: sum 4096 by cublasmp");
  const other = "Leave engine out: cublasmp takes the product.";
  const slowReason = "it stores over NVLink, which does not join GPUs 0 and 1";
  const without = `${path}/without`;
  Deno.mkdirSync(without);
  for (const { name } of Deno.readDirSync(environment.DISTMATH_LIBRARY_PATH)) {
    if (!name.includes("nvshmem")) {
      Deno.copyFileSync(`${environment.DISTMATH_LIBRARY_PATH}/${name}`, `${without}/${name}`);
    }
  }
  const poor = await run({ DISTMATH_LIBRARY_PATH: without });
  assertStringIncludes(poor, "auto: sum 4096 by cublasmp");
  for (const rank of [0, 1]) {
    const why = `overlap: ConfigurationError on rank ${rank}: engine overlap: `;
    assertStringIncludes(slow, `${why}${slowReason}. ${other}`);
    assertStringIncludes(poor, `${why}it needs NVRTC, NVSHMEM and cuBLASLt. NVSHMEM was not found`);
  }
});

mockTest("a library that one rank lacks is an error on every rank", async (environment) => {
  const script = fileURLToPath(new URL("./fixtures/cublasmp_missing.ts", import.meta.url));
  const { code, output } = await runJob(mpi, 2, ["run", "-A", script], { environment });
  assertEquals(code, 0, output);
  for (const rank of [0, 1]) {
    const line = output.split("\n").find((line) => line.includes(`ConfigurationError on rank ${rank}`)) ?? "";
    assert(line.includes("was not found") && line.includes("(on rank 1 of 2)"), output);
  }
  assert(output.includes("sum 64"), output);
});
