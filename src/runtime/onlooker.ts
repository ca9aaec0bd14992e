/**
 * Looking at the ranks of a job from outside: what they wait for is in memory that they share with the command that started
 * them (`ffi/mpi/presence.ts`). So a job that hangs is told of at no cost to its ranks.
 *
 * @module
 */
import { PRESENCE_PREFIX } from "../../ffi/mpi/presence.ts";
import { LAYOUT } from "../../ffi/mpi/presence_page.ts";
import { describeFor, isOfAll, isWaiting, pageReading, placesOf } from "./long_waits.ts";

/**
 * Where the ranks of a job of this size are, as one sees it that waits for all, or for another one; `null` if none does,
 * unless `isAny` asks for their last calls then.
 */
export function whereRanksAre(words: Int32Array, size: number, isAny = false): string | null {
  const reading = pageReading();
  const places = placesOf(words, reading);
  const waiting = places.filter((at) => isWaiting(words, at, reading));
  const own = waiting.find((at) => isOfAll(words, at, reading)) ?? waiting[0] ?? (isAny ? places[0] : undefined);
  return own === undefined ? null : describeFor(words, own, reading, size);
}

/** How a rank is about to end, by its own word. */
export interface ToldEnd {
  /** Its number in the job. */
  readonly rank: number;
  /** The exit code. */
  readonly code: number;
  /** By what, such as "an uncaught error". */
  readonly how: string;
}

/** What ranks have told of ends that are not well. */
export function toldEnds(words: Int32Array): ToldEnd[] {
  const reading = pageReading();
  const { fields } = reading;
  return placesOf(words, reading).flatMap((at): ToldEnd[] => {
    const [rank, code] = [words[at + fields.RANK], words[at + fields.END_CODE]];
    const how = new Uint8Array(words.buffer, 4 * (at + fields.END), words[at + fields.END_BYTES]);
    return code === 0 ? [] : [{ rank, code, how: new TextDecoder().decode(how) }];
  });
}

/** The ranks that use MPI, and have not come to the end of their scripts, with their processes. */
export function processesInMpi(words: Int32Array): { readonly rank: number; readonly process: number }[] {
  const reading = pageReading();
  const { fields, present } = reading;
  const isInside = (at: number) => words[at + fields.STATE] === present.HERE && words[at + fields.CALLS] !== 0;
  return placesOf(words, reading).filter(isInside).map((at) => ({
    rank: words[at + fields.RANK],
    process: words[at + fields.PROCESS],
  }));
}

/** The memory of a job that is about to be started. */
export interface PresencePage extends Disposable {
  /** What `PRESENCE_VARIABLE` has to say. */
  readonly path: string;
  /** What is in it now. */
  read(): Int32Array;
}

/** Make the memory that the ranks of a job on this machine will share; `null` where there is none. */
export function makePresencePage(): PresencePage | null {
  const path = `${PRESENCE_PREFIX}${Deno.pid}.${crypto.randomUUID()}.${LAYOUT}`;
  let file: Deno.FsFile;
  try {
    file = Deno.openSync(path, { read: true, write: true, createNew: true, mode: 0o600 });
  } catch {
    return null;
  }
  return {
    path,
    read() {
      const bytes = new Uint8Array(file.statSync().size);
      file.seekSync(0, Deno.SeekMode.Start);
      file.readSync(bytes);
      return new Int32Array(bytes.buffer);
    },
    [Symbol.dispose]() {
      file.close();
      try {
        Deno.removeSync(path);
      } catch {
        // The last of the ranks has removed it.
      }
    },
  };
}
