/**
 * When, in stages: what each rank multiplies, copies, signals and waits for, in plain data built by pure functions. The
 * other grain, the tiles of one kernel, is in `tile_order.ts`.
 *
 * Matrices are counted in *lines*: a line of the matrix that travels is all of it with one index of the partition's axis.
 * The ranks share *windows*: memory of each rank that all of them address. A window is there once for each parity of the
 * call, and flags hold the number of the call, so that neither barriers nor resets are needed: a rank that has all that
 * others send in a call knows that they have ended the call before.
 *
 * The steps of a stream follow each other; a step may also wait for earlier ones of other streams. A rank that has one
 * stream only, such as a CPU, takes the steps in the order of the list.
 *
 * @module
 */
import type { Span } from "../runtime/timeline.ts";
import { lengthOf, others, type Part, type Partition, piecesOf } from "./partition.ts";

/** Lines of a rank's memory. */
export interface MemoryLines {
  /** Whose memory. */
  readonly rank: number;
  /** Which: the factor that travels, the result, or what all ranks address. */
  readonly memory: "factor" | "result" | "window";
  /** The first line. */
  readonly at: number;
  /** How many. */
  readonly lines: number;
}

interface Common {
  /** The stream; 0 multiplies, 1 copies. */
  readonly stream: 0 | 1;
  /** The steps of other streams that have to be done before, by their numbers in the list. */
  readonly after: readonly number[];
}

/** Multiply: all that the rank has for a range of the axis. */
export interface Gemm extends Common {
  /** What it is. */
  readonly kind: "gemm";
  /** The part of the axis. */
  readonly range: Part;
  /** Where the factor that travels lies; `null` if both factors are the rank's own. */
  readonly factor: MemoryLines | null;
  /** Where the product goes. */
  readonly to: MemoryLines;
  /** What it is added to: nothing, beta times what the user wants added, or a sum. */
  readonly adds: "nothing" | "addend" | "sum";
  /** Where that sum lies, if not where the product goes. */
  readonly sum?: MemoryLines;
}

/** Copy a range. */
export interface Copy extends Common {
  /** What it is. */
  readonly kind: "copy";
  /** The part of the axis. */
  readonly range: Part;
  /** Where it lies. */
  readonly from: MemoryLines;
  /** Where it goes. */
  readonly to: MemoryLines;
}

/** Add sums of a range to one. */
export interface Reduce extends Common {
  /** What it is. */
  readonly kind: "reduce";
  /** The part of the axis. */
  readonly range: Part;
  /** What is added. */
  readonly from: readonly MemoryLines[];
  /** What it is added to. */
  readonly to: MemoryLines;
}

/** Write the number of the call into another rank's flag. */
export interface Signal extends Common {
  /** What it is. */
  readonly kind: "signal";
  /** Whose flag. */
  readonly rank: number;
  /** Which. */
  readonly flag: number;
}

/** Wait until a flag has the number of the call. */
export interface Wait extends Common {
  /** What it is. */
  readonly kind: "wait";
  /** Who signals it. */
  readonly rank: number;
  /** Which. */
  readonly flag: number;
}

/** One thing that a rank does. */
export type ScheduleStep = Gemm | Copy | Reduce | Signal | Wait;

/** What one rank does in a call. */
export interface Schedule {
  /** Where everything is. */
  readonly partition: Partition;
  /** How it is done, such as `push`. */
  readonly variant: string;
  /** This rank. */
  readonly rank: number;
  /** What it does. */
  readonly steps: readonly ScheduleStep[];
  /** The lines of a window, for one parity of the call. */
  readonly windowLines: number;
  /** How many windows take turns: 2, by parity. */
  readonly parities: number;
  /** The flags of a rank. */
  readonly flags: number;
}

/**
 * How a factor is gathered. `push`: each rank copies its part to the others. `pull`: each copies the others' parts to
 * itself. `share`: each copies its part into its window, where the others read it while they multiply. `direct`: as
 * `share`, without the copy: the factor itself lies where all address it.
 */
export type GatherWay = "push" | "pull" | "share" | "direct";

/**
 * How sums are made. `ring`: a sum goes from rank to rank, and each multiplies onto it. `relay`: the same, but the sum
 * stays in its owner's window. `scatter`: each rank sends its terms to the owners, who add them.
 */
export type ReduceWay = "ring" | "relay" | "scatter";

/** The ways to gather. */
export const GATHER_WAYS: readonly GatherWay[] = ["push", "pull", "share", "direct"];

/** The ways to sum. */
export const REDUCE_WAYS: readonly ReduceWay[] = ["ring", "relay", "scatter"];

