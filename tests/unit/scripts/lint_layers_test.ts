import { assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import plugin from "../../../scripts/lint_layers.ts";

const root = fileURLToPath(new URL("../../../", import.meta.url));

function rulesBroken(file: string, source: string): string[] {
  return Deno.lint.runPlugin(plugin, `${root}${file}`, source).map(({ id }) => id);
}

Deno.test("lint: imports point downward", () => {
  const allowed: [file: string, specifier: string][] = [
    ["mod.ts", "./src/linalg/mod.ts"],
    ["src/linalg/engines/scalapack/engine.ts", "../../../../ffi/blas/blas.ts"],
    ["src/linalg/engines/scalapack/engine.ts", "./strategy.ts"],
    ["src/linalg/engines/scalapack/engine.ts", "../host/plan.ts"],
    ["src/linalg/engines/scalapack/engine.ts", "../engine.ts"],
    ["src/linalg/engines/all.ts", "./scalapack/mod.ts"],
    ["src/fft/route.ts", "./engines/staged/algorithms.ts"],
    ["src/fft/fft.ts", "../overlap/schedule.ts"],
    ["src/dtype/dtype.ts", "../errors.ts"],
    ["src/mpi/elements.ts", "../dtype/dtype.ts"],
    ["src/overlap/schedule.ts", "../blas/gemm.ts"],
    ["src/runtime/runtime.ts", "./agreement.ts"],
    ["src/testing/mod.ts", "../linalg/mod.ts"],
    ["scripts/commands/demo.ts", "../../mod.ts"],
    ["scripts/commands/demo.ts", "../../internals.ts"],
    ["scripts/commands/demo.ts", "node:util"],
    ["src/testing/assertions.ts", "node:util"],
    ["scripts/native/install.ts", "../progress.ts"],
    ["tests/unit/a_test.ts", "@std/assert"],
    ["tests/unit/a_test.ts", "../../src/array/layout.ts"],
  ];
  for (const [file, specifier] of allowed) assertEquals(rulesBroken(file, `import "${specifier}";`), [], file);

  const refused: [file: string, specifier: string][] = [
    ["ffi/blas/blas.ts", "../../src/errors.ts"],
    ["src/errors.ts", "./runtime/runtime.ts"],
    ["src/runtime/runtime.ts", "../array/layout.ts"],
    ["src/mpi/request.ts", "../runtime/agreement.ts"],
    ["src/gpu/stream.ts", "../runtime/runtime.ts"],
    ["src/gpu/nccl.ts", "../mpi/communicator.ts"],
    ["src/blas/gemm.ts", "../linalg/mod.ts"],
    ["src/memory/host.ts", "../distribution/slab.ts"],
    ["src/dtype/dtype.ts", "../array/layout.ts"],
    ["src/overlap/schedule.ts", "../linalg/mod.ts"],
    ["src/fft/fft.ts", "../linalg/mod.ts"],
    ["src/fft/engines/cufftmp/plan.ts", "../cufft/transformer.ts"],
    ["src/fft/engines/staged/plan.ts", "../fftw/passes.ts"],
    ["src/linalg/engines/choice.ts", "./overlap/mod.ts"],
    ["src/linalg/matmul/matmul.ts", "../engines/scalapack/strategy.ts"],
    ["src/linalg/matmul/matmul.ts", "../../fft/fft.ts"],
    ["src/linalg/matmul/matmul.ts", "../../testing/mod.ts"],
    ["src/linalg/matmul/matmul.ts", "../../../mod.ts"],
    ["src/linalg/matmul/matmul.ts", "../../../tests/oracle.ts"],
    ["mod.ts", "./scripts/main.ts"],
    ["mod.ts", "@std/assert"],
    ["ffi/compiler.ts", "node:crypto"],
    ["src/fft/fft.ts", "node:util"],
    ["mod.ts", "npm:fast-check"],
    ["mod.ts", "https://example.com/mod.ts"],
    ["scripts/commands/demo.ts", "../../ffi/library.ts"],
    ["scripts/commands/demo.ts", "../../src/errors.ts"],
  ];
  for (const [file, specifier] of refused) {
    for (
      const source of [
        `import "${specifier}";`,
        `import type { A } from "${specifier}";`,
        `export { a } from "${specifier}";`,
        `export * from "${specifier}";`,
        `await import("${specifier}");`,
        `type A = import("${specifier}").A;`,
      ]
    ) assertEquals(rulesBroken(file, source), ["distmath/layers"], `${file}: ${source}`);
  }
});

Deno.test("lint: native libraries are opened only in ffi/", () => {
  const source = `Deno.dlopen("libm.so.6", {});`;
  assertEquals(rulesBroken("ffi/blas/blas.ts", source), []);
  assertEquals(rulesBroken("tests/unit/a_test.ts", source), []);
  for (const file of ["src/runtime/runtime.ts", "mod.ts", "scripts/commands/doctor.ts"]) {
    assertEquals(rulesBroken(file, source), ["distmath/dlopen-in-ffi"], file);
  }
});

Deno.test("lint: files outside the repository are left alone", () => {
  const source = `import "npm:fast-check"; Deno.dlopen("libm.so.6", {});`;
  assertEquals(Deno.lint.runPlugin(plugin, "/elsewhere/mod.ts", source), []);
});
