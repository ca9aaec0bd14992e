/**
 * Timing at half duty: short slots in rotation with a pause as long after each, and the product alone beside every
 * contestant, since GPUs remember for seconds how hot they were. A slot begins with calls that are not timed: the host takes
 * 0.1 to 0.3 ms for the first one after a pause, and is ahead of the GPU from then on. What it takes is told apart.
 *
 * @module
 */
import { Event, type Runtime } from "../../mod.ts";

/** Something that is put on the runtime's stream. */
export type Call = () => void;

/** What the rounds of a contest say, in microseconds a call; the slowest rank counts. */
export interface Standing {
  /** The median. */
  readonly time: number;
  /** The median of: time over that of the product alone beside it. */
  readonly ratio: number;
  /** The smallest and the largest of these. */
  readonly spread: readonly [number, number];
}

/** The middle value. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((one, other) => one - other);
  const half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

/** What precedes the timed calls of a slot with a pause. */
const LEAD_MILLISECONDS = 1;

/** Contests on one runtime. */
export class Contest implements Disposable {
  readonly #runtime: Runtime;
  readonly #start = new Event({ timing: true });
  readonly #end = new Event({ timing: true });
  readonly #cell = new Int32Array(new SharedArrayBuffer(4));

  /** All ranks make one. */
  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Microseconds a call on the slowest rank, over so many milliseconds; then a pause as long. Collective. */
  slot(call: Call, estimate: number, milliseconds = 8, hasPause = true): number {
    const { communicator } = this.#runtime;
    const stream = this.#runtime.stream!;
    const calls = Math.max(2, Math.round(milliseconds * 1e3 / estimate));
    const lead = hasPause ? Math.ceil(LEAD_MILLISECONDS * 1e3 / estimate) : 0;
    communicator.barrier();
    for (let i = 0; i < lead; i++) call();
    stream.record(this.#start);
    for (let i = 0; i < calls; i++) call();
    stream.record(this.#end);
    stream.synchronize();
    const mine = this.#end.elapsedSince(this.#start) * 1e6 / calls;
    const [slowest] = communicator.allReduce(Float64Array.of(mine), { op: "max" });
    if (hasPause) Atomics.wait(this.#cell, 0, 0, milliseconds + LEAD_MILLISECONDS);
    return slowest;
  }

  /** Microseconds a call, roughly, after the first ones. Collective. */
  estimate(call: Call): number {
    this.slot(call, 1e6, 1, false);
    return this.slot(call, this.slot(call, 1000, 2, false), 2);
  }

  /** All contestants in turn, so many rounds, the product alone before and after each. Collective. */
  run(
    gemm: Call,
    contestants: Readonly<Record<string, Call>>,
    rounds: number,
  ): Record<string, Standing> & { gemm: Standing } {
    const names = Object.keys(contestants);
    const estimates = names.map((name) => this.estimate(contestants[name]));
    const ofGemm = this.estimate(gemm);
    const times = names.map((): number[] => []);
    const ratios = names.map((): number[] => []);
    const alone: number[] = [];
    for (let round = 0; round < rounds; round++) {
      alone.push(this.slot(gemm, ofGemm));
      for (let turn = 0; turn < names.length; turn++) {
        const i = (turn + round) % names.length;
        const time = this.slot(contestants[names[i]], estimates[i]);
        const before = alone.at(-1)!;
        const after = this.slot(gemm, ofGemm);
        alone.push(after);
        times[i].push(time);
        ratios[i].push(time * 2 / (before + after));
      }
    }
    const standing = (time: number[], ratio: number[]): Standing => ({
      time: median(time),
      ratio: median(ratio),
      spread: [Math.min(...ratio), Math.max(...ratio)],
    });
    const mean = median(alone);
    const entries = names.map((name, i) => [name, standing(times[i], ratios[i])] as const);
    return { ...Object.fromEntries(entries), gemm: standing(alone, alone.map((time) => time / mean)) };
  }

  /** Microseconds a call in the steady state: after 0.7 s of it, over 0.4 s. Collective. */
  steady(call: Call): number {
    const estimate = this.estimate(call);
    this.slot(call, estimate, 700, false);
    return this.slot(call, estimate, 400, false);
  }

  /** Let go of its events. */
  [Symbol.dispose](): void {
    this.#start[Symbol.dispose]();
    this.#end[Symbol.dispose]();
  }
}
