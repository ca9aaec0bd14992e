/**
 * A proof that what all ranks do together is right, before any of it runs.
 *
 * What ranks do is lowered to four kinds of actions (`actions.ts`): to wait for a flag, to signal one, to put something
 * into memory, and to expect that something is there. A few calls after each other are followed once, in one order:
 *
 * - if some ranks wait for ever there, they do so in every order, since flags only grow;
 * - each action knows which others are sure to be over when it begins (vector clocks). If two of them use the same memory,
 *   one of them writes it, and neither is sure to be over when the other begins, that is a race;
 * - where there is no race, every order gives the same contents, so that those found here are those of every order: whose
 *   data of which call lies where, and which terms a sum has.
 *
 * What two calls do to each other depends on whether their numbers are even or odd, and on nothing else, so that a few
 * calls stand for all.
 *
 * @module
 */

/** A range of a rank's memory, in units of whoever made the actions. */
export interface Span {
  /** Whose memory. */
  readonly rank: number;
  /** Which. */
  readonly memory: string;
  /** Where it begins. */
  readonly start: number;
  /** Where it ends. */
  readonly end: number;
}

/** What should lie in a span: an operand, from its unit `base` on, or a sum of these terms of a result. */
export interface Wanted {
  /** The place. */
  readonly span: Span;
  /** The unit of the operand or result that its first unit should be. */
  readonly base: number;
  /** The terms of the sum, a bit each; 0 for an operand. */
  readonly terms: bigint;
}

/** One thing that a rank does. */
export type Action =
  | {
    /** Wait for a flag of its own. */
    readonly kind: "wait";
    /** The flag. */
    readonly flag: number;
    /** Other lanes' actions that have to be over: lane, and number in it. */
    readonly after?: readonly (readonly [lane: number, position: number])[];
  }
  | {
    /** Signal a rank's flag. */
    readonly kind: "signal";
    /** Whose. */
    readonly rank: number;
    /** Which. */
    readonly flag: number;
    /** As above. */
    readonly after?: readonly (readonly [lane: number, position: number])[];
  }
  | {
    /** Put a sum of what lies elsewhere, and of a term of its own, into memory; read what that takes. */
    readonly kind: "put";
    /** Where to. */
    readonly to: readonly Span[];
    /** The unit of the operand or result that comes first. */
    readonly base: number;
    /** The term that is added here; 0 for a copy. */
    readonly term: bigint;
    /** What is summed, or copied. */
    readonly from: readonly Span[];
    /** What is read besides. */
    readonly needs: readonly Wanted[];
    /** How many lines or tiles that is, for predictions. */
    readonly amount: number;
    /** As above. */
    readonly after?: readonly (readonly [lane: number, position: number])[];
  };

/** What one rank does in a call, in lanes: the actions of a lane follow each other. */
export interface RankProgram {
  /** The lanes. */
  readonly lanes: readonly (readonly Action[])[];
  /** Lanes, by number, that the end of a call does not wait for; what they do in the next one comes after. */
  readonly unawaited?: readonly number[];
  /** What its user writes before each call: operands. */
  readonly inputs: readonly Wanted[];
  /** What its user reads after each call. */
  readonly outputs: readonly Wanted[];
  /** The units of each memory; of those that take turns, of one of them. */
  readonly sizes: Readonly<Record<string, number>>;
  /** The memories that take turns from call to call, and how many there are of each. */
  readonly turns: Readonly<Record<string, number>>;
}

/** Something wrong. */
export interface Finding {
  /** What. */
  readonly kind: "deadlock" | "race" | "content" | "bounds" | "flag" | "no_meeting";
  /** The rank that does it. */
  readonly rank: number;
  /** In words. */
  readonly message: string;
}

/** How the check goes. */
export interface CheckOptions {
  /** How many calls are followed. */
  readonly calls?: number;
  /**
   * How flags tell calls apart: they hold the call's number, and at least that is waited for; or, in graphs that are
   * replayed, one of a few values that come round, which is waited for exactly.
   */
  readonly flags?: "counted" | "captured";
  /** How many words of each flag take turns from call to call; 2 when left out. */
  readonly flagTurns?: number;
  /** How many findings are enough. */
  readonly most?: number;
}

