/**
 * Transforms on GPUs of forms that `bench/gpu_fft.ts` does not have: of real numbers, between pencils, and small ones, where
 * what the host does counts. `FFT.execute` by engine cufft beside engine cuFFTMp: into a new array, in place, and in place in
 * symmetric memory, where cuFFTMp copies nothing. Started by an MPI launcher, one rank a GPU; tells each row as it is done,
 * and prints one JSON line on rank 0: microseconds of a call, medians of rounds in which all take turns, the slowest rank
 * counting, and how long the host takes for a call.
 *
 * usage: mpirun --bind-to none -n 2 deno run -A bench/gpu_transforms.ts [ROUNDS] [TITLES]
 *
 * TITLES is a regular expression for the rows that are wanted.
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
const [rounds, titles] = [Number(Deno.args[0] ?? 9), RegExp(Deno.args[1] ?? "")];

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
  readonly shape: readonly number[];
  readonly dtype: "float32" | "float64" | "complex64" | "complex128";
  readonly from: Distribution;
  readonly to: Distribution;
}

const cube = (n: number) => [n, n, n];
const slabs = { from: Slab.X, to: Slab.Y };
const same = { from: Slab.X, to: Slab.X };
const pencils = (n: number, isReal = false) => ({
  from: boxesAlong(1, [n, n, n]),
  to: boxesAlong(2, [n, n, isReal ? n / 2 + 1 : n]),
});
const all: readonly Case[] = [
  { title: "512^3 float32, Slab.X to Slab.Y", shape: cube(512), dtype: "float32", ...slabs },
  { title: "256^3 float64, Slab.X to Slab.Y", shape: cube(256), dtype: "float64", ...slabs },
  { title: "512^3 complex64, Slab.X to Slab.Y", shape: cube(512), dtype: "complex64", ...slabs },
  { title: "256^3 complex128, Slab.X to Slab.Y", shape: cube(256), dtype: "complex128", ...slabs },
  { title: "256^3 complex64, Slab.X to Slab.Y", shape: cube(256), dtype: "complex64", ...slabs },
  { title: "512^3 float32, Y pencils to Z pencils", shape: cube(512), dtype: "float32", ...pencils(512, true) },
  { title: "512^3 complex64, Y pencils to Z pencils", shape: cube(512), dtype: "complex64", ...pencils(512) },
  { title: "256^3 complex128, Y pencils to Z pencils", shape: cube(256), dtype: "complex128", ...pencils(256) },
  { title: "512^3 complex64, Slab.X to Slab.X", shape: cube(512), dtype: "complex64", ...same },
  { title: "128^3 complex64, Slab.X to Slab.X", shape: cube(128), dtype: "complex64", ...same },
  { title: "8192^2 complex64, Slab.X to Slab.Y", shape: [8192, 8192], dtype: "complex64", ...slabs },
  { title: "1024^2 complex64, Slab.X to Slab.Y", shape: [1024, 1024], dtype: "complex64", ...slabs },
  { title: "128^3 float32, Slab.X to Slab.Y", shape: cube(128), dtype: "float32", ...slabs },
  { title: "128^3 complex64, Y pencils to Z pencils", shape: cube(128), dtype: "complex64", ...pencils(128) },
  { title: "128^3 complex64, Slab.X to Slab.Y", shape: cube(128), dtype: "complex64", ...slabs },
  { title: "64^3 complex64, Slab.X to Slab.Y", shape: cube(64), dtype: "complex64", ...slabs },
  { title: "32^3 complex64, Slab.X to Slab.Y", shape: cube(32), dtype: "complex64", ...slabs },
];
const cases = all.filter(({ title }) => titles.test(title));

interface Contestant extends Disposable {
  readonly transform: FFT;
  before(): void;
  call(): void;
}

type Engine = "cufft" | "cufftmp";

/** Into a new array each time; null if cuFFTMp is not installed. */
function anew(engine: Engine, field: DistributedArray, to: Distribution): Contestant | null {
  return planned(() => new FFT(field, { distribution: to, engine }), (transform) => ({
    transform,
    before() {},
    call: () => transform.execute().free(),
    [Symbol.dispose]: () => transform.free(),
  }));
}

/** In place, in memory of a kind. */
function inPlace(
  engine: Engine,
  memory: "device" | "symmetric",
  field: DistributedArray,
  from: Distribution,
  to: Distribution,
): Contestant | null {
  const dtype = field.dtype as Case["dtype"];
  const operand = allocateOperand(runtime, field.shape, from, { dtype, memory, resultDistribution: to });
  const contestant = planned(() => new FFT(operand, { distribution: to, engine, inplace: true }), (transform) => {
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
  });
  if (contestant === null) operand.free();
  return contestant;
}

/** A planned transform as a contestant; null if its engine is not installed. */
function planned(make: () => FFT, contestant: (transform: FFT) => Contestant): Contestant | null {
  try {
    const transform = make();
    transform.plan();
    return contestant(transform);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    if (rank === 0) console.error(error.message.split("\n")[0]);
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
for (const { title, shape, dtype, from, to } of cases) {
  using field = DistributedArray.random(runtime, shape, from, { dtype, seed: 1 });
  const contestants = {
    "cufft": anew("cufft", field, to),
    "cufft, in place": inPlace("cufft", "device", field, from, to),
    "cufft, in place, symmetric": inPlace("cufft", "symmetric", field, from, to),
    "cufftmp": anew("cufftmp", field, to),
    "cufftmp, in place": inPlace("cufftmp", "device", field, from, to),
    "cufftmp, in place, symmetric": inPlace("cufftmp", "symmetric", field, from, to),
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
  const { algorithm, variant } = contestants.cufft!.transform.algorithm;
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
