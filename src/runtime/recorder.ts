/**
 * What a script does, while somebody asks: operations, what they compute and copy, and when they wait for other ranks.
 *
 * While nobody asks, it costs a look at one variable in each operation; MPI's functions are surrounded at the first
 * recording.
 *
 * @module
 */
import { lastMeeting } from "../../ffi/mpi/waits.ts";
import { operation, surroundStarting, surroundWaiting } from "../../ffi/waiting.ts";
import { StateError } from "../errors.ts";
import type { Stream } from "../gpu/stream.ts";
import type { Communicator } from "../mpi/communicator.ts";
import type { Interval, Span } from "./timeline.ts";
import { Tracer } from "./tracer.ts";

/** Where a recorded timeline has what: operations, what the host does in them, and from there on streams of the GPU. */
const [OPERATIONS, WORK, STREAMS] = [0, 1, 2];

/** What the lanes are called, if these are the streams' names. */
export function recordedLanes(streams: readonly string[]): string[] {
  return ["operations", "work", ...streams.map((name, i) => `stream ${i}${name === "" ? "" : ` (${name})`}`)];
}

/** Something that this rank did, in milliseconds of its own clock. */
export interface RecordedSpan extends Span {
  readonly start: number;
  readonly end: number;
  /** The same on all ranks that made this call together, if all of them wait for each other in it. */
  readonly meeting?: string;
}

/** Something that has begun. */
export interface OpenSpan {
  /** It ends now. What throws before is not recorded. */
  end(): void;
}

/** What an operation took, the collective functions that it called, and what the ranks exchanged, on this rank. */
export interface Recorded {
  readonly seconds: number;
  /** From its first work on its stream of the GPU to its last, once the recording has ended. */
  gpuSeconds?: number;
  readonly collectives: Readonly<Record<string, number>>;
  /** By what they are and how they travel, such as `all-to-all in shared memory`. */
  readonly exchanges: Readonly<Record<string, number>>;
}

/** How often something happened, by its name. */
type Counts = Map<string, number>;

