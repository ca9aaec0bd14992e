/**
 * The rows of bench/overlap.ts as bars: shares of the limit.
 *
 * @module
 */

/** A row: shares of the limit by program. */
export interface ChartRow {
  /** What was measured. */
  readonly title: string;
  /** Shares of the limit, 1 being the limit itself. */
  readonly shares: Readonly<Record<string, number>>;
}

const COLORS: Readonly<Record<string, string>> = {
  tile: "#2563eb",
  matmul: "#7dd3fc",
  cublasmp: "#65a30d",
  nccl: "#a1a1aa",
  async_tp: "#ea580c",
};
const [LEFT, WIDTH, BAR, GAP, TOP] = [190, 560, 13, 10, 44];

/** An SVG. */
export function shareChart(title: string, rows: readonly ChartRow[]): string {
  const names = Object.keys(COLORS);
  const height = (row: ChartRow) => names.filter((name) => name in row.shares).length * BAR + GAP;
  const total = TOP + rows.reduce((sum, row) => sum + height(row), 0) + 24;
  const text = (x: number, y: number, content: string, extra = "", size = 11) =>
    `<text x="${x}" y="${y}" font-size="${size}"${extra}>${content}</text>`;
  const legend = names.map((name, i) =>
    `<rect x="${LEFT + i * 110}" y="24" width="9" height="9" fill="${COLORS[name]}"/>` +
    text(LEFT + 13 + i * 110, 32, name)
  );
  const lines = [0.5, 0.75, 1].map((share) => {
    const x = LEFT + share * WIDTH;
    return `<line x1="${x}" x2="${x}" y1="${TOP - 4}" y2="${total - 20}" stroke="#d4d4d8"/>` +
      text(x, total - 8, share.toFixed(2), ' text-anchor="middle"');
  });
  let y = TOP;
  const bars = rows.map((row) => {
    const label = text(LEFT - 6, y + height(row) / 2, row.title, ' text-anchor="end"');
    const drawn = names.filter((name) => name in row.shares).map((name, i) => {
      const width = row.shares[name] * WIDTH;
      const top = y + i * BAR;
      return `<rect x="${LEFT}" y="${top}" width="${width.toFixed(1)}" height="${BAR - 1}" fill="${COLORS[name]}"/>` +
        text(LEFT + width + 3, top + BAR - 3, row.shares[name].toFixed(3), ' fill="#52525b"', 9);
    });
    y += height(row);
    return label + drawn.join("");
  });
  const size = [LEFT + WIDTH + 60, total];
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.join(" ")}" width="${size[0]}" ` +
    `height="${size[1]}" font-family="sans-serif">` +
    `<rect width="100%" height="100%" fill="white"/>${text(LEFT, 16, title, ' font-weight="bold"')}` +
    `${legend.join("")}${lines.join("")}${bars.join("")}</svg>\n`;
}
