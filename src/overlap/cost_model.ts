/**
 * How long schedules would take, by what a machine can do. Pure functions.
 *
 * What ranks do is followed in time: each lane takes its actions one after the other, and each rank's link carries one
 * thing at a time in either direction.
 *
 * @module
 */
import { H200_MEASURED, type MeasuredRates } from "../array/gpu_model.ts";
import type { DType } from "../dtype/dtype.ts";
import { stageProgram, type Taking, tilePrograms } from "./actions.ts";
import type { Action, RankProgram } from "./proof.ts";
import {
  factorBytes as factorBytesOf,
  TILE_ROWS,
  TILE_SHAPES,
  type TileShape,
} from "./executors/tile/configuration.ts";
import { lengthOf, lineElements, type Partition, travelling } from "./partition.ts";
import { schedulesOf, type Variant } from "./schedule.ts";
import { panelTiles, tileOrder, type TileProblem, type TileVariant } from "./tile_order.ts";
import type { Interval } from "../runtime/timeline.ts";

/** What a machine can do. Times are microseconds. */
export interface Rates extends MeasuredRates {
  /** Bytes a microsecond that a kernel's own stores send. */
  readonly stores: number;
  /** From a signal until it is seen. */
  readonly flag: number;
  /** The speed of a tile kernel's products over that of other products, by the shape of its tiles. */
  readonly tiles: Readonly<Record<keyof typeof TILE_SHAPES, number>>;
}

/** Two and four H200 with NVLink, bfloat16: half duty, by stages of cuBLASLt and copy engines, and by tile kernels. */
export const H200_RATES: Rates = {
  ...H200_MEASURED,
  stores: 332e3,
  flag: 1.5,
  // Of flat ones alone no measurement is at hand: as tiles of 128 columns without clusters, the nearest.
  tiles: { wide: 0.99, roomy: 0.98, medium: 0.98, narrow: 0.93, flat: 0.72 },
};

/** The speed of products by tiles of a shape over that of other products; between shapes in use it lies in between. */
export function tileSpeed({ columns, slots }: TileShape, { tiles }: Pick<Rates, "tiles">): number {
  const { flat, narrow, medium, wide, roomy } = TILE_SHAPES;
  if (columns === roomy.columns && slots === roomy.slots) return tiles.roomy;
  const known = [[flat, tiles.flat], [narrow, tiles.narrow], [medium, tiles.medium], [wide, tiles.wide]] as const;
  const next = known.findIndex(([shape]) => shape.columns >= columns);
  const [above, fast] = known[next];
  const [below, slow] = known[Math.max(0, next - 1)];
  const share = above === below ? 0 : (above.columns - columns) / (above.columns - below.columns);
  return fast + share * (slow - fast);
}

/** What products of a type take over those of bfloat16: the peaks of an H200. */
export function slownessOf(dtype: DType): number {
  switch (dtype) {
    case "float8_e4m3":
    case "float8_e5m2":
      return 0.55;
    case "float64":
      return 14;
    case "complex128":
      return 4 * 14;
    case "float32":
      return 16;
    case "complex64":
      return 4 * 16;
    default:
      return 1;
  }
}

/** What an action takes. */
interface Task {
  readonly kind: Interval["kind"];
  readonly time: number;
  /** Who sends to whom, if the link is used. */
  readonly link?: readonly [from: number, to: number];
}

/** A lane on its way. */
interface Lane {
  readonly rank: number;
  readonly lane: number;
  readonly actions: readonly Action[];
  readonly ends: number[];
  time: number;
}

/** What is to come, the earliest first: a binary heap. */
class Agenda {
  readonly #entries: (readonly [time: number, lane: Lane])[] = [];

  add(time: number, lane: Lane): void {
    const entries = this.#entries;
    let at = entries.push([time, lane]) - 1;
    for (let parent = at - 1 >> 1; at > 0 && entries[parent][0] > time; at = parent, parent = at - 1 >> 1) {
      [entries[at], entries[parent]] = [entries[parent], entries[at]];
    }
  }

