/** Arrays on GPUs, on a machine without one: the tests of tests/gpu/ on a mock GPU, whose kernels the CPU runs. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runAlone, runJob } from "../mpi_installations.ts";
import { mockTest, mpi } from "./mock.ts";
import { freePort, runRanks } from "./ranks_by_hand.ts";

const FILES = [
  "gpu/memory_test.ts",
  "gpu/arrays_test.ts",
  "gpu/redistribution_test.ts",
  "gpu/fft_test.ts",
  "gpu/fft_half_test.ts",
  "cluster/arrays_test.ts",
  "cluster/redistribute_test.ts",
  "cluster/fft_test.ts",
  "cluster/fft_life_test.ts",
  "gpu/cufftmp_test.ts",
];

for (const file of FILES) {
  mockTest(`arrays on mock GPUs behave as on CPUs: ${file}`, async (environment) => {
    const path = fileURLToPath(new URL(`../${file}`, import.meta.url));
    const { code, output } = await runJob(mpi, 2, ["test", "-A", "--no-check", path], { seconds: 240, environment });
    assertEquals(code, 0, output);
    assert(!/skipped: no (GPU|cuFFTMp)/.test(output), output);
  }, "none");
}

mockTest("parts that move between three mock GPUs, in step with each other", async (environment) => {
  const path = fileURLToPath(new URL("../gpu/fft_test.ts", import.meta.url));
  const { code, output } = await runJob(mpi, 3, ["test", "-A", "--no-check", "--filter", "parts that move", path], {
    seconds: 240,
    environment: { ...environment, MOCK_GPUS: "3" },
  });
  assertEquals([code, output.match(/ok \| 1 passed/g)?.length], [0, 3], output);
}, "none");

mockTest("little goes at once between three mock GPUs, and between six by two kernels each", async (environment) => {
  const path = fileURLToPath(new URL("../gpu/redistribution_test.ts", import.meta.url));
  for (const ranks of [3, 6]) {
    const args = ["test", "-A", "--no-check", "--filter", "little goes at once", path];
    const { code, output } = await runJob(mpi, ranks, args, {
      seconds: 240,
      environment: { ...environment, MOCK_GPUS: String(ranks) },
    });
    assertEquals([code, output.match(/ok \| 2 passed/g)?.length], [0, ranks], output);
  }
}, "none");

mockTest("more ranks than GPUs are refused, with what to do", async (environment) => {
  const script = fileURLToPath(new URL("../faults/fixtures/alone.ts", import.meta.url));
  const run = (ranks: number, extra: Record<string, string> = {}) =>
    runJob(mpi, ranks, ["run", "-A", script], { environment: { ...environment, ...extra } });
  const three = await run(3);
  assertStringIncludes(three.output, "where only 2 GPUs are visible, and each rank needs its own");
  assertStringIncludes(three.output, "DISTMATH_DEVICE=cpu");
  const shared = await run(2, { MOCK_GPUS: "1" });
  assertStringIncludes(shared.output, "ranks 0 and 1 would share GPU 0");
  assertStringIncludes(shared.output, "NCCL_MULTI_RANK_GPU_ENABLE=1 for all");
  const cpu = await run(3, { DISTMATH_DEVICE: "cpu" });
  assertEquals([cpu.code, cpu.output.includes("no error")], [0, true], cpu.output);
}, "none");

mockTest("ranks share GPUs where all of them permit it", async (environment) => {
  const path = fileURLToPath(new URL("../cluster/products_test.ts", import.meta.url));
  const sharing = { ...environment, NCCL_MULTI_RANK_GPU_ENABLE: "1" };
  const run = (ranks: number, gpus: string) =>
    runJob(mpi, ranks, ["test", "-A", "--no-check", path], { environment: { ...sharing, MOCK_GPUS: gpus } });
  for (const [ranks, gpus, words] of [[2, "1", "2 ranks share one GPU"], [3, "2", "3 ranks share 2 GPUs"]] as const) {
    const { code, output } = await run(ranks, gpus);
    assertEquals(code, 0, output);
    assertStringIncludes(output, words);
  }
}, "none");

mockTest("kernels that cannot be kept on disk are compiled by each process", async (environment, folder) => {
  // A file where their folder would be: it can be neither read nor written, as on a disk that is read-only.
  Deno.writeTextFileSync(`${folder}/kernels`, "");
  const code = `
    import { DistributedArray, initialize, Slab } from ${JSON.stringify(new URL("../../mod.ts", import.meta.url).href)};
    using runtime = initialize();
    console.log(runtime.device.kind, DistributedArray.full(runtime, [4, 3], Slab.X, 2).add(1).sum());
  `;
  const { code: status, output } = await runAlone(mpi, ["eval", code], {
    environment: { ...environment, MOCK_GPUS: "1" },
  });
  assertEquals([status, output.includes("gpu 36")], [0, true], output);
  assertEquals(Deno.readTextFileSync(`${folder}/kernels`), "");
}, "none");

mockTest("jobs on mock GPUs need no MPI: by hand, and as torchrun starts them", async (environment) => {
  const script = fileURLToPath(new URL("./fixtures/without_mpi_on_gpus.ts", import.meta.url));
  const run = ["run", "-A", "--no-check", script];
  const env = { ...environment, MOCK_GPUS: "3", DISTMATH_MPI: "/nowhere/libmpi.so" };
  // torchrun has a store of its own at MASTER_PORT.
  const port = freePort();
  using _store = Deno.listen({ hostname: "127.0.0.1", port });
  const torchrun = { TORCHELASTIC_RUN_ID: "a", TORCHELASTIC_USE_AGENT_STORE: "True", LOCAL_WORLD_SIZE: "3" };
  for (const ranks of [await runRanks(3, run, env), await runRanks(3, run, { ...env, ...torchrun }, port)]) {
    ranks.forEach(({ code, output }, rank) => {
      assertEquals(code, 0, output);
      const lines = output.split("\n").filter((line) => line.startsWith(`${rank}: `)).map((line) => line.slice(3));
      assertEquals(lines.slice(0, 3), [
        `3 ${rank} 3 Mock GPU ${rank}`,
        `0 7260 119 ${rank === 1 ? 119 : "-"}`,
        "120,0",
      ]);
      assertStringIncludes(output, "ConfigurationError MPI_Comm_split needs MPI, and this job was started without it");
    });
  }
  const [onCpu] = await runRanks(1, run, { ...env, DISTMATH_DEVICE: "cpu" });
  assertStringIncludes(onCpu.output, "ConfigurationError: initialize: this job was started without MPI");
  assertStringIncludes(onCpu.output, "That is for GPUs, which NCCL connects, and here CPUs would compute.");
}, "none");
