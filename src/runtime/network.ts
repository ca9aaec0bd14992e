/**
 * What the network between the machines of a job carries: measured once, when the ranks join, for predictions.
 *
 * @module
 */
import type { Communicator } from "../mpi/communicator.ts";
import { shortestSeconds } from "../stopwatch.ts";

/** How fast the network is: the same on all ranks. */
export interface NetworkRate {
  /** Bytes a second that each rank sends to another machine, and receives, while all others do so, too. */
  readonly bytesPerSecond: number;
  /** Which share of what a rank sends to all others goes to other machines: that of a rank on the smallest machine. */
  readonly share: number;
}

/** What is measured with MPI. */
export interface NetworkRates extends NetworkRate {
  /** What it takes until all ranks know of each other. */
  readonly meetingSeconds: number;
}

/** Enough for the rate of long messages; three take 0.4 s for 64 ranks of a machine with 1 Gbit/s. */
const MESSAGE_BYTES = 2 ** 18;

/** Whose network it is: a runtime. */
interface Ranks {
  readonly communicator: Communicator;
}

const known = new WeakMap<Communicator, NetworkRates>();

/** What was measured; undefined for ranks of one machine, and of those without MPI. Local. */
export function networkRates({ communicator }: Ranks): NetworkRates | undefined {
  return known.get(communicator);
}

const betweenGpus = new WeakMap<Communicator, NetworkRate>();

/** What was measured between GPUs; undefined before NCCL has connected them, and for those of one machine. Local. */
export function gpuNetworkRate({ communicator }: Ranks): NetworkRate | undefined {
  return betweenGpus.get(communicator);
}

/** Take it down. The same on all ranks. */
export function noteGpuNetwork(communicator: Communicator, rate: NetworkRate): void {
  betweenGpus.set(communicator, rate);
}

/** The {@linkcode NetworkRate.share} of ranks on these machines. Pure. */
export function networkShare(machines: readonly number[]): number {
  const counts = Array.from(Map.groupBy(machines, (machine) => machine).values(), (ranks) => ranks.length);
  return (machines.length - Math.min(...counts)) / (machines.length - 1);
}

/** What the network carries, in words. */
export function rateInWords({ bytesPerSecond }: NetworkRate): string {
  return `${Number((bytesPerSecond / 1e9).toPrecision(2))} GB/s from each rank to other machines`;
}

/** Take down what was measured. The same on all ranks. */
export function noteNetwork(communicator: Communicator, rates: NetworkRates): void {
  known.set(communicator, rates);
}

/**
 * Measure it for a communicator by one that has the same ranks, on which no message is awaited. Collective.
 *
 * @param machines of each rank what its machine is called by: a number
 */
export function measureNetwork(communicator: Communicator, own: Communicator, machines: readonly number[]): void {
  const [to, from] = neighbours(machines, own.rank);
  const [sent, received] = [new Uint8Array(MESSAGE_BYTES), new Uint8Array(MESSAGE_BYTES)];
  const exchange = shortestSeconds(() => void own.sendReceive(sent, to, received, { source: from }), 2);
  const meeting = shortestSeconds(() => void own.allReduce(Int32Array.of(1)));
  const [exchanging, meetingSeconds] = own.allReduce(Float64Array.of(exchange, meeting), { op: "max" });
  const bytesPerSecond = MESSAGE_BYTES / exchanging;
  noteNetwork(communicator, { bytesPerSecond, share: networkShare(machines), meetingSeconds });
}

/** To whom a rank sends, and from whom it receives: on other machines, wherever these have as many ranks. Pure. */
export function neighbours(machines: readonly number[], rank: number): [to: number, from: number] {
  const ranks = [...machines.keys()].sort((one, other) => machines[one] - machines[other] || one - other);
  const largest = Math.max(...Array.from(Map.groupBy(ranks, (of) => machines[of]).values(), (its) => its.length));
  const place = ranks.indexOf(rank);
  return [(place + largest) % ranks.length, (place + ranks.length - largest) % ranks.length].map((at) => ranks[at]) as [
    number,
    number,
  ];
}
