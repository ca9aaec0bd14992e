/**
 * The MPI launcher: which `mpirun` to use, and the flags and variables that it needs.
 *
 * @module
 */
import { delimiter, dirname, join } from "node:path";
import { searchFolders } from "../../internals.ts";
import { cpuDamage, toMend } from "../native/install.ts";
import { CommandError, userPath } from "../terminal.ts";

/** Which family of launchers: Open MPI's `mpirun`, or MPICH's Hydra (also Intel MPI's). */
export type LauncherKind = "open_mpi" | "mpich";

export interface Launcher {
  /** The program, by absolute path. */
  path: string;
  kind: LauncherKind;
  /** The version it gives of itself, such as `5.0.11`. */
  version: string;
  source: string;
}

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
export const installHint = "to install one: deno task native install cpu";

/**
 * Read a launcher's family and version from what `--version` prints; `null` if it is neither Open MPI nor Hydra.
 */
export function parseLauncherVersion(text: string): { kind: LauncherKind; version: string } | null {
  const openMpi = /\((?:Open MPI|OpenRTE)\) (\d[\w.]*)/.exec(text);
  if (openMpi) return { kind: "open_mpi", version: openMpi[1] };
  const hydra = /HYDRA build details:\s+Version:\s+(\d[\w.]*)/.exec(text) ??
    /Intel\(R\) MPI Library.*Version (\d[\w.]*)/.exec(text);
  return hydra && { kind: "mpich", version: hydra[1] };
}

/** Ask a program which launcher it is; a reason, as text, when it is none that can be used. */
export async function identifyLauncher({ path, source }: Candidate): Promise<Launcher | string> {
  try {
    const { stdout, stderr } = await new Deno.Command(path, { args: ["--version"], stdin: "null" }).output();
    const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    const found = parseLauncherVersion(text);
    return found ? { path, source, ...found } : "it is neither Open MPI's nor MPICH's launcher";
  } catch (error) {
    return error instanceof Deno.errors.NotFound ? "there is no such file" : (error as Error).message;
  }
}

/** Every place to look, in the order in which libraries are searched. */
function candidates(): Candidate[] {
  const onPath = (Deno.env.get("PATH") ?? "").split(delimiter).filter(Boolean);
  return searchFolders().flatMap(({ path, source }) => {
    const folders = path === null ? onPath : [join(dirname(path), "bin")];
    return names.flatMap((name) =>
      folders.map((folder) => ({ path: join(folder, name), source: path === null ? "PATH" : source }))
    );
  });
}

