/** What `doctor` tells of GPUs: of mock GPUs, of libraries that do not fit, of a machine without any. */
import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { findGpuDriver, type GpuLink } from "../../internals.ts";
import type { Findings } from "../../scripts/commands/doctor.ts";
import { main, temporaryFolder } from "./command.ts";
import { mockLibraries, mpi, reason } from "./mock.ts";

const hasDriver = findGpuDriver() !== null;

const libraries = [
  ...["libcudart.so.13", "libnvrtc.so.13", "libcublasLt.so.13", "libcublas.so.13", "libnccl.so.2"],
  ...["libnvshmem_host.so.3", "libcublasmp.so.0"],
];
const names = ["CUDA runtime", "NVRTC", "cuBLASLt", "cuBLAS", "NCCL", "NVSHMEM", "cuBLASMp"];

/** A mock driver alone in a folder, and a native prefix with the mock libraries where `native install cuda` puts them. */
function place(parent: string): { driver: string; native: string; installed: string } {
  const [driver, native] = [`${parent}/driver`, `${parent}/native`];
  const [installed, mock] = [`${native}/cuda/lib`, mockLibraries("0.10")];
  for (const folder of [driver, installed]) Deno.mkdirSync(folder, { recursive: true });
  Deno.copyFileSync(`${mock}/libcuda.so.1`, `${driver}/libcuda.so.1`);
  for (const name of libraries) Deno.copyFileSync(`${mock}/${name}`, `${installed}/${name}`);
  const bytes = libraries.reduce((sum, name) => sum + Deno.statSync(`${installed}/${name}`).size, 0);
  const record = { pins: "", packages: ["nvidia-nccl-cu13 2.30.7"], bytes };
  Deno.writeTextFileSync(`${native}/cuda/distmath.json`, JSON.stringify(record));
  return { driver, native, installed };
}

/** Run `doctor` under the first launcher; on a machine without MPI's ScaLAPACK its exit code is that of the GPU. */
async function doctor(env: Record<string, string>, args: string[] = []): Promise<{ code: number; stdout: string }> {
  return await main(["doctor", "--mpirun", mpi.mpirun, ...args], { env: { ...mpi.environment, ...env } });
}

async function findings(env: Record<string, string>): Promise<Findings> {
  return JSON.parse((await doctor(env, ["--json"])).stdout);
}

function withMock(
  name: string,
  body: (places: ReturnType<typeof place>) => Promise<void>,
  isSkipped: string | null = reason,
): void {
  Deno.test({
    name: isSkipped === null ? name : `${name} (skipped: ${isSkipped})`,
    ignore: isSkipped !== null,
    fn: async () => {
      using folder = temporaryFolder();
      await body(place(folder.path));
    },
  });
}

