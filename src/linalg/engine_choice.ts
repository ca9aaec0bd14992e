/**
 * Which engine multiplies, and whether it can do what is asked.
 *
 * @module
 */
import { ConfigurationError } from "../errors.ts";
import type { Runtime } from "../runtime/runtime.ts";
import type { MatmulEngine } from "./engines/engine.ts";
import { scalapackEngine } from "./engines/scalapack.ts";
import type { Epilog } from "./epilog.ts";
import { ALGORITHM_NAMES, checkName, ENGINE_NAMES, type MatmulOptions, type PlanOptions } from "./options.ts";
import type { MatmulProblem } from "./problem.ts";

/**
 * The engine that was asked for, or the one for this runtime's device.
 *
 * @throws {TypeError} if there is no such engine
 * @throws {ConfigurationError} if this machine does not have it
 */
export function chooseEngine({ device }: Runtime, { engine = "auto" }: MatmulOptions): MatmulEngine {
  checkName("engine", engine, ENGINE_NAMES);
  if (engine === "auto" || engine === scalapackEngine.name) return scalapackEngine;
  throw new ConfigurationError(
    `engine ${engine} is not available: it multiplies on GPUs, and this runtime's device is ${device.name} ` +
      `(${device.kind}). Leave engine out, or pass "${scalapackEngine.name}".`,
  );
}

/**
 * Refuse what an engine cannot do.
 *
 * @throws {TypeError | RangeError} if the options are none
 * @throws {ConfigurationError} with the engine's reason, and what to do instead
 */
export function checkAlgorithm(
  engine: MatmulEngine,
  problem: MatmulProblem,
  epilog: Epilog,
  { algorithm = "default", communicationSmCount }: PlanOptions,
): void {
  checkName("algorithm", algorithm, ALGORITHM_NAMES);
  if (communicationSmCount !== undefined && !(Number.isInteger(communicationSmCount) && communicationSmCount > 0)) {
    throw new RangeError(`communicationSmCount must be a whole number from 1; got ${communicationSmCount}.`);
  }
  const refusal = engine.supports({ problem, epilog, algorithm });
  if (refusal) throw new ConfigurationError(`engine ${engine.name}: ${refusal.reason}. ${refusal.instead}`);
}
