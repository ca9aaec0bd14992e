/**
 * What ranks do, as `check.ts` understands it: both grains, stages and tiles, become waits, signals and puts.
 *
 * @module
 */
import type { Action, RankProgram, Span, Wanted } from "./proof.ts";
import { lengthOf, type Part, type Partition } from "./partition.ts";
import type { MemoryLines, Schedule, ScheduleStep } from "./schedule.ts";
import {
  gatheredPieces,
  panelTiles,
  sentPanels,
  spotsByRank,
  type Tile,
  type TileProblem,
  type TileVariant,
} from "./tile_order.ts";

/** How a rank takes its steps: the streams side by side, or one step after the other in the order of the list. */
export type Taking = "streams" | "list";

/** One rank's schedule as actions. */
export function stageProgram(schedule: Schedule, taking: Taking = "streams"): RankProgram {
  const { partition, rank, steps, windowLines, parities } = schedule;
  const { kind, parts, extents, axis, size } = partition;
  const laneOf = ({ stream }: ScheduleStep) => taking === "list" ? 0 : stream;
  const lanes: Action[][] = [[], []];
  // Where each step stands among those of its lane.
  const places = steps.map((step) => {
    const lane = lanes[laneOf(step)];
    lane.push(actionOf(schedule, step));
    return [laneOf(step), lane.length - 1] as const;
  });
  steps.forEach(({ after }, number) => {
    if (after.length === 0) return;
    const [lane, position] = places[number];
    lanes[lane][position] = { ...lanes[lane][position], after: after.map((earlier) => places[earlier]) };
  });
  const result = resultOf(partition, rank);
  return {
    lanes,
    inputs: kind === "gather" ? [factorOf(partition, rank)] : [],
    outputs: result,
    sizes: {
      factor: lengthOf(parts[rank]),
      result: kind === "reduce" ? lengthOf(parts[rank]) : axis === "k" ? 1 : extents[axis],
      window: windowLines,
    },
    turns: size > 1 ? { window: parities } : {},
  };
}

/** The terms of all of a sum. */
function allTerms(partition: Partition): bigint {
  const { kind, axis, size, parts } = partition;
  if (kind !== "gather") return (1n << BigInt(size)) - 1n;
  return axis === "k" ? termsOf(parts) : 1n;
}

/** A term for each index of k. */
function termsOf(ranges: readonly Part[]): bigint {
  return ranges.reduce(
    (terms, { start, end }) => terms | ((1n << BigInt(end)) - 1n) ^ ((1n << BigInt(start)) - 1n),
    0n,
  );
}

function factorOf({ parts }: Partition, rank: number): Wanted {
  const { start, end } = parts[rank];
  return { span: { rank, memory: "factor", start: 0, end: end - start }, base: start, terms: 0n };
}

function resultOf(partition: Partition, rank: number): Wanted[] {
  const { kind, parts, extents, axis } = partition;
  const [base, lines] = kind === "reduce"
    ? [parts[rank].start, lengthOf(parts[rank])]
    : [0, axis === "k" ? 1 : extents[axis]];
  return [{ span: { rank, memory: "result", start: 0, end: lines }, base, terms: allTerms(partition) }];
}

function spanOf({ rank, memory, at, lines }: MemoryLines): Span {
  return { rank, memory, start: at, end: at + lines };
}

