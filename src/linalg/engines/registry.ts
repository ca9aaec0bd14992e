/**
 * The engines that there are. Their names, and those of their algorithms, are written in their own folders and nowhere
 * else.
 *
 * @module
 */
import type { Runtime } from "../../runtime/runtime.ts";
import { cublasMpEngine } from "./cublasmp/engine.ts";
import type { MatmulEngine } from "./engine.ts";
import { overlapHostEngine } from "./overlap/host_engine.ts";
import { overlapTileEngine } from "./overlap/tile_engine.ts";
import { scalapackEngine } from "./scalapack/engine.ts";

// The types below look at these through the module: the engines themselves are no part of the public API.

/** The engines of this library: a new one is added here. */
export const ENGINES = [scalapackEngine, cublasMpEngine, overlapHostEngine, overlapTileEngine] as const;

/** The engines by name; `auto` chooses among those for the runtime's device. */
export type EngineName =
  | "auto"
  | (typeof import("./registry.ts"))["ENGINES"][number]["name"];

/** The algorithms of all engines; `default` lets the engine choose. An engine refuses what it does not have. */
export type AlgorithmName =
  | "default"
  | (typeof import("./registry.ts"))["ENGINES"][number]["algorithms"][number];

const registered: MatmulEngine[] = [...ENGINES];

/** All engines, in the order in which they were registered. */
export function engines(): readonly MatmulEngine[] {
  return registered;
}

export function enginesFor({ device }: Runtime): readonly MatmulEngine[] {
  return registered.filter((engine) => engine.device === device.kind);
}

/** What `options.engine` may be. */
export function engineNames(): readonly string[] {
  return [...new Set(["auto", ...registered.map(({ name }) => name)])];
}

/** What `options.algorithm` may be. */
export function algorithmNames(): readonly string[] {
  return [...new Set(["default", ...registered.flatMap(({ algorithms }) => algorithms)])];
}

/** Add an engine until the result is disposed. The ranks must have the same ones, in the same order. */
export function registerEngine(engine: MatmulEngine): Disposable {
  registered.push(engine);
  return { [Symbol.dispose]: () => void registered.splice(registered.indexOf(engine), 1) };
}
