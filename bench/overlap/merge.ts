/**
 * One record and one chart of what bench/overlap.ts and bench/peers/overlap.py have printed.
 *
 * usage: deno run -A bench/overlap/merge.ts TARGET NOTES ours.json … torch.json
 * TARGET.json and TARGET.svg are written; NOTES is JSON that goes to the head of the record.
 *
 * @module
 */
import { type ChartRow, shareChart } from "./chart.ts";

interface Row {
  kind: string;
  shape: readonly number[];
  limit?: number;
  standings: Record<string, { time: number; ratio: number; spread?: readonly [number, number] }>;
  [field: string]: unknown;
}

interface Printed {
  program: string;
  ranks: number;
  geometry?: string | null;
  rows: Row[];
}

/** Fractions with four digits. */
const short = (_: string, value: unknown) =>
  typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value;

const [target, notes, ...files] = Deno.args;
const printed = files.map((file): Printed => JSON.parse(Deno.readTextFileSync(file)));
const name = ({ kind, shape }: Row) => `${kind} ${shape.join(" x ")}`;
const torch = printed.filter(({ program }) => program.startsWith("torch"));
const ours = printed.filter(({ program }) => program === "distmath");

/** The shares of a row's limit; PyTorch's by its own product alone beside it, scaled by the better of the two. */
function chartRow(row: Row): ChartRow {
  const gemm = row.standings.gemm.time;
  const theirs = torch.flatMap(({ rows }) => rows).find((other) => name(other) === name(row));
  const shares: Record<string, number> = {};
  for (const [program, { ratio }] of Object.entries(row.standings)) {
    if (program !== "gemm") shares[program] = row.limit! / gemm / ratio;
  }
  const asyncTp = theirs?.standings.async_tp;
  if (asyncTp) shares.async_tp = row.limit! / asyncTp.time;
  return { title: name(row), shares };
}

const sections = ours.map(({ geometry, ranks, rows }) => ({ geometry: Number(geometry ?? ranks), rows }));
const record = {
  ...JSON.parse(notes),
  overlap: sections,
  torch: torch.map(({ program, rows }) => ({ program, rows })),
};
Deno.writeTextFileSync(
  `${target}.json`,
  JSON.stringify(record, short, 1).replaceAll(
    /\[\s+([^[\]{}]*?)\s+\]/g,
    (_, list) => `[${list.replaceAll(/\s+/g, " ")}]`,
  ) + "\n",
);
const { ranks } = ours[0];
const [gpu = "GPU"] = /\bH\d+\b/.exec(record.machine ?? "") ?? [];
const real = sections.filter(({ geometry }) => geometry === ranks).flatMap(({ rows }) => rows.map(chartRow));
Deno.writeTextFileSync(
  `${target}.svg`,
  shareChart(`${ranks} x ${gpu}: share of the limit (product alone, or bytes at 390 GB/s)`, real),
);
