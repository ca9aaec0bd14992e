/**
 * Build the mock GPU and print the folder of its libraries: `DISTMATH_LIBRARY_PATH=$(deno run -A build.ts) deno test …`.
 *
 * Needs g++.
 *
 * @module
 */
import { CUDA_DRIVER_SYMBOLS } from "../../../ffi/cuda_driver.ts";
import { CUDA_GRAPH_SYMBOLS, CUDA_RUNTIME_SYMBOLS } from "../../../ffi/cuda_runtime.ts";
import { NCCL_SYMBOLS } from "../../../ffi/nccl.ts";
import { NVRTC_SYMBOLS } from "../../../ffi/nvrtc.ts";
import { NVSHMEM_SYMBOLS } from "../../../ffi/nvshmem.ts";

const NOT_SUPPORTED = 801;

/** The C names of a table; a member may be another name for a C function. */
function namesOf(table: Deno.ForeignLibraryInterface): string[] {
  return Object.entries(table).flatMap(([key, symbol]) => {
    if ("optional" in symbol && symbol.optional) return [];
    return [("name" in symbol && symbol.name) || key];
  });
}

/** Build the libraries into a folder. */
export function buildMockGpu(folder: string): void {
  Deno.mkdirSync(folder, { recursive: true });
  const source = new URL("./mock_gpu.cpp", import.meta.url).pathname;
  const written = Deno.readTextFileSync(source);
  const tables: Deno.ForeignLibraryInterface[] = [
    CUDA_DRIVER_SYMBOLS,
    CUDA_RUNTIME_SYMBOLS,
    CUDA_GRAPH_SYMBOLS,
    NVRTC_SYMBOLS,
    NCCL_SYMBOLS,
    NVSHMEM_SYMBOLS,
  ];
  const missing = new Set(tables.flatMap(namesOf).filter((name) => !new RegExp(`\\b${name}\\(`).test(written)));
  const stubs = `${folder}/stubs.c`;
  Deno.writeTextFileSync(
    stubs,
    [...missing].map((name) => `int ${name}(void) { return ${NOT_SUPPORTED}; }\n`).join(""),
  );
  const run = (command: string, ...args: string[]) => {
    const { success, stderr } = new Deno.Command(command, { args }).outputSync();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
  };
  run("gcc", "-fPIC", "-c", "-o", `${folder}/stubs.o`, stubs);
  run(
    "g++",
    "-std=c++17",
    "-O1",
    "-fPIC",
    "-shared",
    "-o",
    `${folder}/libmock.so`,
    source,
    `${folder}/stubs.o`,
    "-ldl",
  );
  for (const name of ["libcuda.so.1", "libcudart.so.13", "libnvrtc.so.13", "libnccl.so.2", "libnvshmem_host.so.3"]) {
    Deno.copyFileSync(`${folder}/libmock.so`, `${folder}/${name}`);
  }
}

if (import.meta.main) {
  const folder = Deno.args[0] ?? Deno.makeTempDirSync({ prefix: "mock_gpu_" });
  buildMockGpu(folder);
  console.log(folder);
}
