/**
 * The MPI launcher: which `mpirun` to use, and the flags and variables that it needs.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { basename, delimiter, dirname, join } from "node:path";
import { searchFolders, taskCommand } from "../../internals.ts";
import { cpuDamage, toMend } from "../native/install.ts";
import { CommandError, userPath } from "../terminal.ts";
import { evenSlots, findSlurmAllocation, nameOf } from "./allocation.ts";
import { withoutColons } from "./shell.ts";

/** Which family of launchers: Open MPI's `mpirun`, MPICH's Hydra (also Intel MPI's), or Slurm's `srun`. */
export type LauncherKind = "open_mpi" | "mpich" | "slurm";

export interface Launcher {
  /** The program, by absolute path. */
  path: string;
  kind: LauncherKind;
  /** The version it gives of itself, such as `5.0.11`. */
  version: string;
  source: string;
  /** Whether it is Intel MPI's Hydra, which takes hosts in another way. */
  isIntel?: boolean;
  /** How ranks that `srun` starts find each other: what their MPI speaks. */
  pmi?: "pmix" | "pmi2";
}

/** Where each launcher tells a process its rank. One that a rank of another MPI starts leaves the variables of that. */
export const rankVariable: Record<LauncherKind, string> = {
  open_mpi: "OMPI_COMM_WORLD_RANK",
  mpich: "PMI_RANK",
  slurm: "SLURM_PROCID",
};

/** A place where a launcher may be. */
interface Candidate {
  path: string;
  source: string;
}

/** What to start on the ranks. */
export interface Launch {
  ranks: number;
  /** Hosts with their slots, such as `["a:2", "b:2"]`; this host alone when left out. */
  hosts?: readonly string[];
  /** Whether these are the hosts of the allocation, which `srun` knows by itself. */
  isAllocated?: boolean;
  /** Begin each line of output with its rank. */
  tag?: boolean;
  /** Let waiting ranks give way to others; always so where there are more ranks than cores. */
  yieldsWhenIdle?: boolean;
  /** More variables for the ranks. */
  env?: Record<string, string>;
  program: readonly string[];
}

/** A command line, and the variables to add to the environment. */
export interface CommandLine {
  command: string;
  args: string[];
  /** Variables to set: those of the launch, and the launcher's where the user has not set them. */
  env: Record<string, string>;
}

const names = ["mpirun", "mpiexec", "mpirun.openmpi", "mpirun.mpich"];

/** How an MPI comes onto a machine that has none. */
export const installHint = `to install one: ${taskCommand("native install cpu")}`;

/**
 * Read a launcher's family and version from what `--version` prints; `null` if it is none of those that are known.
 */
export function parseLauncherVersion(text: string): Pick<Launcher, "kind" | "version" | "isIntel"> | null {
  const openMpi = /\((?:Open MPI|OpenRTE)\) (\d[\w.]*)/.exec(text);
  if (openMpi) return { kind: "open_mpi", version: openMpi[1] };
  const slurm = /^slurm(?:-wlm)? (\d[\w.]*)/m.exec(text);
  if (slurm) return { kind: "slurm", version: slurm[1] };
  const intel = /Intel\(R\) MPI Library.*Version (\d[\w.]*)/.exec(text);
  if (intel) return { kind: "mpich", version: intel[1], isIntel: true };
  const hydra = /HYDRA build details:\s+Version:\s+(\d[\w.]*)/.exec(text);
  return hydra && { kind: "mpich", version: hydra[1] };
}

/** Ask a program which launcher it is; a reason, as text, when it is none that can be used. */
export async function identifyLauncher({ path, source }: Candidate): Promise<Launcher | string> {
  try {
    // A script, such as Intel MPI's mpirun, asks the first mpiexec.hydra of PATH, whosever that is.
    const env = path.includes("/") ? { PATH: `${dirname(path)}${delimiter}${Deno.env.get("PATH") ?? ""}` } : {};
    const { stdout, stderr } = await new Deno.Command(path, { args: ["--version"], stdin: "null", env }).output();
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    const found = parseLauncherVersion(text);
    return found
      ? { path: ownProgram(path, found), source, ...found }
      : "it is none of Open MPI's, MPICH's and Slurm's launchers";
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) throw error;
    return error instanceof Deno.errors.NotFound ? "there is no such file" : (error as Error).message;
  }
}

