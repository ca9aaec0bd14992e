/**
 * Pictures of who owns what.
 *
 * @module
 */
import { checkInteger, list } from "./check.ts";
import { type IndexSet, interval, type Range } from "./index_map.ts";

/** Options of a picture. */
export interface PictureOptions {
  /**
   * The largest number of blocks that is drawn along a dimension, and of panels; the caption tells if there are more.
   * 32 for SVG and 12 for text when left out.
   */
  maxBlocks?: number;
}

/** What is drawn of a distribution; every bound `Distribution` has it. */
export interface Drawn {
  /** Whether every rank holds everything. */
  readonly isReplicated: boolean;
  /** What a rank holds of each dimension. */
  indexSets(rank: number): readonly IndexSet[];
  /** For the caption. */
  toString(): string;
}

/** A rectangle in the hands of one rank. */
interface Block {
  readonly rank: number;
  readonly rows: Range;
  readonly columns: Range;
}

/** A matrix within the array: the last two dimensions, at one step along the others. */
interface Panel {
  readonly title: string;
  readonly blocks: readonly Block[];
}

interface Picture {
  readonly caption: string;
  /** Where blocks begin and end along the rows and the columns; the first is 0. */
  readonly rowCuts: readonly number[];
  readonly columnCuts: readonly number[];
  readonly panels: readonly Panel[];
  label(rank: number): string;
}

/** What is drawn, for both kinds of pictures. */
function picture(distribution: Drawn, shape: readonly number[], size: number, maxBlocks: number): Picture {
  checkInteger("maxBlocks", maxBlocks, 1);
  const isReplicated = distribution.isReplicated;
  const ranks = Array.from({ length: isReplicated ? 1 : size }, (_, rank) => asMatrix(distribution.indexSets(rank)));
  const extents = [...Array(Math.max(0, 2 - shape.length)).fill(1), ...shape];
  const cuts = extents.map((extent, dimension) => cutsOf(ranks.map((sets) => sets[dimension]), extent, maxBlocks));
  const [rowCuts, columnCuts] = cuts.slice(-2);
  const steps = product(cuts.slice(0, -2));
  const panels = steps.slice(0, maxBlocks).map((step): Panel => ({
    title: step.map(([start, end]) => `${start}:${end}`).concat(":", ":").join(", "),
    blocks: ranks.flatMap((sets, rank) => {
      const isHere = step.every(([start], dimension) => sets[dimension].ranges(start, start + 1).length > 0);
      return isHere ? blocksOf(rank, sets.slice(-2), rowCuts.at(-1)!, columnCuts.at(-1)!) : [];
    }),
  }));
  const isCut = steps.length > maxBlocks || cuts.some((points, dimension) => points.at(-1)! < extents[dimension]);
  const shown = isCut ? `, the first ${list(cuts.map((points) => points.at(-1)!).slice(-shape.length))} of it` : "";
  const caption = `${distribution} of ${list(shape)} on ${size} ${size === 1 ? "rank" : "ranks"}${shown}`;
  const label = (rank: number) => isReplicated && size > 1 ? "all" : String(rank);
  return { caption, rowCuts, columnCuts, panels, label };
}

/** A vector is drawn as one row. */
function asMatrix(sets: readonly IndexSet[]): readonly IndexSet[] {
  return [...Array.from({ length: Math.max(0, 2 - sets.length) }, () => interval(0, 1)), ...sets];
}

/** The first `limit` block borders of a dimension. */
function cutsOf(sets: readonly IndexSet[], extent: number, limit: number): number[] {
  for (let window = limit;; window *= 2) {
    const end = Math.min(window, extent);
    const points = new Set([0, end, ...sets.flatMap((set) => set.ranges(0, end).flat())]);
    if (points.size <= limit + 1 && end < extent) continue;
    return [...points].sort((a, b) => a - b).slice(0, limit + 1);
  }
}

/** All combinations of one segment a dimension. */
function product(cuts: readonly (readonly number[])[]): Range[][] {
  return cuts.reduce<Range[][]>(
    (steps, points) =>
      steps.flatMap((step) => points.slice(1).map((end, index): Range[] => [...step, [points[index], end]])),
    [[]],
  );
}