/** An action that has happened: the `position`-th of its chain; `clock` says how much of each chain is over by then. */
interface Event {
  readonly chain: number;
  readonly position: number;
  readonly clock: Int32Array;
  readonly rank: number;
  readonly call: number;
  /** The action and its place; null for the beginning and the end of a call. */
  readonly action: { readonly action: Action; readonly lane: number; readonly position: number } | null;
}

/** What lies in memory. */
interface Content {
  readonly call: number;
  readonly base: number;
  readonly terms: bigint;
}

interface Segment {
  start: number;
  end: number;
  content: Content | null;
  written: Event | null;
  read: Event[];
}

const isBefore = (one: Event, other: Event) => other.clock[one.chain] >= one.position;

/** One memory of a rank: segments without gaps between those that were used. */
class Memory {
  #segments: Segment[] = [];

  /** The segments of a range, cut so that they fill it. */
  range(start: number, end: number): Segment[] {
    if (start >= end) return [];
    const found: Segment[] = [];
    const all: Segment[] = [];
    let at = start;
    const blank = (to: number) => {
      if (at >= to) return;
      const segment: Segment = { start: at, end: to, content: null, written: null, read: [] };
      found.push(segment);
      all.push(segment);
      at = to;
    };
    for (const segment of this.#segments) {
      if (segment.end <= start || segment.start >= end) {
        if (segment.start >= end) blank(end);
        all.push(segment);
        continue;
      }
      blank(segment.start);
      const inner = cut(segment, Math.max(start, segment.start), Math.min(end, segment.end));
      if (segment.start < start) all.push(cut(segment, segment.start, start));
      found.push(inner);
      all.push(inner);
      at = inner.end;
      if (segment.end > end) all.push(cut(segment, end, segment.end));
    }
    blank(end);
    this.#segments = all;
    return found;
  }
}

function cut({ content, start: from, written, read }: Segment, start: number, end: number): Segment {
  return {
    start,
    end,
    content: content && { ...content, base: content.base + start - from },
    written,
    read: [...read],
  };
}

const ENOUGH = 20;

/**
 * What is wrong with what the ranks do together; nothing if it is right. `programs` has a program a rank for each of
 * several products that the ranks run by turns, on the same windows.
 */
export function check(programs: readonly (readonly RankProgram[])[], options: CheckOptions = {}): Finding[] {
  return new Check(programs, options).run();
}

class Check {
  readonly #programs: readonly (readonly RankProgram[])[];
  readonly #calls: number;
  readonly #isCaptured: boolean;
  readonly #flagTurns: number;
  readonly #size: number;
  readonly #lanes: number;
  readonly #most: number;
  readonly #findings: Finding[] = [];
  readonly #memories = new Map<string, Memory>();
  /** By rank and flag: the signals by call, the waits by call. */
  readonly #signals = new Map<string, Event[]>();
  readonly #waits = new Map<string, Event[][]>();
  readonly #clocks: Int32Array[];
  readonly #positions: Int32Array;
  readonly #begun: Event[][] = [];

  constructor(programs: readonly (readonly RankProgram[])[], options: CheckOptions) {
    this.#programs = programs;
    this.#calls = options.calls ?? 2 + 2 * programs.length;
    this.#isCaptured = options.flags === "captured";
    this.#flagTurns = options.flagTurns ?? 2;
    this.#most = options.most ?? ENOUGH;
    this.#size = programs[0].length;
    this.#lanes = Math.max(...programs.flat().map(({ lanes }) => lanes.length)) + 1;
    const chains = this.#size * this.#lanes;
    this.#clocks = Array.from({ length: chains }, () => new Int32Array(chains));
    this.#positions = new Int32Array(chains);
  }

