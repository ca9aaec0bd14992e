/**
 * Watching over the ranks of this machine while they wait for each other.
 *
 * @module
 */
import { LongWaits, makePresencePage, PRESENCE_VARIABLE } from "../../internals.ts";

/** Ranks that wait for longer are told of. Tests set the variable. */
const patienceSeconds = () => Number(Deno.env.get("DISTMATH_PATIENCE_SECONDS")) || 10;

/** Call `tell` with what there is to tell of ranks that wait for long, until disposed of; `env` is for the job. */
export function watchRanks(ranks: number, tell: (text: string) => void): Disposable & { env: Record<string, string> } {
  const page = ranks > 1 ? makePresencePage() : null;
  if (page === null) return { env: {}, [Symbol.dispose]() {} };
  const patience = patienceSeconds();
  const waits = new LongWaits(patience);
  const timer = setInterval(() => {
    const text = waits.look(page.read());
    if (text !== null) tell(text);
  }, Math.min(1, patience / 4) * 1000);
  return {
    env: { [PRESENCE_VARIABLE]: page.path },
    [Symbol.dispose]() {
      clearInterval(timer);
      page[Symbol.dispose]();
    },
  };
}
