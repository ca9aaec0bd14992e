/**
 * How long operations take on CPUs, by a cheap model: what the busiest rank computes, what it copies, what it sends to other
 * machines, and how often all ranks wait for each other. Computing and copying go at rates that each process measures once,
 * while others may do anything, messages between machines and meetings at those measured when the ranks joined; what a
 * meeting on one machine takes is stated.
 *
 * @module
 */
import { type NetworkRates, networkRates, rateInWords } from "../runtime/network.ts";
import type { Runtime } from "../runtime/runtime.ts";
import { shortestSeconds } from "../stopwatch.ts";

/** What an operation does. */
export interface HostWork {
  /** What the busiest rank computes: additions and multiplications of real numbers, and how many it does in a second. */
  readonly operations: number;
  readonly operationsPerSecond: number;
  /** Bytes that the busiest rank copies, to others and from them. */
  readonly bytes: number;
  /** Bytes that it sends to other ranks, or receives if those are more: to each of them as many, as the model has it. */
  readonly sent: number;
  /** How often all ranks wait for each other. */
  readonly meetings: number;
}

/** What is known of the time of an execution, in seconds on the slowest rank. */
export interface AlgorithmTimes {
  /** What a model says. */
  readonly predicted: number;
  /** What was measured on this kind of machine, by `autotune`, perhaps of another process. */
  readonly measured?: number;
  /** What nothing can be faster than: the computing alone, or where there is none what has to move. */
  readonly limit: number;
  /** What the model takes for granted, in words. */
  readonly basis?: string;
}

/** What a meeting of ranks on one machine takes, in seconds, about as a call of MPI between processes that are awake. */
export const MEETING_SECONDS = 5e-6;

/** What the model says of some work, at this rate of copying; without a network on one machine. Pure. */
export function timesOf(work: HostWork, bytesPerSecond: number, network?: NetworkRates): AlgorithmTimes {
  const { operations, operationsPerSecond, bytes, sent, meetings } = work;
  const computing = operations === 0 ? 0 : operations / operationsPerSecond;
  const copying = bytes / bytesPerSecond;
  const sending = network === undefined ? 0 : sent * network.share / network.bytesPerSecond;
  const meeting = network?.meetingSeconds ?? MEETING_SECONDS;
  const rates = [
    ...operations > 0 ? [`${(operationsPerSecond / 1e9).toFixed(1)} GFLOP/s`] : [],
    `${(bytesPerSecond / 1e9).toFixed(1)} GB/s`,
  ];
  const perMeeting = `${(1e6 * meeting).toFixed(0)} us a meeting of ranks`;
  return {
    predicted: computing + copying + sending + meetings * meeting,
    limit: Math.max(computing > 0 ? computing : copying, sending),
    basis: `at ${rates.join(" and ")}, measured in this process, and ${
      network === undefined ? perMeeting : `${rateInWords(network)} and ${perMeeting}, measured when the ranks joined`
    }`,
  };
}

/** As {@linkcode timesOf}; null for ranks on several machines whose network was not measured. Local. */
export function predictOnHost(runtime: Runtime, work: HostWork): AlgorithmTimes | null {
  if (runtime.size === runtime.localSize) return timesOf(work, copyRate());
  const rates = networkRates(runtime);
  return rates === undefined ? null : timesOf(work, copyRate(), rates);
}

/** More than the caches of a core have. */
const COPIED_BYTES = 2 ** 25;

let copied: number | undefined;

/** Bytes that this process copies in a second. */
function copyRate(): number {
  if (copied === undefined) {
    const [source, target] = [new Uint8Array(COPIED_BYTES).fill(1), new Uint8Array(COPIED_BYTES)];
    copied = COPIED_BYTES / shortestSeconds(() => target.set(source));
  }
  return copied;
}
