/**
 * Engines: ways to run an operation, by the name that the option `engine` takes.
 *
 * @module
 */
import { ConfigurationError } from "../errors.ts";
import { checkName } from "../options.ts";
import type { Runtime } from "./runtime.ts";

/** What all engines say of themselves. */
export interface Engine<Name extends string = string, Algorithm extends string = string> {
  /** The name that `options.engine` takes. */
  readonly name: Name;
  /** The kind of device in whose memory it computes. */
  readonly device: "cpu" | "gpu";
  /** Whether it comes before the others for its device, and is taken where nothing speaks for one of them. */
  readonly isUsual?: boolean;
  /** The algorithms that `options.algorithm` takes. */
  readonly algorithms: readonly Algorithm[];
}

/** The usual engines first, and those for CPUs before those for GPUs; else in the order given. */
export function inOrder<E extends Engine>(engines: readonly E[]): readonly E[] {
  const place = ({ isUsual, device }: E) => (isUsual ? 0 : 2) + (device === "cpu" ? 0 : 1);
  return engines.toSorted((one, other) => place(one) - place(other));
}

/** What `options.engine` may be. */
export function namesOf(engines: readonly Engine[]): readonly string[] {
  return [...new Set(["auto", ...engines.map(({ name }) => name)])];
}

/** What `options.algorithm` may be. */
export function algorithmsOf(engines: readonly Engine[]): readonly string[] {
  return [...new Set(["default", ...engines.flatMap(({ algorithms }) => algorithms)])];
}

/**
 * The engines for a runtime's device that have a name, or all of them for `auto`.
 *
 * @throws {TypeError} if there is no such engine
 * @throws {ConfigurationError} if this runtime's device has not that one, which `does` something, such as "multiplies"
 */
export function enginesNamed<E extends Engine>(
  engines: readonly E[],
  { device }: Runtime,
  engine: string = "auto",
  does: string,
): readonly E[] {
  checkName("engine", engine, namesOf(engines));
  const own = engines.filter((candidate) => candidate.device === device.kind);
  const found = engine === "auto" ? own : own.filter(({ name }) => name === engine);
  if (found.length > 0) return found;
  const other = engines.find(({ name }) => name === engine)!;
  throw new ConfigurationError(
    `engine ${engine} is not available: it ${does} on ${other.device.toUpperCase()}s, and this runtime's device is ` +
      `${device.name} (${device.kind}). Leave engine out, or pass ${own.map(({ name }) => `"${name}"`).join(" or ")}.`,
  );
}