/** A choice among the schedules of a partition. */
export interface Variant {
  /** How things travel. */
  readonly way: GatherWay | ReduceWay;
  /** Into how many pieces each part is cut, or how heavy they are beside each other. */
  readonly pieces?: number | readonly number[];
  /** For sums: whether something of the user's is added to the result. */
  readonly hasAddend?: boolean;
  /** For sums that are passed on: whether products can be added to what lies elsewhere than they go. */
  readonly canAddApart?: boolean;
}

/** Distributes `Omit` over the kinds of steps. */
type Given<T> = T extends ScheduleStep ? Omit<T, "after" | "stream"> & Partial<Common> : never;

/** What a rank does. */
export function scheduleOf(partition: Partition, rank: number, variant: Variant): Schedule {
  const { way, pieces = 1, hasAddend = false, canAddApart = false } = variant;
  const weights = typeof pieces === "number" ? equalWeights(pieces) : pieces;
  const isGather = partition.kind === "gather";
  const ways: readonly string[] = isGather ? GATHER_WAYS : REDUCE_WAYS;
  if (!ways.includes(way)) throw new RangeError(`${partition.kind} can go by ${ways.join(", ")}, not by ${way}.`);
  const maker = new Maker(partition, rank, weights);
  if (isGather) maker.gather(way as GatherWay);
  else maker.reduce(way as ReduceWay, hasAddend, canAddApart);
  const name = weights.length === 1 ? way : `${way}, ${weights.length} pieces a part`;
  return { partition, variant: name, rank, steps: maker.steps, parities: 2, ...maker.room };
}

function equalWeights(pieces: number): number[] {
  if (Number.isInteger(pieces) && pieces >= 1) return Array(pieces).fill(1);
  throw new RangeError(`A part is cut into 1, 2, … pieces, not ${pieces}.`);
}

/** The schedules of all ranks. */
export function schedulesOf(partition: Partition, variant: Variant): Schedule[] {
  return Array.from({ length: partition.size }, (_, rank) => scheduleOf(partition, rank, variant));
}

/** What a timeline shows of a step; nothing of a signal, which takes no time. */
export function spanOf(step: ScheduleStep): Span | null {
  const { kind, stream: lane } = step;
  switch (kind) {
    case "signal":
      return null;
    case "wait":
      return { lane, kind, label: `flag ${step.flag} of rank ${step.rank}` };
    default: {
      const { range: { start, end }, to } = step;
      return { lane, kind, label: `${kind} ${start}..${end}, ${to.memory} of rank ${to.rank}` };
    }
  }
}

/** What the builders below share: one rank's view of the partition. */
class Maker {
  readonly steps: ScheduleStep[] = [];
  room: Pick<Schedule, "windowLines" | "flags"> = { windowLines: 0, flags: 0 };
  readonly #partition: Partition;
  readonly #rank: number;
  readonly #weights: readonly number[];
  readonly #largest: number;
  /** The step after which each piece of the rank's own part of a sum is there. */
  readonly #summed: number[] = [];

  constructor(partition: Partition, rank: number, weights: readonly number[]) {
    this.#partition = partition;
    this.#rank = rank;
    this.#weights = weights;
    this.#largest = Math.max(...partition.parts.map(lengthOf));
  }

