/** The model of GPUs beside what was measured. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { H200_MEASURED, measuredRates, noteRates, predictOnGpu, ratesInWords } from "../../../src/array/gpu_model.ts";
import { gpuWorkOf } from "../../../src/array/redistribution/gpu_work.ts";
import { ratesOf } from "../../../src/linalg/engines/machine_rates.ts";
import { H200_RATES } from "../../../src/overlap/cost_model.ts";
import { networkShare, noteGpuNetwork, noteNetwork } from "../../../src/runtime/network.ts";
import type { Runtime } from "../../../src/runtime/runtime.ts";
import measured from "../../../bench/results/gpu_redistribution_h200.json" with { type: "json" };

const onRanks = (size: number, localSize = size) => ({ communicator: {}, size, localSize }) as Runtime;

Deno.test("redistributions on two H200s take about as long as the model says", () => {
  const { bytesPerRank: sent, results } = measured.results["16384^2 float32, Slab.X to Slab.Y"];
  // All that a rank has afterwards is twice what it sends.
  const predicted = (algorithm: "peer_copies" | "direct_copies" | "packed_nccl") =>
    predictOnGpu(onRanks(2), gpuWorkOf(algorithm, 3 * sent, sent, 2))!.predicted * 1e6;
  for (
    const [algorithm, name] of [
      ["peer_copies", "distmath"],
      ["direct_copies", "distmath, into symmetric memory"],
      ["packed_nccl", "NCCL, packed"],
    ] as const
  ) {
    const ratio = predicted(algorithm) / results[name].microseconds;
    assert(ratio > 0.9 && ratio < 1.1, `${algorithm}: ${ratio}`);
  }
});

Deno.test("the model adds what is computed, copied and sent; the limit is the longer of what has to be", () => {
  const work = { operations: 790e6, bytes: 4.05e6, sent: 2 * 384e3, starts: 10 };
  const times = predictOnGpu(onRanks(2), work)!;
  assertEquals([times.predicted, times.limit].map((time) => Math.round(1e7 * time)), [340, 20]);
  const copies = predictOnGpu(onRanks(1), { bytes: 4.05e6, sent: 0, starts: 1 })!;
  assertEquals([copies.predicted, copies.limit].map((time) => Math.round(1e7 * time)), [40, 10]);
});

Deno.test("between machines what MPI or NCCL exchanged there counts, for the part that goes there; else nothing is told", () => {
  const runtime = onRanks(4, 2);
  const work = { bytes: 0, sent: 3e6, starts: 0 };
  assertEquals(predictOnGpu(runtime, work), null);
  // Two of three others are on the other machine.
  const share = networkShare([0, 0, 2, 2]);
  noteNetwork(runtime.communicator, { bytesPerSecond: 1e9, share, meetingSeconds: 5e-5 });
  const { predicted, limit, basis } = predictOnGpu(runtime, work)!;
  assertEquals([predicted, limit].map((time) => Math.round(1e6 * time)), [2000, 2000]);
  assertStringIncludes(
    basis!,
    "; 1 GB/s from each rank to other machines, as MPI exchanged between CPUs when the ranks",
  );
  noteGpuNetwork(runtime.communicator, { bytesPerSecond: 2e9, share });
  assertEquals(Math.round(1e6 * predictOnGpu(runtime, work)!.predicted), 1000);
  assertStringIncludes(
    ratesInWords(runtime),
    "; 2 GB/s from each rank to other machines, as NCCL exchanged when it con",
  );
  noteGpuNetwork(runtime.communicator, { bytesPerSecond: 1e13, share });
  assertEquals(Math.round(1e9 * predictOnGpu(runtime, work)!.predicted), Math.round(1e3 * 1e6 / 384e3));
});

Deno.test("what is measured takes the place of H200s' rates, and predictions tell which they are", () => {
  const runtime = onRanks(2);
  assertEquals([measuredRates(runtime), ratesOf(runtime)], [undefined, H200_RATES]);
  assertStringIncludes(ratesInWords(runtime), "at 790 TFLOP/s in bfloat16, 4050 GB/s in memory and 384 GB/s between");
  assertStringIncludes(ratesInWords(runtime), "those of H200s: none are known of this machine");
  assertStringIncludes(ratesInWords(runtime, false), "at 4050 GB/s in memory");
  noteRates(runtime, null);
  assertStringIncludes(ratesInWords(runtime), "those of H200s");
  noteRates(runtime, { ...H200_MEASURED, link: 192e3 });
  assertStringIncludes(ratesInWords(runtime), "192 GB/s between GPUs, measured on this machine");
  assertEquals(ratesOf(runtime), { ...H200_RATES, link: 192e3, stores: H200_RATES.stores / 2 });
  const { predicted, basis } = predictOnGpu(runtime, { bytes: 0, sent: 192e3, starts: 0 })!;
  assertEquals([Math.round(predicted * 1e9), basis], [1000, ratesInWords(runtime, false)]);
});
