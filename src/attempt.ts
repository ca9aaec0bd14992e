/**
 * What may fail without harm.
 *
 * @module
 */

/** The result of an action; null if it throws, which is no reason not to go on. */
export function attempt<T>(action: () => T): T | null {
  try {
    return action();
  } catch {
    return null;
  }
}
