import { assertEquals, assertThrows } from "@std/assert";
import { ConfigurationError, type Runtime } from "../../../mod.ts";
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
