/**
 * Standard input for rank 0, past launchers that pass it on badly: Open MPI 5's never tells its end, for which a rank waits
 * for ever (openpmix/prrte, issues 2220 and 2373); MPICH's ends the job where more comes than rank 0 reads at once, and never
 * tells the other ranks that they have none.
 *
 * @module
 */
import { type Launch, type Launcher, rankVariable } from "./launcher.ts";

/** What is empty on all hosts. Deno opens it where it was started without an input. */
const EMPTY = "/dev/null";

/** Has rank 0 open the input anew, where it can be opened, and leave out what was read before. Its end comes to all who have it open. */
const script = (rank: string) =>
  `input=$1; read=$2; shift 2; [ "$${rank}" = 0 ] || { input=${EMPTY}; read=0; }; ` +
  '{ true < "$input"; } 2>/dev/null || exec "$@"; exec < "$input"; [ "$read" = 0 ] || head -c "$read" >/dev/null; exec "$@"';

/** The program of a rank that opens this process's input by itself if it is rank 0; `null` where the launcher may pass it on. */
export function withOwnInput(launcher: Launcher, { program, hosts }: Launch): readonly string[] | null {
  const isBad = launcher.kind === "mpich" || (launcher.kind === "open_mpi" && Number.parseInt(launcher.version) >= 5);
  const input = isBad ? pathOfInput() : null;
  if (input === null || (hosts !== undefined && input !== EMPTY)) return null;
  return ["sh", "-c", script(rankVariable[launcher.kind]), "sh", input, String(bytesRead()), ...program];
}

/** How much of this process's input others have read, who had it before; 0 of what has no positions, as a pipe. */
function bytesRead(): number {
  return Number(/^pos:\s*(\d+)/m.exec(Deno.readTextFileSync("/proc/self/fdinfo/0"))?.[1] ?? 0);
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
