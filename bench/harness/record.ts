/**
 * What a benchmark run leaves behind: plain data, written as JSON.
 *
 * @module
 */
import type { Summary } from "./statistics.ts";

/** A comparison with its bound, and whether it was kept. */
export interface Verdict {
  /** What is compared: `speed / C`, `time / mpi4py`, `seconds`. */
  quantity: string;
  /** The quantity, over the rounds of the run; null if the peer is missing. */
  value: Summary | null;
  /** `>=` or `<=`. */
  relation: ">=" | "<=";
  /** The bound; null if the quantity is only for information. */
  bound: number | null;
  /** Whether the median keeps the bound; null if there is no bound or no value. */
  pass: boolean | null;
}

/** One thing that was measured on several programs in turns. */
export interface Row {
  /** What was measured. */
  title: string;
  /** Floating point operations of one call, for GFLOP/s; null if that says nothing. */
  operations: number | null;
  /** Seconds a call, by program; the first one is distmath. */
  seconds: Record<string, Summary>;
  /** Programs that could not be measured, and why. */
  missing: Record<string, string>;
  /** Comparisons between programs. */
  verdicts: Verdict[];
}

/** The rows of one group, and when they were measured. */
export interface GroupRecord {
  /** The name that the command line takes. */
  name: string;
  /** One line about what is compared. */
  description: string;
  /** When the measurement ended, ISO 8601. */
  time: string;
  /** The commit; `-dirty` is appended if files were changed. */
  commit: string;
  /** How many ranks the group used. */
  ranks: number;
  /** What was measured. */
  rows: Row[];
}

/** A result file. */
export interface RunRecord {
  /** The machine. */
  machine: { processor: string; cores: number; memoryGiB: number; kernel: string; hugePages: string };
  /** Versions of everything that takes part, by name. */
  versions: Record<string, string>;
  /** Environment variables that all programs got. */
  settings: Record<string, string>;
  /** The groups that were measured on this machine on this day. */
  groups: GroupRecord[];
}

/** A record with the groups of an earlier one that were not measured again, on as many ranks. */
export function merged(earlier: RunRecord | null, now: RunRecord): RunRecord {
  const areSame = (one: GroupRecord, other: GroupRecord) => one.name === other.name && one.ranks === other.ranks;
  const before = earlier?.groups ?? [];
  const kept = before.map((group) => now.groups.find((other) => areSame(group, other)) ?? group);
  const added = now.groups.filter((group) => !before.some((other) => areSame(group, other)));
  return { ...now, groups: [...kept, ...added] };
}
