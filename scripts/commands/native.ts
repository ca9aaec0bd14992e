/**
 * `native`: install, list or remove native libraries.
 *
 * @module
 */
import { findGpuDriver, taskCommand } from "../../internals.ts";
import { damageOf, install, isInstalled, readRecord, remove, setFolder, toMend } from "../native/install.ts";
import { cudaSetFor, downloadBytes, type NativeSet, pinnedPackages, sets } from "../native/sets.ts";
import { CommandError, formatBytes, parseCommand } from "../terminal.ts";

const help = `Install, list or remove native libraries: pinned, hash-checked wheels, without root.

Usage: native install [SET]   cpu (when left out), cuda, cuda12 or cuda13
       native list            what is installed, and where
       native remove [SET]    remove cpu, cuda, or both when left out

  cpu     Open MPI and MKL (BLAS, ScaLAPACK): a download of ${formatBytes(downloadBytes(sets.cpu))}
  cuda    the newest CUDA that this machine's driver serves; 13 where there is no driver
  cuda13  the runtime, cuBLAS, NVRTC, NCCL, NVSHMEM, cuBLASMp, cuFFTMp for CUDA 13: ${
  formatBytes(downloadBytes(sets.cuda13))
}
  cuda12  the same for CUDA 12, in place of those for CUDA 13: ${formatBytes(downloadBytes(sets.cuda12))}

They lie in the folder that DISTMATH_NATIVE names; when it is unset, in distmath/native in the user's cache folder.
GPUs need the NVIDIA driver besides, which no wheel brings: version 580 or newer for CUDA 13, 525 for CUDA 12.
Where root is at hand, a distribution's packages serve CPUs as well; Debian's:
apt-get install openmpi-bin libscalapack-openmpi2.2 libopenblas0-pthread

An install needs Python 3.9 or newer with pip. PIP_INDEX_URL, PIP_FIND_LINKS and pip's other settings count as usual.
`;

const folders = ["cpu", "cuda"] as const;

/** The set that a user named; `cuda` is the newest that the driver serves. */
function namedSet(name: string): NativeSet {
  if (name === "cpu" || name === "cuda12" || name === "cuda13") return sets[name];
  if (name !== "cuda") {
    throw new CommandError(`there is no set "${name}" of native libraries; there are cpu, cuda, cuda12, cuda13`);
  }
  const driver = findGpuDriver();
  const set = cudaSetFor(driver?.cuda ?? null);
  if (driver) {
    console.error(`this machine's driver serves CUDA ${driver.cuda.join(".")}: ${set.name} is the set for it`);
  }
  return set;
}

export async function native(args: string[]): Promise<number> {
  const { positionals: [action, name, ...more] } = parseCommand(args, {}, help);
  if (more.length > 0) throw new CommandError(`native takes one action, not "${args.join(" ")}"`);
  switch (action) {
    case "install":
      await installSet(namedSet(name ?? "cpu"));
      return 0;
    case "list":
      if (name !== undefined) throw new CommandError(`native list takes no set, and "${name}" was given`);
      for (const folder of folders) console.log(await describe(folder));
      return 0;
    case "remove":
      await removeSets(name);
      return 0;
    default:
      throw new CommandError(`native takes install, list or remove${action ? `, not "${action}"` : ""}`);
  }
}

async function installSet(set: NativeSet): Promise<void> {
  if (!await install(set)) console.log(`${set.name} is installed already: ${setFolder(set)}`);
  if (set.folder === "cuda" && findGpuDriver() === null) {
    console.error("no NVIDIA driver (libcuda.so.1) was found on this machine: these libraries need one to run");
  }
}

/** A line on what is installed in a folder, and on what to do if that is not what this distmath installs. */
async function describe(folder: typeof folders[number]): Promise<string> {
  const record = readRecord(setFolder({ folder }));
  const ours = Object.values(sets).filter((set) => set.folder === folder);
  if (!record) {
    const newest = ours[ours.length - 1];
    const contents = `${pinnedPackages(newest).join(", ")}: ${formatBytes(downloadBytes(newest))}`;
    return `${folder}  not installed (${contents}); to install it: ${taskCommand(`native install ${folder}`)}`;
  }
  const installed = await Promise.all(ours.map(isInstalled));
  const name = ours[installed.indexOf(true)]?.name;
  const damage = damageOf(setFolder({ folder }));
  const hint = damage !== null
    ? `  damaged: ${damage}; ${toMend(folder)}`
    : name
    ? ""
    : `  other versions than this distmath's; to replace it: ${taskCommand(`native install ${folder}`)}`;
  return `${name ?? folder}  ${record.packages.join(", ")}  ${formatBytes(record.bytes)}  ${
    setFolder({ folder })
  }${hint}`;
}

async function removeSets(name?: string): Promise<void> {
  const named = folders.filter((folder) => name === undefined || folder === name);
  if (named.length === 0) throw new CommandError(`native remove takes cpu or cuda, not "${name}"`);
  let isEmpty = true;
  for (const folder of named) {
    if (!await remove({ folder })) continue;
    isEmpty = false;
    console.log(`removed ${setFolder({ folder })}`);
  }
  if (isEmpty) console.log("nothing is installed");
}