function blocksOf(rank: number, [rowSet, columnSet]: readonly IndexSet[], rowEnd: number, columnEnd: number): Block[] {
  const columns = columnSet.ranges(0, columnEnd);
  return rowSet.ranges(0, rowEnd).flatMap((rows) => columns.map((columns): Block => ({ rank, rows, columns })));
}

const margin = 48;
const lineHeight = 20;

/** See {@linkcode Distribution.toSVG}. */
export function drawSVG(
  distribution: Drawn,
  shape: readonly number[],
  size: number,
  { maxBlocks = 32 }: PictureOptions,
): string {
  const { caption, rowCuts, columnCuts, panels, label } = picture(distribution, shape, size, maxBlocks);
  const [rows, columns] = [Math.max(rowCuts.at(-1)!, 1), Math.max(columnCuts.at(-1)!, 1)];
  const side = shape.length > 2 ? 180 : 360;
  const lengthOf = (extent: number, other: number) => Math.round(side * Math.max(0.25, Math.min(1, extent / other)));
  const [width, height] = [lengthOf(columns, rows), lengthOf(rows, columns)];
  const [scaleX, scaleY] = [width / columns, height / rows];
  const step = height + margin + (shape.length > 2 ? lineHeight : 0);
  const parts = panels.map(({ title, blocks }, index) => {
    const top = margin + lineHeight / 2 + index * step;
    const heading = shape.length > 2 ? [text(margin, top - lineHeight, `[${title}]`, "start")] : [];
    return [
      ...heading,
      `<rect class="frame" x="${margin}" y="${top}" width="${width}" height="${height}" fill="none" stroke="#888"/>`,
      ...ticks(columnCuts, scaleX).map((cut) => text(margin + cut * scaleX, top - 4, String(cut))),
      ...ticks(rowCuts, scaleY).map((cut) => text(margin - 4, top + cut * scaleY + 4, String(cut), "end")),
      ...blocks.map(({ rank, rows: [up, down], columns: [left, right] }) => {
        const [x, y, w, h] = [left * scaleX, up * scaleY, (right - left) * scaleX, (down - up) * scaleY];
        const hasRoom = w > 7 * label(rank).length && h >= 12;
        const name = hasRoom ? text(margin + x + w / 2, top + y + h / 2 + 4, label(rank)) : "";
        return `<g><title>rank ${label(rank)}: [${up}:${down}, ${left}:${right}]</title>` +
          `<rect class="block" data-rank="${rank}" x="${round(margin + x)}" y="${round(top + y)}" ` +
          `width="${round(w)}" height="${round(h)}" fill="${
            color(rank)
          }" stroke="#333" stroke-width="0.5"/>${name}</g>`;
      }),
    ].join("\n");
  });
  const [totalWidth, totalHeight] = [
    Math.max(width + 2 * margin, 8 * caption.length),
    margin + lineHeight / 2 + panels.length * step,
  ];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${totalWidth} ${totalHeight}" width="${totalWidth}" ` +
    `height="${totalHeight}" role="img" font-family="sans-serif" font-size="12">\n` +
    `<title>${escape(caption)}</title>\n${text(8, 16, caption, "start")}\n${parts.join("\n")}\n</svg>\n`;
}

/** The cuts that have room for a number. */
function ticks(cuts: readonly number[], scale: number): number[] {
  let last = -Infinity;
  return cuts.filter((cut) => cut * scale - last >= 24 && (last = cut * scale) >= 0);
}

function text(x: number, y: number, content: string, anchor = "middle"): string {
  return `<text x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escape(content)}</text>`;
}

