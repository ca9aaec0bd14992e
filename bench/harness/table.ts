/**
 * Results as text.
 *
 * @module
 */
import type { Row, Verdict } from "./record.ts";
import type { Summary } from "./statistics.ts";

const units: readonly [scale: number, name: string][] = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];

/** Seconds with a fitting unit and three digits. */
export function formatSeconds(seconds: number): string {
  const [scale, name] = units.find(([scale]) => Math.abs(seconds) >= scale) ?? units.at(-1)!;
  return `${(seconds / scale).toPrecision(3)} ${name}`;
}

/** Whether a verdict's quantity is a time in seconds, rather than a ratio. */
export function isTime(quantity: string): boolean {
  return quantity.startsWith("seconds");
}

/** A verdict's quantity in words. */
export function nameOf(quantity: string): string {
  return quantity.replace(/^seconds/, "time");
}

/** `1 rank`, `2 ranks`. */
export function rankCount(ranks: number): string {
  return `${ranks} ${ranks === 1 ? "rank" : "ranks"}`;
}

/** A time, as GFLOP/s too if the operations are known. */
function formatTime(name: string, { median }: Summary, operations: number | null): string {
  const rate = operations === null ? "" : ` (${(operations / median / 1e9).toFixed(1)} GFLOP/s)`;
  return `${name} ${formatSeconds(median)}${rate}`;
}

/** The word for a verdict. */
export function outcome({ bound, value, pass }: Verdict): "pass" | "MISS" | "peer missing" | "for information" {
  if (value === null) return "peer missing";
  if (bound === null) return "for information";
  return pass ? "pass" : "MISS";
}

function formatVerdict(verdict: Verdict): string {
  const { quantity, value, relation, bound } = verdict;
  const show = isTime(quantity) ? formatSeconds : (ratio: number) => ratio.toFixed(3);
  const spread = value === null ? "" : ` ${show(value.median)} (quartiles ${show(value.low)} to ${show(value.high)})`;
  const target = bound === null ? "" : `, target ${relation} ${show(bound)}`;
  return `${outcome(verdict)}: ${nameOf(quantity)}${spread}${target}`;
}

/** A row as lines of text. */
export function formatRow({ title, operations, seconds, missing, verdicts }: Row): string {
  const times = Object.entries(seconds).map(([name, summary]) => formatTime(name, summary, operations));
  return [
    title,
    `  ${times.join(", ") || "nothing was measured"}`,
    ...Object.entries(missing).map(([name, reason]) => `  ${name} is missing: ${reason.replaceAll("\n", "\n    ")}`),
    ...verdicts.map((verdict) => `  ${formatVerdict(verdict)}`),
  ].join("\n");
}