/** The program that a script such as Intel MPI's mpirun should start. */
function ownProgram(path: string, { isIntel }: Pick<Launcher, "isIntel">): string {
  const own = join(dirname(path), "mpiexec");
  return isIntel && existsSync(own) ? own : path;
}

/** Every place to look: beside the library that `DISTMATH_MPI` names, then in the order in which libraries are searched. */
function candidates(): Candidate[] {
  const onPath = (Deno.env.get("PATH") ?? "").split(delimiter).filter(Boolean);
  const library = Deno.env.get("DISTMATH_MPI");
  const named = library?.includes("/")
    ? [{ path: userPath(libraryFile.test(library) ? dirname(library) : library), source: "DISTMATH_MPI" }]
    : [];
  return [...named, ...searchFolders()].flatMap(({ path, source }) => {
    const folders = path === null ? onPath : [join(dirname(path), "bin")];
    return names.flatMap((name) =>
      folders.map((folder) => ({ path: join(folder, name), source: path === null ? "PATH" : source }))
    );
  });
}

const libraryFile = /\.so[.\d]*$/;

/** Whose library `DISTMATH_MPI` names, by its file's name; `null` if that does not tell. */
function namedFamily(): LauncherKind | null {
  const file = basename(Deno.env.get("DISTMATH_MPI") ?? "");
  if (/^libmpich\b|^libmpi\.so\.12\b/.test(file)) return "mpich";
  return /^libmpi\.so\.40\b/.test(file) ? "open_mpi" : null;
}

/** All launchers on this machine, each once, in order of preference. */
export async function findLaunchers(): Promise<Launcher[]> {
  const seen = new Set<string>();
  const present = candidates().filter(({ path }) => {
    try {
      const real = Deno.realPathSync(path);
      return seen.has(real) ? false : seen.add(real);
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) throw error;
      return false;
    }
  });
  const answers = await Promise.all(present.map(identifyLauncher));
  // Open MPI's and MPICH's mpiexec is another file than mpirun in some builds: one launcher a folder and family is enough.
  const kept = new Map<string, Launcher>();
  for (const answer of answers) {
    if (typeof answer === "string") continue;
    const key = `${dirname(answer.path)} ${answer.kind} ${answer.version}`;
    if (!kept.has(key)) kept.set(key, answer);
  }
  return [...kept.values()];
}

/** The launcher that the user named, by option or by `DISTMATH_MPIRUN`; `null` if none was named. */
export async function namedLauncher(option?: string): Promise<Launcher | null> {
  const name = option ?? Deno.env.get("DISTMATH_MPIRUN");
  if (!name) return null;
  const source = option === undefined ? "DISTMATH_MPIRUN" : "--mpirun";
  const onPath = name.includes("/") ? [] : (Deno.env.get("PATH") ?? "").split(delimiter);
  const named = onPath.map((folder) => join(folder, name)).find((file) => {
    try {
      return Deno.statSync(file).isFile;
    } catch {
      return false;
    }
  });
  const path = named ?? (name.includes("/") ? userPath(name) : name);
  const answer = await identifyLauncher({ path, source });
  if (typeof answer === "string") throw new CommandError(`${source} names ${name}, but ${answer}`);
  if (answer.kind !== "slurm") return answer;
  const [mpi] = await findLaunchers();
  if (!mpi) throw new CommandError(`srun starts ranks, but no MPI was found for them; ${installHint}`, 1);
  const srun = await connectSrun(answer, mpi);
  if (typeof srun === "string") throw new CommandError(srun, 1);
  return srun;
}

/** `srun` with the plugin by which ranks of an MPI find each other; a reason, as text, if it has none. */
async function connectSrun(srun: Launcher, mpi: Launcher): Promise<Launcher | string> {
  const pmi = mpi.kind === "open_mpi" ? "pmix" : "pmi2";
  const { stdout, stderr } = await new Deno.Command(srun.path, { args: ["--mpi=list"], stdin: "null" }).output();
  const plugins = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("\n");
  if (RegExp(`\\b${pmi}\\b`).test(plugins)) return { ...srun, pmi };
  return `${srun.path} has no plugin "${pmi}", by which the ranks of ${describeLauncher(mpi)} would find each other; ` +
    `--mpirun ${mpi.path} starts them in another way`;
}

