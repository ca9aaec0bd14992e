/**
 * Watching over the ranks of this machine while they wait for each other.
 *
 * @module
 */
import {
  LongWaits,
  makePresencePage,
  PRESENCE_VARIABLE,
  processesInMpi,
  type ToldEnd,
  toldEnds,
  whereRanksAre,
} from "../../internals.ts";
import type { Launcher } from "./launcher.ts";
import { endedRanks } from "./living_ranks.ts";
import { readOfProcess } from "./processes.ts";

/** Ranks that wait for longer are told of. Tests set the variable. */
const patienceSeconds = () => Number(Deno.env.get("DISTMATH_PATIENCE_SECONDS")) || 10;

/** What is told of a rank that waits for others to start MPI. */
const WAITS_FOR_START = /rank (\d+) waits in MPI_Init.*/;

/** The ranks of a job, as far as they are on this machine. */
export interface WatchedRanks extends Disposable {
  /** What the job needs to be seen. */
  readonly env: Record<string, string>;
  /**
   * Where they are, or were last: lines; `null` if none waits for others, unless `isAny` asks for their last calls, or if
   * nothing is known of them.
   */
  where(isAny?: boolean): string | null;
  /** One that is no more and used MPI when it was looked for before, so that others may wait for it; `null` if none is. */
  lost(): number | null;
  /** One that has ended before it started MPI, and for which another one waits there; `null` if none has. */
  missing(): ToldEnd | null;
  /** What they have told of ends that are not well. */
  ends(): readonly ToldEnd[];
}

/** Call `tell` with what there is to tell of a launcher's ranks that wait for long, until disposed of. */
export function watchRanks({ kind }: Launcher, ranks: number, tell: (text: string) => void): WatchedRanks {
  const page = ranks > 1 ? makePresencePage() : null;
  if (page === null) {
    return { env: {}, where: () => null, lost: () => null, missing: () => null, ends: () => [], [Symbol.dispose]() {} };
  }
  const patience = patienceSeconds();
  const waits = new LongWaits(patience, ranks);
  const seen = new Set<number>();
  const timer = setInterval(() => {
    const text = waits.look(page.read());
    if (text !== null) tell(text);
  }, Math.min(1, patience / 4) * 1000);
  return {
    env: { [PRESENCE_VARIABLE]: page.path },
    where: (isAny) => whereRanksAre(page.read(), ranks, isAny),
    lost() {
      const found = processesInMpi(page.read());
      const here = found.filter(({ process }) => readOfProcess(process, "environ").includes(page.path));
      // Processes of containers may have numbers that mean nothing here.
      const lost = found.find((one) => seen.has(one.process) && !here.includes(one));
      for (const { process } of here) seen.add(process);
      return lost?.rank ?? null;
    },
    missing() {
      const [place, waiting] = WAITS_FOR_START.exec(whereRanksAre(page.read(), ranks) ?? "") ?? [];
      // The page tells nothing of ranks without distmath, but that one waits tells that they have not been in MPI.
      const ended = place === undefined ? [] : endedRanks(kind, page.path, ranks);
      if (ended.length === 0 || ended.includes(Number(waiting))) return null;
      const how = `it ended before it started MPI, and ${place} for rank ${ended.join(", ")}; have every rank call ` +
        "initialize(), or none";
      return { rank: ended[0], code: 1, how };
    },
    ends: () => toldEnds(page.read()),
    [Symbol.dispose]() {
      clearInterval(timer);
      page[Symbol.dispose]();
    },
  };
}
