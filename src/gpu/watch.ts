/**
 * What may have gone wrong on a GPU without an error of CUDA: looked for whenever the host has waited for the GPU, and
 * while it waits for long.
 *
 * @module
 */

const watches = new Set<() => void>();
const lookouts = new Set<() => void>();

/** Have something looked for until the result is disposed; `check` throws if it is there. */
export function watch(check: () => void): Disposable {
  watches.add(check);
  return { [Symbol.dispose]: () => void watches.delete(check) };
}

/** As {@linkcode watch}, for what keeps a GPU from coming to an end: looked for while the host waits. */
export function watchMeanwhile(check: () => void): Disposable {
  lookouts.add(check);
  return { [Symbol.dispose]: () => void lookouts.delete(check) };
}

/** Look for all of it: the host has waited for a GPU. */
export function checkWatches(): void {
  for (const check of watches) check();
}

/** Look for what would have the host wait for ever. */
export function lookAround(): void {
  for (const check of lookouts) check();
}
