/**
 * Which ranks of a job live on this machine, also those that do not use distmath.
 *
 * @module
 */
import { type LauncherKind, rankVariable } from "./launcher.ts";
import { allProcesses, readOfProcess } from "./processes.ts";

/** A variable whose value is a number, in the environment of a process. */
const numberIn = (name: string) => RegExp(String.raw`(?:^|\0)${name}=(\d+)\0`);

/** Where launchers tell a process its rank, and how many ranks are on its machine. */
const variables: Record<LauncherKind, { rank: RegExp; ranksHere: RegExp }> = {
  open_mpi: { rank: numberIn(rankVariable.open_mpi), ranksHere: numberIn("OMPI_COMM_WORLD_LOCAL_SIZE") },
  mpich: { rank: numberIn(rankVariable.mpich), ranksHere: numberIn("MPI_LOCALNRANKS") },
  // PMI's library tells a rank, and none how many are here.
  slurm: { rank: numberIn(rankVariable.mpich), ranksHere: numberIn("MPI_LOCALNRANKS") },
};

/** The rank of a process that has a variable of its job, and was started by the launcher; else `null`. */
function rankOf(process: string, kind: LauncherKind, variable: string): number | null {
  const environment = readOfProcess(process, "environ");
  const rank = environment.includes(variable) ? variables[kind].rank.exec(environment) : null;
  if (rank === null) return null;
  // What a rank starts has its number, too, and may outlive it.
  const parent = readOfProcess(/^PPid:\s*(\d+)/m.exec(readOfProcess(process, "status"))?.[1] ?? "", "environ");
  return parent.includes(variable) && !variables[kind].rank.test(parent) ? Number(rank[1]) : null;
}

/** Whether all ranks of a job live, and on this machine; `variable` is one that this job alone has, with its value. */
export function areAllAlive(kind: LauncherKind, variable: string, ranks: number): boolean {
  const alive = allProcesses().map((process) => rankOf(process, kind, variable)).filter((rank) => rank !== null);
  return new Set(alive).size === ranks;
}

/**
 * The ranks of a job that have ended, and left no process that may be in their place. None if some are on other machines,
 * which the launcher may know by itself, or if none is to be seen.
 */
export function endedRanks(kind: LauncherKind, variable: string, ranks: number): number[] {
  const { rank, ranksHere } = variables[kind];
  const environments = allProcesses().map((process) => readOfProcess(process, "environ"))
    .filter((environment) => environment.includes(variable) && rank.test(environment));
  const areAllHere = environments.every((environment) => Number(ranksHere.exec(environment)?.[1]) === ranks);
  if (environments.length === 0 || !areAllHere) return [];
  const living = new Set(environments.map((environment) => Number(rank.exec(environment)![1])));
  return Array.from({ length: ranks }, (_, rank) => rank).filter((rank) => !living.has(rank));
}
