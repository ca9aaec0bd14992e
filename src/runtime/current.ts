/**
 * The runtime of this process.
 *
 * @module
 */
import { noCurrentRuntime, setCurrentSubject } from "./agreement.ts";
import type { Runtime } from "./runtime.ts";

let current: Runtime | undefined;

/** Make this the runtime of the process; `initialize()` does. */
export function setCurrentRuntime(runtime: Runtime): void {
  current = runtime;
  setCurrentSubject(runtime);
}

/** Whether there is a runtime that can be used. */
export function hasCurrentRuntime(): boolean {
  return current !== undefined && !current.isClosed;
}

/**
 * The runtime that `initialize()` made.
 *
 * @throws {StateError} if there is none, or it was closed.
 *
 * @example
 * ```ts
 * import { currentRuntime, initialize } from "@distmath/distmath";
 * using runtime = initialize({ device: "cpu" });
 * console.assert(currentRuntime() === runtime);
 * ```
 */
export function currentRuntime(): Runtime {
  const runtime = lastRuntime();
  if (runtime.isClosed) throw noCurrentRuntime();
  return runtime;
}

/** The last runtime, closed or not: for agreements, which refuse a closed one on every rank. */
export function lastRuntime(): Runtime {
  if (!current) throw noCurrentRuntime();
  return current;
}
