import { assert, assertArrayIncludes, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { LIBC_CANDIDATES } from "../../ffi/memory.ts";
import { findFaults, type Snapshot } from "./compare.ts";
import { constantsOf, DECLARATIONS, functionsOf, type LibraryDeclaration } from "./declarations.ts";
import { exportedSymbols } from "./elf.ts";
import snapshotJson from "./snapshot.json" with { type: "json" };

const snapshot = snapshotJson as unknown as Snapshot;

/** Everything that can be changed. */
type Mutable<T> = T extends object ? { -readonly [K in keyof T]: Mutable<T[K]> } : T;

/** The faults after a change of a copy of one library's declarations. */
function faultsAfter(name: string, change: (library: Mutable<LibraryDeclaration>) => void): string[] {
  const declarations = JSON.parse(JSON.stringify(DECLARATIONS)) as Mutable<LibraryDeclaration>[];
  change(declarations.find((library) => library.name === name)!);
  return findFaults(declarations as LibraryDeclaration[], snapshot);
}

// deno-lint-ignore no-explicit-any -- a test changes a function's types to whatever it likes
function functionOf(library: Mutable<LibraryDeclaration>, table: string, key: string): any {
  return library.tables[table][key];
}

Deno.test("every declaration agrees with the vendors' headers", () => {
  assertEquals(findFaults(DECLARATIONS, snapshot), []);
});

Deno.test("the snapshot names its wheels and covers every library", () => {
  assertArrayIncludes(snapshot.wheels, [
    "nvidia-cublasmp-cu13==0.10.0.3695",
    "nvidia-nccl-cu13==2.30.7",
    "nvidia-nvshmem-cu13==3.4.5",
  ]);
  for (const wheel of snapshot.wheels) assertMatch(wheel, /^(nvidia-[a-z0-9-]+|mkl-include)==[\d.]+$/);
  assertEquals(Object.keys(snapshot.libraries), DECLARATIONS.map(({ name }) => name));
});

Deno.test("a table opens quickly: no more than 80 functions in each", () => {
  for (const { name, tables } of DECLARATIONS) {
    for (const [table, symbols] of Object.entries(tables)) {
      assert(Object.keys(symbols).length <= 80, `${name}: ${table} has ${Object.keys(symbols).length} functions`);
    }
  }
});

Deno.test("all 29 attributes of a distributed product and all routines of cuBLASMp are declared", () => {
  const cublasmp = DECLARATIONS.find(({ name }) => name === "cublasmp")!;
  const attributes = constantsOf(cublasmp).filter(([name]) => name.includes("_DESCRIPTOR_ATTRIBUTE_"));
  assertEquals(attributes.map(([, value]) => value).sort((a, b) => a - b), Array.from({ length: 29 }, (_, i) => i));
  const symbols = functionsOf(cublasmp).map(({ symbol }) => symbol);
  // deno-fmt-ignore
  for (const routine of [
    "Matmul", "Gemm", "Trsm", "Trmm", "Symm", "Hemm", "Syrk", "Herk", "Syr2k", "Her2k", "Syrkx", "Herkx", "Geadd",
    "Tradd", "Gemr2D", "Trmr2D",
  ]) {
    assertArrayIncludes(symbols, [`cublasMp${routine}`, `cublasMp${routine}_bufferSize`]);
  }
});

Deno.test("no function that makes or finds multicast memory is declared", () => {
  for (const library of DECLARATIONS) {
    for (const { symbol } of functionsOf(library)) assert(!/multicast|multimem|_mc_ptr/i.test(symbol), symbol);
  }
});

Deno.test("a changed parameter is found", async (test) => {
  await test.step("i64 where C has i32", () => {
    const faults = faultsAfter("cublasmp", (library) => {
      functionOf(library, "CUBLASMP_SYMBOLS", "cublasMpGridCreate").parameters[2] = "i64";
    });
    assertEquals(faults, ["cublasmp: cublasMpGridCreate: parameter 3 is i64, but C has i32"]);
  });
  await test.step("i32 where C has a size", () => {
    const faults = faultsAfter("nccl", (library) => {
      functionOf(library, "NCCL_SYMBOLS", "ncclAllReduce").parameters[2] = "i32";
    });
    assertEquals(faults, ["nccl: ncclAllReduce: parameter 3 is i32, but C has u64"]);
  });
  await test.step("signed where C is unsigned", () => {
    const faults = faultsAfter("cuda_driver", (library) => {
      functionOf(library, "CUDA_DRIVER_SYMBOLS", "cuStreamWriteValue32").parameters[2] = "i32";
    });
    assertEquals(faults, ["cuda_driver: cuStreamWriteValue32: parameter 3 is i32, but C has u32"]);
  });
  await test.step("host memory where C has a device address as an integer", () => {
    const faults = faultsAfter("cuda_driver", (library) => {
      functionOf(library, "CUDA_DRIVER_SYMBOLS", "cuStreamWriteValue32").parameters[1] = "buffer";
    });
    assertEquals(faults, ["cuda_driver: cuStreamWriteValue32: parameter 2 is buffer, but C has u64"]);
  });
  await test.step("a number where C has a pointer", () => {
    const faults = faultsAfter("nvrtc", (library) => {
      functionOf(library, "NVRTC_SYMBOLS", "nvrtcGetPTX").parameters[1] = "i32";
    });
    assertEquals(faults, ["nvrtc: nvrtcGetPTX: parameter 2 is i32, but C has pointer"]);
  });
  await test.step("a struct by value of another size", () => {
    const faults = faultsAfter("nccl", (library) => {
      functionOf(library, "NCCL_SYMBOLS", "ncclCommInitRank").parameters[2].struct.pop();
    });
    assertStringIncludes(faults.join("\n"), "nccl: ncclCommInitRank: parameter 3 is struct:120, but C has struct:128");
  });
  await test.step("one parameter less, and one more", () => {
    const fewer = faultsAfter("cublasmp", (library) => {
      functionOf(library, "CUBLASMP_SYMBOLS", "cublasMpMatmul").parameters.pop();
    });
    assertEquals(fewer, ["cublasmp: cublasMpMatmul: 26 parameters, but C has 27"]);
    const more = faultsAfter("cuda_runtime", (library) => {
      functionOf(library, "CUDA_RUNTIME_SYMBOLS", "cudaFree").parameters.push("u64");
    });
    assertEquals(more, ["cuda_runtime: cudaFree: 2 parameters, but C has 1"]);
  });
});

Deno.test("a changed result is found", () => {
  const faults = faultsAfter("nvshmem", (library) => {
    functionOf(library, "NVSHMEM_SYMBOLS", "nvshmem_malloc").result = "i32";
  });
  assertEquals(faults, ["nvshmem: nvshmem_malloc: the result is i32, C has pointer"]);
});

Deno.test("a function that the headers do not have is found, and one that is declared no longer", () => {
  const faults = faultsAfter("cublaslt", (library) => {
    const table = library.tables.CUBLASLT_SYMBOLS as Record<string, unknown>;
    table.cublasLtMatmulFaster = table.cublasLtMatmul;
    delete table.cublasLtMatmul;
  });
  assertEquals(faults, [
    "cublaslt: cublasLtMatmulFaster: the headers have no function cublasLtMatmulFaster",
    "cublaslt: cublasLtMatmul: in the snapshot, but declared no longer",
  ]);
});

Deno.test("a changed enum value is found, and an enumerator that C does not have", () => {
  const changed = faultsAfter("cublasmp", (library) => {
    const [, values] = library.enums.find(([prefix]) => prefix === "CUBLASMP_MATMUL_ALGO_TYPE_")!;
    values.NO_OVERLAP = 4;
    values.FASTEST = 7;
  });
  assertEquals(changed, [
    "cublasmp: CUBLASMP_MATMUL_ALGO_TYPE_NO_OVERLAP: 4, but C has 5",
    "cublasmp: CUBLASMP_MATMUL_ALGO_TYPE_FASTEST: 7, but C has no such constant",
  ]);
});

Deno.test("a changed offset, a changed width and a changed size of a struct are found", () => {
  const faults = faultsAfter("nccl", (library) => {
    const config = library.structs.find(({ name }) => name === "ncclConfig_t")!;
    config.fields.netName = [28, "u64"];
    config.fields.blocking = [16, "u64"];
    config.fields.speed = [0, "i32"];
    config.size = 104;
  });
  assertEquals(faults, [
    "nccl: ncclConfig_t: 104 bytes, but C has 96",
    "nccl: ncclConfig_t.blocking: 8 bytes at 16, but C has 4 at 16",
    "nccl: ncclConfig_t.netName: 8 bytes at 28, but C has 8 at 32",
    "nccl: ncclConfig_t.speed: C has no such field",
  ]);
});

Deno.test("a library that is not in the snapshot is found", () => {
  const faults = faultsAfter("nvrtc", (library) => library.name = "nvrtc_14");
  assertEquals(faults, ["nvrtc_14: not in the snapshot"]);
});

Deno.test({
  name: "the exported symbols of a shared library are read from its file",
  ignore: Deno.build.os !== "linux",
  fn() {
    const libc = LIBC_CANDIDATES.find((path) => {
      try {
        return Deno.statSync(path).isFile;
      } catch {
        return false;
      }
    });
    if (libc === undefined) return;
    const symbols = exportedSymbols(libc);
    assert(symbols.has("memcpy") && symbols.has("dlopen"));
    assert(!symbols.has("cublasMpMatmul"));
  },
});
