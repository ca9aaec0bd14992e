/**
 * Transforms on GPUs: `FFT.execute` of 3-D arrays on slabs. On one rank beside a bare call of cuFFT; on more beside cuFFTMp,
 * which works in place in symmetric memory, and beside what its transforms, its exchange, and copies of as many bytes to the
 * next GPU take alone. `bench/peers/gpu_fft.py` is PyTorch's side. Started by an MPI launcher, one rank a GPU; tells each row
 * as it is done, and prints one JSON line on rank 0: microseconds of a call, medians of rounds in which all take turns, the
 * slowest rank counting.
 *
 * usage: mpirun --bind-to none -n 2 deno run -A bench/gpu_fft.ts [ROUNDS] [PARTS ...]
 *
 * PARTS are numbers of parts to try besides, also through slots: parts move while others are transformed.
 *
 * @module
 */
import { checkCufft, CufftDirection, CufftType, openCufft } from "../ffi/cuda/cufft.ts";
import { CudaDataType } from "../ffi/cuda/runtime.ts";
import { CufftMpComm, CufftMpFormat, openCufftMp } from "../ffi/cuda/cufftmp.ts";
import { LibraryNotFoundError } from "../ffi/mod.ts";
import {
  allocateSymmetricMemory,
  DeviceBuffer,
  DistributedArray,
  type DType,
  FFT,
  type FFTOptions,
  type FFTType,
  freeSymmetricMemory,
  initialize,
  Redistribution,
  Slab,
} from "../mod.ts";
import { cutting } from "../src/fft/engines/staged/parts.ts";
import { copyOnDevice } from "../src/memory/copy.ts";
import { gpuTimer } from "./harness/gpu_timer.ts";
import { quantile } from "./harness/statistics.ts";

/** What is transformed, and calls of a round on one GPU: some 50 ms, so that what the host does for the first does not count. */
const sizes = [[512, "complex64", 40], [256, "complex128", 100], [1024, "complex64", 10]] as const;
/** Calls of a round on more: fewer, since cuFFTMp's numbers grow. */
const CALLS_ON_MORE = 10;
const [rounds = 9, ...parts] = Deno.args.map(Number);

using runtime = initialize({ checks: "local" });
const { rank, size } = runtime;
const stream = runtime.stream!;

/** What takes turns. */
interface Contestant extends Partial<Disposable> {
  /** One call. */
  call(): void;
  /** What has to be done before the calls of a round, and is not timed. */
  before?(): void;
}

/** The transform by cuFFT alone, from one array to another. */
function bare(n: number, dtype: "complex64" | "complex128", from: DistributedArray, to: DistributedArray): Contestant {
  const { symbols } = openCufft();
  const [plan, bytes] = [new Int32Array(1), new BigUint64Array(1)];
  const extents = BigInt64Array.from([n, n, n], BigInt);
  const type = dtype === "complex64" ? CudaDataType.C_32F : CudaDataType.C_64F;
  checkCufft(symbols.cufftCreate(plan), "cufftCreate");
  checkCufft(symbols.cufftSetAutoAllocation(plan[0], 0), "cufftSetAutoAllocation");
  checkCufft(
    symbols.cufftXtMakePlanMany(
      plan[0],
      3,
      extents,
      ...[extents, 1n, 1n, type] as const,
      ...[extents, 1n, 1n, type] as const,
      ...[1n, bytes, type] as const,
    ),
    "cufftXtMakePlanMany",
  );
  checkCufft(symbols.cufftSetStream(plan[0], stream.handle), "cufftSetStream");
  const work = new DeviceBuffer(stream, Number(bytes[0]));
  if (bytes[0] > 0n) checkCufft(symbols.cufftSetWorkArea(plan[0], work.address), "cufftSetWorkArea");
  const [input, output] = [from.local.address, to.local.address];
  return {
    call: () => checkCufft(symbols.cufftXtExec(plan[0], input, output, CufftDirection.FORWARD), "cufftXtExec"),
    [Symbol.dispose]: () => {
      checkCufft(symbols.cufftDestroy(plan[0]), "cufftDestroy");
      work.free();
    },
  };
}

