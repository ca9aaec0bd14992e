/**
 * What each rank does when, predicted or measured: as a picture, and for the viewers of Chrome traces. Pure functions.
 *
 * @module
 */

/** Something that a rank does. */
export interface Interval {
  /** Who. */
  readonly rank: number;
  /** Where: a stream, or a cluster of blocks; of a recording 0 has operations, and 1 what they do. */
  readonly lane: number;
  /** What kind of work: what it is coloured by. */
  readonly kind: "operation" | "gemm" | "fft" | "compute" | "copy" | "reduce" | "wait";
  /** In words. */
  readonly label: string;
  /** When it begins, in microseconds. */
  readonly start: number;
  /** When it ends. */
  readonly end: number;
}

/** What an interval is, before it is known when. */
export type Span = Pick<Interval, "lane" | "kind" | "label">;

const COLORS: Readonly<Record<Interval["kind"], string>> = {
  operation: "#b9a5d3",
  gemm: "#4c78a8",
  fft: "#72b7b2",
  compute: "#9ecae9",
  copy: "#f58518",
  reduce: "#54a24b",
  wait: "#d0d0d0",
};

const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const [WIDTH, LANE_HEIGHT, LETTER, TOP] = [960, 22, 7, 40];

/** What a lane of a rank is called. */
export type LaneName = (lane: number, rank: number) => string;
const laneNumber: LaneName = (lane) => `lane ${lane}`;

/** The lanes that something is in, in order, and what they are called. */
function lanesOf(timeline: readonly Interval[], nameOf: LaneName): Map<string, string> {
  const lanes = new Map(timeline.map(({ rank, lane }) => [`${rank}/${lane}`, [rank, lane] as const]));
  const sorted = [...lanes].sort(([, [rank, lane]], [, [other, otherLane]]) => rank - other || lane - otherLane);
  return new Map(sorted.map(([key, [rank, lane]]) => [key, `rank ${rank}, ${nameOf(lane, rank)}`]));
}

/** A picture: a row for each lane of each rank, time from left to right. Lanes have numbers, or names. */
export function timelineSVG(timeline: readonly Interval[], title = "", nameOf: LaneName = laneNumber): string {
  const lanes = lanesOf(timeline, nameOf);
  const left = [...lanes.values()].reduce((most, { length }) => Math.max(most, 16 + LETTER * length), 110);
  const last = timeline.reduce((most, { end }) => Math.max(most, end), 1e-9);
  const height = TOP + lanes.size * LANE_HEIGHT + 30;
  const scale = (WIDTH - left - 10) / last;
  const tops = new Map([...lanes.keys()].map((key, i) => [key, TOP + i * LANE_HEIGHT]));
  const names = [...lanes].map(([key, name]) => `<text x="8" y="${tops.get(key)! + 15}">${escape(name)}</text>`);
  const bars = timeline.map(({ rank, lane, kind, label, start, end }) => {
    const tip = `<title>${escape(label)}: ${start.toFixed(1)} to ${end.toFixed(1)} us</title>`;
    return `<rect class="interval" x="${(left + start * scale).toFixed(2)}" y="${tops.get(`${rank}/${lane}`)! + 2}" ` +
      `width="${((end - start) * scale).toFixed(2)}" height="${LANE_HEIGHT - 4}" fill="${COLORS[kind]}">${tip}</rect>`;
  });
  const kinds = new Set(timeline.map(({ kind }) => kind));
  const legend = Object.entries(COLORS).filter(([kind]) => kinds.has(kind as Interval["kind"])).map((
    [kind, color],
    i,
  ) =>
    `<rect x="${left + 90 * i}" y="${height - 22}" width="12" height="12" fill="${color}"/>` +
    `<text x="${left + 90 * i + 18}" y="${height - 12}">${kind}</text>`
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" ` +
    `font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="white"/>`,
    `<text x="8" y="20" font-size="14">${escape(title)} (${last.toFixed(1)} us)</text>`,
    ...names,
    ...bars,
    ...legend,
    "</svg>",
    "",
  ].join("\n");
}

/** The same for chrome://tracing and Perfetto: a process a rank, a thread a lane. */
export function chromeTrace(timeline: readonly Interval[], nameOf: LaneName = laneNumber): string {
  const lanesOfRanks = Map.groupBy(timeline, ({ rank }) => rank);
  const names = [...lanesOfRanks].sort(([one], [other]) => one - other).flatMap(([rank, intervals]) => [
    { name: "process_name", ph: "M", pid: rank, args: { name: `rank ${rank}` } },
    ...[...new Set(intervals.map(({ lane }) => lane))].map((lane) => (
      { name: "thread_name", ph: "M", pid: rank, tid: lane, args: { name: nameOf(lane, rank) } }
    )),
  ]);
  const events = timeline.map(({ rank, lane, kind, label, start, end }) => ({
    name: label,
    cat: kind,
    ph: "X",
    pid: rank,
    tid: lane,
    ts: start,
    dur: end - start,
  }));
  return JSON.stringify({ traceEvents: [...names, ...events], displayTimeUnit: "ns" });
}

/**
 * What the ranks do when, in microseconds since all of them began. Made by `Matmul.timeline` and `Recording.timeline`.
 *
 * @example
 * ```ts
 * import { DistributedArray, initialize, Slab } from "@distmath/distmath";
 *
 * using runtime = initialize();
 * using a = DistributedArray.full(runtime, [64, 64], Slab.X, 1);
 * using recording = runtime.record();
 * using copy = a.redistribute(Slab.Y);
 * const { measured } = recording.timeline();
 * for (const { rank, kind, label, start, end } of measured) console.log(rank, kind, label, end - start);
 * ```
 */
export class Timeline {
  /** What a model says; of a recording nothing. */
  readonly predicted: readonly Interval[];
  /** What was: on GPUs by events, otherwise by the clocks of the ranks. */
  readonly measured: readonly Interval[];
  readonly #nameOf: LaneName | undefined;

  /** Both, of all ranks; lanes have numbers, or names. */
  constructor(predicted: readonly Interval[], measured: readonly Interval[], nameOf?: LaneName) {
    this.predicted = predicted;
    this.measured = measured;
    this.#nameOf = nameOf;
  }

  /** A picture of one of them: a row for each stream of each rank. */
  toSVG(which: "predicted" | "measured" = "measured"): string {
    return timelineSVG(this[which], which, this.#nameOf);
  }

  /** One of them for chrome://tracing and Perfetto: a process a rank, a thread a stream. */
  toChromeTrace(which: "predicted" | "measured" = "measured"): string {
    return chromeTrace(this[which], this.#nameOf);
  }
}
