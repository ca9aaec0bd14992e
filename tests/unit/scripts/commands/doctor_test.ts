import { assertEquals, assertStringIncludes } from "@std/assert";
import type { GpuLink } from "../../../../internals.ts";
import {
  describeLinks,
  describeMulticast,
  findGpuProblems,
  findProblems,
  type GpuFindings,
} from "../../../../scripts/commands/doctor.ts";

const launcher = { path: "/usr/bin/mpirun", kind: "open_mpi", version: "4.1.4", source: "PATH" } as const;
const library = { name: "ScaLAPACK", version: "2.2 with OpenBLAS", path: "/l/libscalapack.so", source: "OS loader" };
const working = { ...launcher, libraries: [library], threads: 2, canMultiply: true, error: null, transformError: null };
const absent = { error: "ScaLAPACK was not found", transformError: "FFTW was not found" };
const broken = { ...launcher, libraries: [], threads: null, canMultiply: false, ...absent };

Deno.test("findProblems() is silent where all is well", () => {
  assertEquals(findProblems([working, broken], []), []);
});

Deno.test("findProblems() says what to do", () => {
  const cases: [launchers: Parameters<typeof findProblems>[0], lacking: string[], message: string][] = [
    [[], [], "no MPI launcher (mpirun) was found; to install one: deno task native install cpu"],
    [[broken], [], "no MPI here has a ScaLAPACK that works; to install one"],
    [[broken, { ...working, path: "/n/mpirun" }], [], "set DISTMATH_MPIRUN=/n/mpirun"],
    [
      [{ ...working, transformError: "FFTW was not found.\nTo install it: apt-get" }],
      [],
      "fft does not work: FFTW was not found. To install it: apt-get",
    ],
    [[working], ["ffi", "run"], "lacks permissions (ffi, run): start it with -A"],
    [
      [{ ...working, libraries: [{ ...library, version: "2.2 with reference BLAS" }] }],
      [],
      "about 7 times slower than an optimised one; install one: apt-get install libopenblas0-pthread",
    ],
  ];
  for (const [launchers, lacking, message] of cases) {
    const problems = findProblems(launchers, lacking);
    assertEquals(problems.length, 1);
    assertStringIncludes(problems[0], message);
  }
});

const gpu = {
  ordinal: 0,
  name: "NVIDIA H200",
  uuid: "GPU-00",
  computeCapability: [9, 0],
  memoryBytes: 150e9,
  hasMulticast: true,
} as const;

const healthy: GpuFindings = {
  driver: { version: "580.95.05", cuda: [13, 0], path: "/l/libcuda.so.1", source: "OS loader" },
  absence: null,
  devices: [gpu],
  links: [],
  libraries: [{ name: "CUDA runtime", version: "13.0", path: "/n/cuda/lib/libcudart.so.13", source: "native install" }],
  missing: [],
  multicast: { NCCL_NVLS_ENABLE: null, NVSHMEM_DISABLE_NVLS: null },
  product: { canMultiply: true, error: null },
};

Deno.test("findGpuProblems() is silent where GPUs work, and where there is none", () => {
  assertEquals(findGpuProblems(healthy), []);
  assertEquals(findGpuProblems({ ...healthy, product: null }), []);
  assertEquals(findGpuProblems({ ...healthy, absence: { reason: "no driver", isFault: false } }), []);
});

Deno.test("findGpuProblems() says what to do", () => {
  const cases: [change: Partial<GpuFindings>, message: string][] = [
    [{ absence: { reason: "the driver does not start", isFault: true } }, "does not start; see what nvidia-smi says"],
    [
      { missing: [{ name: "NCCL", reason: "" }, { name: "cuBLASMp", reason: "" }], product: null },
      "NCCL, cuBLASMp cannot be used; to install all of them: deno task native install cuda",
    ],
    [
      { driver: { ...healthy.driver!, cuda: [12, 4] }, product: { canMultiply: false, error: "35" } },
      "for CUDA 13.0 (/n/cuda/lib/libcudart.so.13), but the driver serves CUDA 12.4; to install those for it: " +
      "deno task native install cuda",
    ],
    [{ product: { canMultiply: false, error: "out of\nmemory" } }, "matmul fails on GPU 0: out of memory"],
  ];
  for (const [change, message] of cases) {
    const problems = findGpuProblems({ ...healthy, ...change });
    assertEquals(problems.length, 1);
    assertStringIncludes(problems[0], message);
  }
});

Deno.test("describeLinks() groups the pairs of GPUs that are alike", () => {
  const link = (from: number, to: number, kind: GpuLink["kind"], hasPeerAccess: boolean | null): GpuLink => ({
    ordinals: [from, to],
    kind,
    hasPeerAccess,
  });
  assertEquals(describeLinks([link(0, 1, "nvlink", true), link(0, 2, "nvlink", true)]), "NVLink, peer access: 0-1 0-2");
  assertEquals(
    describeLinks([link(0, 1, "nvlink", true), link(0, 2, "pcie", false), link(1, 2, "pcie", false)]),
    "NVLink, peer access: 0-1; PCIe, no peer access: 0-2 1-2",
  );
  assertEquals(describeLinks([link(0, 1, null, null)]), "of unknown kind, peer access unknown: 0-1");
});

Deno.test("describeMulticast() tells who switches NVLink multicast off", () => {
  assertEquals(
    describeMulticast({ ...healthy, multicast: { NCCL_NVLS_ENABLE: "0", NVSHMEM_DISABLE_NVLS: "1" } }),
    "off: the environment has NCCL_NVLS_ENABLE=0 and NVSHMEM_DISABLE_NVLS=1 (these GPUs have it)",
  );
  assertEquals(
    describeMulticast({ devices: [], multicast: { NCCL_NVLS_ENABLE: "2", NVSHMEM_DISABLE_NVLS: null } }),
    "off: distmath sets NCCL_NVLS_ENABLE=0 and NVSHMEM_DISABLE_NVLS=1, where the environment has " +
      "NCCL_NVLS_ENABLE = 2 and NVSHMEM_DISABLE_NVLS unset (these GPUs lack it)",
  );
});
