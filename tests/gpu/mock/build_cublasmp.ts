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

const NOT_SUPPORTED = 7;

/** Build the library, 0.10 or if `isLegacy` 0.7; functions that the source lacks return "not supported". */
export function buildMockCublasMp(folder: string, isLegacy = false): void {
  const source = new URL("./mock_cublasmp.cpp", import.meta.url).pathname;
  const written = Deno.readTextFileSync(source);
  const tables: Deno.ForeignLibraryInterface[] = [
    isLegacy ? CUBLASMP_LEGACY_SYMBOLS : CUBLASMP_SYMBOLS,
    isLegacy ? CUBLASMP_LEGACY_PBLAS_SYMBOLS : CUBLASMP_PBLAS_SYMBOLS,
    CUBLASLT_SYMBOLS,
    CUBLAS_SYMBOLS,
  ];
  const names = tables.flatMap((table) =>
    Object.entries(table).flatMap(([key, symbol]) => {
      const name = "name" in symbol ? symbol.name! : key;
      return "optional" in symbol && symbol.optional ? [] : [name];
    })
  );
  const missing = new Set(names.filter((name) => !new RegExp(`\\b${name}\\b`).test(written)));
  const stubs = `${folder}/cublasmp_stubs.c`;
  Deno.writeTextFileSync(
    stubs,
    [...missing].map((name) => `int ${name}(void) { return ${NOT_SUPPORTED}; }\n`).join(""),
  );
  const run = (command: string, ...args: string[]) => {
    const { success, stderr } = new Deno.Command(command, { args }).outputSync();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
  };
  const library = `${folder}/libcublasmp.so.0`;
  run("gcc", "-fPIC", "-c", "-o", `${folder}/cublasmp_stubs.o`, stubs);
  run(
    "g++",
    "-std=c++17",
    "-O1",
    ...isLegacy ? ["-DLEGACY"] : [],
    "-fPIC",
    "-shared",
    "-o",
    library,
    source,
    `${folder}/cublasmp_stubs.o`,
    `-L${folder}`,
    "-l:libnccl.so.2",
    "-Wl,-rpath,$ORIGIN",
  );
  for (const name of ["libcublasLt.so.13", "libcublas.so.13"]) Deno.copyFileSync(library, `${folder}/${name}`);
}

if (import.meta.main) {
  const folder = Deno.args[0] ?? Deno.makeTempDirSync({ prefix: "mock_cublasmp_" });
  buildMockGpu(folder);
  buildMockCublasMp(folder, Deno.args[1] === "legacy");
  console.log(folder);
}
