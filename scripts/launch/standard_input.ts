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

/** What is empty on all hosts. Deno opens it where it was started without an input. */
const EMPTY = "/dev/null";

/** The program of a rank that opens this process's input by itself if it is rank 0; `null` where the launcher may pass it on. */
export function withOwnInput(launcher: Launcher, { program, hosts }: Launch): readonly string[] | null {
  const isDeaf = launcher.kind === "open_mpi" && Number.parseInt(launcher.version) >= 5;
  const input = isDeaf ? pathOfInput() : null;
  if (input === null || (hosts !== undefined && input !== EMPTY)) return null;
  return ["sh", "-c", SCRIPT, "sh", input, ...program];
}

/** Where this process's input can be opened anew; `null` for others, and for a terminal, of which the launcher tells the end. */
function pathOfInput(): string | null {
  try {
    const path = Deno.readLinkSync("/proc/self/fd/0");
    if (path === EMPTY) return EMPTY;
    const { isFile, isCharDevice } = Deno.statSync("/proc/self/fd/0");
    // Opening a pipe with a name would wait for another writer.
    const isReadable = path.startsWith("pipe:") || isFile || (isCharDevice && !Deno.stdin.isTerminal());
    return isReadable ? `/proc/${Deno.pid}/fd/0` : null;
  } catch {
    return null;
  }
}
