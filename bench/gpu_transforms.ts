/**
 * Transforms on GPUs of forms that `bench/gpu_fft.ts` does not have: of real numbers, between pencils, and small ones, where
 * what the host does counts. `FFT.execute` into a new array, and in place, beside engine cuFFTMp in
 * place in symmetric memory, where it copies nothing. Started by an MPI launcher, one rank a GPU; tells each row as it is done, and prints one JSON line on rank
 * 0: microseconds of a call, medians of rounds in which all take turns, the slowest rank counting, and how long the host
 * takes for a call.
 *
 * usage: mpirun --bind-to none -n 2 deno run -A bench/gpu_transforms.ts [ROUNDS] [MOST]
 *
 * MOST is the largest extent that is tried.
 *
 * @module
 */
import {
  allocateOperand,
  Box,
  ConfigurationError,
  DistributedArray,
  type Distribution,
  FFT,
  initialize,
  Slab,
} from "../mod.ts";
import { gpuTimer } from "./harness/gpu_timer.ts";
import { quantile } from "./harness/statistics.ts";

/** Calls of a round: few, since what cuFFTMp transforms in place grows with each. */
const CALLS = 5;
const [rounds = 9, most = Infinity] = Deno.args.map(Number);

using runtime = initialize({ checks: "local" });
const { rank, size } = runtime;
const time = gpuTimer(runtime, CALLS);

/** One box a rank, side by side along an axis. */
function boxesAlong(axis: number, shape: readonly number[]): Box {
  const cut = (rank: number) => Math.floor(rank * shape[axis] / size);
  return new Box(Array.from({ length: size }, (_, rank) =>
    [
      shape.map((_, d) => d === axis ? cut(rank) : 0),
      shape.map((extent, d) => d === axis ? cut(rank + 1) : extent),
    ] as [number[], number[]]));
}

interface Case {
  readonly title: string;
  readonly n: number;
  readonly dtype: "float32" | "float64" | "complex64" | "complex128";
  readonly from: Distribution;
  readonly to: Distribution;
}

const slabs = { from: Slab.X, to: Slab.Y };
const pencils = (n: number) => ({ from: boxesAlong(1, [n, n, n]), to: boxesAlong(2, [n, n, n]) });
const all: readonly Case[] = [
  { title: "512^3 float32, Slab.X to Slab.Y", n: 512, dtype: "float32", ...slabs },
  { title: "256^3 float64, Slab.X to Slab.Y", n: 256, dtype: "float64", ...slabs },
  { title: "512^3 complex64, Z pencils to X pencils", n: 512, dtype: "complex64", ...pencils(512) },
  { title: "256^3 complex128, Z pencils to X pencils", n: 256, dtype: "complex128", ...pencils(256) },
  { title: "128^3 complex64, Slab.X to Slab.Y", n: 128, dtype: "complex64", ...slabs },
  { title: "64^3 complex64, Slab.X to Slab.Y", n: 64, dtype: "complex64", ...slabs },
  { title: "32^3 complex64, Slab.X to Slab.Y", n: 32, dtype: "complex64", ...slabs },
];
const cases = all.filter(({ n }) => n <= most);

interface Contestant extends Disposable {
  readonly transform: FFT;
  before(): void;
  call(): void;
}

/** Into a new array each time. */
function ours(field: DistributedArray, to: Distribution): Contestant {
  const transform = new FFT(field, { distribution: to, engine: "cufft" });
  transform.plan();
  return {
    transform,
    before() {},
    call: () => transform.execute().free(),
    [Symbol.dispose]: () => transform.free(),
  };
}

/** An engine in place, in symmetric memory; null if cuFFTMp is not installed. */
function inPlace(
  engine: "cufft" | "cufftmp",
  field: DistributedArray,
  from: Distribution,
  to: Distribution,
): Contestant | null {
  const { shape } = field;
  const dtype = field.dtype as Case["dtype"];
  const isReal = dtype === "float32" || dtype === "float64";
  const operand = allocateOperand(runtime, shape, from, {
    dtype,
    fftType: isReal ? "r2c" : "c2c",
    resultDistribution: to,
  });
  try {
    const transform = new FFT(operand, { distribution: to, engine, inplace: true });
    transform.plan();
    const small = field.multiply(1e-30);
    return {
      transform,
      before() {
        operand.assign(small);
        runtime.stream!.synchronize();
        runtime.communicator.barrier();
      },
      call: () => void transform.execute(),
      [Symbol.dispose]() {
        transform.free();
        small.free();
        operand.free();
      },
    };
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    if (rank === 0) console.error(error.message.split("\n")[0]);
    operand.free();
    return null;
  }
}

/** The time that the host takes to start a call. */
function hostTime({ call }: Contestant): number {
  runtime.stream!.synchronize();
  const start = performance.now();
  for (let i = 0; i < CALLS; i++) call();
  const own = (performance.now() - start) * 1e3 / CALLS;
  runtime.stream!.synchronize();
  return own;
}

const rounded = (value: number) => Math.round(10 * value) / 10;
const results: Record<string, unknown> = {};
for (const { title, n, dtype, from, to } of cases) {
  using field = DistributedArray.random(runtime, [n, n, n], from, { dtype, seed: 1 });
  const contestants = {
    distmath: ours(field, to),
    "distmath, in place": inPlace("cufft", field, from, to),
    "cuFFTMp, in place": inPlace("cufftmp", field, from, to),
  };
  const there = Object.entries(contestants).filter((entry): entry is [string, Contestant] => entry[1] !== null);
  const times = new Map(there.map(([name]): [string, number[]] => [name, []]));
  const host = new Map(there.map(([name]): [string, number[]] => [name, []]));
  for (const [, { before, call }] of there) {
    before();
    time(call);
  }
  for (let round = 0; round < rounds; round++) {
    for (const [name, contestant] of round % 2 === 0 ? there : there.toReversed()) {
      contestant.before();
      times.get(name)!.push(time(contestant.call));
      contestant.before();
      host.get(name)!.push(hostTime(contestant));
    }
  }
  const { algorithm, variant } = contestants.distmath.transform.algorithm;
  const row = {
    algorithm: `${algorithm}: ${variant}`,
    results: Object.fromEntries([...times].map(([name, values]) => [name, {
      microseconds: rounded(quantile(values, 0.5)),
      quartiles: [quantile(values, 0.25), quantile(values, 0.75)].map(rounded),
      hostMicroseconds: rounded(quantile(host.get(name)!, 0.5)),
    }])),
  };
  results[title] = row;
  if (rank === 0) console.error(`${title}: ${JSON.stringify(row)}`);
  for (const [, contestant] of there) contestant[Symbol.dispose]();
  runtime.collect();
}

if (rank === 0) {
  const versions = runtime.versions().map(({ name, version }) => `${name} ${version}`);
  console.log(JSON.stringify({ device: runtime.device.name, ranks: size, rounds, versions, results }, null, 2));
}
