/**
 * The engines that there are. Their names, and those of their algorithms, are written in their own folders and nowhere
 * else.
 *
 * @module
 */
import { algorithmsOf, enginesNamed, inOrder } from "../../runtime/engines.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import * as all from "./all.ts";
import type { MatmulEngine } from "./engine.ts";

// The types below look at these through the module: the engines themselves are no part of the public API.

/** The engines of this library, which `all.ts` lists. */
export const ENGINES: readonly MatmulEngine[] = inOrder<MatmulEngine>(Object.values(all));

/** The engines by name; `auto` chooses among those for the runtime's device. */
export type EngineName =
  | "auto"
  | (typeof import("./all.ts"))[keyof typeof import("./all.ts")]["name"];

/** The algorithms of all engines; `default` lets the engine choose. An engine refuses what it does not have. */
export type AlgorithmName =
  | "default"
  | (typeof import("./all.ts"))[keyof typeof import("./all.ts")]["algorithms"][number];

let registered = ENGINES;

/** The engines for a runtime's device that have a name, or all of them; throws as {@linkcode enginesNamed} does. */
export function enginesFor(runtime: Runtime, engine?: string): readonly MatmulEngine[] {
  return enginesNamed(registered, runtime, engine, "multiplies");
}

/** What `options.algorithm` may be. */
export function algorithmNames(): readonly string[] {
  return algorithmsOf(registered);
}

/** Add an engine until the result is disposed. The ranks must have the same ones, in the same order. */
export function registerEngine(engine: MatmulEngine): Disposable {
  registered = inOrder([...registered, engine]);
  return { [Symbol.dispose]: () => void (registered = registered.toSpliced(registered.indexOf(engine), 1)) };
}
