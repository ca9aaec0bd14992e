/**
 * Who sends how much to whom: as data, as text, as a picture.
 *
 * @module
 */
import { checkInteger } from "./check.ts";

/** Bytes as people read them, in at most five letters. */
function short(bytes: number): string {
  const units = ["", "k", "M", "G", "T", "P"];
  const power = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  const value = bytes / 1000 ** power;
  return `${power > 0 && value < 9.95 ? value.toFixed(1) : Math.round(value)}${units[power]}`;
}

const escape = (text: string) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

const [CELL_WIDTH, CELL_HEIGHT, LEFT, TOP] = [48, 24, 70, 66];

/** Options of a picture of a {@linkcode CommunicationMatrix}. */
export interface CommunicationPictureOptions {
  /** The largest number of ranks that is drawn; the caption tells if there are more. 32 when left out. */
  maxRanks?: number;
}

/**
 * The bytes that each rank sends to each other one in an execution, as the plans have it. Made by `communication` of
 * `Matmul`, `FFT` and `Redistribution`.
 *
 * @example
 * ```ts
 * import { CommunicationMatrix } from "@distmath/distmath";
 *
 * const matrix = new CommunicationMatrix([[0, 2048], [512, 0]]);
 * console.log(matrix.bytes[0][1], matrix.sent(0), matrix.received(0), matrix.total); // 2048, 2048, 512, 2560
 * console.log(matrix.toText());
 * ```
 */
export class CommunicationMatrix {
  /** From rank (row) to rank (column); what a rank keeps does not count. */
  readonly bytes: readonly (readonly number[])[];
  /** What is not in it, in words. */
  readonly notes: readonly string[];

  /** Of these bytes. */
  constructor(bytes: readonly (readonly number[])[], notes: readonly string[] = []) {
    this.bytes = bytes;
    this.notes = notes;
  }

  /** The bytes that leave a rank, over all ranks. */
  get total(): number {
    return this.bytes.reduce((sum, _, rank) => sum + this.sent(rank), 0);
  }

  /** The bytes that leave a rank. */
  sent(rank: number): number {
    return this.bytes[rank].reduce((sum, bytes) => sum + bytes, 0);
  }

  /** The bytes that come to a rank. */
  received(rank: number): number {
    return this.bytes.reduce((sum, row) => sum + row[rank], 0);
  }

  /**
   * A table: from each rank, a row, to each other.
   *
   * @throws {RangeError} if `maxRanks` is less than 1 or no integer
   */
  toText({ maxRanks = 32 }: CommunicationPictureOptions = {}): string {
    const { caption, ranks } = this.#shown(maxRanks);
    const head = ["from \\ to", ...ranks.map(String)];
    const rows = ranks.map((from) => [
      String(from),
      ...ranks.map((to) => from === to ? "." : short(this.bytes[from][to])),
    ]);
    const widths = head.map((name, column) => Math.max(name.length, ...rows.map((row) => row[column].length)));
    const line = (cells: readonly string[]) => cells.map((cell, i) => cell.padStart(widths[i])).join("  ");
    return [caption, line(head), ...rows.map(line), ...this.notes].join("\n");
  }

  /**
   * A picture: the darker, the more.
   *
   * @throws {RangeError} if `maxRanks` is less than 1 or no integer
   */
  toSVG({ maxRanks = 32 }: CommunicationPictureOptions = {}): string {
    const { caption, ranks } = this.#shown(maxRanks);
    const most = Math.max(1, ...ranks.flatMap((from) => ranks.map((to) => this.bytes[from][to])));
    const text = (x: number, y: number, content: string, anchor = "middle", color = "black") =>
      `<text x="${x}" y="${y}" text-anchor="${anchor}" fill="${color}">${escape(content)}</text>`;
    const x = (to: number) => LEFT + to * CELL_WIDTH;
    const y = (from: number) => TOP + from * CELL_HEIGHT;
    const cells = ranks.flatMap((from) =>
      ranks.map((to) => {
        const bytes = this.bytes[from][to];
        const share = bytes / most;
        const fill = from === to ? "#eee" : `hsl(210, 60%, ${Math.round(97 - 57 * share)}%)`;
        const label = from === to ? "" : text(
          x(to) + CELL_WIDTH / 2,
          y(from) + CELL_HEIGHT / 2 + 4,
          short(bytes),
          "middle",
          share > 0.6 ? "white" : "black",
        );
        return `<g><title>rank ${from} to rank ${to}: ${bytes} bytes</title><rect class="cell" x="${x(to)}" ` +
          `y="${y(from)}" width="${CELL_WIDTH}" height="${CELL_HEIGHT}" fill="${fill}" stroke="white"/>${label}</g>`;
      })
    );
    const below = y(ranks.length);
    const width = Math.max(x(ranks.length) + 20, ...[caption, ...this.notes].map(({ length }) => 16 + 8 * length));
    const height = below + 12 + 18 * this.notes.length;
    return [
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" ` +
      `role="img" font-family="sans-serif" font-size="12">`,
      `<title>${escape(caption)}</title>`,
      text(8, 18, caption, "start"),
      text(x(0) + ranks.length * CELL_WIDTH / 2, TOP - 26, "to"),
      text(LEFT - 32, TOP - 8, "from", "end"),
      ...ranks.map((rank) => text(x(rank) + CELL_WIDTH / 2, TOP - 8, String(rank))),
      ...ranks.map((rank) => text(LEFT - 8, y(rank) + CELL_HEIGHT / 2 + 4, String(rank), "end")),
      ...cells,
      ...this.notes.map((note, i) => text(8, below + 18 + 18 * i, note, "start")),
      "</svg>",
      "",
    ].join("\n");
  }

  #shown(maxRanks: number): { caption: string; ranks: readonly number[] } {
    checkInteger("maxRanks", maxRanks, 1);
    const { length } = this.bytes;
    const ranks = this.bytes.map((_, rank) => rank).slice(0, maxRanks);
    const shown = length > maxRanks ? `, the first ${maxRanks} of ${length} ranks` : "";
    return { caption: `${this.total} bytes between ranks${shown}`, ranks };
  }
}

/** No bytes between so many ranks. */
export function noBytes(size: number): number[][] {
  return Array.from({ length: size }, () => Array<number>(size).fill(0));
}

/** Add what travels otherwise. */
export function addBytes(sum: number[][], other: readonly (readonly number[])[], factor = 1): void {
  other.forEach((row, from) => row.forEach((bytes, to) => sum[from][to] += bytes * factor));
}

/** What the busiest rank sends, or receives if that is more. */
export function busiestBytes(matrix: CommunicationMatrix): number {
  return Math.max(...matrix.bytes.map((_, rank) => Math.max(matrix.sent(rank), matrix.received(rank))));
}

/** What this rank has to do with all that travels, in words: what it sends and receives, and what the busiest one does. */
export function describeShare(matrix: CommunicationMatrix, rank: number): string {
  const busy = matrix.bytes.map((_, one) => matrix.sent(one) + matrix.received(one));
  const busiest = busy.reduce((best, bytes, one) => bytes > busy[best] ? one : best, rank);
  const own = `this rank sends ${matrix.sent(rank)} bytes and receives ${matrix.received(rank)}`;
  return busiest === rank
    ? own
    : `${own}; rank ${busiest}, the busiest, ${matrix.sent(busiest)} and ${matrix.received(busiest)}`;
}
