/**
 * How long operations take on the CPUs of one machine, by a cheap model: what the busiest rank computes, what it copies, and
 * how often all ranks wait for each other. Computing and copying go at rates that each process measures once, while others
 * may do anything; what a meeting takes is stated.
 *
 * @module
 */
import type { Runtime } from "../runtime/runtime.ts";

/** What an operation does. */
export interface HostWork {
  /** What the busiest rank computes: additions and multiplications of real numbers, and how many it does in a second. */
  readonly operations: number;
  readonly operationsPerSecond: number;
  /** Bytes that the busiest rank copies, to others and from them. */
  readonly bytes: number;
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

/** What the model says of some work, at this rate of copying. */
export function timesOf(work: HostWork, bytesPerSecond: number): AlgorithmTimes {
  const { operations, operationsPerSecond, bytes, meetings } = work;
  const computing = operations === 0 ? 0 : operations / operationsPerSecond;
  const copying = bytes / bytesPerSecond;
  const rates = [
    ...operations > 0 ? [`${(operationsPerSecond / 1e9).toFixed(1)} GFLOP/s`] : [],
    `${(bytesPerSecond / 1e9).toFixed(1)} GB/s`,
  ];
  return {
    predicted: computing + copying + meetings * MEETING_SECONDS,
    limit: computing > 0 ? computing : copying,
    basis: `at ${rates.join(" and ")}, measured in this process, and ${1e6 * MEETING_SECONDS} us a meeting of ranks`,
  };
}

/** As {@linkcode timesOf}; null for ranks on several machines, of whose network there is no model. Local. */
export function predictOnHost({ size, localSize }: Runtime, work: HostWork): AlgorithmTimes | null {
  return size === localSize ? timesOf(work, copyRate()) : null;
}

/** The seconds of the shortest of some runs, after one that does not count. */
export function shortestSeconds(body: () => void, count = 3): number {
  let shortest = Infinity;
  for (let run = 0; run <= count; run++) {
    const start = performance.now();
    body();
    if (run > 0) shortest = Math.min(shortest, performance.now() - start);
  }
  // Clocks of browsers' kind may see no time go by.
  return Math.max(1e-6, shortest / 1000);
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