  /** All-gather GEMM: the rank's own part first, then those of the ranks after it. */
  gather(way: GatherWay): void {
    const { size, extents, axis, parts } = this.#partition;
    const self = this.#rank;
    const peers = others(self, size);
    const isShared = way === "share";
    this.room = {
      windowLines: way === "direct" || size === 1 ? 0 : isShared ? this.#largest : extents[axis],
      flags: size === 1 ? 0 : size * this.#pieces + (way === "pull" || way === "direct" ? size : 0),
    };
    const inWindow = (rank: number, owner: number, { start, end }: Part): MemoryLines => {
      const at = isShared ? start - parts[owner].start : start;
      return { rank, memory: "window", at, lines: end - start };
    };
    // As the receiver counts: who needs this part first gets it first.
    const receivers = peers.toReversed();
    if (way === "push") {
      for (const peer of receivers) {
        this.#each(self, (range, flag) => {
          if (lengthOf(range) > 0) this.#copy(range, this.#factor(self, range), inWindow(peer, self, range));
          this.#signal(1, peer, flag);
        });
      }
    } else if (isShared && size > 1) {
      this.#each(self, (range, flag) => {
        if (lengthOf(range) > 0) this.#copy(range, this.#factor(self, range), inWindow(self, self, range));
        for (const peer of receivers) this.#signal(1, peer, flag);
      });
    } else {
      for (const peer of receivers) this.#each(self, (_, flag) => this.#signal(1, peer, flag));
    }
    let isFirst = true;
    const multiply = (range: Part, factor: MemoryLines, after: readonly number[] = []) => {
      if (lengthOf(range) === 0) return;
      const adds = axis !== "k" || isFirst ? "addend" : "sum";
      isFirst = false;
      this.#step({ kind: "gemm", range, factor, to: this.#product(range), adds, after });
    };
    multiply(parts[self], this.#factor(self, parts[self]));
    const done = size * this.#pieces;
    for (const owner of peers) {
      this.#each(owner, (range, flag) => {
        if (way === "push" || isShared) {
          this.#wait(0, owner, flag);
          return multiply(range, inWindow(isShared ? owner : self, owner, range));
        }
        if (way === "direct") {
          this.#wait(0, owner, flag);
          return multiply(range, this.#factor(owner, range));
        }
        this.#wait(1, owner, flag);
        if (lengthOf(range) === 0) return;
        const copied = this.#copy(range, this.#factor(owner, range), inWindow(self, owner, range));
        multiply(range, inWindow(self, owner, range), [copied]);
      });
      if (way === "pull") this.#signal(1, owner, done + self);
      if (way === "direct") this.#signal(0, owner, done + self);
    }
    // Nobody may read the user's factor after the end of the call.
    if (way === "pull" || way === "direct") { for (const peer of peers) this.#wait(0, peer, done + peer); }
  }

  /** GEMM reduce-scatter and all-reduce: the terms of others first, the rank's own part of the sum last. */
  reduce(way: ReduceWay, hasAddend: boolean, canAddApart: boolean): void {
    const { size, extents, axis, kind } = this.#partition;
    const lines = extents[axis];
    const forSums = way === "ring" ? lines : way === "relay" ? this.#largest : lines + (size - 1) * this.#largest;
    const forResults = kind === "all_reduce" && way !== "relay" ? lines : 0;
    const sumFlags = size * this.#pieces;
    this.room = size === 1
      ? { windowLines: 0, flags: 0 }
      : { windowLines: forSums + forResults, flags: sumFlags * (kind === "all_reduce" ? 2 : 1) };
    if (way === "scatter") this.#scatter();
    else this.#pass(way, hasAddend, canAddApart);
    if (kind === "all_reduce" && size > 1) this.#spread(way, forSums, sumFlags);
  }

  /** Sums that each rank multiplies its term onto: the one for rank r starts at rank r + 1 and ends at r. */
  #pass(way: "ring" | "relay", hasAddend: boolean, canAddApart: boolean): void {
    const { size, parts, kind } = this.#partition;
    const [self, next] = [this.#rank, (this.#rank + 1) % size];
    const before = (self + size - 1) % size;
    const inWindow = (rank: number, owner: number, { start, end }: Part): MemoryLines => {
      const at = way === "relay" ? start - parts[owner].start : start;
      return { rank, memory: "window", at, lines: end - start };
    };
    others(self, size).toReversed().forEach((owner, turn) => {
      this.#each(owner, (range, flag) => {
        const waited = turn > 0 ? [this.#wait(0, before, flag)] : [];
        const isEmpty = lengthOf(range) === 0;
        const sum = inWindow(way === "relay" ? owner : self, owner, range);
        const adds = turn > 0 ? "sum" : "nothing";
        const made = isEmpty ? waited : [this.#step({ kind: "gemm", range, factor: null, to: sum, adds })];
        if (way === "relay") return void this.#signal(0, next, flag);
        if (!isEmpty) this.#copy(range, sum, inWindow(next, owner, range), made);
        this.#signal(1, next, flag, made);
      });
    });
    this.#sum((range, flag) => {
      const result = this.#result(range);
      const sum = inWindow(self, self, range);
      const isEmpty = lengthOf(range) === 0;
      const gemm = (to: MemoryLines, adds: Gemm["adds"], apart?: MemoryLines) =>
        this.#step({ kind: "gemm", range, factor: null, to, adds, ...apart && { sum: apart } });
      if (size === 1) return void (isEmpty || gemm(result, "addend"));
      if (isEmpty) return void this.#wait(0, before, flag);
      if (hasAddend) {
        gemm(result, "addend");
        this.#wait(0, before, flag);
        this.#step({ kind: "reduce", range, from: [sum], to: result });
        return;
      }
      this.#wait(0, before, flag);
      if (kind === "all_reduce" && way === "relay") {
        gemm(sum, "sum");
        this.#copy(range, sum, result, [], 0);
      } else if (canAddApart) {
        gemm(result, "sum", sum);
      } else {
        this.#copy(range, sum, result, [], 0);
        gemm(result, "sum");
      }
    });
    if (!(kind === "all_reduce" && way === "relay" && hasAddend && size > 1)) return;
    this.#each(self, (range) => {
      if (lengthOf(range) > 0) this.#copy(range, this.#result(range), inWindow(self, self, range), [], 0);
    });
  }

  /** Terms that go to the owner of the sum, who adds them. */
  #scatter(): void {
    const { size, extents, axis, parts } = this.#partition;
    const self = this.#rank;
    const arrival = (owner: number, sender: number, { start, end }: Part): MemoryLines => {
      const slot = (sender - owner - 1 + size) % size;
      const at = extents[axis] + slot * this.#largest + start - parts[owner].start;
      return { rank: owner, memory: "window", at, lines: end - start };
    };
    for (const owner of others(self, size)) {
      this.#each(owner, (range, _flag, piece) => {
        const isEmpty = lengthOf(range) === 0;
        const term: MemoryLines = { rank: self, memory: "window", at: range.start, lines: lengthOf(range) };
        const made = isEmpty ? [] : [this.#step({ kind: "gemm", range, factor: null, to: term, adds: "nothing" })];
        if (!isEmpty) this.#copy(range, term, arrival(owner, self, range), made);
        this.#signal(1, owner, self * this.#pieces + piece, made);
      });
    }
    const peers = others(self, size);
    this.#sum((range, _flag, piece) => {
      const isEmpty = lengthOf(range) === 0;
      const to = this.#result(range);
      if (!isEmpty) this.#step({ kind: "gemm", range, factor: null, to, adds: "addend" });
      for (const peer of peers) this.#wait(0, peer, peer * this.#pieces + piece);
      if (isEmpty || size === 1) return;
      this.#step({ kind: "reduce", range, from: peers.map((peer) => arrival(self, peer, range)), to });
    });
  }

  /** The pieces of the rank's own part of a sum. */
  #sum(visit: (range: Part, flag: number, piece: number) => void): void {
    this.#each(this.#rank, (range, flag, piece) => {
      visit(range, flag, piece);
      this.#summed.push(this.steps.length - 1);
    });
  }

  /** The rank's part of the sum to all others, piece by piece as they are there, and theirs to this rank. */
  #spread(way: ReduceWay, base: number, flags: number): void {
    const { size, parts } = this.#partition;
    const self = this.#rank;
    const place = (rank: number, owner: number, { start, end }: Part): MemoryLines => {
      const at = way === "relay" ? start - parts[owner].start : base + start;
      return { rank, memory: "window", at, lines: end - start };
    };
    for (const peer of others(self, size).toReversed()) {
      this.#each(self, (range, flag, piece) => {
        if (way === "relay") return void this.#signal(0, peer, flags + flag);
        const after = [this.#summed[piece]];
        if (lengthOf(range) > 0) this.#copy(range, this.#result(range), place(peer, self, range), after);
        this.#signal(1, peer, flags + flag);
      });
    }
    for (const owner of others(self, size)) {
      this.#each(owner, (range, flag) => {
        this.#wait(0, owner, flags + flag);
        if (lengthOf(range) === 0) return;
        this.#copy(range, place(way === "relay" ? owner : self, owner, range), this.#result(range), [], 0);
      });
    }
  }

  get #pieces(): number {
    return this.#weights.length;
  }

  /** The pieces of a rank's part, and the flag of each. */
  #each(owner: number, visit: (range: Part, flag: number, piece: number) => void): void {
    piecesOf(this.#partition.parts[owner], this.#weights).forEach((range, piece) =>
      visit(range, owner * this.#pieces + piece, piece)
    );
  }

  #factor(rank: number, { start, end }: Part): MemoryLines {
    return { rank, memory: "factor", at: start - this.#partition.parts[rank].start, lines: end - start };
  }

  /** Where a range of the result lies on this rank, for sums. */
  #result({ start, end }: Part): MemoryLines {
    const { kind, parts } = this.#partition;
    const at = kind === "all_reduce" ? start : start - parts[this.#rank].start;
    return { rank: this.#rank, memory: "result", at, lines: end - start };
  }

  /** Where the product with a range of a gathered factor goes: terms of all of D, or some lines of it. */
  #product({ start, end }: Part): MemoryLines {
    const [at, lines] = this.#partition.axis === "k" ? [0, 1] : [start, end - start];
    return { rank: this.#rank, memory: "result", at, lines };
  }

  #step(step: Given<ScheduleStep>): number {
    return this.steps.push({ stream: 0, after: [], ...step } as ScheduleStep) - 1;
  }

  #copy(range: Part, from: MemoryLines, to: MemoryLines, after: readonly number[] = [], stream: 0 | 1 = 1): number {
    return this.#step({ kind: "copy", range, from, to, after, stream });
  }

  #signal(stream: 0 | 1, rank: number, flag: number, after: readonly number[] = []): void {
    this.#step({ kind: "signal", rank, flag, stream, after });
  }

  #wait(stream: 0 | 1, rank: number, flag: number): number {
    return this.#step({ kind: "wait", rank, flag, stream });
  }
}
