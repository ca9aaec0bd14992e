/**
 * How many threads a rank's BLAS may use: its share of the cores that the launcher left it.
 *
 * @module
 */
import { taskCommand } from "../../ffi/task_command.ts";

/** Where the ranks of a job run. */
export interface Placement {
  /** For each rank the cores that it may run on, as text; the same text for the same cores. */
  masks: readonly string[];
  rank: number;
  /** The number of ranks on this machine. */
  localSize: number;
  /** The number of cores that this rank may use. */
  cores: number;
}

/**
 * The cores that this rank may use, divided by the ranks that may use the same ones: those on its own machine, which are
 * as many as on any other.
 */
export function threadsOf({ masks, rank, localSize, cores }: Placement): number {
  const alike = masks.filter((mask) => mask === masks[rank]).length;
  const sharers = Math.max(1, Math.round(alike * localSize / masks.length));
  return Math.max(1, Math.floor(cores / sharers));
}

/** What to tell the user when the launcher has bound the ranks to at most half of the machine; `null` otherwise. */
export function bindingWarning(placement: Placement, machineCores: number, bindsByDefault: boolean): string | null {
  const { masks, localSize, cores } = placement;
  const isBound = new Set(masks).size > 1 || localSize === 1 && bindsByDefault;
  if (!isBound || 2 * localSize * threadsOf(placement) > machineCores) return null;
  const ranks = localSize === 1 ? "the rank of this machine is" : `each of the ${localSize} ranks of this machine is`;
  return `${ranks} bound to ${cores} of its ${machineCores} cores, so that half of them or more stay idle. ` +
    `Start by "mpirun --bind-to none …" or by "${taskCommand("run")}", which does not bind.`;
}
