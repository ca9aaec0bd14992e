/**
 * The allocation of a batch system that this process runs in: which hosts, and how many ranks on each.
 *
 * @module
 */
import { hostname } from "node:os";
import { CommandError } from "../terminal.ts";

/** Hosts that a batch system has given to this job. */
export interface Allocation {
  /** Whose it is. */
  system: "Slurm" | "PBS" | "MPIJob";
  /** Hosts with their slots, such as `a:2`. */
  hosts: readonly string[];
}

/** Variables in which Kubeflow's MPI operator names the file of hosts, for Open MPI, MPICH and Intel MPI. */
const HOSTFILE_VARIABLES = [
  "PRTE_MCA_prte_default_hostfile",
  "OMPI_MCA_orte_default_hostfile",
  "HYDRA_HOST_FILE",
  "I_MPI_HYDRA_HOST_FILE",
];

/** Slurm's allocation that the variables tell of; `null` outside of any. */
export function findSlurmAllocation(environment: Readonly<Record<string, string>>): Allocation | null {
  const nodes = environment.SLURM_JOB_NODELIST || environment.SLURM_NODELIST;
  if (!environment.SLURM_JOB_ID || !nodes) return null;
  const slots = environment.SLURM_TASKS_PER_NODE || environment.SLURM_JOB_CPUS_PER_NODE || "1";
  return { system: "Slurm", hosts: slurmHosts(nodes, slots) };
}

/** The allocation that the variables tell of; `null` outside of any. */
export function findAllocation(
  environment: Readonly<Record<string, string>>,
  readFile: (path: string) => string = Deno.readTextFileSync,
): Allocation | null {
  const slurm = findSlurmAllocation(environment);
  if (slurm !== null) return slurm;
  if (environment.PBS_NODEFILE) {
    return { system: "PBS", hosts: parseHostfile(readFile(environment.PBS_NODEFILE), environment.PBS_NODEFILE) };
  }
  // By "none" Open MPI is told to read no file.
  const path = HOSTFILE_VARIABLES.map((name) => environment[name]).find((path) => path && path !== "none");
  return path === undefined ? null : { system: "MPIJob", hosts: parseHostfile(readFile(path), path) };
}

/** The hosts to start ranks on, none for this host alone. */
export function hostsOf({ hosts }: Allocation): readonly string[] {
  return hosts.length === 1 && isThisHost(nameOf(hosts[0])) ? [] : hosts;
}

/** Whether a name is that of this machine. */
export function isThisHost(name: string): boolean {
  const short = (text: string) => text.split(".")[0];
  return name === "localhost" || short(name) === short(hostname());
}

/** Whether a text is a host, perhaps with its slots: `a`, `a:2`. To launchers `a,b`, `^a` and `-a` are something else. */
export function isHost(text: string): boolean {
  return /^[^\s:=,^-][^\s:=,^]*(:[1-9]\d{0,9})?$/.test(text);
}

/** The name of a host, without its slots. */
export function nameOf(host: string): string {
  return host.replace(/:\d+$/, "");
}

/** How many ranks a host takes. */
export function slotsOf(host: string): number {
  return Number(/:(\d+)$/.exec(host)?.[1] ?? 1);
}

/** How many ranks hosts take together. */
export function countSlots(hosts: readonly string[]): number {
  return hosts.reduce((sum, host) => sum + slotsOf(host), 0);
}

/** The slots of each host where all have as many; `null` otherwise. */
export function evenSlots(hosts: readonly string[]): number | null {
  const [first, ...rest] = hosts.map(slotsOf);
  return rest.every((slots) => slots === first) ? first : null;
}

/** What a line in a file of hosts looks like. */
const HOST_LINES = 'a line is "a", "a:2" or "a slots=2"';

/** What Open MPI and Hydra have behind a host's name besides its slots. */
const OTHER_FIELD = /^(max[_-]slots|ifname|user|binding)=\S+$/;

/**
 * The hosts of a file: a line for each, with its slots as Open MPI (`a slots=2`) or MPICH (`a:2`) has them; a host that
 * comes several times, as in PBS's files, has a slot for each.
 */
export function parseHostfile(text: string, path: string): string[] {
  const lines = text.split("\n").map((line) => line.replace(/#.*/, "").trim()).filter(Boolean);
  if (lines.length === 0) throw new CommandError(`${path} names no hosts; ${HOST_LINES}`);
  return addUp(lines.map((line) => parseHostLine(line, path)));
}

function parseHostLine(line: string, path: string): string {
  const [host, ...fields] = line.replaceAll(/\s*=\s*/g, "=").split(/\s+/);
  const own = fields.filter((field) => !OTHER_FIELD.test(field));
  if (!isHost(host) || !own.every((field) => /^slots=[1-9]\d{0,9}$/.test(field))) {
    throw new CommandError(`${path}: "${line}" names no host; ${HOST_LINES}`);
  }
  const slots = own.map((field) => field.replace("slots=", ":"));
  if (slots.length > 1 || (slots.length > 0 && host.includes(":"))) {
    throw new CommandError(`${path}: "${line}" tells the slots twice; ${HOST_LINES}`);
  }
  return host + slots.join("");
}

/** Hosts with all of their slots: one that comes several times has them together. */
export function addUp(hosts: readonly string[]): string[] {
  const slots = new Map<string, number>();
  for (const host of hosts) slots.set(nameOf(host), (slots.get(nameOf(host)) ?? 0) + slotsOf(host));
  return [...slots].map(([name, count]) => `${name}:${count}`);
}

/** Slurm's short forms, such as `gpu[01-03,7],login` with `2(x3),1(x2)`, as hosts with slots. */
export function slurmHosts(nodes: string, slots: string): string[] {
  const counts = slots.split(",").flatMap((part) => {
    const [, count, times] = /^(\d+)(?:\(x(\d+)\))?$/.exec(part) ?? [];
    return Array.from({ length: Number(times ?? 1) }, () => Number(count ?? 1));
  });
  return splitList(nodes).flatMap(expand).map((name, i) => `${name}:${counts[i] ?? counts.at(-1)}`);
}

/** The parts between commas that stand in no brackets. */
function splitList(text: string): string[] {
  return text.match(/(?:[^,[]|\[[^\]]*\])+/g) ?? [];
}

/** `a[1-3,5]b` as `a1b`, `a2b`, `a3b`, `a5b`. */
function expand(pattern: string): string[] {
  const [, before, ranges, after] = /^([^[]*)\[([^\]]*)\](.*)$/.exec(pattern) ?? [];
  if (ranges === undefined) return [pattern];
  return ranges.split(",").flatMap(numbers).flatMap((number) => expand(after).map((rest) => before + number + rest));
}

/** `08-10` as `08`, `09`, `10`. */
function numbers(range: string): string[] {
  const [first, last = first] = range.split("-");
  return Array.from(
    { length: Number(last) - Number(first) + 1 },
    (_, i) => String(Number(first) + i).padStart(first.length, "0"),
  );
}
