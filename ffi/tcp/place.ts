/**
 * A job that was started without MPI: what torchrun, or a person, tells each process by variables.
 *
 * @module
 */
import { ConfigurationError } from "../errors.ts";
import { environment } from "../library.ts";

/** What has to be set; a job of one rank needs no place to meet. */
const VARIABLES = ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] as const;

const LARGEST_PORT = 65535;
const EXAMPLE = "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=10.0.0.1 MASTER_PORT=29500, and RANK=1 for the other";

/** Where this process stands in its job, and where that meets. */
export interface Place {
  rank: number;
  size: number;
  /** The machine and the port at which one rank waits for the others, and the variables that say so. */
  host: string;
  port: number;
  portSource: string;
  /** What tells one job of torchrun, and one of its attempts, from others; empty for a job started by hand. */
  job: string;
  /** How long the ranks may take to come. */
  seconds: number;
}

/** Whether a variable is set, as far as it may be read: jobs of MPI do not ask the user for permission to look. */
export function isSet(name: string): boolean {
  return Deno.permissions.querySync({ name: "env", variable: name }).state === "granted" &&
    environment(name) !== undefined;
}

/** Whether at least two variables say that the job was started without MPI: one alone may mean something else. */
export function hasPlace(): boolean {
  return VARIABLES.filter(isSet).length >= 2;
}

/** A variable that holds a whole number; `null` if it is not set. */
function wholeNumber(name: string, least: number, most: number): number | null {
  const text = environment(name);
  if (text === undefined) return null;
  const value = Number(text);
  if (/^\d+$/.test(text) && value >= least && value <= most) return value;
  const range = most === Infinity ? `from ${least}` : `from ${least} to ${most}`;
  throw new ConfigurationError(
    `${name} is ${JSON.stringify(text)}, it must be a whole number ${range}. ${howToSet()}`,
  );
}

function howToSet(): string {
  return `Start each rank by torchrun, or with variables such as ${EXAMPLE}; or start the script by mpirun and unset ` +
    `${VARIABLES.join(", ")}.`;
}

/**
 * What the variables say.
 *
 * @throws {ConfigurationError} if one is missing or wrong.
 */
export function readPlace(): Place {
  const needed = environment("WORLD_SIZE") === "1" ? VARIABLES.slice(0, 2) : VARIABLES;
  const missing = needed.filter((name) => (environment(name) ?? "") === "");
  if (missing.length > 0) {
    const set = VARIABLES.filter((name) => !missing.includes(name));
    throw new ConfigurationError(
      `This process was started without MPI, as ${set.join(", ")} say${set.length === 1 ? "s" : ""}, but ` +
        `${missing.join(", ")} ${missing.length === 1 ? "is" : "are"} not set. ${howToSet()}`,
    );
  }
  const size = wholeNumber("WORLD_SIZE", 1, Infinity)!;
  const rank = wholeNumber("RANK", 0, size - 1)!;
  wholeNumber("LOCAL_RANK", 0, size - 1);
  const run = environment("TORCHELASTIC_RUN_ID");
  return {
    rank,
    size,
    host: environment("MASTER_ADDR") ?? "",
    ...portOf(),
    job: run === undefined ? "" : `${run}/${environment("TORCHELASTIC_RESTART_COUNT") ?? 0}`,
    seconds: wholeNumber("DISTMATH_JOIN_SECONDS", 1, 86400) ?? 300,
  };
}

/** The port: torchrun keeps MASTER_PORT for a store of its own. */
function portOf(): { port: number; portSource: string } {
  const own = wholeNumber("DISTMATH_PORT", 1, LARGEST_PORT);
  if (own !== null) return { port: own, portSource: "DISTMATH_PORT" };
  const given = wholeNumber("MASTER_PORT", 1, LARGEST_PORT) ?? 0;
  if (environment("TORCHELASTIC_USE_AGENT_STORE") !== "True") return { port: given, portSource: "MASTER_PORT" };
  return { port: given < LARGEST_PORT ? given + 1 : given - 1, portSource: "the one after MASTER_PORT" };
}