/** cuFFTMp on slabs, there and back by turns, in place; null if it is not installed. */
function multiProcess(n: number, field: DistributedArray, expected: DistributedArray): Contestant | null {
  const array = DistributedArray.zeros(runtime, [n, n, n], Slab.X, { dtype: field.dtype, memory: "symmetric" });
  const open = () => {
    try {
      return openCufftMp();
    } catch (error) {
      if (error instanceof LibraryNotFoundError) return null;
      throw error;
    }
  };
  const symbols = open()?.symbols;
  if (!symbols) return null;
  const [plan, bytes] = [new Int32Array(1), new BigUint64Array(1)];
  const type = field.dtype === "complex64" ? CufftType.C2C : CufftType.Z2Z;
  checkCufft(symbols.cufftCreate(plan), "cufftCreate");
  checkCufft(symbols.cufftSetAutoAllocation(plan[0], 0), "cufftSetAutoAllocation");
  checkCufft(symbols.cufftMpAttachComm(plan[0], CufftMpComm.COMM_NONE, 0n), "cufftMpAttachComm");
  checkCufft(symbols.cufftSetStream(plan[0], stream.handle), "cufftSetStream");
  const { INPLACE, INPLACE_SHUFFLED } = CufftMpFormat;
  checkCufft(symbols.cufftXtSetSubformatDefault(plan[0], INPLACE, INPLACE_SHUFFLED), "cufftXtSetSubformatDefault");
  checkCufft(symbols.cufftMakePlan3d(plan[0], n, n, n, type, bytes), "cufftMakePlan3d");
  const work = allocateSymmetricMemory(runtime, [Math.ceil(Number(bytes[0]) / 8)], { makeSymmetric: true });
  checkCufft(symbols.cufftSetWorkArea(plan[0], work.address), "cufftSetWorkArea");
  const { address } = array.local;
  const transform = (direction: number) =>
    checkCufft(symbols.cufftXtExec(plan[0], address, address, direction), "cufftXtExec");
  // Small enough that numbers stay finite, whose sizes grow with each call.
  const small = field.multiply(1e-30);
  const startFrom = (source: DistributedArray) => {
    array.local.set(source.local);
    stream.synchronize();
    runtime.communicator.barrier();
  };
  startFrom(field);
  transform(CufftDirection.FORWARD);
  stream.synchronize();
  const { shape, strides } = expected.local;
  using got = DistributedArray.fromLocal(runtime, array.local.reshaped(shape, strides).copy(), expected.distribution);
  const error = got.maxAbsDifference(expected) / (expected.norm() / Math.sqrt(n ** 3));
  if (rank === 0) console.error(`cuFFTMp: largest difference ${error} of the mean square`);
  let isThere = false;
  return {
    before: () => {
      startFrom(small);
      isThere = false;
    },
    call: () => {
      transform(isThere ? CufftDirection.INVERSE : CufftDirection.FORWARD);
      isThere = !isThere;
    },
    [Symbol.dispose]: () => {
      stream.synchronize();
      checkCufft(symbols.cufftDestroy(plan[0]), "cufftDestroy");
      freeSymmetricMemory(work);
      array.free();
      small.free();
    },
  };
}

/** Copies of so many bytes to the next GPU. */
function copies(bytes: number): Contestant {
  const room = [1, 2].map(() => allocateSymmetricMemory(runtime, [bytes / 4], { dtype: "float32", backend: "nccl" }));
  const next = room[1].peerAddress((rank + 1) % size);
  return {
    call: () => copyOnDevice(next, room[0].address, bytes, stream),
    [Symbol.dispose]: () => freeSymmetricMemory(room[0], room[1]),
  };
}

/** A planned transform, in so many parts; straight to memory that the other ranks address, or otherwise. */
function planned(
  field: DistributedArray,
  options: FFTOptions,
  parts?: number,
  change: Partial<typeof cutting> = {},
): Contestant & { readonly transform: FFT<DType, FFTType | undefined> } {
  const usual = { ...cutting };
  const inParts = (action: () => void) => {
    Object.assign(cutting, { ...parts !== undefined && { parts, leastBytesInTurn: 0 }, ...change });
    action();
    Object.assign(cutting, usual);
  };
  const transform = new FFT(field, options);
  inParts(() => transform.plan());
  const call = () => inParts(() => transform.execute().free());
  return { transform, call, [Symbol.dispose]: () => transform.free() };
}

