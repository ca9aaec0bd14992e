/**
 * Standard input for rank 0, past a launcher that never tells its end: Open MPI 5's passes on what comes, but a rank that
 * reads to the end waits for ever (openpmix/prrte, issues 2220 and 2373).
 *
 * @module
 */
import type { Launch, Launcher } from "./launcher.ts";

/** Has rank 0 open the input anew, where it can be opened. Its end comes to all who have it open. */
const SCRIPT = 'input=$1; shift; if [ "$OMPI_COMM_WORLD_RANK" = 0 ] && { true < "$input"; } 2>/dev/null; ' +
  'then exec "$@" < "$input"; fi; exec "$@"';

/** The program of a rank that opens this process's input by itself if it is rank 0; `null` where the launcher may pass it on. */
export function withOwnInput(launcher: Launcher, { program, hosts }: Launch): readonly string[] | null {
  const isDeaf = launcher.kind === "open_mpi" && Number.parseInt(launcher.version) >= 5;
  if (!isDeaf || hosts !== undefined || !canBeOpenedAnew()) return null;
  return ["sh", "-c", SCRIPT, "sh", `/proc/${Deno.pid}/fd/0`, ...program];
}

/** Whether this process's input is a pipe between processes or a file: of a terminal the launcher tells the end. */
function canBeOpenedAnew(): boolean {
  try {
    return Deno.readLinkSync("/proc/self/fd/0").startsWith("pipe:") || Deno.statSync("/proc/self/fd/0").isFile;
  } catch {
    return false;
  }
}
