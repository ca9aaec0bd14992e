/**
 * Which ranks of a job live on this machine, also those that do not use distmath.
 *
 * @module
 */

/** Where launchers tell a process its rank. */
const RANK = /(?:^|\0)(?:OMPI_COMM_WORLD_RANK|PMI_RANK)=(\d+)\0/;

function read(process: string, file: string): string {
  try {
    return Deno.readTextFileSync(`/proc/${process}/${file}`);
  } catch {
    return ""; // It is another user's, or has ended.
  }
}

/** The rank of a process that has a variable of its job, and was started by the launcher; else `null`. */
function rankOf(process: string, variable: string): number | null {
  const environment = read(process, "environ");
  const rank = environment.includes(variable) ? RANK.exec(environment) : null;
  if (rank === null) return null;
  // What a rank starts has its number, too, and may outlive it.
  const parent = read(/^PPid:\s*(\d+)/m.exec(read(process, "status"))?.[1] ?? "", "environ");
  return parent.includes(variable) && !RANK.test(parent) ? Number(rank[1]) : null;
}

/** Whether all ranks of a job live, and on this machine; `variable` is one that this job alone has, with its value. */
export function areAllAlive(variable: string, ranks: number): boolean {
  const processes = Array.from(Deno.readDirSync("/proc"), ({ name }) => name).filter((name) => /^\d+$/.test(name));
  const alive = processes.map((process) => rankOf(process, variable)).filter((rank) => rank !== null);
  return new Set(alive).size === ranks;
}
