/**
 * Removing the shared memory and the folders that killed processes have left. Only what belongs to this user, and to no
 * process any more.
 *
 * @module
 */
import { isHeld } from "../../internals.ts";

/**
 * Names with the number of a process, at whose end they lose their sense: the launcher, of what ranks share while they
 * start (`ffi/mpi/presence.ts`); the rank, of the folder of its memory (`ffi/mpi/segment_folder.ts`); that in which
 * Intel's OpenMP has noted that it runs.
 */
const nameOfProcess = /^(?:distmath(?:_sm)?\.|__KMP_REGISTERED_LIB_)(\d+)[._]/;

/**
 * Folders of Open MPI 5's launchers, named by the process. One that is left of a killed launcher stops the next launcher
 * that is given the same number: "The PMIx server's listener thread failed to start".
 */
const nameOfSession = /^(?:ompi|prted)\.(\d+)$/;

/** Names of the memory that ranks share while they run: of Open MPI 5 and 4, of MPICH, of UCX, which it uses, and Intel's. */
const nameOfMpi = /^(sm|vader)_segment\.|^mpich_(shm|vci)_|^mpich_shar_tmp|^ucx_shm_posix_|^Intel_MPI_\w+$/;

/** Names of what MPICH 5's launcher has for ranks that start, and has open meanwhile. */
const nameOfTopology = /^hydra_hwloc_xmlfile_\w+$/;

/**
 * What nobody has for as long was left by a job that was not started by a command, or whose command was killed. Ranks find
 * each other's memory by its name while they start: a job that is hidden from us works on without it.
 */
const abandonedMilliseconds = 60_000;

/** The folders of shared memory, and of the files of MPICH's launcher. */
const usual = { shared: "/dev/shm", temporary: "/tmp" };

/** Remove what earlier jobs have left. */
export function removeAbandonedFiles(folders = usual): void {
  removeNamesOfDead(folders.shared, 0);
  removeUnused(folders, 0, Date.now() - abandonedMilliseconds);
}

/**
 * Remove what a job has left that began at this time, in milliseconds since 1970: MPI itself leaves the memory of killed
 * ranks. What is in use is looked at again for half a second: launchers may end before the ranks that they have killed.
 */
export async function removeFilesOfDead(since: number, folders = usual): Promise<void> {
  for (let look = 0; look < 6; look++) {
    const isMore = [removeNamesOfDead(folders.shared, since), removeUnused(folders, since, Infinity)];
    if (!isMore.includes(true)) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

/** Remove names of processes that are no more; returns whether there are others. */
function removeNamesOfDead(shared: string, since: number): boolean {
  const left = [...own(shared, nameOfProcess, since, Infinity), ...ownSessions(since)];
  const ofDead = left.filter(([path, [, process]]) => !isAlive(process) && !isHeld(path));
  for (const [path] of ofDead) remove(path);
  return ofDead.length < left.length;
}

/** Whether a process is there, as far as this container sees, and has not ended without that its parent has taken notice. */
function isAlive(process: string): boolean {
  const status = attempt(() => Deno.readTextFileSync(`/proc/${process}/status`));
  return status !== null && !/^State:\s+Z/m.test(status);
}

/**
 * Remove MPI's memory, and files, of a time that no process has; returns whether there is more. Memory that others are
 * about to use is open or mapped in the process that made it, which is looked at after the name was read.
 */
function removeUnused({ shared, temporary }: typeof usual, from: number, to: number): boolean {
  const left = new Set(
    [...own(shared, nameOfMpi, from, to), ...own(temporary, nameOfTopology, from, to)].map(([path]) => path),
  );
  const count = left.size;
  if (count === 0) return false;
  for (const process of names("/proc").filter((name) => /^\d+$/.test(name))) {
    filesOf(process).forEach((path) => left.delete(path));
  }
  left.forEach(remove);
  return left.size < count;
}

/** Launchers' folders of this machine; containers that share a folder for temporary files have other names of hosts. */
function ownSessions(since: number): [string, RegExpExecArray][] {
  const folder = ["TMPDIR", "TEMP", "TMP"].map((name) => Deno.env.get(name)).find(Boolean) ?? "/tmp";
  const host = Deno.hostname().split(".")[0];
  return [...own(folder, nameOfSession, since, Infinity)]
    .filter(([path]) => names(path).some((file) => file.startsWith(`pmix.${host}.`)));
}

/** This user's files of these names in a folder, last changed in these times. */
function own(folder: string, name: RegExp, from: number, to: number): Map<string, RegExpExecArray> {
  const found = new Map<string, RegExpExecArray>();
  for (const match of names(folder).map((file) => name.exec(file))) {
    if (match === null) continue;
    const path = `${folder}/${match.input}`;
    const { uid, mtime } = attempt(() => Deno.lstatSync(path)) ?? { uid: null, mtime: null };
    const time = mtime?.getTime() ?? 0;
    if (uid === Deno.uid() && time >= from && time < to) found.set(path, match);
  }
  return found;
}

/** What a process has open or mapped, by its path; nothing if it has ended, or is hidden from us. */
function filesOf(process: string): string[] {
  // In this order: memory is mapped while it is open.
  const open = names(`/proc/${process}/fd`);
  const targets = open.map((file) => attempt(() => Deno.readLinkSync(`/proc/${process}/fd/${file}`)) ?? "");
  const maps = attempt(() => Deno.readTextFileSync(`/proc/${process}/maps`)) ?? "";
  return [...targets, ...maps.split(/\s+/)];
}

function names(folder: string): string[] {
  return attempt(() => Array.from(Deno.readDirSync(folder), ({ name }) => name)) ?? [];
}

function remove(path: string): void {
  attempt(() => Deno.removeSync(path, { recursive: true }));
}

/** The result of something that fails if another process has come first, or does not let us; `null` then. */
function attempt<T>(action: () => T): T | null {
  try {
    return action();
  } catch {
    return null;
  }
}
