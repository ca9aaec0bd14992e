/**
 * Results as a picture: a bar for each comparison, relative to its target.
 *
 * @module
 */
import type { RunRecord, Verdict } from "./record.ts";
import { formatSeconds, isTime, nameOf, outcome, rankCount } from "./table.ts";

/** Layout in pixels. */
const lineHeight = 20;
const unit = 200;
/** Of titles, and of bars with what is behind them: room for most, and what a letter takes of a longer one. */
const [leastLeft, leastRight, letterWidth] = [450, 670, 7];
const colors = { "pass": "#2e7d32", "MISS": "#c62828", "for information": "#607d8b", "peer missing": "#bdbdbd" };

/** How far a verdict is beyond its target: 1 is just kept, more is better. */
export function margin({ value, relation, bound }: Verdict): number | null {
  if (value === null || bound === null) return null;
  return relation === ">=" ? value.median / bound : bound / Math.max(value.median, 0);
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function text(x: number, y: number, content: string, attributes = ""): string {
  return `<text x="${x}" y="${y}" ${attributes}>${escape(content)}</text>`;
}

function label(verdict: Verdict): string {
  const { quantity, value, relation, bound } = verdict;
  const show = isTime(quantity) ? formatSeconds : (ratio: number) => ratio.toFixed(2);
  return `${nameOf(quantity)} ${value === null ? "" : show(value.median)}` +
    (bound === null ? "" : ` (${relation} ${show(bound)})`);
}

function longest(texts: readonly string[]): number {
  return Math.max(0, ...texts.map(({ length }) => length));
}

/** An SVG with one bar for each verdict: its length is the margin to the target, and the line marks the target. */
export function chart({ machine, groups }: RunRecord): string {
  const rows = groups.flatMap(({ rows }) => rows);
  const left = Math.max(leastLeft, letterWidth * longest(rows.map(({ title }) => title)) + 10);
  const labels = rows.flatMap(({ verdicts }) => verdicts.map(label));
  const width = left + Math.max(leastRight, 2 * unit + letterWidth * longest(labels) + 10);
  const parts: string[] = [];
  let y = 24;
  parts.push(text(10, y, `distmath against its peers: ${machine.processor}, ${machine.cores} cores`, 'class="title"'));
  y += lineHeight;
  parts.push(text(10, y, "bars: margin to the target (the line); longer is better, 1 is just kept", 'class="note"'));
  for (const group of groups) {
    y += 1.5 * lineHeight;
    parts.push(text(10, y, `${group.name}, ${rankCount(group.ranks)}, ${group.time.slice(0, 10)}`, 'class="group"'));
    const top = y + 6;
    for (const row of group.rows) {
      for (const verdict of row.verdicts) {
        y += lineHeight;
        const length = Math.min(margin(verdict) ?? 0, 2) * unit;
        parts.push(text(left - 8, y, row.title, 'text-anchor="end"'));
        parts.push(
          `<rect x="${left}" y="${y - 12}" width="${length.toFixed(1)}" height="14" fill="${
            colors[outcome(verdict)]
          }"/>`,
        );
        parts.push(text(Math.round(left + length) + 6, y, label(verdict), 'class="value"'));
      }
    }
    parts.push(`<path d="M${left + unit} ${top}V${y + 6}" stroke="#000" stroke-dasharray="3 3"/>`);
  }
  const height = y + lineHeight;
  const style = "text{font:12px sans-serif}.title{font-size:16px;font-weight:bold}.group{font-weight:bold}" +
    ".note{fill:#555}.value{fill:#333}";
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">` +
    `<style>${style}</style><rect width="100%" height="100%" fill="#fff"/>\n${parts.join("\n")}\n</svg>\n`;
}
