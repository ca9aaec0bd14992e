import { assertEquals, assertThrows } from "@std/assert";
import { ConfigurationError, type Runtime } from "../../../mod.ts";
import { chooseFFTEngine, FFT_ALGORITHM_NAMES, FFT_ENGINE_NAMES } from "../../../src/fft/engines/registry.ts";

const runtimeOn = (kind: "cpu" | "gpu") => ({ device: { kind, name: "a device" } }) as Runtime;

Deno.test("the engine for CPUs is taken by itself or by name", () => {
  assertEquals(chooseFFTEngine(runtimeOn("cpu")).name, "fftw");
  assertEquals(chooseFFTEngine(runtimeOn("cpu"), "fftw").name, "fftw");
  assertEquals(FFT_ENGINE_NAMES, ["auto", "fftw", "cufft", "cufftmp"]);
  assertEquals(FFT_ALGORITHM_NAMES, ["default", "local", "transpose", "four_step", "gather"]);
});

Deno.test("on GPUs the message says how to transform on CPUs", () => {
  for (const engine of [undefined, "fftw", "cufftmp"]) {
    assertThrows(
      () => chooseFFTEngine(runtimeOn("gpu"), engine),
      ConfigurationError,
      "This version transforms on CPUs only, and this runtime's device is a device (gpu). Use a runtime of " +
        'initialize({ device: "cpu" }), or start the script with DISTMATH_DEVICE=cpu.',
    );
  }
});