function escape(content: string): string {
  return content.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** Hues a golden angle apart, so that neighbouring ranks differ. */
function color(rank: number): string {
  return `hsl(${Math.round(rank * 137.508) % 360}, 60%, 75%)`;
}

const textColumns = 48;
const textRows = 6;

/** Box-drawing characters by which of up 1, down 2, left 4, right 8 go out of a point. */
const junctions = " │││─┘┐┤─└┌├─┴┬┼";

/** See {@linkcode Distribution.toText}. */
export function drawText(
  distribution: Drawn,
  shape: readonly number[],
  size: number,
  { maxBlocks = 12 }: PictureOptions,
): string {
  const { caption, rowCuts, columnCuts, panels, label } = picture(distribution, shape, size, maxBlocks);
  if (shape.includes(0)) return `${caption}: no elements`;
  const widest = Math.max(...Array.from({ length: size }, (_, rank) => label(rank).length));
  const xs = linesOf(columnCuts, textColumns, widest + 2);
  const ys = linesOf(rowCuts, textRows, 1);
  const drawn = panels.map(({ title, blocks }) => {
    const lines = drawBlocks(blocks, rowCuts, columnCuts, ys, xs, label);
    if (shape.length > 1) {
      rowCuts.slice(1).forEach((end, i) => lines[middle(ys[i], ys[i + 1])] += `  ${rowCuts[i]}:${end}`);
    }
    const below = columnLabels(columnCuts, xs);
    return [...(shape.length > 2 ? [`[${title}]`] : []), ...lines, ...(below ? [below] : [])].join("\n");
  });
  return [caption, ...drawn].join("\n");
}

/** Where the lines at the cuts go: in proportion to the extents, but far enough apart for a label. */
function linesOf(cuts: readonly number[], room: number, narrowest: number): number[] {
  const extent = cuts.at(-1)!;
  const lines = [0];
  cuts.slice(1).forEach((end, index) => {
    const proportional = Math.round((end - cuts[index]) / extent * room);
    lines.push(lines[index] + 1 + Math.max(narrowest, proportional));
  });
  return lines;
}

function middle(from: number, to: number): number {
  return Math.floor((from + to) / 2);
}

function drawBlocks(
  blocks: readonly Block[],
  rowCuts: readonly number[],
  columnCuts: readonly number[],
  ys: readonly number[],
  xs: readonly number[],
  label: (rank: number) => string,
): string[] {
  const owners = new Map<string, number>();
  const canvas = Array.from({ length: ys.at(-1)! + 1 }, () => Array<string>(xs.at(-1)! + 1).fill(" "));
  for (const { rank, rows, columns } of blocks) {
    const [up, down] = rows.map((cut) => rowCuts.indexOf(cut));
    const [left, right] = columns.map((cut) => columnCuts.indexOf(cut));
    for (let i = up; i < down; i++) for (let j = left; j < right; j++) owners.set(`${i},${j}`, rank);
    const name = label(rank);
    const start = middle(xs[left], xs[right]) - Math.floor((name.length - 1) / 2);
    [...name].forEach((letter, index) => canvas[middle(ys[up], ys[down])][start + index] = letter);
  }
  const differ = (i: number, j: number, k: number, l: number) => owners.get(`${i},${j}`) !== owners.get(`${k},${l}`);
  for (const [i, y] of ys.entries()) {
    for (const [j, x] of xs.entries()) {
      const [up, down] = [differ(i - 1, j - 1, i - 1, j), differ(i, j - 1, i, j)];
      const [left, right] = [differ(i - 1, j - 1, i, j - 1), differ(i - 1, j, i, j)];
      const mask = Number(up) + 2 * Number(down) + 4 * Number(left) + 8 * Number(right);
      if (mask > 0) canvas[y][x] = junctions[mask];
      if (right) { for (let at = x + 1; at < xs[j + 1]; at++) canvas[y][at] = "─"; }
      if (down) { for (let at = y + 1; at < ys[i + 1]; at++) canvas[at][x] = "│"; }
    }
  }
  return canvas.map((line) => line.join(""));
}

/** The ranges of the columns, each below its own, as far as they fit. */
function columnLabels(cuts: readonly number[], xs: readonly number[]): string {
  let line = "";
  cuts.slice(1).forEach((end, index) => {
    const name = `${cuts[index]}:${end}`;
    const start = Math.max(0, middle(xs[index], xs[index + 1]) - Math.floor((name.length - 1) / 2));
    if (line.length === 0 || start > line.length) line = line.padEnd(start) + name;
  });
  return line;
}
