/**
 * Standard input for rank 0, past launchers that pass it on badly: Open MPI 5's never tells its end, for which a rank waits
 * for ever (openpmix/prrte, issues 2220 and 2373); MPICH's ends the job where more comes than rank 0 reads at once, and never
 * tells the other ranks that they have none.
 *
 * @module
 */
import type { Launch, Launcher } from "./launcher.ts";

/** What is empty on all hosts. Deno opens it where it was started without an input. */
const EMPTY = "/dev/null";

/** Has rank 0 open the input anew, where it can be opened. Its end comes to all who have it open. */
const SCRIPT = `input=$1; shift; [ "\${OMPI_COMM_WORLD_RANK-$PMI_RANK}" = 0 ] || input=${EMPTY}; ` +
  '{ true < "$input"; } 2>/dev/null || exec "$@"; exec "$@" < "$input"';

/** The program of a rank that opens this process's input by itself if it is rank 0; `null` where the launcher may pass it on. */
export function withOwnInput(launcher: Launcher, { program, hosts }: Launch): readonly string[] | null {
  const isBad = launcher.kind === "mpich" || (launcher.kind === "open_mpi" && Number.parseInt(launcher.version) >= 5);
  const input = isBad ? pathOfInput() : null;
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