/** The `srun` of the Slurm allocation that this process runs in, if it can start the ranks of an MPI. */
async function srunOfAllocation(mpi: Launcher): Promise<Launcher | null> {
  if (findSlurmAllocation(Deno.env.toObject()) === null) return null;
  const answer = await identifyLauncher({ path: "srun", source: "PATH" });
  if (typeof answer === "string" || answer.kind !== "slurm") return null;
  const srun = await connectSrun(answer, mpi);
  return typeof srun === "string" ? null : srun;
}

/**
 * The launcher to use: the one that was named, else the first that is found, of the family whose library `DISTMATH_MPI`
 * names; in an allocation of Slurm's `srun`, if it can start the ranks of that one's MPI.
 *
 * @throws {CommandError} when there is none, or what `native install` brought is damaged.
 */
export async function findLauncher(option?: string): Promise<Launcher> {
  const named = await namedLauncher(option);
  const damage = named ? null : cpuDamage();
  // Loading a library that was cut short kills the process.
  if (damage) throw new CommandError(`${damage}; ${toMend("cpu")}`, 1);
  const launcher = named ?? await firstLauncher();
  if (!launcher) throw new CommandError(`no MPI launcher (mpirun) was found; ${installHint}`, 1);
  return named ? launcher : await srunOfAllocation(launcher) ?? launcher;
}

async function firstLauncher(): Promise<Launcher | undefined> {
  const found = await findLaunchers();
  const family = namedFamily();
  return found.find(({ kind }) => family === null || kind === family) ?? found[0];
}

/** A launcher for people: `Open MPI 5.0.11 (/…/bin/mpirun)`. */
export function describeLauncher({ kind, version, path, isIntel }: Launcher): string {
  const name = isIntel ? "Intel MPI" : { open_mpi: "Open MPI", mpich: "MPICH", slurm: "Slurm" }[kind];
  return `${name} ${version} (${path})`;
}

/** Variables that ranks on other hosts need, when they are set here. Hydra passes all of them on by itself. */
const forwarded =
  /^(DISTMATH_|DENO_|OMP_|MKL_|OPENBLAS_|NCCL_|NVSHMEM_|UCX_|(NO_COLOR|FORCE_COLOR|LD_LIBRARY_PATH|XDG_CACHE_HOME)$)/;

/** Intel MPI's Hydra answers its daemon after that has ended a job, and dies of it where output keeps it busy. */
const withoutSigpipe = ["sh", "-c", `trap '' PIPE; exec "$0" "$@"`];

/**
 * The command line that starts `launch` under a launcher. A pure function of its arguments.
 */
export function commandLine(
  launcher: Launcher,
  launch: Launch,
  machine: Machine = thisMachine(),
): CommandLine {
  const { ranks, program } = launch;
  const { args, env } = { open_mpi: forOpenMpi, mpich: forHydra, slurm: forSrun }[launcher.kind](
    launcher,
    launch,
    machine,
  );
  const unset = Object.entries({ DENO_NO_UPDATE_CHECK: "1", ...env }).filter(([name]) =>
    !(name in machine.environment)
  );
  const [command, ...first] = launcher.isIntel ? [...withoutSigpipe, launcher.path] : [launcher.path];
  return {
    command,
    args: [...first, ...args, "-n", String(ranks), ...withoutColons(program)],
    env: { ...Object.fromEntries(unset), ...launch.env },
  };
}

/** What is known of the machine that jobs are started on. */
interface Machine {
  cores: number;
  isRoot: boolean;
  environment: Record<string, string>;
}

type Flags = Pick<CommandLine, "args" | "env">;

const yields = ({ ranks, yieldsWhenIdle }: Launch, { cores }: Machine) => yieldsWhenIdle || ranks > cores;

/** What has a launcher begin each part of a rank's output with the rank, for `tagged_output.ts` to read. */
export function tagFlags(launcher: Pick<Launcher, "kind" | "version">): string[] {
  if (launcher.kind === "slurm") return ["--label"];
  if (launcher.kind === "mpich") return ["-prepend-pattern", "<rank %r>:"];
  return isBeforeFive(launcher) ? ["--tag-output"] : ["--output", "tag"];
}

