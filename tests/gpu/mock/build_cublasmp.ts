/**
 * Build the mock cuBLASMp into a folder that has the mock GPU already (see build.ts), with the cuBLAS libraries that are
 * opened before it.
 *
 * Needs g++.
 *
 * @module
 */
import { CUBLAS_SYMBOLS, CUBLASLT_SYMBOLS } from "../../../ffi/cublaslt.ts";
import {
  CUBLASMP_LEGACY_PBLAS_SYMBOLS,
  CUBLASMP_LEGACY_SYMBOLS,
  CUBLASMP_PBLAS_SYMBOLS,
  CUBLASMP_SYMBOLS,
} from "../../../ffi/cublasmp.ts";
import { buildMockGpu } from "./build.ts";
import { compileMock } from "./compile.ts";

const NOT_SUPPORTED = 7;

/** Build the library, 0.10 or if `isLegacy` 0.7; functions that the source lacks return "not supported". */
export function buildMockCublasMp(folder: string, isLegacy = false): void {
  const library = `${folder}/libcublasmp.so.0`;
  compileMock({
    path: library,
    source: "mock_cublasmp.cpp",
    tables: [
      isLegacy ? CUBLASMP_LEGACY_SYMBOLS : CUBLASMP_SYMBOLS,
      isLegacy ? CUBLASMP_LEGACY_PBLAS_SYMBOLS : CUBLASMP_PBLAS_SYMBOLS,
      CUBLASLT_SYMBOLS,
      CUBLAS_SYMBOLS,
    ],
    notSupported: NOT_SUPPORTED,
    flags: [...isLegacy ? ["-DLEGACY"] : [], `-L${folder}`, "-l:libnccl.so.2", "-Wl,-rpath,$ORIGIN"],
  });
  for (const name of ["libcublasLt.so.13", "libcublas.so.13"]) Deno.copyFileSync(library, `${folder}/${name}`);
}

if (import.meta.main) {
  const folder = Deno.args[0] ?? Deno.makeTempDirSync({ prefix: "mock_cublasmp_" });
  buildMockGpu(folder);
  buildMockCublasMp(folder, Deno.args[1] === "legacy");
  console.log(folder);
}
