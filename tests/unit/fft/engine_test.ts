import { assertEquals, assertThrows } from "@std/assert";
import { ConfigurationError, type Distribution, type Runtime, Slab } from "../../../mod.ts";
import { cufftMpEngine } from "../../../src/fft/engines/cufftmp/engine.ts";
import { type FFTProblem, shapeOf } from "../../../src/fft/problem.ts";
import { chooseFFTEngine, FFT_ENGINES } from "../../../src/fft/engines/registry.ts";
import { algorithmsOf, namesOf } from "../../../src/runtime/engines.ts";

const runtimeOn = (kind: "cpu" | "gpu") => ({ device: { kind, name: "a device" } }) as Runtime;

Deno.test("the engine for CPUs is taken by itself or by name", () => {
  assertEquals(chooseFFTEngine(runtimeOn("cpu")).name, "fftw");
  assertEquals(chooseFFTEngine(runtimeOn("cpu"), "fftw").name, "fftw");
  assertEquals(namesOf(FFT_ENGINES), ["auto", "fftw", "cufft", "cufftmp"]);
  assertEquals(algorithmsOf(FFT_ENGINES), ["default", "local", "transpose", "four_step", "gather", "slabs", "boxes"]);
});

Deno.test("so are those for GPUs, the first by itself; an engine for other devices is refused", () => {
  assertEquals(chooseFFTEngine(runtimeOn("gpu")).name, "cufft");
  assertEquals(chooseFFTEngine(runtimeOn("gpu"), "cufft").name, "cufft");
  assertEquals(chooseFFTEngine(runtimeOn("gpu"), "cufftmp").name, "cufftmp");
  const refused = (kind: "cpu" | "gpu", engine: string, message: string) =>
    assertThrows(() => chooseFFTEngine(runtimeOn(kind), engine), ConfigurationError, message);
  refused(
    "gpu",
    "fftw",
    "engine fftw is not available: it transforms on CPUs, and this runtime's device is a device (gpu). Leave engine out, " +
      'or pass "cufft" or "cufftmp".',
  );
  refused(
    "cpu",
    "cufft",
    'it transforms on GPUs, and this runtime\'s device is a device (cpu). Leave engine out, or pass "fftw".',
  );
  refused(
    "cpu",
    "cufftmp",
    'it transforms on GPUs, and this runtime\'s device is a device (cpu). Leave engine out, or pass "fftw".',
  );
});

/** A transform of all axes from one distribution to another. */
function problem(
  operand: readonly number[],
  from: Distribution,
  to: Distribution,
  size = 2,
  type: "c2c" | "r2c" | "c2r" = "c2c",
): FFTProblem {
  const shape = shapeOf(type, operand.map((_, d) => d), operand);
  const [bound, result] = [from.bind(operand, size), to.bind(shape.result, size)];
  return { ...shape, precision: "float32", order: "C", from: bound, to: result };
}

Deno.test("cuFFTMp leads where it was measured to be the faster", () => {
  const large = problem([512, 512, 512], Slab.X, Slab.Y);
  const leads = (problem: FFTProblem, place: "new" | "operand" | "symmetric") => cufftMpEngine.leads!(problem, place);
  assertEquals(leads(large, "symmetric"), false);
  assertEquals(leads(problem([256, 256, 256], Slab.X, Slab.Y), "symmetric"), true);
  assertEquals(leads(problem([8192, 8192], Slab.X, Slab.Y), "symmetric"), true);
  assertEquals(leads(problem([1024, 1024], Slab.X, Slab.Y), "symmetric"), false);
  assertEquals(leads(problem([512, 512, 512], Slab.X, Slab.Y, 2, "r2c"), "symmetric"), false);
  assertEquals(leads(problem([512, 512, 512], Slab.Y, Slab.X, 2, "c2r"), "symmetric"), true);
  assertEquals(leads(problem([512, 512, 512], Slab.Z, Slab.X), "symmetric"), true);
  for (const place of ["operand", "new"] as const) {
    assertEquals(leads(large, place), false);
    assertEquals(leads(problem([64, 64, 64], Slab.X, Slab.Y), place), false);
    assertEquals(leads(problem([512, 512, 512], Slab.Z, Slab.X), place), true);
  }
  for (const place of ["symmetric", "operand", "new"] as const) {
    assertEquals(leads(problem([512, 512, 512], Slab.X, Slab.X), place), false);
    assertEquals(leads(problem([128, 128, 128], Slab.X, Slab.X), place), place === "symmetric");
    assertEquals(leads(problem([64, 64, 64], Slab.X, Slab.Y, 1), place), false);
  }
});

Deno.test("an engine that leads is left out where its library is missing, and for what it refuses", () => {
  const runtime = runtimeOn("gpu");
  const small = problem([64, 64, 64], Slab.X, Slab.Y);
  assertEquals(chooseFFTEngine(runtime, "auto", { problem: small, place: "symmetric" }).name, "cufft");
  const line = problem([64], Slab.X, Slab.X);
  assertEquals(chooseFFTEngine(runtime, "auto", { problem: line, place: "symmetric" }).name, "cufft");
});