function actionOf({ partition, rank }: Schedule, step: ScheduleStep): Action {
  const { kind, axis } = partition;
  switch (step.kind) {
    case "wait":
      return { kind: "wait", flag: step.flag };
    case "signal":
      return { kind: "signal", rank: step.rank, flag: step.flag };
    case "copy":
      return {
        kind: "put",
        to: [spanOf(step.to)],
        base: step.range.start,
        term: 0n,
        from: [spanOf(step.from)],
        needs: [],
        amount: lengthOf(step.range),
      };
    case "reduce": {
      const from = [spanOf(step.to), ...step.from.map(spanOf)];
      const amount = lengthOf(step.range);
      return { kind: "put", to: [spanOf(step.to)], base: step.range.start, term: 0n, from, needs: [], amount };
    }
    case "gemm": {
      const isTerm = kind === "gather" && axis === "k";
      const term = kind !== "gather" ? 1n << BigInt(rank) : isTerm ? termsOf([step.range]) : 1n;
      const needs: Wanted[] = step.factor === null
        ? []
        : [{ span: spanOf(step.factor), base: step.range.start, terms: 0n }];
      const to = spanOf(step.to);
      const base = isTerm ? 0 : step.range.start;
      return {
        kind: "put",
        to: [to],
        base,
        term,
        from: step.adds === "sum" ? [spanOf(step.sum ?? step.to)] : [],
        needs,
        amount: lengthOf(step.range),
      };
    }
  }
}

/** What all ranks run, as tiles: their lists, and what is the same for all of them. */
export interface TileRun {
  /** The product; its rank does not count. */
  readonly problem: TileProblem;
  /** How it is done. */
  readonly variant: TileVariant;
  /** How many clusters of blocks take tiles. */
  readonly clusters: number;
  /** The lists, by rank. */
  readonly orders: readonly (readonly Tile[])[];
}

/** Lists of tiles as actions: a lane for each cluster of blocks, and one for the copies of what is gathered, or of panels. */
export function tilePrograms(run: TileRun): RankProgram[] {
  const { problem, variant } = run;
  const spots = spotsByRank(problem, variant);
  const corners = [...new Set(spots.flat().map(cornerOf))].sort();
  const units = new Map(corners.map((corner, unit) => [corner, unit]));
  const most = Math.max(...spots.map(({ length }) => length));
  return run.orders.map((_, rank) => new TileLowering(run, rank, units, most).program(spots));
}

const cornerOf = ({ row, column }: { row: number; column: number }) => `${row}/${column}`;

class TileLowering {
  readonly #run: TileRun;
  readonly #rank: number;
  readonly #units: ReadonlyMap<string, number>;
  /** The most tiles that one rank sends to another. */
  readonly #most: number;
  /** How many of them travel together. */
  readonly #panel: number | null;
  /** The pieces in which a part of a gathered factor travels. */
  readonly #pieces: readonly number[];

  constructor(run: TileRun, rank: number, units: ReadonlyMap<string, number>, most: number) {
    this.#run = run;
    this.#rank = rank;
    this.#units = units;
    this.#most = most;
    this.#panel = panelTiles(run.problem, run.variant);
    this.#pieces = gatheredPieces(run.problem, run.variant).map((_, i) => i);
  }

