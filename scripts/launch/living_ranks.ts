/**
 * Which ranks of a job live on this machine, also those that do not use distmath.
 *
 * @module
 */

import { allProcesses, readOfProcess } from "./processes.ts";

/** Where launchers tell a process its rank. */
const RANK = /(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)\0/;

/** Where they tell it how many ranks are on its machine. */
const RANKS_HERE = /(?:^|\0)(?:OMPI_COMM_WORLD_LOCAL_SIZE|MPI_LOCALNRANKS)=(\d+)\0/;

/** The rank of a process that has a variable of its job, and was started by the launcher; else `null`. */
function rankOf(process: string, variable: string): number | null {
  const environment = readOfProcess(process, "environ");
  const rank = environment.includes(variable) ? RANK.exec(environment) : null;
  if (rank === null) return null;
  // What a rank starts has its number, too, and may outlive it.
  const parent = readOfProcess(/^PPid:\s*(\d+)/m.exec(readOfProcess(process, "status"))?.[1] ?? "", "environ");
  return parent.includes(variable) && !RANK.test(parent) ? Number(rank[1]) : null;
}

/** Whether all ranks of a job live, and on this machine; `variable` is one that this job alone has, with its value. */
export function areAllAlive(variable: string, ranks: number): boolean {
  const alive = allProcesses().map((process) => rankOf(process, variable)).filter((rank) => rank !== null);
  return new Set(alive).size === ranks;
}

/**
 * The ranks of a job that have ended, and left no process that may be in their place. None if some are on other machines,
 * which the launcher may know by itself, or if none is to be seen.
 */
export function endedRanks(variable: string, ranks: number): number[] {
  const environments = allProcesses().map((process) => readOfProcess(process, "environ"))
    .filter((environment) => environment.includes(variable) && RANK.test(environment));
  const areAllHere = environments.every((environment) => Number(RANKS_HERE.exec(environment)?.[1]) === ranks);
  if (environments.length === 0 || !areAllHere) return [];
  const living = new Set(environments.map((environment) => Number(RANK.exec(environment)![1])));
  return Array.from({ length: ranks }, (_, rank) => rank).filter((rank) => !living.has(rank));
}