function forOpenMpi(launcher: Launcher, launch: Launch, machine: Machine): Flags {
  const { hosts = [], tag } = launch;
  const isOld = isBeforeFive(launcher);
  const env: Record<string, string> = {};
  if (machine.isRoot) Object.assign(env, { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" });
  if (isOld) env.OMPI_MCA_rmaps_base_oversubscribe = "1";
  else env.PRTE_MCA_rmaps_default_mapping_policy = ":oversubscribe";
  if (yields(launch, machine)) env.OMPI_MCA_mpi_yield_when_idle = "1";
  // On one host, looking for networks costs a second at every start.
  if (hosts.length === 0) Object.assign(env, { OMPI_MCA_pml: "ob1", OMPI_MCA_btl: isOld ? "self,vader" : "self,sm" });
  // Threads of BLAS share one core if a rank is bound to it.
  const args = ["--bind-to", "none"];
  if (tag) args.push(...tagFlags(launcher));
  if (hosts.length === 0) return { args, env };
  // A host that is cut off is missed after 9 seconds, not after 8 minutes.
  const prefix = `${isOld ? "OMPI" : "PRTE"}_MCA_oob_tcp_keepalive`;
  Object.assign(env, { [`${prefix}_time`]: "5", [`${prefix}_intvl`]: "1", [`${prefix}_probes`]: "4" });
  const names = Object.keys({ DENO_NO_UPDATE_CHECK: "1", ...env, ...machine.environment })
    .filter((name) => forwarded.test(name));
  const set = new Set([...names, ...Object.keys(launch.env ?? {})]);
  return { args: [...args, "--host", hosts.join(","), ...[...set].flatMap((name) => ["-x", name])], env };
}

function forHydra(launcher: Launcher, launch: Launch, machine: Machine): Flags {
  const { hosts = [], tag } = launch;
  const { isIntel } = launcher;
  const args = tag ? tagFlags(launcher) : [];
  if (hosts.length > 0) args.push("-hosts", (isIntel ? hosts.map(nameOf) : hosts).join(","));
  // Intel MPI takes no slots.
  if (hosts.length > 0 && isIntel) args.push("-ppn", String(needEvenSlots(hosts, "Intel MPI")));
  if (!yields(launch, machine)) return { args, env: {} };
  // Ranks that wait for each other would use up their time slices.
  const env = {
    MPIR_CVAR_ENABLE_HEAVY_YIELD: "1",
    MPIR_CVAR_CH4_PROGRESS_THROTTLE: "1",
    MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT: "100",
  };
  return { args, env };
}

function forSrun(
  launcher: Launcher,
  { hosts = [], isAllocated = false, tag }: Launch,
  { environment }: Machine,
): Flags {
  const { pmi } = launcher;
  const args = [`--mpi=${pmi}`, "--cpu-bind=none", "--kill-on-bad-exit=1"];
  // As of jobs for which sbatch was told to export nothing.
  if (environment.SLURM_EXPORT_ENV !== undefined) args.push("--export=ALL");
  if (tag) args.push(...tagFlags(launcher));
  if (hosts.length > 0 && !isAllocated) {
    args.push(`--nodelist=${hosts.map(nameOf).join(",")}`, `--ntasks-per-node=${needEvenSlots(hosts, "srun")}`);
  }
  // A shell that srun itself has started holds the CPUs that the ranks are to have.
  return { args, env: environment.SLURM_STEP_ID === undefined ? {} : { SLURM_OVERLAP: "1" } };
}

function needEvenSlots(hosts: readonly string[], who: string): number {
  const slots = evenSlots(hosts);
  if (slots !== null) return slots;
  throw new CommandError(`${who} takes the same number of slots on each host, not ${hosts.join(",")}`);
}

function thisMachine(): Machine {
  return { cores: navigator.hardwareConcurrency, isRoot: Deno.uid() === 0, environment: Deno.env.toObject() };
}

function isBeforeFive({ version }: Pick<Launcher, "version">): boolean {
  return Number.parseInt(version) < 5;
}

/** Whether ranks can share a core in reasonable time; those of MPICH 4.0 use up their time slices while they wait. */
export function canShareCores({ kind, version }: Launcher): boolean {
  return kind !== "mpich" || Number.parseFloat(version) > 4.0;
}
