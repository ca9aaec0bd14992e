/**
 * The MPI installations of this machine that tests run under: those on PATH, those in the folders of
 * `DISTMATH_TEST_PREFIXES` (separated by colons, each with `bin/mpirun` and `lib`), and that of `native install`.
 */
import { existsSync, realpathSync } from "node:fs";
import { nativePrefix } from "../ffi/library.ts";
import { removeFilesOfDead } from "../scripts/launch/abandoned_files.ts";
import { tagFlags } from "../scripts/launch/launcher.ts";
import { TaggedLines } from "../scripts/launch/tagged_output.ts";
import { Leavings, slowdown } from "./leavings.ts";

export { slowdown, whyNoMounts } from "./leavings.ts";

/** An MPI that can start jobs here. */
export interface MpiInstallation {
  /** Such as `MPICH 5`. */
  name: string;
  /** Whose it is. */
  family: "open_mpi" | "mpich";
  /** Its major release. */
  release: number;
  /** The launcher. */
  mpirun: string;
  /** What to set for the launcher: root, more ranks than cores, a fast start. */
  environment: Record<string, string>;
  /** The folder with its library, if it is not one of the system's. */
  libraryPath: string | null;
}

/** How a job ended. */
export interface JobResult {
  /** The launcher's exit code; 124 if the time limit ended it. */
  code: number;
  /** Everything that the ranks and the launcher printed, in whole lines of one of them. */
  output: string;
  /** When it ended, in milliseconds since 1970. */
  endedAt: number;
  /** The number of the process that was started: the launcher's, where there was one. */
  pid: number;
  /** What the job has left on this machine: processes, and names of memory by which its ranks found each other. */
  left: string[];
  /** The names of memory among it that `run` would not remove either; left out, nobody has looked. */
  stays?: string[];
}

/** The installations that a complete test run has. */
const EXPECTED = ["Open MPI 4", "Open MPI 5", "MPICH 4", "MPICH 5", "MPI standard ABI"];

const OPEN_MPI_ENVIRONMENT = {
  OMPI_ALLOW_RUN_AS_ROOT: "1",
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1",
  OMPI_MCA_rmaps_base_oversubscribe: "1",
  PRTE_MCA_rmaps_default_mapping_policy: ":oversubscribe",
  OMPI_MCA_mpi_yield_when_idle: "1",
  OMPI_MCA_pml: "ob1",
  // Jobs run side by side: bound to cores, the ranks of all of them would share the first ones.
  OMPI_MCA_hwloc_base_binding_policy: "none",
  PRTE_MCA_hwloc_default_binding_policy: "none",
};

/** Ranks that wait would use up their time slices, and are more than there are cores: as `run` sets it. */
const MPICH_ENVIRONMENT = {
  MPIR_CVAR_ENABLE_HEAVY_YIELD: "1",
  MPIR_CVAR_CH4_PROGRESS_THROTTLE: "1",
  MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT: "100",
};

function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** The installation behind a launcher; `null` if it is none. */
function identify(mpirun: string): MpiInstallation | null {
  let version: string;
  try {
    version = decode(new Deno.Command(mpirun, { args: ["--version"], stderr: "null" }).outputSync().stdout);
  } catch {
    return null;
  }
  const prefix = realpathSync(mpirun).replace(/\/bin\/[^/]*$/, "");
  const libraryPath = prefix === "/usr" ? null : `${prefix}/lib`;
  const openMpi = /Open MPI\) (\d+)/.exec(version);
  if (openMpi) {
    const release = Number(openMpi[1]);
    const environment = { ...OPEN_MPI_ENVIRONMENT, OMPI_MCA_btl: release === 4 ? "self,vader" : "self,sm" };
    return { name: `Open MPI ${release}`, family: "open_mpi", release, mpirun, environment, libraryPath };
  }
  if (version.includes("Intel(R) MPI Library")) {
    // It is built on MPICH 4.
    const [name, release] = ["Intel MPI", 4];
    return { name, family: "mpich", release, mpirun, environment: MPICH_ENVIRONMENT, libraryPath };
  }
  const mpich = /HYDRA[^]*Version:\s+(\d+)/.exec(version);
  if (!mpich) return null;
  const release = Number(mpich[1]);
  return { name: `MPICH ${release}`, family: "mpich", release, mpirun, environment: MPICH_ENVIRONMENT, libraryPath };
}

