/**
 * The tiles of a timeline as waves.
 *
 * @module
 */
import type { Interval } from "../runtime/timeline.ts";

/** What overlaps of a rank's waits, as one. */
function mergedWaits(waits: readonly Interval[]): Interval[] {
  const merged: { wait: Interval; lanes: Set<number> }[] = [];
  for (const wait of waits.toSorted((one, other) => one.rank - other.rank || one.start - other.start)) {
    const last = merged.at(-1);
    if (last === undefined || last.wait.rank !== wait.rank || wait.start > last.wait.end) {
      merged.push({ wait, lanes: new Set([wait.lane]) });
    } else {
      last.lanes.add(wait.lane);
      last.wait = { ...last.wait, end: Math.max(last.wait.end, wait.end) };
    }
  }
  return merged.map(({ wait, lanes }) => ({
    ...wait,
    lane: 2,
    label: lanes.size === 1 ? "waits of a cluster" : `waits of ${lanes.size} clusters`,
  }));
}

/**
 * The tiles of all clusters of blocks, which take them side by side, as waves: the first of each cluster, the second, and so
 * on. Copies between ranks get a lane of their own, and so do the times in which some clusters wait.
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
  const copies = timeline.filter(({ kind }) => kind === "copy").map((copy) => ({ ...copy, lane: 1 }));
  return [...cut, ...copies, ...mergedWaits(timeline.filter(({ kind }) => kind === "wait"))];
}