withMock(
  "doctor tells of GPUs, their links and the libraries of native install",
  async ({ driver, native, installed }) => {
    const env = { DISTMATH_LIBRARY_PATH: driver, DISTMATH_NATIVE: native, MOCK_GPUS: "3", NCCL_NVLS_ENABLE: "0" };
    const { gpus, problems, native: sets } = await findings(env);
    assertEquals(gpus.driver?.cuda, [13, 0]);
    assertEquals(gpus.driver?.path, `${driver}/libcuda.so.1`);
    assertEquals(gpus.devices.map(({ name, computeCapability }) => `${name} ${computeCapability.join(".")}`), [
      "Mock GPU 9.0",
      "Mock GPU 9.0",
      "Mock GPU 9.0",
    ]);
    const link = (from: number, to: number): GpuLink => ({ ordinals: [from, to], kind: "nvlink", hasPeerAccess: true });
    assertEquals(gpus.links, [link(0, 1), link(0, 2), link(1, 2)]);
    assertEquals(gpus.libraries.map(({ name }) => name), names);
    for (const { path, source } of gpus.libraries) {
      assertEquals([path.startsWith(`${installed}/`), source], [true, "native install"], path);
    }
    assertEquals(gpus.libraries.find(({ name }) => name === "NCCL")?.version, "2.30.7");
    assertEquals(gpus.missing, []);
    assertEquals(gpus.multicast, {
      NCCL_NVLS_ENABLE: "0",
      NVSHMEM_DISABLE_NVLS: Deno.env.get("NVSHMEM_DISABLE_NVLS") ?? null,
    });
    assertEquals(gpus.product, { canMultiply: true, error: null });
    assertEquals(problems.filter((problem) => /GPU|NVIDIA|CUDA/.test(problem)), []);
    assertEquals(sets, [{ packages: ["nvidia-nccl-cu13 2.30.7"], folder: `${native}/cuda`, damage: null }]);

    const { code, stdout } = await doctor(env);
    assertEquals(code, 0, stdout);
    assertMatch(stdout, /^GPUs +3$/m);
    assertMatch(stdout, /^ {2}driver +.*CUDA 13\.0 \(/m);
    assertMatch(stdout, /^ {2}GPU 2 +Mock GPU, compute capability 9\.0, 17 GB$/m);
    assertMatch(stdout, /^ {2}links +NVLink, peer access: 0-1 0-2 1-2$/m);
    assertMatch(stdout, /^ {2}NCCL +2\.30\.7 \(.*, found by native install\)$/m);
    assertMatch(stdout, /^ {2}NVLS +off: distmath sets .* where the environment has NVSHMEM_DISABLE_NVLS unset/m);
    assertMatch(stdout, /^ {2}matmul +works$/m);
  },
);

withMock(
  "doctor names missing libraries, and the command that installs them",
  async ({ driver, native, installed }) => {
    Deno.removeSync(`${installed}/libcublasmp.so.0`);
    Deno.writeTextFileSync(`${installed}/libnvrtc.so.13`, "not a library");
    const env = { DISTMATH_LIBRARY_PATH: driver, DISTMATH_NATIVE: native, MOCK_GPUS: "1" };
    const { gpus, problems } = await findings(env);
    assertEquals(gpus.missing.map(({ name }) => name), ["NVRTC", "cuBLASMp"]);
    assertStringIncludes(
      gpus.missing[0].reason,
      `NVRTC: ${installed}/libnvrtc.so.13 (native install) is there, but cannot be loaded: with 13 bytes it is no shared`,
    );
    assertEquals(gpus.missing[1].reason, "cuBLASMp was not found.");
    assertEquals(gpus.product, null);
    const expected = "NVRTC, cuBLASMp cannot be used; to install all of them: deno task native install cuda";
    assertEquals(problems.filter((problem) => problem.includes(expected)).length, 1, problems.join("\n"));
  },
  reason ?? (hasDriver ? "this machine has an NVIDIA driver, and may have the libraries" : null),
);

withMock("doctor says that libraries are too new for the driver", async ({ driver, native }) => {
  const env = { DISTMATH_LIBRARY_PATH: driver, DISTMATH_NATIVE: native, MOCK_GPUS: "1", MOCK_CUDA: "12040" };
  const { problems } = await findings(env);
  const expected = "but the driver serves CUDA 12.4; to install those for it: deno task native install cuda";
  assertEquals(problems.filter((problem) => problem.includes(expected)).length, 1, problems.join("\n"));
});

withMock("doctor survives a library that ends the process", async ({ driver, native, installed }) => {
  const source = `${driver}/ends.c`;
  Deno.writeTextFileSync(
    source,
    "void _exit(int);\n__attribute__((constructor)) static void end(void) { _exit(42); }\n",
  );
  const args = ["-shared", "-fPIC", "-o", `${installed}/libnccl.so.2`, source];
  assertEquals(new Deno.Command("gcc", { args }).outputSync().success, true);
  const env = { DISTMATH_LIBRARY_PATH: driver, DISTMATH_NATIVE: native, MOCK_GPUS: "1" };
  const { gpus, problems } = await findings(env);
  const expected = "looking at GPUs ended with exit code 42";
  assertEquals(gpus.absence?.isFault, true);
  assertEquals(problems.filter((problem) => problem.startsWith(expected)).length, 1, problems.join("\n"));
});

withMock("doctor has one line for a machine without a GPU", async ({ driver, native }) => {
  const env = { DISTMATH_LIBRARY_PATH: driver, DISTMATH_NATIVE: native, MOCK_GPUS: "0", CUDA_VISIBLE_DEVICES: "" };
  const { stdout } = await doctor(env);
  assertMatch(stdout, /\n\nGPUs +none: the NVIDIA driver sees no GPU; CUDA_VISIBLE_DEVICES is ""\n\n/);
  const { gpus, problems } = await findings(env);
  assertEquals([gpus.absence?.isFault, gpus.libraries, gpus.missing], [false, [], []]);
  assertEquals(problems.filter((problem) => /GPU|NVIDIA|CUDA/.test(problem)), []);
});

const unfit = reason === "no MPI" ? reason : hasDriver ? "this machine has an NVIDIA driver" : null;

Deno.test({
  name: `doctor has one line for a machine without a driver${unfit === null ? "" : ` (skipped: ${unfit})`}`,
  ignore: unfit !== null,
  fn: async () => {
    const { stdout } = await doctor({ DISTMATH_NATIVE: "/nonexistent" });
    assertMatch(stdout, /\n\nGPUs +none: no NVIDIA driver \(libcuda\.so\.1\) was found\n\n/);
  },
});