function launchersOnPath(): string[] {
  const folders = (Deno.env.get("PATH") ?? "").split(":");
  return ["mpirun.openmpi", "mpirun.mpich", "mpirun"].flatMap((name) =>
    folders.map((folder) => `${folder}/${name}`).filter((path) => existsSync(path)).slice(0, 1)
  );
}

function launchersInPrefixes(): string[] {
  const prefixes = (Deno.env.get("DISTMATH_TEST_PREFIXES") ?? "").split(":").filter((prefix) => prefix !== "");
  const native = nativePrefix();
  return [...prefixes, ...(native ? [`${native}/cpu`] : [])].map(launcherIn).filter((path) => existsSync(path));
}

/** Intel MPI's mpirun is a script that takes the mpiexec.hydra of PATH, whosever it is. */
function launcherIn(prefix: string): string {
  return `${prefix}/bin/${existsSync(`${prefix}/bin/impi_info`) ? "mpiexec" : "mpirun"}`;
}

/** The standard ABI is a second library beside MPICH 5's own. */
function standardAbi(found: readonly MpiInstallation[]): MpiInstallation[] {
  for (const installation of found) {
    const library = `${installation.libraryPath}/libmpi_abi.so.1`;
    if (installation.libraryPath === null || !existsSync(library)) continue;
    return [{
      ...installation,
      name: "MPI standard ABI",
      environment: { ...installation.environment, DISTMATH_MPI: library },
    }];
  }
  return [];
}

function discover(): MpiInstallation[] {
  const found = new Map<string, MpiInstallation>();
  for (const mpirun of [...launchersOnPath(), ...launchersInPrefixes()]) {
    const installation = identify(mpirun);
    if (installation && !found.has(installation.name)) found.set(installation.name, installation);
  }
  return [...found.values(), ...standardAbi([...found.values()])];
}

/** What was found, one of each kind. */
export const mpiInstallations: readonly MpiInstallation[] = discover();

/** One for each launcher: programs for the standard ABI are started by MPICH's. */
export const launchers: readonly MpiInstallation[] = mpiInstallations.filter(({ name }) => name !== "MPI standard ABI");

/** The newest of each family, for what differs between launchers little if at all. */
export const newestLaunchers: readonly MpiInstallation[] = launchers.filter(({ family, release }) =>
  !launchers.some((other) => other.family === family && other.release > release)
);

/** What is missing, and why. */
export const missingMpis: readonly { name: string; reason: string }[] = EXPECTED
  .filter((name) => !mpiInstallations.some((installation) => installation.name === name))
  .map((name) => ({
    name,
    reason: "no mpirun of it on PATH, in DISTMATH_TEST_PREFIXES or in native install's prefix",
  }));

const machine = Deno.build.arch === "aarch64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";

/** The name of an installation's library. */
const LIBRARY_FILES: Record<string, string> = {
  "Open MPI 4": "libmpi.so.40",
  "Open MPI 5": "libmpi.so.40",
  "MPICH 4": "libmpich.so.12",
  "MPICH 5": "libmpi.so.12",
  "Intel MPI": "libmpi.so.12",
};

/** The file of an installation's library, for DISTMATH_MPI. */
export function libraryFile({ name, libraryPath, environment }: MpiInstallation): string {
  return environment.DISTMATH_MPI ?? `${libraryPath ?? `/usr/lib/${machine}`}/${LIBRARY_FILES[name]}`;
}

/** The environment of a new job: without what an outer job or a developer has set. */
function jobEnvironment(extra: Record<string, string>): Record<string, string> {
  const isForeign = /^(OMPI_|PMI|PMIX_|PRTE_|HYDRA_|MPI_LOCAL|DISTMATH_MPI$|DISTMATH_LIBRARY_PATH$)/;
  const own = Object.entries(Deno.env.toObject()).filter(([name]) => !isForeign.test(name));
  return { ...Object.fromEntries(own), NO_COLOR: "1", ...extra };
}

/** How a job is run. */
interface JobOptions {
  /** The job is killed after as long, or later on a busy machine; 120 when left out, which no job takes that ends by itself. */
  seconds?: number;
  /** What is set beside the installation's own environment. */
  environment?: Record<string, string>;
}