  take(): readonly [time: number, lane: Lane] | undefined {
    const entries = this.#entries;
    const [first, last] = [entries[0], entries.pop()];
    if (entries.length === 0 || last === undefined) return first;
    entries[0] = last;
    for (let at = 0;;) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      let least = left < entries.length && entries[left][0] < entries[at][0] ? left : at;
      if (right < entries.length && entries[right][0] < entries[least][0]) least = right;
      if (least === at) return first;
      [entries[at], entries[least]] = [entries[least], entries[at]];
      at = least;
    }
  }
}

/** What ranks do and when, if actions take so long; waits only where they last. */
function simulate(
  programs: readonly RankProgram[],
  taskOf: (rank: number, action: Action & { kind: "put" }) => Task,
  flag: number,
): Interval[] {
  const intervals: Interval[] = [];
  /** When flags were signalled, and who waits for those that were not; the same of actions' ends. */
  const [known, waiting] = [new Map<string, number>(), new Map<string, Lane[]>()];
  const [sending, receiving] = [programs.map(() => 0), programs.map(() => 0)];
  const agenda = new Agenda();
  const lanes = programs.map(({ lanes }, rank) =>
    lanes.map((actions, lane): Lane => ({ rank, lane, actions, ends: [], time: 0 }))
  );
  const schedule = (one: Lane): void => {
    const { rank, actions, ends, time } = one;
    const action = actions[ends.length];
    if (action === undefined) return;
    let ready = time;
    const needs = (action.after ?? []).map(([lane, position]): [string, number] => [`${rank} ${lane} ${position}`, 0]);
    if (action.kind === "wait") needs.push([`${rank}/${action.flag}`, flag]);
    for (const [key, delay] of needs) {
      const at = known.get(key);
      if (at === undefined) {
        const others = waiting.get(key);
        if (others) others.push(one);
        else waiting.set(key, [one]);
        return;
      }
      ready = Math.max(ready, at + delay);
    }
    agenda.add(ready, one);
  };
  const note = (key: string, time: number) => {
    known.set(key, time);
    const others = waiting.get(key);
    if (others === undefined) return;
    waiting.delete(key);
    others.forEach(schedule);
  };
  lanes.flat().forEach(schedule);
  for (let entry = agenda.take(); entry !== undefined; entry = agenda.take()) {
    const one = entry[1];
    let start = entry[0];
    const { rank, lane, actions, ends } = one;
    const action = actions[ends.length];
    let end = start;
    if (action.kind === "wait" && start > one.time) {
      intervals.push({ rank, lane, kind: "wait", label: `flag ${action.flag}`, start: one.time, end: start });
    } else if (action.kind === "put") {
      const { kind, time, link } = taskOf(rank, action);
      if (link) start = Math.max(start, sending[link[0]], receiving[link[1]]);
      end = start + time;
      if (link) sending[link[0]] = receiving[link[1]] = end;
      if (time > 0) intervals.push({ rank, lane, kind, label: labelOf(kind, action), start, end });
    }
    one.time = end;
    ends.push(end);
    if (action.kind === "signal") note(`${action.rank}/${action.flag}`, end);
    note(`${rank} ${lane} ${ends.length - 1}`, end);
    schedule(one);
  }
  return intervals;
}

function labelOf(kind: Interval["kind"], { to, base, amount }: Action & { kind: "put" }): string {
  const ranks = [...new Set(to.map(({ rank }) => rank))].join(", ");
  return `${kind} ${base}..${base + amount}, ${to[0].memory} of rank ${ranks}`;
}

/** When everything has ended. */
export function durationOf(timeline: readonly Interval[]): number {
  return timeline.reduce((last, { end }) => Math.max(last, end), 0);
}

