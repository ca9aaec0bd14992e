/**
 * Where a job runs: the options that say so, and the allocation that it is in.
 *
 * @module
 */
import { CommandError, parseCount, parseSeconds, userPath } from "../terminal.ts";
import { addUp, countSlots, findAllocation, hostsOf, isHost, nameOf, parseHostfile, slotsOf } from "./allocation.ts";

/** Where a job runs, and for how long it may. */
export interface Place {
  /** Hosts with their slots; this host alone when left out. */
  hosts?: readonly string[];
  /** Whether these are the hosts of an allocation. */
  isAllocated?: boolean;
  /** The time limit. */
  timeoutSeconds?: number;
}

/** The options that {@linkcode parsePlace} reads. */
export const placeOptions = {
  hosts: { type: "string" },
  hostfile: { type: "string" },
  timeout: { type: "string" },
} as const;

/** What `--help` says of them, less the time limit. */
export const placeHelp =
  `  --hosts A:2,B:2    hosts with their slots; the allocation's, or this host alone, when left out
  --hostfile FILE    a file with a line for each host: "a", "a:2" or "a slots=2"`;

/** The values of {@linkcode placeOptions}. */
type PlaceValues = { [name in keyof typeof placeOptions]?: string | undefined };

/** Read `--hosts`, `--hostfile` and `--timeout`; the hosts are those of the allocation when none are named. */
export function parsePlace(values: PlaceValues, environment: Record<string, string> = Deno.env.toObject()): Place {
  const timeout = values.timeout === undefined ? {} : { timeoutSeconds: parseSeconds(values.timeout, "--timeout") };
  const named = namedHosts(values);
  if (named !== null) return { hosts: named, ...timeout };
  const allocation = readAllocation(environment);
  const hosts = allocation === null ? [] : hostsOf(allocation);
  return { ...hosts.length > 0 && { hosts, isAllocated: true }, ...timeout };
}

function namedHosts({ hosts, hostfile }: PlaceValues): string[] | null {
  if (hosts !== undefined && hostfile !== undefined) throw new CommandError("take --hosts or --hostfile, not both");
  if (hostfile !== undefined) {
    return withSlots(parseHostfile(readText(userPath(hostfile)), hostfile), `--hostfile ${hostfile}`);
  }
  if (hosts === undefined) return null;
  const names = hosts.split(",").map((host) => host.trim()).filter(Boolean);
  if (names.length === 0 || !names.every(isHost)) {
    throw new CommandError(`--hosts takes a list such as a:2,b:2, not "${hosts}"`);
  }
  return withSlots(new Set(names.map(nameOf)).size < names.length ? addUp(names) : names, `--hosts ${hosts}`);
}

/** Hosts that have as many slots as a job can have ranks. */
function withSlots<T extends readonly string[]>(hosts: T, source: string): T {
  const slots = countSlots(hosts);
  if (hosts.length > 0 && hosts.every((host) => slotsOf(host) > 0) && slots < 2 ** 31) return hosts;
  throw new CommandError(
    `${source}: there are ${slots} slots; each host has at least 1, and all together have fewer than 2^31; ` +
      "name others by --hosts",
  );
}

function readAllocation(environment: Record<string, string>) {
  const allocation = findAllocation(environment, readText);
  if (allocation !== null) withSlots(allocation.hosts, `the allocation of ${allocation.system}`);
  return allocation;
}

function readText(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch {
    throw new CommandError(`the file of hosts ${path} cannot be read`);
  }
}

/** The number of ranks: what was asked for, else the slots of the hosts that are named, or of the allocation, else 1. */
export function parseRanks(
  text: string | undefined,
  { hosts, isAllocated = false }: Place = {},
  environment: Record<string, string> = Deno.env.toObject(),
): number {
  if (text !== undefined) return parseCount(text, "-n");
  if (hosts !== undefined && !isAllocated) return countSlots(hosts);
  const allocation = readAllocation(environment);
  return allocation === null ? 1 : countSlots(allocation.hosts);
}
