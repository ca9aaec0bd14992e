/**
 * Transforms on GPUs: `FFT.execute` of 3-D arrays on slabs. On one rank beside a bare call of cuFFT; on more beside what its
 * exchange takes alone. `bench/peers/gpu_fft.py` is PyTorch's side. Started by an MPI launcher, one rank a GPU; prints one
 * JSON line on rank 0: microseconds of a call, medians of rounds in which all take turns, the slowest rank counting.
 *
 * usage: mpirun --bind-to none -n 2 deno run -A bench/gpu_fft.ts [ROUNDS]
 *
 * @module
 */
import { checkCufft, CufftDirection, CufftType, openCufft } from "../ffi/cuda/cufft.ts";
import { DeviceBuffer, DistributedArray, FFT, initialize, Redistribution, Slab } from "../mod.ts";
import { gpuTimer } from "./harness/gpu_timer.ts";
import { quantile } from "./harness/statistics.ts";

/** Calls of a round. */
const CALLS = 5;
const rounds = Number(Deno.args[0] ?? 9);
const sizes = [[512, "complex64"], [1024, "complex64"], [256, "complex128"]] as const;

using runtime = initialize({ checks: "local" });
const { rank, size } = runtime;
const stream = runtime.stream!;
const time = gpuTimer(runtime, CALLS);

/** The transform by cuFFT alone, from one array to another. */
function bare(n: number, dtype: "complex64" | "complex128", from: DistributedArray, to: DistributedArray): () => void {
  const { symbols } = openCufft();
  const [plan, bytes] = [new Int32Array(1), new BigUint64Array(1)];
  const extents = BigInt64Array.from([n, n, n], BigInt);
  const type = dtype === "complex64" ? CufftType.C2C : CufftType.Z2Z;
  checkCufft(symbols.cufftCreate(plan), "cufftCreate");
  checkCufft(symbols.cufftSetAutoAllocation(plan[0], 0), "cufftSetAutoAllocation");
  checkCufft(
    symbols.cufftMakePlanMany64(plan[0], 3, extents, extents, 1n, 1n, extents, 1n, 1n, type, 1n, bytes),
    "cufftMakePlanMany64",
  );
  checkCufft(symbols.cufftSetStream(plan[0], stream.handle), "cufftSetStream");
  const work = new DeviceBuffer(stream, Number(bytes[0]));
  if (bytes[0] > 0n) checkCufft(symbols.cufftSetWorkArea(plan[0], work.address), "cufftSetWorkArea");
  const [input, output] = [from.local.address, to.local.address];
  return () => checkCufft(symbols.cufftXtExec(plan[0], input, output, CufftDirection.FORWARD), "cufftXtExec");
}

const rounded = (value: number) => Math.round(10 * value) / 10;
const results: Record<string, unknown> = {};
for (const [n, dtype] of sizes) {
  const shape = [n, n, n];
  using field = DistributedArray.random(runtime, shape, Slab.X, { dtype, seed: 1 });
  using result = DistributedArray.zeros(runtime, shape, Slab.Y, { dtype });
  using natural = new FFT(field);
  using same = new FFT(field, { redistribute: true });
  using exchange = new Redistribution(field, result);
  natural.plan();
  same.plan();
  const contestants: Record<string, () => void> = {
    [size === 1 ? "FFT" : "FFT, Slab.X to Slab.Y"]: () => natural.execute().free(),
    ...size > 1 && { "FFT, Slab.X to Slab.X": () => same.execute().free() },
    ...size > 1 && { "the exchange alone": () => void exchange.execute() },
    ...size === 1 && { "cuFFT alone": bare(n, dtype, field, result) },
  };
  const times = Object.fromEntries(Object.keys(contestants).map((name): [string, number[]] => [name, []]));
  for (const call of Object.values(contestants)) time(call);
  for (let round = 0; round < rounds; round++) {
    const inTurn = Object.keys(contestants);
    for (const name of round % 2 === 0 ? inTurn : inTurn.toReversed()) times[name].push(time(contestants[name]));
  }
  const operations = 5 * n ** 3 * Math.log2(n ** 3);
  results[`${n}^3 ${dtype}`] = {
    algorithm: `${natural.algorithm.algorithm}: ${natural.algorithm.variant}`,
    exchange: exchange.algorithm.algorithm,
    bytesPerRank: exchange.bytesMoved / size,
    results: Object.fromEntries(
      Object.entries(times).map(([name, values]) => {
        const median = quantile(values, 0.5);
        const quartiles = [quantile(values, 0.25), quantile(values, 0.75)].map(rounded);
        const isTransform = name !== "the exchange alone";
        return [name, {
          microseconds: rounded(median),
          quartiles,
          ...isTransform && { gigaflopsPerSecond: Math.round(operations / median / 1e3) },
        }];
      }),
    ),
  };
}
if (rank === 0) {
  const versions = runtime.versions().map(({ name, version }) => `${name} ${version}`);
  console.log(JSON.stringify({ device: runtime.device.name, ranks: size, rounds, versions, results }, null, 2));
}