function addOne(counts: Counts, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

/** What was added since then. */
function addedSince(before: Counts, counts: Counts): Record<string, number> {
  const added = [...counts].map(([name, count]) => [name, count - (before.get(name) ?? 0)] as const);
  return Object.fromEntries(added.filter(([, count]) => count > 0));
}

/** Takes down what this rank does. */
export class Recorder implements Disposable {
  readonly #spans: RecordedSpan[] = [];
  readonly #calls: Counts = new Map();
  readonly #exchanges: Counts = new Map();
  readonly #streams: Stream[] = [];
  /** What operations did, by the number of their span on the GPU. */
  readonly #onGpu = new Map<number, Recorded>();
  readonly #tracer: Tracer | null = null;
  /** When the tracer began. */
  readonly #origin: number = 0;

  /** Of what is put on this stream of a GPU, or others of it, it is taken down when the GPU runs it. */
  constructor(stream: Stream | null) {
    if (stream === null) return;
    stream.synchronize();
    this.#streams.push(stream);
    this.#tracer = new Tracer(0, stream);
    this.#origin = performance.now();
  }

  /** What was done, once GPUs have done it. */
  get spans(): RecordedSpan[] {
    this.#tracer?.synchronize();
    const intervals = this.#tracer?.intervals() ?? [];
    for (const [i, recorded] of this.#onGpu) recorded.gpuSeconds = (intervals[i].end - intervals[i].start) / 1e6;
    const onGpu = intervals.map(({ lane, kind, label, start, end }) => (
      { lane, kind, label, start: this.#origin + start / 1000, end: this.#origin + end / 1000 }
    ));
    return [...this.#spans, ...onGpu];
  }

  /** What the lanes of the spans are called. */
  get lanes(): string[] {
    return recordedLanes(this.#streams.map(({ name }) => name));
  }

  /** How often each collective function was called. */
  get collectives(): Record<string, number> {
    return Object.fromEntries(this.#calls);
  }

  /** How often ranks exchanged what, and how. */
  get exchanges(): Record<string, number> {
    return Object.fromEntries(this.#exchanges);
  }

  /** Something that an operation does begins. */
  begin(kind: Span["kind"], label: string): OpenSpan {
    const start = performance.now();
    return { end: () => this.note({ lane: WORK, kind, label, start, end: performance.now() }) };
  }

  /** Do something that is part of an operation; on a stream of a GPU it is taken down when the GPU does it. */
  span(stream: Stream | null, { kind, label }: Omit<Span, "lane">, run: () => void): void {
    // A graph replays events, and what they measure is not known.
    if (stream !== null && this.#tracer !== null && !stream.isCapturing) {
      return this.#tracer.span(stream, { lane: this.#laneOf(stream), kind, label }, run);
    }
    const span = stream === null ? this.begin(kind, label) : null;
    run();
    span?.end();
  }

  /** Take down what is over. */
  note(span: RecordedSpan): void {
    this.#spans.push(span);
  }

  /** Run an operation, on a stream if there is one; returns what it did as well. */
  operation<T>(
    label: string,
    stream: Stream | null,
    run: () => T,
  ): { readonly result: T; readonly recorded: Recorded } {
    const [calls, exchanges] = [new Map(this.#calls), new Map(this.#exchanges)];
    const start = performance.now();
    const spans = this.#tracer?.length;
    let result!: T;
    if (stream === null) result = run();
    else this.span(stream, { kind: "operation", label }, () => void (result = run()));
    const end = performance.now();
    this.note({ lane: OPERATIONS, kind: "operation", label, start, end });
    const recorded: Recorded = {
      seconds: (end - start) / 1000,
      collectives: addedSince(calls, this.#calls),
      exchanges: addedSince(exchanges, this.#exchanges),
    };
    // The span of the operation itself comes after those of what it does.
    if (stream !== null && this.#tracer && this.#tracer.length > spans!) {
      this.#onGpu.set(this.#tracer.length - 1, recorded);
    }
    return { result, recorded };
  }

  /** Call a native function that waits for other ranks. */
  call(name: string, kind: Span["kind"], meets: boolean, run: () => unknown): unknown {
    const start = performance.now();
    const result = run();
    const end = performance.now();
    const label = operation === null ? name : `${operation} > ${name}`;
    const meeting = meets ? lastMeeting() : null;
    this.note({ lane: WORK, kind, label, start, end, ...meeting !== null && { meeting } });
    if (isCollective(name)) this.count(name);
    return result;
  }

  /** Count a call of a collective function. */
  count(name: string): void {
    addOne(this.#calls, name);
  }

  /** Count an exchange between the ranks, whatever carries it. */
  exchange(name: string): void {
    addOne(this.#exchanges, name);
  }

  /** Free the events. */
  [Symbol.dispose](): void {
    this.#tracer?.[Symbol.dispose]();
  }

  #laneOf(stream: Stream): number {
    if (!this.#streams.includes(stream)) this.#streams.push(stream);
    return STREAMS + this.#streams.indexOf(stream);
  }
}

/** Who takes down what this rank does; null while nobody asks. */
export let recorder: Recorder | null = null;

/** Do part of an operation, on a stream of a GPU if there is one; it is taken down while somebody asks. */
export function recordSpan(stream: Stream | null, span: Omit<Span, "lane">, run: () => void): void {
  if (recorder === null) run();
  else recorder.span(stream, span, run);
}

let isSurrounded = false;

/**
 * Begin to take down what this rank does. Local.
 *
 * @throws {StateError} if that is done already
 */
export function startRecorder(stream: Stream | null): Recorder {
  if (recorder !== null) throw new StateError("A recording is going on already; end it by timeline() or stop().");
  if (!isSurrounded) {
    isSurrounded = true;
    surroundWaiting((name, call) => {
      const [kind, meets] = [kindOf(name), MEETS.test(name)];
      return (...values) =>
        recorder === null ? call(...values) : recorder.call(name, kind, meets, () => call(...values));
    });
    surroundStarting((name, call) => (...values) => {
      recorder?.count(name);
      return call(...values);
    });
  }
  return recorder = new Recorder(stream);
}

/** End it, if this is the one that is going on. */
export function stopRecorder(one: Recorder): void {
  if (recorder === one) recorder = null;
}

/** MPI's functions that no rank leaves before all have come. */
const MEETS = /^MPI_(All|Barrier|Reduce_scatter)/;
const POINT_TO_POINT = /^MPI_(Send|Recv|Sendrecv|Probe|Wait|Finalize)/;

function isCollective(name: string): boolean {
  return /^(MPI_|p[sdcz]|nccl)/.test(name) && !POINT_TO_POINT.test(name);
}

/** What a native function does that waits for others, by its name. */
function kindOf(name: string): Span["kind"] {
  if (/^p[sdcz]/.test(name)) return "gemm";
  if (/^MPI_I?(Allreduce|Reduce|Scan|Exscan)/i.test(name)) return "reduce";
  return /^(MPI_(?!Barrier|Wait|Probe|Finalize)|nccl)/.test(name) ? "copy" : "wait";
}

/** The clock of a rank before and after each of some barriers. */
export type BarrierTimes = readonly { readonly before: number; readonly after: number }[];

const BARRIERS = 16;

/** Meet some times. Collective. */
export function timeBarriers(communicator: Communicator): BarrierTimes {
  return Array.from({ length: BARRIERS }, () => {
    const before = performance.now();
    communicator.barrier();
    return { before, after: performance.now() };
  });
}

/**
 * How much later than rank 0's each rank's clock is. Nobody leaves a barrier before all have come to it, which bounds the
 * difference from both sides; the middle is taken.
 */
export function clockOffsets(times: readonly BarrierTimes[]): number[] {
  const [first] = times;
  return times.map((own) => {
    const most = Math.min(...own.map(({ after }, i) => after - first[i].before));
    const least = Math.max(...own.map(({ before }, i) => before - first[i].after));
    return (most + least) / 2;
  });
}

/**
 * What all ranks did, by one clock, in microseconds since the first of them began. A call in which ranks wait for each other
 * is a wait until the last one has come.
 */
export function mergeSpans(spans: readonly (readonly RecordedSpan[])[], offsets: readonly number[]): Interval[] {
  const all = spans.flatMap((own, rank) =>
    own.map(({ start, end, ...span }) => ({ ...span, rank, start: start - offsets[rank], end: end - offsets[rank] }))
  );
  const origin = all.reduce((least, { start }) => Math.min(least, start), Infinity);
  const lastToCome = new Map<string, number>();
  for (const { meeting, start } of all) {
    if (meeting !== undefined) lastToCome.set(meeting, Math.max(start, lastToCome.get(meeting) ?? -Infinity));
  }
  return all.flatMap(({ meeting, start, end, ...what }): Interval[] => {
    const [from, to] = [start, end].map((time) => (time - origin) * 1000);
    // Clocks agree to about the time of a barrier: the last one may seem to come when this rank has left.
    const came = meeting === undefined || what.kind === "wait"
      ? from
      : Math.min(to, (lastToCome.get(meeting)! - origin) * 1000);
    return [
      ...came > from ? [{ ...what, kind: "wait" as const, start: from, end: came }] : [],
      ...to > came || from === to ? [{ ...what, start: came, end: to }] : [],
    ];
  }).sort((one, other) => one.rank - other.rank || one.start - other.start || other.end - one.end);
}