/** What a stage schedule of all ranks would look like. */
export function predictStages(
  partition: Partition,
  variant: Variant,
  rates: Rates,
  itemSize: number,
  taking: Taking = "streams",
): Interval[] {
  const { extents: { m, n, k }, extents, axis, fixedAxis, fixedParts } = partition;
  const bytes = (lines: number) => lines * lineElements(partition) * itemSize;
  const flopsOfLine = (rank: number) =>
    2 * m * n * k / extents[axis] * lengthOf(fixedParts[rank]) / Math.max(1, extents[fixedAxis]);
  const taskOf = (rank: number, action: Action & { kind: "put" }): Task => {
    const { amount, term, from, to: [to] } = action;
    if (term !== 0n) {
      const added = from.length > 0 ? bytes(amount) / rates.memory : 0;
      return { kind: "gemm", time: amount * flopsOfLine(rank) / rates.flops + rates.gemmStart + added };
    }
    if (from.length > 1) return { kind: "reduce", time: (from.length + 1) * bytes(amount) / rates.memory };
    const sender = from[0].rank;
    if (sender === to.rank) return { kind: "copy", time: bytes(amount) / rates.memory + rates.copyStart };
    return { kind: "copy", time: bytes(amount) / rates.link + rates.copyStart, link: [sender, to.rank] };
  };
  const programs = schedulesOf(partition, variant).map((schedule) => stageProgram(schedule, taking));
  return simulate(programs, taskOf, rates.flag);
}

/**
 * What the tiles of a kernel on all ranks would look like, if so many clusters of blocks take them. Ranks, each with its own
 * problem, may differ in an extent that is not in parts.
 */
export function predictTiles(
  problems: readonly TileProblem[],
  variant: TileVariant,
  clusters: number,
  rates: Rates,
): Interval[] {
  const { shape: { columns, cluster } } = variant;
  const [rows, itemSize] = [TILE_ROWS * cluster, 2];
  const problem = largestOf(problems);
  const { narrow: [narrow] = [null] } = problem;
  const slowness = narrow === null ? 1 : slownessOf(narrow);
  const tileBytes = rows * columns * itemSize;
  const flops = rates.flops / slowness * tileSpeed(variant.shape, rates);
  const multiplying = problems.map(({ k }) => 2 * rows * columns * k * clusters / flops);
  const factorBytes = problem.kind === "gather"
    ? Math.ceil((problem.split === "rows" ? problem.m : problem.n) / problem.size) * problem.k * factorBytesOf(problem)
    : 0;
  const panel = panelTiles(problem, variant);
  const taskOf = (rank: number, { amount, term, from, to }: Action & { kind: "put" }): Task => {
    if (term === 0n && panel !== null) {
      // What a copy takes besides is shared by the tiles of a panel.
      return { kind: "copy", time: tileBytes / rates.link + rates.copyStart / panel, link: [rank, to[0].rank] };
    }
    if (term === 0n && problem.kind === "gather") {
      return { kind: "copy", time: amount * factorBytes / rates.link + rates.copyStart, link: [rank, to[0].rank] };
    }
    const arrivals = from.length * tileBytes * clusters / rates.memory;
    const peers = to.filter((span) => span.rank !== rank).length;
    const sent = peers * tileBytes / rates.stores;
    const fetched = from.filter((span) => span.rank !== rank).length * tileBytes / rates.link;
    // They travel while other clusters multiply, and only count where the link is what lasts.
    return { kind: "gemm", time: Math.max(amount * multiplying[rank] + arrivals, (sent + fetched) * clusters) };
  };
  const orders = problems.map((own) => tileOrder(own, variant, clusters));
  return simulate(tilePrograms({ problem, variant, clusters, orders }), taskOf, rates.flag);
}

/** A problem in which those of all ranks have room. */
function largestOf(problems: readonly TileProblem[]): TileProblem {
  const most = (axis: "m" | "n" | "k") => Math.max(...problems.map((problem) => problem[axis]));
  return { ...problems[0], m: most("m"), n: most("n"), k: most("k") };
}

/** What no schedule can be faster than: the product alone, or what has to travel. */
export function limitOf(partition: Partition, rates: Rates, itemSize: number): number {
  const { extents: { m, n, k }, extents, fixedAxis, fixedParts } = partition;
  const most = Math.max(...fixedParts.map(lengthOf)) / Math.max(1, extents[fixedAxis]);
  return Math.max(2 * m * n * k * most / rates.flops, travelling(partition) * itemSize / rates.link);
}
