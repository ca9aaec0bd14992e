/**
 * Build the mock GPU and print the folder of its libraries: `DISTMATH_LIBRARY_PATH=$(deno run -A build.ts) deno test …`.
 *
 * Needs g++.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { CUFFT_SYMBOLS, CufftResult } from "../../../ffi/cuda/cufft.ts";
import { CUFFTMP_SYMBOLS } from "../../../ffi/cuda/cufftmp.ts";
import { CUDA_DRIVER_SYMBOLS } from "../../../ffi/cuda/driver.ts";
import { CUDA_GRAPH_SYMBOLS, CUDA_RUNTIME_SYMBOLS } from "../../../ffi/cuda/runtime.ts";
import { NCCL_SYMBOLS } from "../../../ffi/cuda/nccl.ts";
import { NVRTC_SYMBOLS } from "../../../ffi/cuda/nvrtc.ts";
import { NVSHMEM_SYMBOLS } from "../../../ffi/cuda/nvshmem.ts";
import { compileMock } from "./compile.ts";

const NOT_SUPPORTED = 801;

/** Build the libraries into a folder. */
export function buildMockGpu(folder: string): void {
  Deno.mkdirSync(folder, { recursive: true });
  const library = `${folder}/libmock.so`;
  compileMock({
    path: library,
    source: "mock_gpu.cpp",
    tables: [
      CUDA_DRIVER_SYMBOLS,
      CUDA_RUNTIME_SYMBOLS,
      CUDA_GRAPH_SYMBOLS,
      NVRTC_SYMBOLS,
      NCCL_SYMBOLS,
      NVSHMEM_SYMBOLS,
    ],
    notSupported: NOT_SUPPORTED,
    flags: [`-DMOCK_FOLDER="${fileURLToPath(new URL(".", import.meta.url)).replace(/\/$/, "")}"`, "-ldl"],
  });
  compileMock({
    path: `${folder}/libcufft.so.12`,
    source: "mock_cufft.cpp",
    tables: [CUFFT_SYMBOLS],
    notSupported: CufftResult.NOT_SUPPORTED,
    flags: [],
  });
  for (const name of ["libcuda.so.1", "libcudart.so.13", "libnvrtc.so.13", "libnccl.so.2", "libnvshmem_host.so.3"]) {
    Deno.copyFileSync(library, `${folder}/${name}`);
  }
  compileMock({
    path: `${folder}/libcufftMp.so.12`,
    source: "mock_cufftmp.cpp",
    tables: [CUFFTMP_SYMBOLS],
    notSupported: CufftResult.NOT_SUPPORTED,
    flags: [`-L${folder}`, "-l:libnvshmem_host.so.3", "-Wl,-rpath,$ORIGIN"],
  });
}

if (import.meta.main) {
  const folder = Deno.args[0] ?? Deno.makeTempDirSync({ prefix: "mock_gpu_" });
  buildMockGpu(folder);
  console.log(folder);
}
