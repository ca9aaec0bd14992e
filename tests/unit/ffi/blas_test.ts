import { assert, assertEquals } from "@std/assert";
import { type Blas, blasWarning } from "../../../ffi/blas/blas.ts";

const blas = (vendor: Blas["vendor"]): Blas => ({
  vendor,
  version: "1",
  path: "/lib/libblas.so.3",
  gemm: {} as Blas["gemm"],
  setThreads: () => {},
});

Deno.test("blasWarning() names the slow BLAS and what to install", () => {
  const warning = blasWarning(blas("reference"))!;
  assert(warning.includes("/lib/libblas.so.3"));
  assert(warning.includes("7 times slower"));
  assert(warning.includes("apt-get install libopenblas0-pthread"));
  for (const vendor of ["mkl", "openblas", "blis"] as const) assertEquals(blasWarning(blas(vendor)), null);
});