const rounded = (value: number) => Math.round(10 * value) / 10;
const results: Record<string, unknown> = {};
for (const [n, dtype, callsOnOne] of sizes) {
  const time = gpuTimer(runtime, size === 1 ? callsOnOne : CALLS_ON_MORE);
  const shape = [n, n, n];
  using field = DistributedArray.random(runtime, shape, Slab.X, { dtype, seed: 1 });
  using result = DistributedArray.zeros(runtime, shape, Slab.Y, { dtype });
  using exchange = new Redistribution(field, result);
  const natural = planned(field, {});
  using expected = natural.transform.execute();
  const bytes = exchange.bytesMoved / size;
  const own = size === 1 ? "FFT" : "FFT, Slab.X to Slab.Y";
  const contestants: Record<string, Contestant | null> = size === 1
    ? { [own]: natural, "cuFFT alone": bare(n, dtype, field, result) }
    : {
      [own]: natural,
      ...Object.fromEntries(parts.flatMap((count) => [
        [`${own}, ${count} parts`, planned(field, {}, count)],
        [`${own}, ${count} parts through slots`, planned(field, {}, count, { lands: false })],
        [`${own}, ${count} parts, transformed once all is there`, planned(field, {}, count, { uses: 1 })],
        [`FFT, Slab.X to Slab.X, ${count} parts`, planned(field, { redistribute: true }, count)],
      ])),
      "FFT, Slab.X to Slab.X": planned(field, { redistribute: true }),
      "cuFFTMp, in place": multiProcess(n, field, expected),
      "its transforms along axes 1 and 2": planned(field, { axes: [1, 2] }),
      "its transforms along axis 0": planned(result, { axes: [0] }),
      "its exchange": { call: () => void exchange.execute() },
      "copies alone": copies(bytes),
    };
  const entries = Object.entries(contestants).filter((entry): entry is [string, Contestant] => entry[1] !== null);
  const times = new Map(entries.map(([name]): [string, number[]] => [name, []]));
  const timed = ({ before, call }: Contestant) => (before?.(), time(call));
  for (const [, contestant] of entries) timed(contestant);
  for (let round = 0; round < rounds; round++) {
    for (const [name, contestant] of round % 2 === 0 ? entries : entries.toReversed()) {
      times.get(name)!.push(timed(contestant));
    }
  }
  const operations = 5 * n ** 3 * Math.log2(n ** 3);
  const rows = Object.fromEntries([...times].map(([name, values]) => {
    const median = quantile(values, 0.5);
    const isTransform = name.includes("FFT");
    return [name, {
      microseconds: rounded(median),
      quartiles: [quantile(values, 0.25), quantile(values, 0.75)].map(rounded),
      ...isTransform && { gigaflopsPerSecond: Math.round(operations / median / 1e3) },
    }];
  }));
  const row = {
    algorithm: `${natural.transform.algorithm.algorithm}: ${natural.transform.algorithm.variant}`,
    exchange: exchange.algorithm.algorithm,
    bytesPerRank: bytes,
    ...size > 1 && sharesOf(Object.fromEntries([...times].map(([name, list]) => [name, quantile(list, 0.5)]))),
    results: rows,
  };
  results[`${n}^3 ${dtype}`] = row;
  if (rank === 0) console.error(`${n}^3 ${dtype}: ${JSON.stringify(row)}`);
  for (const [, contestant] of entries) contestant[Symbol.dispose]?.();
  runtime.collect();
}

/**
 * What of the transform from slab to slab is not spent on transforming; how much of the exchange is hidden by that; and how fast
 * the exchange alone is.
 */
function sharesOf(medians: Record<string, number>): Record<string, number> {
  const whole = medians["FFT, Slab.X to Slab.Y"];
  const exchanging = whole - medians["its transforms along axes 1 and 2"] - medians["its transforms along axis 0"];
  const share = (part: number, of: number) => Math.round(1000 * part / of) / 1000;
  return {
    shareOfTimeInExchange: share(exchanging, whole),
    shareOfExchangeHidden: share(medians["its exchange"] - exchanging, medians["its exchange"]),
    shareOfLinkSpeed: share(medians["copies alone"], medians["its exchange"]),
  };
}

if (rank === 0) {
  const versions = runtime.versions().map(({ name, version }) => `${name} ${version}`);
  console.log(JSON.stringify({ device: runtime.device.name, ranks: size, rounds, versions, results }, null, 2));
}