  program(spots: readonly (readonly { row: number; column: number }[])[]): RankProgram {
    const { problem: { kind, size }, variant } = this.#run;
    const rank = this.#rank;
    const isSum = kind === "reduce" || kind === "all_reduce";
    const all = Array.from({ length: size }, (_, i) => i);
    const terms = isSum ? (1n << BigInt(size)) - 1n : 1n;
    const ofRank = kind === "reduce" ? spots[rank] : spots.flat();
    const owned = new Set(ofRank.map((spot) => this.#unit(spot)));
    const arrivals = Object.fromEntries(
      all.map((sender) => [`from ${sender}`, isSum && !variant.pulls ? this.#most : 0]),
    );
    const stored = Object.fromEntries(
      all.map((receiver) => [`for ${receiver}`, this.#panel === null && !variant.pulls ? 0 : this.#most]),
    );
    const goesToAll = kind === "all_reduce" && !variant.isExchange;
    const pushes = this.#panel === null ? [] : this.#pushes(this.#panel);
    const copies = kind === "gather" ? this.#copies() : pushes;
    return {
      lanes: [...this.#lanes(goesToAll), copies],
      unawaited: this.#panel === null ? [] : [this.#run.clusters],
      inputs: kind === "gather" ? this.#pieces.map((piece) => this.#piece("factor", rank, piece)) : [],
      outputs: [...owned].map((unit) => ({ span: this.#span(rank, "result", unit), base: unit, terms })),
      sizes: {
        factor: this.#pieces.length,
        gathered: kind === "gather" ? size * this.#pieces.length : 0,
        result: this.#units.size,
        ...arrivals,
        ...stored,
      },
      turns: {
        gathered: 2,
        ...Object.fromEntries(all.flatMap((other) => [[`from ${other}`, 2], [`for ${other}`, 2]])),
      },
    };
  }

  get #others(): number[] {
    return this.#run.orders.map((_, peer) => peer).filter((peer) => peer !== this.#rank);
  }

  /** The flag that a sender's cluster has stored all results. */
  #endFlag(sender: number, cluster: number): number {
    const { clusters, problem: { size } } = this.#run;
    return size + size * this.#most + sender * clusters + cluster;
  }

  #lanes(goesToAll: boolean): Action[][] {
    const { clusters, orders } = this.#run;
    const rank = this.#rank;
    const peers = this.#others;
    return Array.from({ length: clusters }, (_, first) => {
      const lane = orders[rank].filter((_, i) => i % clusters === first).flatMap((tile) => this.#tile(tile));
      if (!goesToAll) return lane;
      for (const peer of peers) lane.push({ kind: "signal", rank: peer, flag: this.#endFlag(rank, first) });
      if (first < clusters - 1) return lane;
      for (const peer of peers) {
        for (let cluster = 0; cluster < clusters; cluster++) {
          lane.push({ kind: "wait", flag: this.#endFlag(peer, cluster) });
        }
      }
      return lane;
    });
  }

  /** Copy engines, or some warps of the kernel, push this rank's part to the others. */
  #copies(): Action[] {
    const { size } = this.#run.problem;
    const rank = this.#rank;
    const peers = Array.from({ length: size - 1 }, (_, i) => (rank - 1 - i + size) % size);
    return peers.flatMap((peer) =>
      this.#pieces.flatMap((piece): Action[] => {
        const { span, base } = this.#piece("factor", rank, piece);
        const to = [{ ...this.#piece("gathered", rank, piece).span, rank: peer }];
        return [
          { kind: "put", to, base, term: 0n, from: [span], needs: [], amount: 1 / this.#pieces.length },
          { kind: "signal", rank: peer, flag: base },
        ];
      })
    );
  }

  /** Where this rank has a piece of a part of the gathered factor; the flag that it is here has its number, too. */
  #piece(memory: "factor" | "gathered", part: number, piece: number): Wanted {
    const count = this.#pieces.length;
    const base = part * count + piece;
    return { span: this.#span(this.#rank, memory, memory === "factor" ? piece : base), base, terms: 0n };
  }

  /** Copy engines push panels, each once all of its tiles are stored. */
  #pushes(panel: number): Action[] {
    const rank = this.#rank;
    const { orders, problem, variant } = this.#run;
    return sentPanels({ ...problem, rank }, variant).flatMap(({ receiver, index }): Action[] => {
      const tiles = orders[rank].filter(({ receivers, number }) =>
        receivers.includes(receiver) && Math.floor(number / panel) === index
      );
      return [
        ...tiles.map(({ number }): Action => ({ kind: "wait", flag: this.#storedFlag(receiver, number) })),
        ...tiles.map((tile): Action => ({
          kind: "put",
          to: [this.#span(receiver, `from ${rank}`, tile.number)],
          base: this.#unit(tile),
          term: 0n,
          from: [this.#span(rank, `for ${receiver}`, tile.number)],
          needs: [],
          amount: 1,
        })),
        { kind: "signal", rank: receiver, flag: this.#flagOf(rank, index) },
      ];
    });
  }

  /** The flag of a sender's tile, or panel, of this number. */
  #flagOf(sender: number, number: number): number {
    return this.#run.problem.size + sender * this.#most + number;
  }

  /** The flag that a tile for a rank is stored where its panel is copied from. */
  #storedFlag(receiver: number, number: number): number {
    const { problem: { size }, clusters } = this.#run;
    return size + size * this.#most + size * clusters + receiver * this.#most + number;
  }

  #tile(tile: Tile): Action[] {
    const { kind, split } = this.#run.problem;
    const rank = this.#rank;
    const base = this.#unit(tile);
    const isSum = kind === "reduce" || kind === "all_reduce";
    const own = isSum ? 1n << BigInt(rank) : 1n;
    const part = split === "rows" ? tile.partA : tile.partB;
    const memory = part === rank ? "factor" : "gathered";
    const needs = kind === "gather" ? this.#pieces.map((piece) => this.#piece(memory, part, piece)) : [];
    const panel = this.#panel;
    const flagOf = (sender: number) => this.#flagOf(sender, Math.floor(tile.number / (panel ?? 1)));
    // The kernel waits for each piece where its steps begin.
    const { awaits } = tile;
    const awaited = awaits === null ? [] : this.#pieces.map((piece) => this.#piece("gathered", awaits, piece).base);
    const actions = awaited.map((flag): Action => ({ kind: "wait", flag }));
    if (panel !== null) {
      for (const receiver of tile.receivers) {
        const to = [this.#span(rank, `for ${receiver}`, tile.number)];
        actions.push({ kind: "put", to, base, term: own, from: [], needs, amount: 1 });
        actions.push({ kind: "signal", rank, flag: this.#storedFlag(receiver, tile.number) });
      }
    } else if (tile.receivers.length > 0) {
      const to = tile.receivers.map((receiver) => this.#sent(rank, receiver, tile.number));
      actions.push({ kind: "put", to, base, term: own, from: [], needs, amount: 1 });
      for (const receiver of tile.receivers) actions.push({ kind: "signal", rank: receiver, flag: flagOf(rank) });
    }
    if (tile.targets.length === 0) return actions;
    for (const sender of tile.senders) actions.push({ kind: "wait", flag: flagOf(sender) });
    actions.push({
      kind: "put",
      // The targets of a gathered product are parts of the rank's own D.
      to: (isSum ? tile.targets : [rank]).map((target) => this.#span(target, "result", base)),
      base,
      term: tile.senders.includes(rank) ? 0n : own,
      from: tile.senders.map((sender) => this.#sent(sender, rank, tile.number)),
      needs,
      // A tile that was sent to others is multiplied once.
      amount: tile.receivers.length > 0 ? 0 : 1,
    });
    return actions;
  }

  /** Where a tile from a rank for another one lies. */
  #sent(sender: number, receiver: number, number: number): Span {
    return this.#run.variant.pulls
      ? this.#span(sender, `for ${receiver}`, number)
      : this.#span(receiver, `from ${sender}`, number);
  }

  #unit(spot: { row: number; column: number }): number {
    return this.#units.get(cornerOf(spot)) ?? -1;
  }

  #span(rank: number, memory: string, unit: number): Span {
    return { rank, memory, start: unit, end: unit + 1 };
  }
}

/**
 * The same programs as a graph repeats them: each rank tells all others that it has taken its flags back, and waits for all
 * of them, before any of its lanes begins. What takes turns in other runs is there once.
 */
export function withMeeting(programs: readonly RankProgram[]): RankProgram[] {
  const actions = programs.flatMap(({ lanes }) => lanes.flat());
  const first = 1 + actions.reduce((last, action) => action.kind === "put" ? last : Math.max(last, action.flag), -1);
  return programs.map((program, rank): RankProgram => {
    const peers = programs.flatMap((_, peer) => peer === rank ? [] : [peer]);
    const meeting = [
      ...peers.map((peer): Action => ({ kind: "signal", rank: peer, flag: first + rank })),
      ...peers.map((peer): Action => ({ kind: "wait", flag: first + peer })),
    ];
    if (meeting.length === 0) return program;
    const met = [program.lanes.length, meeting.length - 1] as const;
    const lanes = program.lanes.map((lane) =>
      lane.map((action, i) => i === 0 ? { ...action, after: [...action.after ?? [], met] } : action)
    );
    return { ...program, lanes: [...lanes, meeting], turns: {} };
  });
}
