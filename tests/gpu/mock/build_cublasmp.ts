/**
 * Build the mock cuBLASMp into a folder that has the mock GPU already (see build.ts), with the cuBLAS libraries that are
 * opened before it.
 *
 * Needs g++.
 *
 * @module
 */
import { CUBLAS_SYMBOLS, CUBLASLT_SYMBOLS } from "../../../ffi/cuda/cublaslt.ts";
import { CUBLASMP_PBLAS_SYMBOLS, CUBLASMP_SYMBOLS } from "../../../ffi/cuda/cublasmp.ts";
import { buildMockGpu } from "./build.ts";
import { compileMock } from "./compile.ts";

const NOT_SUPPORTED = 7;

const FILE = "libcublasmp.so.0";

/** Build the library, 0.10; functions that the source lacks return "not supported". */
export function buildMockCublasMp(folder: string): void {
  const library = `${folder}/${FILE}`;
  compileMock({
    path: library,
    source: "mock_cublasmp.cpp",
    tables: [CUBLASMP_SYMBOLS, CUBLASMP_PBLAS_SYMBOLS, CUBLASLT_SYMBOLS, CUBLAS_SYMBOLS],
    notSupported: NOT_SUPPORTED,
    flags: [`-L${folder}`, "-l:libnccl.so.2", "-Wl,-rpath,$ORIGIN"],
  });
  for (const name of ["libcublasLt.so.13", "libcublas.so.13"]) Deno.copyFileSync(library, `${folder}/${name}`);
}

/** Build a cuBLASMp 0.7 of which only `cublasMpGetVersion` is there. */
export function buildOldCublasMp(folder: string): void {
  compileMock({
    path: `${folder}/${FILE}`,
    source: "old_cublasmp.cpp",
    tables: [{ cublasMpGetVersion: CUBLASMP_SYMBOLS.cublasMpGetVersion }],
    notSupported: NOT_SUPPORTED,
    flags: [],
  });
}

if (import.meta.main) {
  const folder = Deno.args[0] ?? Deno.makeTempDirSync({ prefix: "mock_cublasmp_" });
  buildMockGpu(folder);
  buildMockCublasMp(folder);
  console.log(folder);
}
