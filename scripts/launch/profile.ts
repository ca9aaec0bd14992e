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
export function callsOf(profile: CpuProfile, rank: number): TraceEvent[] {
  const stacks = stacksOf(profile);
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
  const events: TraceEvent[] = [];
  const open: { id: number; ts: number }[] = [];
  let now = profile.startTime;
  const close = (depth: number) => {
    while (open.length > depth) {
      const { id, ts } = open.pop()!;
      const { functionName, url, lineNumber } = frames.get(id)!;
      const name = functionName || "(anonymous)";
      const args = { source: url === "" ? "native" : `${url}:${lineNumber + 1}` };
      events.push({ name, ph: "X", pid: rank, tid: 0, ts, dur: now - ts, args });
    }
  };
  profile.samples.forEach((sample, i) => {
    now += profile.timeDeltas[i];
    const stack = stacks.get(sample) ?? [];
    const common = stack.findIndex((id, depth) => open[depth]?.id !== id);
    close(common < 0 ? stack.length : common);
    for (const id of stack.slice(open.length)) open.push({ id, ts: now });
  });
  close(0);
  return events;
}

/** One trace of the profiles of all ranks. */
export function mergeProfiles(profiles: ReadonlyMap<number, CpuProfile>): { traceEvents: TraceEvent[] } {
  const traceEvents = [...profiles].flatMap(([rank, profile]): TraceEvent[] => [
    { name: "process_name", ph: "M", pid: rank, tid: 0, args: { name: `rank ${rank}` } },
    { name: "process_sort_index", ph: "M", pid: rank, tid: 0, args: { sort_index: rank } },
    ...callsOf(profile, rank),
  ]);
  return { traceEvents };
}

/** Deno's flags that have a rank write its profile into a folder. */
export function profileFlags(folder: string): string[] {
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

/** Write `trace.json` out of the ranks' profiles; returns the line that tells of it. */
export function writeMergedProfile(folder: string, ranks: number): string {
  const profiles = new Map<number, CpuProfile>();
  for (let rank = 0; rank < ranks; rank++) {
    try {
      profiles.set(rank, JSON.parse(Deno.readTextFileSync(profileFile(folder, rank))));
    } catch (error) {
      // A rank that was killed while it wrote leaves half of one.
      if (!(error instanceof Deno.errors.NotFound || error instanceof SyntaxError)) throw error;
    }
  }
  const missing = Array.from({ length: ranks }, (_, rank) => rank).filter((rank) => !profiles.has(rank));
  if (profiles.size > 0) Deno.writeTextFileSync(`${folder}/trace.json`, JSON.stringify(mergeProfiles(profiles)));
  const without = missing.length === 0 ? "" : `; none was written by rank ${missing.join(", ")}`;
  return profiles.size === 0
    ? `no rank has written a profile into ${folder}`
    : `profiles of the ranks, side by side: ${folder}/trace.json (for ui.perfetto.dev)${without}`;
}
