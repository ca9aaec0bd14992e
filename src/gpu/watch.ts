/**
 * What may have gone wrong on a GPU without an error of CUDA: looked for whenever the host has waited for the GPU.
 *
 * @module
 */

const watches = new Set<() => void>();

/** Have something looked for until the result is disposed; `check` throws if it is there. */
export function watch(check: () => void): Disposable {
  watches.add(check);
  return { [Symbol.dispose]: () => void watches.delete(check) };
}

/** Look for all of it: the host has waited for a GPU. */
export function checkWatches(): void {
  for (const check of watches) check();
}
