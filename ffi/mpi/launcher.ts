/**
 * Who started this process: mpirun and its relatives tell each process its rank through environment variables.
 *
 * @module
 */
import { environment } from "../library.ts";
import { hasPlace, isSet } from "../tcp/place.ts";

/** The program that started this process as one of several ranks. */
export interface Launcher {
  /**
   * The family: Open MPI's mpirun, Hydra (MPICH, Intel MPI, MVAPICH), Slurm's srun, or torchrun and whoever else starts jobs
   * without MPI.
   */
  kind: "open_mpi" | "mpich" | "slurm" | "torch";
  /** The launcher's own release number, as far as it can be known: 4 or 5 for Open MPI, else `null`. */
  release: number | null;
  /** The rank that the launcher gave to this process. */
  rank: number;
  /** The number of processes that it started. */
  size: number;
  /** The number of this process among those on the same machine. */
  localRank: number | null;
  /** The number of processes on the same machine. */
  localSize: number | null;
}

function integer(name: string | undefined): number | null {
  const text = name === undefined ? undefined : environment(name);
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : null;
}

/** The environment variables of each launcher; of Slurm's, those that tell the place on this machine are read apart. */
const VARIABLES:
  readonly (readonly [Launcher["kind"], rank: string, size: string, localRank?: string, localSize?: string])[] = [
    [
      "open_mpi",
      "OMPI_COMM_WORLD_RANK",
      "OMPI_COMM_WORLD_SIZE",
      "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE",
    ],
    ["mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"],
    ["slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"],
    ["torch", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"],
  ];

/** What tells that MPI's launcher has started this process, or a srun that speaks to MPI. */
const MPI_VARIABLES = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];

/**
 * Whether this process belongs to a job that was started without MPI. torchrun may have been started by MPI's launcher; on
 * the other hand variables for torch may be set in jobs of MPI.
 */
export function isWithoutMpi(): boolean {
  return isSet("TORCHELASTIC_RUN_ID") || (!MPI_VARIABLES.some(isSet) && hasPlace());
}

/**
 * The launcher as the environment describes it; `null` for a process that was started on its own.
 *
 * @example
 * ```ts
 * import { launcher } from "@distmath/distmath/internals";
 * console.log(launcher()?.size ?? "started without mpirun");
 * ```
 */
export function launcher(): Launcher | null {
  const isTorch = isWithoutMpi();
  for (const [kind, rankName, sizeName, localRankName, localSizeName] of VARIABLES) {
    if (isTorch !== (kind === "torch")) continue;
    const rank = integer(rankName);
    const size = integer(sizeName);
    if (rank === null || size === null) continue;
    const release = kind === "open_mpi" ? Number.parseInt(environment("OMPI_VERSION") ?? "4") : null;
    const onSlurm = isTorch ? null : placeOnSlurmNode();
    return {
      kind,
      release,
      rank,
      size,
      localRank: integer(localRankName) ?? onSlurm?.rank ?? null,
      localSize: integer(localSizeName) ?? onSlurm?.size ?? null,
    };
  }
  return null;
}

/**
 * The place on this machine as srun tells it, also to ranks of MPICH, to which its plugin for PMI tells only the place in
 * the job. `2(x3),1` are the numbers of ranks on four machines.
 */
function placeOnSlurmNode(): { rank: number | null; size: number | null } {
  const sizes = environment("SLURM_STEP_TASKS_PER_NODE")?.split(",").flatMap((part) => {
    const [, size, times = "1"] = /^(\d+)(?:\(x(\d+)\))?$/.exec(part) ?? [];
    return Array.from({ length: Number(times) }, () => Number(size));
  });
  return { rank: integer("SLURM_LOCALID"), size: sizes?.[integer("SLURM_NODEID") ?? 0] ?? null };
}

const LAUNCHERS = new Set([
  "mpirun",
  "mpiexec",
  "mpiexec.hydra",
  "hydra_pmi_proxy",
  "orterun",
  "orted",
  "prterun",
  "prte",
  "prted",
]);
const MAXIMUM_DEPTH = 8;

/** The folder that holds the launcher's program, read from /proc (which needs `-A`); `null` if it cannot be known. */
function programFolder(): string | null {
  try {
    for (let process = String(Deno.ppid), depth = 0; depth < MAXIMUM_DEPTH && process !== "1"; depth++) {
      const [, folder, name] = /^(.*)\/([^/]*)$/.exec(Deno.readLinkSync(`/proc/${process}/exe`)) ?? [];
      if (LAUNCHERS.has(name)) return folder;
      process = /^PPid:\s*(\d+)/m.exec(Deno.readTextFileSync(`/proc/${process}/status`))?.[1] ?? "1";
    }
  } catch {
    // Not permitted, or not readable: the ordinary search has to do.
  }
  return null;
}

/** The folders with the launcher's own libraries, most certain first. */
export function launcherLibraryFolders(): string[] {
  const explicit = environment("OMPI_LIBDIR_LOC");
  if (explicit) return [explicit];
  const prefix = programFolder()?.replace(/\/[^/]*$/, "");
  if (prefix === undefined) return [];
  const machine = Deno.build.arch === "aarch64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  return [`${prefix}/lib`, `${prefix}/lib/${machine}`, `${prefix}/lib64`];
}
