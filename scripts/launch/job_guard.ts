/**
 * Ending a job whose command is no more, since one that is killed cannot do it, and removing what killed jobs have left.
 *
 * @module
 */
import { existsSync } from "node:fs";

/** Names of memory that ranks share while they start (`ffi/mpi/presence.ts`), by the launcher's process. */
const sharedFolder = "/dev/shm";
const sharedName = /^distmath\.(\d+)\./;

/** Remove the shared memory of jobs whose launcher is gone: their ranks were killed while they started. */
export function removeAbandonedMemory(): void {
  try {
    for (const { name } of Deno.readDirSync(sharedFolder)) {
      const [, launcher] = sharedName.exec(name) ?? [];
      if (launcher !== undefined && !existsSync(`/proc/${launcher}`)) Deno.removeSync(`${sharedFolder}/${name}`);
    }
  } catch {
    // It is another user's, or another command has just removed it.
  }
}

/** Names of the memory that ranks share while they run: of Open MPI 5 and 4, and of MPICH. */
const mpiName = /^(sm|vader)_segment\.|^mpich_(shm|vci)_/;

/**
 * Remove the memory that ranks of MPI have shared since a time, in milliseconds since 1970, and that no process has any
 * more: MPI itself leaves that of killed ranks. Memory that others are about to use is open or mapped in the process that
 * made it, which is looked at after the name was read. What is in use is looked at again for half a second: launchers may
 * end before the ranks that they have killed.
 */
export async function removeMemoryOfDead(since: number): Promise<void> {
  for (let look = 0; look < 6 && isInUseAfterRemoval(since); look++) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Remove what no process has; returns whether there is more. */
function isInUseAfterRemoval(since: number): boolean {
  try {
    const names = Array.from(Deno.readDirSync(sharedFolder), ({ name }) => name).filter((name) => mpiName.test(name));
    const left = new Set(names.map((name) => `${sharedFolder}/${name}`).filter((path) => isOwnSince(path, since)));
    const count = left.size;
    if (count === 0) return false;
    for (const { name: process } of Deno.readDirSync("/proc")) {
      if (/^\d+$/.test(process)) filesOf(process).forEach((path) => left.delete(path));
    }
    for (const path of left) Deno.removeSync(path);
    return left.size < count;
  } catch {
    // Another command has just removed it, or there is no such folder.
    return false;
  }
}

function isOwnSince(path: string, since: number): boolean {
  const { mtime, uid } = Deno.statSync(path);
  return uid === Deno.uid() && mtime !== null && mtime.getTime() >= since;
}

/** What a process has open or mapped in the folder of shared memory; nothing if it is another user's, or has ended. */
function filesOf(process: string): string[] {
  try {
    // In this order: memory is mapped while it is open.
    const open = Array.from(Deno.readDirSync(`/proc/${process}/fd`), ({ name }) => targetOf(process, name));
    const maps = Deno.readTextFileSync(`/proc/${process}/maps`).match(/\/dev\/shm\/\S+/g) ?? [];
    return [...open, ...maps];
  } catch {
    return [];
  }
}

function targetOf(process: string, file: string): string {
  try {
    return Deno.readLinkSync(`/proc/${process}/fd/${file}`);
  } catch {
    return "";
  }
}

/**
 * Waits for the end of its standard input, which the command holds open while it lives; then ends the launcher like
 * `endJob` does: asks it, and after a while kills it and all that it had started.
 */
const script = `
trap '' INT TERM HUP
read -r _
family=$1
grown=yes
while [ -n "$grown" ]; do
  grown=
  for stat in /proc/[0-9]*/stat; do
    read -r line < "$stat" || continue
    process=\${line%% *}
    set -- "$1" \${line##*) }
    case " $family " in *" $process "*) continue ;; esac
    case " $family " in *" $3 "*) family="$family $process"; grown=yes ;; esac
  done
done 2>/dev/null
kill -TERM "$1" 2>/dev/null
tenths=30
while [ $tenths -gt 0 ] && kill -0 "$1" 2>/dev/null; do sleep 0.1; tenths=$((tenths - 1)); done
kill -KILL $family 2>/dev/null
`;

/** Watch over a launcher until disposed of. */
export function guardJob(launcher: Deno.ChildProcess): AsyncDisposable {
  const guard = new Deno.Command("sh", {
    args: ["-c", script, "sh", String(launcher.pid)],
    stdin: "piped",
    stdout: "null",
    stderr: "null",
  }).spawn();
  return {
    async [Symbol.asyncDispose]() {
      guard.kill("SIGKILL");
      await guard.status;
      await guard.stdin.abort().catch(() => {});
    },
  };
}
