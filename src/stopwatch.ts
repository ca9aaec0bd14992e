/**
 * How long something takes at best.
 *
 * @module
 */

/** The seconds of the shortest of some runs, after one that does not count. */
export function shortestSeconds(body: () => void, count = 3): number {
  let shortest = Infinity;
  for (let run = 0; run <= count; run++) {
    const start = performance.now();
    body();
    if (run > 0) shortest = Math.min(shortest, performance.now() - start);
  }
  // Clocks of browsers' kind may see no time go by.
  return Math.max(1e-6, shortest / 1000);
}