  run(): Finding[] {
    const ranks = Array.from({ length: this.#size }, (_, rank) => new Cursor(rank));
    for (const cursor of ranks) this.#begin(cursor);
    let hasMoved = true;
    while (hasMoved && this.#findings.length < this.#most) {
      hasMoved = false;
      for (const cursor of ranks) {
        while (cursor.call <= this.#calls && this.#advance(cursor)) hasMoved = true;
      }
    }
    if (this.#findings.length >= this.#most) return this.#findings;
    for (const cursor of ranks) if (cursor.call <= this.#calls) this.#tellStuck(cursor);
    if (this.#findings.length === 0) this.#checkFlags();
    return this.#findings;
  }

  #program({ rank, call }: Cursor): RankProgram {
    return this.#programs[(call - 1) % this.#programs.length][rank];
  }

  /** A rank's user gives operands, and all lanes begin. */
  #begin(cursor: Cursor): void {
    const { rank, call } = cursor;
    const program = this.#program(cursor);
    cursor.positions = program.lanes.map(() => 0);
    cursor.events = program.lanes.map(() => []);
    const main = this.#event(rank, this.#lanes - 1, call, null);
    (this.#begun[call] ??= [])[rank] = main;
    for (const { span, base, terms } of program.inputs) this.#write(span, { call, base, terms }, main);
    for (let lane = 0; lane < this.#lanes - 1; lane++) this.#join(rank, lane, main.clock);
  }

  /** Let every lane of a rank go as far as it can; whether any went. */
  #advance(cursor: Cursor): boolean {
    const { lanes } = this.#program(cursor);
    let hasMoved = false;
    lanes.forEach((lane, number) => {
      while (cursor.positions[number] < lane.length && this.#act(cursor, number, lane[cursor.positions[number]])) {
        cursor.positions[number]++;
        hasMoved = true;
      }
    });
    if (!lanes.every((lane, number) => cursor.positions[number] === lane.length)) return hasMoved;
    this.#end(cursor);
    return true;
  }

  #end(cursor: Cursor): void {
    const { rank, call } = cursor;
    const program = this.#program(cursor);
    program.lanes.forEach((_, lane) => {
      if (program.unawaited?.includes(lane)) return;
      this.#join(rank, this.#lanes - 1, this.#clocks[this.#chain(rank, lane)]);
    });
    const end = this.#event(rank, this.#lanes - 1, call, null);
    for (const wanted of program.outputs) this.#expect(wanted, end);
    for (let peer = 0; peer < this.#size; peer++) {
      const begun = this.#begun[call]?.[peer];
      if (begun && isBefore(begun, end)) continue;
      this.#find("no_meeting", rank, `rank ${rank} can end call ${call} before rank ${peer} has begun it`);
    }
    cursor.call++;
    if (cursor.call <= this.#calls) this.#begin(cursor);
  }

  #act(cursor: Cursor, lane: number, action: Action): boolean {
    const { rank, call } = cursor;
    const position = cursor.positions[lane];
    const after = (action.after ?? []).map(([of, at]) => cursor.events[of][at]);
    if (after.some((event) => event === undefined)) return false;
    let signal: Event | undefined;
    if (action.kind === "wait") {
      signal = this.#signals.get(`${rank}/${action.flag}`)?.[call];
      if (signal === undefined) return false;
    }
    for (const event of after) this.#join(rank, lane, event.clock);
    if (signal) this.#join(rank, lane, signal.clock);
    const event = this.#event(rank, lane, call, { action, lane, position });
    cursor.events[lane][position] = event;
    if (action.kind === "wait") this.#noteWait(action.flag, event);
    else if (action.kind === "signal") this.#noteSignal(action.rank, action.flag, event);
    else this.#put(action, event);
    return true;
  }

  #noteWait(flag: number, event: Event): void {
    const key = `${event.rank}/${flag}`;
    const waits = this.#waits.get(key) ?? [];
    this.#waits.set(key, waits);
    (waits[event.call] ??= []).push(event);
  }

  #noteSignal(rank: number, flag: number, event: Event): void {
    const key = `${rank}/${flag}`;
    const signals = this.#signals.get(key) ?? [];
    this.#signals.set(key, signals);
    if (signals[event.call]) {
      return this.#find("flag", event.rank, `flag ${flag} of rank ${rank} is signalled twice in call ${event.call}`);
    }
    signals[event.call] = event;
    const isSameWord = (call: number) => call < event.call && (event.call - call) % this.#flagTurns === 0;
    const last = signals.findLast((other, call) => other !== undefined && isSameWord(call));
    if (last && !isBefore(last, event)) {
      this.#find(
        "flag",
        event.rank,
        `flag ${flag} of rank ${rank} may go from call ${event.call} back to ${last.call}`,
      );
    }
    if (!this.#isCaptured || !last) return;
    const waits = this.#waits.get(key)?.[last.call] ?? [];
    if (waits.length > 0 && waits.every((wait) => isBefore(wait, event))) return;
    this.#find(
      "flag",
      event.rank,
      `flag ${flag} of rank ${rank} may have the value of call ${event.call} before that of call ${last.call} was seen`,
    );
  }

  /** Every signal has somebody who waits for it. */
  #checkFlags(): void {
    for (const [key, signals] of this.#signals) {
      const [rank, flag] = key.split("/");
      const unseen = signals.find((signal, call) => signal !== undefined && !this.#waits.get(key)?.[call]);
      if (!unseen) continue;
      this.#find(
        "flag",
        unseen.rank,
        `nobody waits for flag ${flag} of rank ${rank}, which rank ${unseen.rank} signals`,
      );
    }
  }