/** Run `deno` with these arguments on several ranks. */
export function runJob(
  mpi: MpiInstallation,
  ranks: number,
  denoArguments: readonly string[],
  options: JobOptions = {},
): Promise<JobResult> {
  return runPrograms(mpi, [{ ranks, command: [Deno.execPath(), ...denoArguments] }], options);
}

/** Run programs side by side in one job: the ranks of each in turn. */
export function runPrograms(
  mpi: MpiInstallation,
  programs: readonly { ranks: number; command: readonly string[] }[],
  options: JobOptions = {},
): Promise<JobResult> {
  const launcher = { kind: mpi.family, version: String(mpi.release) };
  const args = programs.flatMap(({ ranks, command }, i) => [...i > 0 ? [":"] : [], "-n", String(ranks), ...command]);
  const wholeLines = (output: string) =>
    joinLines(new TaggedLines(launcher, programs.reduce((sum, { ranks }) => sum + ranks, 0)), output);
  return runProgram(mpi, mpi.mpirun, [...tagFlags(launcher), ...args], options, wholeLines);
}

/** What each rank wrote in whole lines: launchers pass on parts of them, between which there may be those of others. */
function joinLines(tagged: TaggedLines, output: string): string {
  if (output === "") return "";
  const lines = output.replace(/\n$/, "").split("\n").flatMap((line) => tagged.push(line));
  return [...lines, ...tagged.end()].map(({ text }) => `${text}\n`).join("");
}

/** Run `deno` with these arguments without a launcher. */
export function runAlone(
  mpi: MpiInstallation,
  denoArguments: readonly string[],
  options: JobOptions = {},
): Promise<JobResult> {
  return runProgram(mpi, Deno.execPath(), denoArguments, options);
}

async function runProgram(
  mpi: MpiInstallation,
  program: string,
  args: readonly string[],
  { seconds = 120, environment = {} }: JobOptions,
  read: (output: string) => string = (output) => output,
): Promise<JobResult> {
  const startedAt = Date.now();
  using leavings = new Leavings();
  const [starter, itsArguments] = leavings.command(program, args);
  const child = new Deno.Command(starter, {
    args: itsArguments,
    env: jobEnvironment({ ...mpi.environment, ...environment, ...leavings.environment }),
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  let hasTimedOut = false;
  const end = (signal: Deno.Signal) => () => {
    hasTimedOut = true;
    try {
      child.kill(signal);
    } catch {
      // It has ended in the meantime.
    }
  };
  const limit = seconds * slowdown() * 1000;
  const timers = [setTimeout(end("SIGTERM"), limit), setTimeout(end("SIGKILL"), limit + 5000)];
  const { code, stdout, stderr } = await child.output();
  for (const timer of timers) clearTimeout(timer);
  const endedAt = Date.now();
  const left = await leavings.left([child.pid]);
  if (code !== 0) await removeFilesOfDead(startedAt, { shared: leavings.memoryFolder, temporary: "/tmp" });
  return {
    code: hasTimedOut ? 124 : code,
    output: read(decode(stdout)) + read(decode(stderr)),
    endedAt,
    pid: child.pid,
    left,
    stays: left.length === 0 ? [] : leavings.memory([child.pid]),
  };
}

/** Why an MPI multiplies no matrices that ranks share; null if it does. */
export function whyNoScalapack({ name }: MpiInstallation): string | null {
  return name === "MPI standard ABI" ? "no ScaLAPACK exists for it" : null;
}

/**
 * Register a test for each MPI. One that this machine lacks is an ignored test whose name says why, so that it is counted;
 * so are those if the machine, or an MPI, lacks something else, which `lacks` tells.
 */
export function testUnderEveryMpi(
  name: string,
  body: (mpi: MpiInstallation) => Promise<void>,
  lacks: string | null | ((mpi: MpiInstallation) => string | null) = null,
): void {
  for (const mpi of mpiInstallations) {
    const reason = typeof lacks === "function" ? lacks(mpi) : lacks;
    const skipped = reason === null ? "" : ` (skipped: ${reason})`;
    Deno.test({ name: `${name} [${mpi.name}]${skipped}`, ignore: reason !== null, fn: () => body(mpi) });
  }
  // What the machine lacks is told in the report; with it the test runs, above.
  for (const { name: mpi, reason } of missingMpis) {
    Deno.test({ name: `${name} [${mpi}] (skipped: ${reason})`, ignore: true, fn: () => {} });
  }
}
