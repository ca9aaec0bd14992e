/**
 * The engines of transforms that there are, and the choice among them.
 *
 * @module
 */
import { ConfigurationError } from "../../errors.ts";
import { checkName } from "../../options.ts";
import { algorithmsOf, enginesNamed, inOrder } from "../../runtime/engines.ts";
import type { Runtime } from "../../runtime/runtime.ts";
import type { FFTProblem } from "../problem.ts";
import * as all from "./all.ts";
import type { FFTEngine, FFTPlace } from "./engine.ts";

// The types below look at these through the module: the engines themselves are no part of the public API.

/** The engines of this library, which `all.ts` lists. `auto` takes the first for a device, unless another one leads. */
export const FFT_ENGINES: readonly FFTEngine[] = inOrder<FFTEngine>(Object.values(all));

/** The engines by name; `auto` takes one for the runtime's device. */
export type FFTEngineName =
  | "auto"
  | (typeof import("./all.ts"))[keyof typeof import("./all.ts")]["name"];

/** The algorithms of all engines; `default` lets the engine choose. */
export type FFTAlgorithmName =
  | "default"
  | (typeof import("./all.ts"))[keyof typeof import("./all.ts")]["algorithms"][number];

/**
 * The engine that was asked for, or the first for the runtime's device; throws as {@linkcode enginesNamed} does. For
 * executions of a plan, of which `task` tells more, another one may lead.
 */
export function chooseFFTEngine(
  runtime: Runtime,
  engine?: string,
  task?: { readonly problem: FFTProblem; readonly place: FFTPlace },
): FFTEngine {
  const named = enginesNamed(FFT_ENGINES, runtime, engine, "transforms");
  if (named.length === 1 || task === undefined) return named[0];
  const { problem, place } = task;
  return named.find((each) => each.leads?.(problem, place) && isAble(each, runtime, problem)) ?? named[0];
}

/** The engines that could run a problem on this rank: of a name, or for `auto` all that are there. Local. */
export function ableEngines(runtime: Runtime, problem: FFTProblem, engine?: string): readonly FFTEngine[] {
  return enginesNamed(FFT_ENGINES, runtime, engine, "transforms").filter((each) => isAble(each, runtime, problem));
}

function isAble(engine: FFTEngine, runtime: Runtime, problem: FFTProblem): boolean {
  try {
    return engine.refusal(problem) === null && engine.open(runtime, problem).length > 0;
  } catch (error) {
    if (error instanceof ConfigurationError) return false;
    throw error;
  }
}

/**
 * Refuse an engine that cannot run a problem.
 *
 * @throws {ConfigurationError} with the reason
 */
export function checkEngine(engine: FFTEngine, problem: FFTProblem): void {
  const reason = engine.refusal(problem);
  if (reason === null) return;
  const others = FFT_ENGINES.filter((other) => other.device === engine.device && other.refusal(problem) === null);
  const way = others.length > 0
    ? `Leave engine out, or pass ${others.map(({ name }) => `"${name}"`).join(" or ")}`
    : `Convert the operand: to({ dtype: "${problem.type === "r2c" ? "float32" : "complex64"}" })`;
  throw new ConfigurationError(`engine ${engine.name} cannot run this transform: ${reason}. ${way}.`);
}

/**
 * Refuse an algorithm that cannot run a problem.
 *
 * @throws {TypeError} if there is no such algorithm
 * @throws {ConfigurationError} naming those that can
 */
export function checkAlgorithm(engine: FFTEngine, problem: FFTProblem, algorithm: string = "default"): void {
  checkName("algorithm", algorithm, algorithmsOf(FFT_ENGINES));
  const able = engine.algorithmsFor(problem);
  if (algorithm === "default" || able.includes(algorithm)) return;
  throw new ConfigurationError(
    `algorithm ${algorithm} cannot bring shape [${problem.operand.join(", ")}] from ${problem.from} to ${problem.to} ` +
      `with the axes ${problem.axes.join(", ")} transformed. Use default, or ${able.join(" or ")}.`,
  );
}