  #put({ to, base, term, from, needs }: Action & { kind: "put" }, event: Event): void {
    for (const wanted of needs) this.#expect(wanted, event);
    const sources = from.map((span) => this.#read(span, event));
    for (const target of to) {
      const cuts = [...new Set([0, ...sources.flat().map(({ end }) => end), target.end - target.start])]
        .sort((one, other) => one - other);
      for (let i = 1; i < cuts.length; i++) {
        const [start, end] = [cuts[i - 1], cuts[i]];
        if (end > target.end - target.start) break;
        const parts = sources.map((pieces) => pieces.find((piece) => piece.start <= start && end <= piece.end));
        const content = this.#sum(base + start, term, parts.map((piece) => shifted(piece, start)), event);
        this.#write({ ...target, start: target.start + start, end: target.start + end }, content, event);
      }
    }
  }

  /** The sum of what was read and a term. */
  #sum(base: number, term: bigint, parts: readonly (Content | null)[], event: Event): Content {
    let terms = term;
    for (const part of parts) {
      if (part === null || part.call !== event.call || part.base !== base) {
        this.#find(
          "content",
          event.rank,
          `${whatOf(event)} in call ${event.call} takes ${show(part)} for unit ${base}`,
        );
        continue;
      }
      if (terms & part.terms) {
        this.#find("content", event.rank, `${whatOf(event)} in call ${event.call} adds a term of unit ${base} twice`);
      }
      terms |= part.terms;
    }
    return { call: event.call, base, terms };
  }

  #expect({ span, base, terms }: Wanted, event: Event): void {
    for (const piece of this.#read(span, event)) {
      const { content } = piece;
      const wanted = { call: event.call, base: base + piece.start, terms };
      if (content && content.call === wanted.call && content.base === wanted.base && content.terms === terms) continue;
      this.#find(
        "content",
        event.rank,
        `${whatOf(event)} of rank ${event.rank} finds ${show(content)} in ${span.memory} of rank ${span.rank} where ${
          show(wanted)
        } should be`,
      );
    }
  }

  #read(span: Span, event: Event): { start: number; end: number; content: Content | null }[] {
    return this.#segments(span, event).map((segment) => {
      const { written, read } = segment;
      if (written && !isBefore(written, event)) this.#findRace(written, event, span);
      if (!read.includes(event)) read.push(event);
      return { start: segment.start - span.start, end: segment.end - span.start, content: segment.content };
    });
  }

  #write(span: Span, content: Content, event: Event): void {
    for (const segment of this.#segments(span, event)) {
      for (const other of segment.written ? [segment.written, ...segment.read] : segment.read) {
        if (other !== event && !isBefore(other, event)) this.#findRace(other, event, span);
      }
      segment.written = event;
      segment.read = [];
      segment.content = { ...content, base: content.base + segment.start - span.start };
    }
  }

  #segments({ rank, memory, start, end }: Span, event: Event): Segment[] {
    const { sizes, turns } = this.#programs[(event.call - 1) % this.#programs.length][rank];
    if (!(start >= 0 && end <= sizes[memory])) {
      this.#find(
        "bounds",
        event.rank,
        `${whatOf(event)} of rank ${event.rank} uses ${start}..${end} of ${memory} of rank ${rank}, which has ${
          sizes[memory] ?? 0
        }`,
      );
      return [];
    }
    const turn = event.call % (turns[memory] ?? 1);
    const key = `${rank}/${memory}/${turn}`;
    let found = this.#memories.get(key);
    if (!found) this.#memories.set(key, found = new Memory());
    return found.range(start, end);
  }

  #findRace(one: Event, other: Event, { rank, memory, start, end }: Span): void {
    this.#find(
      "race",
      other.rank,
      `${start}..${end} of ${memory} of rank ${rank}: rank ${other.rank}, ${
        whatOf(other)
      }, call ${other.call}, does not ` +
        `wait for rank ${one.rank}, ${whatOf(one)}, call ${one.call}`,
    );
  }

  #tellStuck(cursor: Cursor): void {
    const { lanes } = this.#program(cursor);
    lanes.forEach((lane, number) => {
      const position = cursor.positions[number];
      if (position === lane.length) return;
      const what = `${describe(lane[position])} (lane ${number}, action ${position})`;
      this.#find("deadlock", cursor.rank, `rank ${cursor.rank} never ends call ${cursor.call}: ${what}`);
    });
  }

  #find(kind: Finding["kind"], rank: number, message: string): void {
    if (this.#findings.length < this.#most) this.#findings.push({ kind, rank, message });
  }

  #chain(rank: number, lane: number): number {
    return rank * this.#lanes + lane;
  }

  #event(rank: number, lane: number, call: number, action: Event["action"]): Event {
    const chain = this.#chain(rank, lane);
    const clock = this.#clocks[chain];
    const position = ++this.#positions[chain];
    clock[chain] = position;
    return { chain, position, clock: clock.slice(), rank, call, action };
  }

  #join(rank: number, lane: number, clock: Int32Array): void {
    const own = this.#clocks[this.#chain(rank, lane)];
    for (let i = 0; i < own.length; i++) if (clock[i] > own[i]) own[i] = clock[i];
  }
}

/** How far a rank is. */
class Cursor {
  call = 1;
  positions: number[] = [];
  events: Event[][] = [];

  constructor(readonly rank: number) {}
}

function shifted(piece: { start: number; content: Content | null } | undefined, start: number): Content | null {
  const content = piece?.content;
  return content ? { ...content, base: content.base + start - piece.start } : null;
}

function show(content: Content | null): string {
  if (content === null) return "nothing";
  const { call, base, terms } = content;
  return `unit ${base} of call ${call}${terms === 0n ? "" : ` with terms ${terms.toString(2)}`}`;
}

function whatOf({ action }: Event): string {
  if (action === null) return "the user";
  return `${describe(action.action)} (lane ${action.lane}, action ${action.position})`;
}

function describe(action: Action): string {
  if (action.kind === "wait") return `waits for flag ${action.flag}`;
  if (action.kind === "signal") return `signals flag ${action.flag} of rank ${action.rank}`;
  return `puts ${action.term === 0n ? "a copy" : "a product"} into ${
    action.to.map(({ rank, memory }) => `${memory} of rank ${rank}`).join(", ")
  }`;
}