/** All launchers on this machine, each once, in order of preference. */
export async function findLaunchers(): Promise<Launcher[]> {
  const seen = new Set<string>();
  const present = candidates().filter(({ path }) => {
    try {
      const real = Deno.realPathSync(path);
      return seen.has(real) ? false : seen.add(real);
    } catch {
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
  return answer;
}

/**
 * The launcher to use: the one that was named, else the first that is found.
 *
 * @throws {CommandError} when there is none, or what `native install` brought is damaged.
 */
export async function findLauncher(option?: string): Promise<Launcher> {
  const named = await namedLauncher(option);
  const damage = named ? null : cpuDamage();
  // Loading a library that was cut short kills the process.
  if (damage) throw new CommandError(`${damage}; ${toMend("cpu")}`, 1);
  const launcher = named ?? (await findLaunchers())[0];
  if (!launcher) throw new CommandError(`no MPI launcher (mpirun) was found; ${installHint}`, 1);
  return launcher;
}

/** A launcher for people: `Open MPI 5.0.11 (/…/bin/mpirun)`. */
export function describeLauncher({ kind, version, path }: Launcher): string {
  return `${kind === "open_mpi" ? "Open MPI" : "MPICH"} ${version} (${path})`;
}

/** Variables that ranks on other hosts need, when they are set here. Hydra passes all of them on by itself. */
const forwarded = /^(DISTMATH_|DENO_|OMP_|MKL_|OPENBLAS_|NO_COLOR$|FORCE_COLOR$|LD_LIBRARY_PATH$)/;

/**
 * The command line that starts `launch` under a launcher. A pure function of its arguments.
 */
export function commandLine(
  launcher: Launcher,
  launch: Launch,
  machine: { cores: number; isRoot: boolean; environment: Record<string, string> } = thisMachine(),
): CommandLine {
  const { ranks, hosts = [], tag = false, program } = launch;
  const yieldsWhenIdle = launch.yieldsWhenIdle || ranks > machine.cores;
  const env: Record<string, string> = { DENO_NO_UPDATE_CHECK: "1" };
  const args: string[] = [];
  if (launcher.kind === "open_mpi") {
    const isOld = isBeforeFive(launcher);
    if (machine.isRoot) Object.assign(env, { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" });
    if (isOld) env.OMPI_MCA_rmaps_base_oversubscribe = "1";
    else env.PRTE_MCA_rmaps_default_mapping_policy = ":oversubscribe";
    if (yieldsWhenIdle) env.OMPI_MCA_mpi_yield_when_idle = "1";
    // On one host, looking for networks costs a second at every start.
    if (hosts.length === 0) Object.assign(env, { OMPI_MCA_pml: "ob1", OMPI_MCA_btl: isOld ? "self,vader" : "self,sm" });
    // Threads of BLAS share one core if a rank is bound to it.
    args.push("--bind-to", "none");
    if (tag) args.push(...(isOld ? ["--tag-output"] : ["--output", "tag"]));
    if (hosts.length > 0) {
      args.push("--host", hosts.join(","));
      const set = Object.keys({ ...env, ...machine.environment, ...launch.env }).filter((name) => forwarded.test(name));
      args.push(...set.flatMap((name) => ["-x", name]));
    }
  } else {
    // Ranks that wait for each other would use up their time slices.
    if (yieldsWhenIdle) {
      env.MPIR_CVAR_ENABLE_HEAVY_YIELD = "1";
      env.MPIR_CVAR_CH4_PROGRESS_THROTTLE = "1";
      env.MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT = "100";
    }
    if (tag) args.push("-prepend-rank");
    if (hosts.length > 0) args.push("-hosts", hosts.join(","));
  }
  args.push("-n", String(ranks), ...program);
  const unset = Object.entries(env).filter(([name]) => !(name in machine.environment));
  return { command: launcher.path, args, env: { ...Object.fromEntries(unset), ...launch.env } };
}

function thisMachine(): { cores: number; isRoot: boolean; environment: Record<string, string> } {
  return { cores: navigator.hardwareConcurrency, isRoot: Deno.uid() === 0, environment: Deno.env.toObject() };
}

/**
 * Take a line of tagged output apart; `null` if the launcher itself wrote it.
 */
export function parseTag(line: string, launcher: Launcher): { rank: number; text: string } | null {
  if (launcher.kind === "mpich") {
    const hydra = /^\[(\d+)\] ?(.*)$/.exec(line);
    return hydra && { rank: Number(hydra[1]), text: hydra[2] };
  }
  // Open MPI 4.1 writes "[1,0]<stdout>:text", 5.0 "[1,0]<stdout>: text"; it repeats the tag in a line that comes in parts.
  const tag = isBeforeFive(launcher)
    ? /^(\[\d+,(\d+)\]<std(?:out|err)>:)(.*)$/
    : /^(\[\d+,(\d+)\]<std(?:out|err)>: )(.*)$/;
  const openMpi = tag.exec(line);
  return openMpi && { rank: Number(openMpi[2]), text: openMpi[3].replaceAll(openMpi[1], "") };
}

function isBeforeFive({ version }: Launcher): boolean {
  return Number.parseInt(version) < 5;
}

/** Whether ranks can share a core in reasonable time; those of MPICH 4.0 use up their time slices while they wait. */
export function canShareCores({ kind, version }: Launcher): boolean {
  return kind === "open_mpi" || Number.parseFloat(version) > 4.0;
}
