/** The order of engines, which `engine: "auto"` and messages go by. */
import { assertEquals } from "@std/assert";
import * as allOfTransforms from "../../../src/fft/engines/all.ts";
import { FFT_ENGINES } from "../../../src/fft/engines/registry.ts";
import * as allOfProducts from "../../../src/linalg/engines/all.ts";
import { ENGINES } from "../../../src/linalg/engines/registry.ts";
import { type Engine, inOrder } from "../../../src/runtime/engines.ts";

const inWords = (engines: readonly Engine[]) => engines.map(({ name, device }) => `${name} (${device})`);

Deno.test("the usual engine of each device is the first, however they are listed", () => {
  const products = ["scalapack (cpu)", "cublasmp (gpu)", "overlap (cpu)", "overlap (gpu)"];
  const transforms = ["fftw (cpu)", "cufft (gpu)", "cufftmp (gpu)"];
  assertEquals(inWords(ENGINES), products);
  assertEquals(inWords(FFT_ENGINES), transforms);
  assertEquals(inWords(inOrder<Engine>(Object.values(allOfProducts).toReversed())), products);
  assertEquals(inWords(inOrder<Engine>(Object.values(allOfTransforms).toReversed())), transforms);
});

Deno.test("each device has one usual engine", () => {
  for (const engines of [ENGINES, FFT_ENGINES]) {
    assertEquals(engines.filter(({ isUsual }) => isUsual).map(({ device }) => device), ["cpu", "gpu"]);
  }
});
