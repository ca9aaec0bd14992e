/**
 * CPU profiles of all ranks side by side, as a trace that Perfetto, speedscope and Chrome's DevTools show.
 *
 * @module
 */
import { RANK } from "./job.ts";
import { CommandError, oneLine } from "../terminal.ts";

/** A profile as V8 writes it. */
export interface CpuProfile {
  nodes: readonly {
    id: number;
    callFrame: { functionName: string; url: string; lineNumber: number };
    children?: readonly number[];
  }[];
  /** Microseconds of a clock that the processes of a machine share. */
  startTime: number;
  /** The node on top of the stack, sample by sample. */
  samples: readonly number[];
  /** Microseconds since the sample before. */
  timeDeltas: readonly number[];
}

/** An event of Chrome's trace format. */
export interface TraceEvent {
  name: string;
  ph: "X" | "M";
  pid: number;
  tid: number;
  ts?: number;
  dur?: number;
  args?: Record<string, string | number>;
}

/** What V8 samples where no function of the script runs. */
const nowhere = new Set(["(root)", "(program)", "(idle)"]);

/** The functions on each node's stack, outermost first. */
function stacksOf({ nodes }: CpuProfile): Map<number, readonly number[]> {
  const stacks = new Map<number, readonly number[]>();
  const parents = new Map(nodes.flatMap(({ id, children = [] }) => children.map((child) => [child, id])));
  const names = new Map(nodes.map(({ id, callFrame }) => [id, callFrame.functionName]));
  const stackOf = (id: number): readonly number[] => {
    const known = stacks.get(id);
    if (known) return known;
    const parent = parents.get(id);
    const below = parent === undefined ? [] : stackOf(parent);
    const stack = nowhere.has(names.get(id) ?? "") ? below : [...below, id];
    stacks.set(id, stack);
    return stack;
  };
  nodes.forEach(({ id }) => stackOf(id));
  return stacks;
}

/** The calls of one rank, each from the first of the samples that it is on to the last. */
export function* callsOf(profile: CpuProfile, rank: number): Generator<TraceEvent> {
  const stacks = stacksOf(profile);
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
  const open: { id: number; ts: number }[] = [];
  let now = profile.startTime;
  const closed = (depth: number) =>
    open.splice(depth).reverse().map(({ id, ts }): TraceEvent => {
      const { functionName, url, lineNumber } = frames.get(id)!;
      const name = functionName || "(anonymous)";
      const args = { source: url === "" ? "native" : `${url}:${lineNumber + 1}` };
      return { name, ph: "X", pid: rank, tid: 0, ts, dur: now - ts, args };
    });
  for (const [i, sample] of profile.samples.entries()) {
    now += profile.timeDeltas[i];
    const stack = stacks.get(sample) ?? [];
    const common = stack.findIndex((id, depth) => open[depth]?.id !== id);
    yield* closed(common < 0 ? stack.length : common);
    for (const id of stack.slice(open.length)) open.push({ id, ts: now });
  }
  yield* closed(0);
}

/** The events of one rank in the trace of all. */
function* eventsOf(profile: CpuProfile, rank: number): Generator<TraceEvent> {
  yield { name: "process_name", ph: "M", pid: rank, tid: 0, args: { name: `rank ${rank}` } };
  yield { name: "process_sort_index", ph: "M", pid: rank, tid: 0, args: { sort_index: rank } };
  yield* callsOf(profile, rank);
}

/**
 * Deno's flags that have a rank write its profile into a folder.
 *
 * @throws {CommandError} if ranks would take their numbers for a part of the folder's name.
 */
export function profileFlags(folder: string): string[] {
  if (folder.includes(RANK)) {
    throw new CommandError(
      `--profile takes one folder for all ranks, not "${folder}"; leave out ${RANK}: the files in it are numbered`,
    );
  }
  return ["--cpu-prof", `--cpu-prof-dir=${folder}`, `--cpu-prof-name=rank-${RANK}.cpuprofile`];
}

/** The file of a rank. */
const profileFile = (folder: string, rank: number) => `${folder}/rank-${rank}.cpuprofile`;

function makeFolder(folder: string): void {
  try {
    Deno.mkdirSync(folder, { recursive: true });
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    const reason = oneLine(error).replace(/: mkdir '.*'$/, "");
    throw new CommandError(`--profile: ${folder} cannot be made: ${reason}; name another folder`);
  }
}

/** Remove what an earlier job has left in the folder, which is made if it is not there. */
export function clearProfiles(folder: string, ranks: number): void {
  makeFolder(folder);
  for (let rank = 0; rank < ranks; rank++) {
    try {
      Deno.removeSync(profileFile(folder, rank));
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
}

/** The profile of a rank; `null` if there is none that is whole. */
function readProfile(folder: string, rank: number): CpuProfile | null {
  try {
    return JSON.parse(Deno.readTextFileSync(profileFile(folder, rank)));
  } catch (error) {
    // A rank that was killed while it wrote leaves half of one.
    if (error instanceof Deno.errors.NotFound || error instanceof SyntaxError) return null;
    throw error;
  }
}

/** So many characters are written at once. */
const MOST_CHARACTERS = 2 ** 20;

/** Append events to a trace a part at a time: all of them may be longer than a string can be. */
function appendEvents(file: string, events: Iterable<TraceEvent>, isFirst: boolean): void {
  let separator = isFirst ? "" : ",\n";
  let text = "";
  const append = () => Deno.writeTextFileSync(file, text, { append: true });
  for (const event of events) {
    text += separator + JSON.stringify(event);
    separator = ",\n";
    if (text.length < MOST_CHARACTERS) continue;
    append();
    text = "";
  }
  append();
}

/** Write `trace.json` out of the ranks' profiles; returns the line that tells of it. */
export function writeMergedProfile(folder: string, ranks: number): string {
  const file = `${folder}/trace.json`;
  const missing: number[] = [];
  Deno.writeTextFileSync(file, '{"traceEvents":[');
  for (let rank = 0; rank < ranks; rank++) {
    const profile = readProfile(folder, rank);
    if (profile === null) missing.push(rank);
    else appendEvents(file, eventsOf(profile, rank), missing.length === rank);
  }
  Deno.writeTextFileSync(file, "]}", { append: true });
  if (missing.length === ranks) {
    Deno.removeSync(file);
    return `no rank has written a profile into ${folder}`;
  }
  const without = missing.length === 0 ? "" : `; none was written by rank ${missing.join(", ")}`;
  return `profiles of the ranks, side by side: ${file} (for ui.perfetto.dev)${without}`;
}
