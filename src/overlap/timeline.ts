/**
 * What each rank does when, predicted or measured: as a picture, and for the viewers of Chrome traces. Pure functions.
 *
 * @module
 */

/** Something that a rank does. */
export interface Interval {
  /** Who. */
  readonly rank: number;
  /** Where: a stream, or a cluster of blocks. */
  readonly lane: number;
  /** What kind of work: what it is coloured by. */
  readonly kind: "gemm" | "copy" | "reduce" | "wait";
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
  gemm: "#4c78a8",
  copy: "#f58518",
  reduce: "#54a24b",
  wait: "#d0d0d0",
};

const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const [WIDTH, LANE_HEIGHT, LEFT, TOP] = [960, 22, 110, 40];

/** The lanes that something is in, in order: rank and lane. */
function lanesOf(timeline: readonly Interval[]): string[] {
  const lanes = new Map(timeline.map(({ rank, lane }) => [`${rank}/${lane}`, [rank, lane] as const]));
  return [...lanes].sort(([, [rank, lane]], [, [other, otherLane]]) => rank - other || lane - otherLane)
    .map(([key]) => key);
}

/** A picture: a row for each lane of each rank, time from left to right. */
export function timelineSVG(timeline: readonly Interval[], title = ""): string {
  const lanes = lanesOf(timeline);
  const end = Math.max(1e-9, ...timeline.map(({ end }) => end));
  const height = TOP + lanes.length * LANE_HEIGHT + 30;
  const x = (time: number) => (LEFT + time / end * (WIDTH - LEFT - 10)).toFixed(2);
  const width = ({ start, end: last }: Interval) => ((last - start) / end * (WIDTH - LEFT - 10)).toFixed(2);
  const y = (key: string) => TOP + lanes.indexOf(key) * LANE_HEIGHT;
  const names = lanes.map((key) => {
    const [rank, lane] = key.split("/");
    return `<text x="8" y="${y(key) + 15}">rank ${rank}, lane ${lane}</text>`;
  });
  const bars = timeline.map((interval) => {
    const { rank, lane, kind, label, start, end } = interval;
    const tip = `<title>${escape(label)}: ${start.toFixed(1)} to ${end.toFixed(1)} us</title>`;
    return `<rect x="${x(start)}" y="${y(`${rank}/${lane}`) + 2}" width="${width(interval)}" height="${
      LANE_HEIGHT - 4
    }" ` +
      `fill="${COLORS[kind]}">${tip}</rect>`;
  });
  const legend = Object.entries(COLORS).map(([kind, color], i) =>
    `<rect x="${LEFT + 90 * i}" y="${height - 22}" width="12" height="12" fill="${color}"/>` +
    `<text x="${LEFT + 90 * i + 18}" y="${height - 12}">${kind}</text>`
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" font-family="sans-serif" font-size="12">`,
    `<rect width="100%" height="100%" fill="white"/>`,
    `<text x="8" y="20" font-size="14">${escape(title)} (${end.toFixed(1)} us)</text>`,
    ...names,
    ...bars,
    ...legend,
    "</svg>",
    "",
  ].join("\n");
}

/** The same for chrome://tracing and Perfetto: a process a rank, a thread a lane. */
export function chromeTrace(timeline: readonly Interval[]): string {
  const names = [...new Set(timeline.map(({ rank }) => rank))].sort((one, other) => one - other)
    .map((rank) => ({ name: "process_name", ph: "M", pid: rank, args: { name: `rank ${rank}` } }));
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
 * The tiles of all clusters of blocks, which take them side by side, as waves: the first of each cluster, the second, and so
 * on. Copies between ranks get a lane of their own.
 */
export function wavesOf(timeline: readonly Interval[]): Interval[] {
  const waves = new Map<string, Interval>();
  const taken = new Map<string, number>();
  for (const one of timeline.toSorted((one, other) => one.start - other.start)) {
    if (one.kind !== "gemm") continue;
    const place = `${one.rank}/${one.lane}`;
    const wave = taken.get(place) ?? 0;
    taken.set(place, wave + 1);
    const key = `${one.rank}/${wave}`;
    const { start, end } = waves.get(key) ?? one;
    waves.set(key, {
      ...one,
      lane: 0,
      label: `tiles, wave ${wave + 1}`,
      start: Math.min(start, one.start),
      end: Math.max(end, one.end),
    });
  }
  // A wave ends where the next one begins, though its last tiles do not.
  const all = [...waves.values()];
  const next = (wave: Interval) => all.find((other) => other.rank === wave.rank && other.start > wave.start);
  const cut = all.map((wave) => ({ ...wave, end: Math.min(wave.end, next(wave)?.start ?? Infinity) }));
  return [...cut, ...timeline.filter(({ kind }) => kind === "copy").map((copy) => ({ ...copy, lane: 1 }))];
}
