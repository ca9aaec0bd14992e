/**
 * How long operations take on GPUs, by a cheap model: what the busiest rank computes, what it reads and writes in its own
 * memory, and what it sends. The rates are those by which engines of products are chosen and tuned; between machines that at
 * which NCCL exchanged when it connected the GPUs, before that MPI when the ranks joined.
 *
 * @module
 */
import type { Communicator } from "../mpi/communicator.ts";
import { gpuNetworkRate, networkRates, rateInWords } from "../runtime/network.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { AlgorithmTimes } from "./host_model.ts";

/** What each GPU of a machine can do, as it is measured. Times are microseconds. */
export interface MeasuredRates {
  /** Operations a microsecond of products in bfloat16: multiplications and additions. */
  readonly flops: number;
  /** Bytes a microsecond that copies send to another rank. */
  readonly link: number;
  /** Bytes a microsecond that sums and copies within a rank read and write. */
  readonly memory: number;
  /** What each product takes besides: to start, fill and drain. */
  readonly gemmStart: number;
  /** What each copy takes besides. */
  readonly copyStart: number;
}

/** Of H200s with NVLink, in bfloat16: half duty. */
export const H200_MEASURED: MeasuredRates = {
  flops: 790e6,
  link: 384e3,
  memory: 4.05e6,
  gemmStart: 3.5,
  copyStart: 3,
};

/** What the ranks of a communicator know: the same on all of them; null if nothing was measured. */
const known = new WeakMap<Communicator, MeasuredRates | null>();

/** What was measured of a runtime's GPUs; null if nothing was, undefined if nobody has looked. Local. */
export function measuredRates({ communicator }: Runtime): MeasuredRates | null | undefined {
  return known.get(communicator);
}

/** Take down what was measured. The same on all ranks. */
export function noteRates({ communicator }: Runtime, rates: MeasuredRates | null): void {
  known.set(communicator, rates);
}

/** What predictions take for granted, in words, with the speed of products if there are any. Local. */
export function ratesInWords(runtime: Runtime, hasProducts = true): string {
  const measured = measuredRates(runtime);
  const { flops, link, memory } = measured ?? H200_MEASURED;
  const products = hasProducts ? `${(flops / 1e6).toFixed(0)} TFLOP/s in bfloat16, ` : "";
  const rates = `at ${products}${(memory / 1e3).toFixed(0)} GB/s in memory and ${
    (link / 1e3).toFixed(0)
  } GB/s between GPUs, `;
  const [byNccl, byMpi] = [gpuNetworkRate(runtime), networkRates(runtime)];
  const between = byNccl !== undefined
    ? `; ${rateInWords(byNccl)}, as NCCL exchanged when it connected the GPUs`
    : byMpi !== undefined
    ? `; ${rateInWords(byMpi)}, as MPI exchanged between CPUs when the ranks joined`
    : "";
  if (measured) return `${rates}measured on this machine${between}`;
  return `${rates}those of H200s: none are known of this machine, where Matmul.autotune measures them${between}`;
}

/**
 * Bytes a microsecond that each rank sends to all others, by links and the network at the same time; null for ranks on several
 * machines whose network was not measured, as without MPI before NCCL has connected them. Local.
 */
export function sendingRate(runtime: Runtime): number | null {
  const { link } = measuredRates(runtime) ?? H200_MEASURED;
  if (runtime.size === runtime.localSize) return link;
  const network = gpuNetworkRate(runtime) ?? networkRates(runtime);
  if (network === undefined) return null;
  const { bytesPerSecond, share } = network;
  return Math.min(link / (1 - share), bytesPerSecond / 1e6 / share);
}

/** What an operation does, of the busiest rank. */
export interface GpuWork {
  /** Multiplications and additions, as many in bfloat16 as take as long; 0 when left out. */
  readonly operations?: number;
  /** Bytes that are read and written in its own memory, while nothing else is done. */
  readonly bytes: number;
  /** Bytes that it sends, or receives if those are more. */
  readonly sent: number;
  /** Copies, kernels and the like, one after the other. */
  readonly starts: number;
}

/** What the model says of some work; null for ranks on several machines whose network was not measured. Local. */
export function predictOnGpu(
  runtime: Runtime,
  { operations = 0, bytes, sent, starts }: GpuWork,
): AlgorithmTimes | null {
  const rate = sendingRate(runtime);
  if (rate === null) return null;
  const { flops, memory, copyStart } = measuredRates(runtime) ?? H200_MEASURED;
  const [computing, copying, sending] = [operations / flops, bytes / memory, sent / rate];
  const least = Math.max(computing, sending);
  return {
    predicted: (computing + copying + sending + starts * copyStart) / 1e6,
    limit: (least > 0 ? least : copying) / 1e6,
    basis: ratesInWords(runtime, operations > 0),
  };
}
