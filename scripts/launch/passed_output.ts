/**
 * Output that is passed on to somebody who may not read it.
 *
 * @module
 */
import { bytesOf } from "./bytes_as_text.ts";

/** One of this process's streams. */
type Stream = "stdout" | "stderr";

/** So many UTF-16 units may wait to be written. */
const MOST_UNITS = 256 * 1024;

const STREAMS = { stdout: Deno.stdout, stderr: Deno.stderr } as const;

async function writeAll(stream: Stream, bytes: Uint8Array): Promise<void> {
  let rest = bytes;
  while (rest.length > 0) rest = rest.subarray(await STREAMS[stream].write(rest));
}

/** Wait for something, no longer than this; tells whether it came. */
function within(milliseconds: number, what: Promise<unknown>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<boolean>((resolve) => timer = setTimeout(() => resolve(false), milliseconds));
  return Promise.race([what.then(() => true), late]).finally(() => clearTimeout(timer));
}

/** Writes to both streams in the order that it is told to. Nothing else waits for the reader: a time limit, a signal. */
export class PassedOutput {
  #waiting: { stream: Stream; texts: string[]; mayFail: boolean }[] = [];
  #units = 0;
  #writing: Promise<void> | null = null;
  readonly #failure = new AbortController();

  /** Aborts when something cannot be written, by the reason. */
  get failed(): AbortSignal {
    return this.#failure.signal;
  }

  /** Whether more should come later. */
  get isFull(): boolean {
    return this.#units >= MOST_UNITS;
  }

  /** Write a text, as {@linkcode bytesOf} reads it, after all before; no harm is done where one that `mayFail` is not read. */
  write(stream: Stream, text: string, mayFail = false): void {
    if (this.failed.aborted) return;
    const last = this.#waiting.at(-1);
    if (last?.stream === stream && last.mayFail === mayFail) last.texts.push(text);
    else this.#waiting.push({ stream, texts: [text], mayFail });
    this.#units += text.length;
    this.#writing ??= this.#writeWaiting();
  }

  async #writeWaiting(): Promise<void> {
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      const text = next.texts.join("");
      try {
        await writeAll(next.stream, bytesOf(text));
      } catch (error) {
        if (!next.mayFail) this.#fail(error);
      }
      this.#units -= text.length;
    }
    this.#units = 0;
    this.#writing = null;
  }

  #fail(error: unknown): void {
    this.#waiting = [];
    this.#failure.abort(error);
  }

  /**
   * Wait until all is written, no longer than this if a limit is given.
   *
   * @throws what writing failed with.
   */
  async end(milliseconds?: number): Promise<void> {
    const writing = this.#writing ?? Promise.resolve();
    await (milliseconds === undefined ? writing : within(milliseconds, writing));
    this.failed.throwIfAborted();
  }
}

/** Write a line on standard error, also where what was written before is not read; no longer than this is waited for it. */
export async function writeLast(text: string, milliseconds: number): Promise<void> {
  await within(milliseconds, writeAll("stderr", bytesOf(`${text}\n`)).catch(() => {}));
}
