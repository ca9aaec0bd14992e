/**
 * The processes of this machine, as /proc shows them.
 *
 * @module
 */

/** The numbers of all processes. */
export function allProcesses(): string[] {
  return Array.from(Deno.readDirSync("/proc"), ({ name }) => name).filter((name) => /^\d+$/.test(name));
}

/** A file that the kernel has of a process; empty of another user's, and of one that has ended. */
export function readOfProcess(process: number | string, file: "environ" | "status"): string {
  try {
    return Deno.readTextFileSync(`/proc/${process}/${file}`);
  } catch {
    return "";
  }
}
