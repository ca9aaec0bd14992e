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

/** What a lane is called. */
export function recordedLane(lane: number): string {
  return lane < STREAMS ? ["operations", "work"][lane] : `stream ${lane - STREAMS}`;
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
  readonly #tracer: Tracer | null = null;
  /** When the tracer began. */
  readonly #origin: number = 0;

  /** Of operations on this stream of a GPU, or others of it, it is taken down when the GPU runs them. */
  constructor(stream: Stream | null) {
    if (stream === null) return;
    stream.synchronize();
    this.#tracer = new Tracer(0, stream);
    this.#origin = performance.now();
  }

  /** What was done, once GPUs have done it. */
  get spans(): RecordedSpan[] {
    for (const stream of this.#streams) stream.synchronize();
    const onGpu = this.#tracer?.intervals().map(({ lane, kind, label, start, end }) => (
      { lane, kind, label, start: this.#origin + start / 1000, end: this.#origin + end / 1000 }
    ));
    return [...this.#spans, ...onGpu ?? []];
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
    const result = this.#traced(label, stream, run);
    const end = performance.now();
    this.note({ lane: OPERATIONS, kind: "operation", label, start, end });
    const recorded = {
      seconds: (end - start) / 1000,
      collectives: addedSince(calls, this.#calls),
      exchanges: addedSince(exchanges, this.#exchanges),
    };
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

  #traced<T>(label: string, stream: Stream | null, run: () => T): T {
    // A graph replays events, and what they measure is not known.
    if (this.#tracer === null || stream === null || stream.isCapturing) return run();
    if (!this.#streams.includes(stream)) this.#streams.push(stream);
    const lane = STREAMS + this.#streams.indexOf(stream);
    let result!: T;
    this.#tracer.span(stream, { lane, kind: "operation", label }, () => void (result = run()));
    return result;
  }
}

/** Who takes down what this rank does; null while nobody asks. */
export let recorder: Recorder | null = null;

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
