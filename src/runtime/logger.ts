/**
 * Where the messages of an operation go.
 *
 * @module
 */
import { describe } from "../options.ts";
import { alone } from "./agreement.ts";

/** Where messages go; `console` is one. What it throws is printed once, and the operation goes on. */
export interface Logger {
  /** What was decided, in detail. */
  debug(message: string): void;
  /** What was planned and how long it took. */
  info(message: string): void;
  /** What is done differently from what was asked for. */
  warn(message: string): void;
}

/** Refuse what is no logger. */
export function checkLogger(logger: unknown): asserts logger is Logger {
  const hasMethods = (value: object) =>
    ["debug", "info", "warn"].every((name) => typeof Reflect.get(value, name) === "function");
  if (typeof logger === "object" && logger !== null && hasMethods(logger)) return;
  throw new TypeError(`logger must have the methods debug, info and warn, as console has; got ${describe(logger)}.`);
}

/**
 * The same logger, but one that never throws: an error on one rank, in the middle of a collective call, would leave the
 * other ranks waiting. The first error is printed, on its rank.
 */
export function guardLogger(logger: Logger, rank: number): Logger {
  let hasFailed = false;
  const guarded = (level: keyof Logger) => (message: string): void => {
    try {
      alone("a logger", () => logger[level](message));
    } catch (error) {
      if (!hasFailed) console.warn(`distmath: the logger of rank ${rank} threw, and its message is lost:`, error);
      hasFailed = true;
    }
  };
  return { debug: guarded("debug"), info: guarded("info"), warn: guarded("warn") };
}
