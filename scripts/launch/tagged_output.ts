/**
 * Output in which launchers name the rank before each part, put together to lines.
 *
 * They pass on what they have read, which may end within a line: the rest comes after what other ranks wrote meanwhile.
 *
 * @module
 */
import { bytesOf } from "./bytes_as_text.ts";
import type { Launcher } from "./launcher.ts";

/** What a rank wrote; the launcher itself if `rank` is null. */
export interface TaggedText {
  rank: number | null;
  text: string;
}

/** What a part has that `srun` cuts off a longer line, in bytes: it makes a line of each part. */
const CUT_BY_SRUN = 1024;

/** Joins the parts of each rank's lines, from one stream of a job's output. Give it lines, and call `end` at the end. */
export class TaggedLines {
  readonly #partsOf: (line: string) => TaggedText[];
  readonly #isCut: (text: string) => boolean;
  /** The beginnings of lines, by rank. */
  readonly #begun = new Map<number, string>();

  /** For the output of a launcher that was given its flags for tags; what names none of these ranks is text. */
  constructor(launcher: Pick<Launcher, "kind" | "version">, ranks: number) {
    const tag = tagOf(launcher);
    this.#partsOf = (line) => partsOf(line, tag, ranks);
    this.#isCut = (text) => launcher.kind === "slurm" && bytesOf(text).length === CUT_BY_SRUN;
  }

  /** Take a line; returns those that are complete now. */
  push(line: string): TaggedText[] {
    const parts = this.#partsOf(line);
    const { rank, text } = parts.pop()!;
    const own = parts.filter((part) => part.rank === null);
    for (const part of parts) if (part.rank !== null) this.#add(part.rank, part.text);
    if (rank === null) return [...own, { rank, text }];
    this.#add(rank, text);
    if (this.#isCut(text)) return own;
    const complete = this.#begun.get(rank)!;
    this.#begun.delete(rank);
    return [...own, { rank, text: complete }];
  }

  /** The lines that did not come to their ends. */
  end(): TaggedText[] {
    const left = [...this.#begun].map(([rank, text]) => ({ rank, text }));
    this.#begun.clear();
    return left;
  }

  #add(rank: number, text: string): void {
    this.#begun.set(rank, (this.#begun.get(rank) ?? "") + text);
  }
}

/** How a part begins, with the rank. What may be in the text as well counts at the beginning of a line only. */
function tagOf({ kind, version }: Pick<Launcher, "kind" | "version">): RegExp {
  if (kind === "slurm") return /^ *(\d+): ?/g;
  if (kind === "mpich") return /<rank (\d+)>:/g;
  // Open MPI 4.1 writes "[1,0]<stdout>:text", 5.0 "[1,0]<stdout>: text".
  return Number.parseInt(version) < 5 ? /\[\d+,(\d+)\]<std(?:out|err)>:/g : /\[\d+,(\d+)\]<std(?:out|err)>: /g;
}

/** A line in parts, at least one. */
function partsOf(line: string, tag: RegExp, ranks: number): TaggedText[] {
  const tags = [...line.matchAll(tag)].filter(([, rank]) => Number(rank) < ranks);
  const parts = tags.map(({ index, 0: { length }, 1: rank }, i): TaggedText => ({
    rank: Number(rank),
    text: line.slice(index + length, tags[i + 1]?.index),
  }));
  const before = line.slice(0, tags[0]?.index);
  return before === "" && parts.length > 0 ? parts : [{ rank: null, text: before }, ...parts];
}
