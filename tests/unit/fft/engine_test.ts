import { assertEquals, assertThrows } from "@std/assert";
import { ConfigurationError, type Runtime } from "../../../mod.ts";
import { chooseFFTEngine, FFT_ENGINES, FFT_TO_COME } from "../../../src/fft/engines/registry.ts";
import { algorithmsOf, namesOf } from "../../../src/runtime/engines.ts";

const runtimeOn = (kind: "cpu" | "gpu") => ({ device: { kind, name: "a device" } }) as Runtime;

Deno.test("the engine for CPUs is taken by itself or by name", () => {
  assertEquals(chooseFFTEngine(runtimeOn("cpu")).name, "fftw");
  assertEquals(chooseFFTEngine(runtimeOn("cpu"), "fftw").name, "fftw");
  assertEquals(namesOf(FFT_ENGINES, FFT_TO_COME), ["auto", "fftw", "cufft", "cufftmp"]);
  assertEquals(algorithmsOf(FFT_ENGINES), ["default", "local", "transpose", "four_step", "gather"]);
});

Deno.test("so is the one for GPUs; an engine for other devices, or for a later version, is refused", () => {
  assertEquals(chooseFFTEngine(runtimeOn("gpu")).name, "cufft");
  assertEquals(chooseFFTEngine(runtimeOn("gpu"), "cufft").name, "cufft");
  const refused = (kind: "cpu" | "gpu", engine: string, message: string) =>
    assertThrows(() => chooseFFTEngine(runtimeOn(kind), engine), ConfigurationError, message);
  refused(
    "gpu",
    "fftw",
    "engine fftw is not available: it transforms on CPUs, and this runtime's device is a device (gpu). Leave engine out, " +
      'or pass "cufft".',
  );
  refused(
    "cpu",
    "cufft",
    'it transforms on GPUs, and this runtime\'s device is a device (cpu). Leave engine out, or pass "fftw".',
  );
  refused(
    "gpu",
    "cufftmp",
    'engine cufftmp is not available: it is not part of this version. Leave engine out, or pass "cufft".',
  );
});
