/**
 * MPI: finding the library that belongs to the launcher, opening it once, and one set of names for three binary
 * interfaces. Sources: MPI 3.1 and 5.0, and the `mpi.h` of Open MPI 4.1 and 5.0 and MPICH 4 and 5.
 *
 * @module
 */
import { ConfigurationError, NativeError } from "../errors.ts";
import {
  environment,
  type Library,
  LibraryNotFoundError,
  type LibraryRequest,
  openLibrary,
  type SearchFolder,
  searchFolders,
  setLibraryVersion,
} from "../library.ts";
import { fromCString } from "../memory.ts";
import { taskCommand } from "../task_command.ts";
import type { Abi, MpiConstants, StatusLayout } from "./abi.ts";
import { type MpiFunctions, mpiFunctions } from "./functions.ts";
import { isWithoutMpi, type Launcher, launcher, launcherLibraryFolders } from "./launcher.ts";
import { mpichAbi } from "./mpich.ts";
import { openMpiAbi } from "./open_mpi.ts";
import { standardAbi } from "./standard_abi.ts";
import { functionsWithoutMpi, lastFailure, type MachinePlace, machinePlace } from "./without_mpi.ts";

export type { Abi, ElementType, Handle, MpiConstants, ReduceOperation, StatusLayout } from "./abi.ts";
export {
  MPI_FUNCTION_NAMES,
  MPI_FUNCTIONS,
  type MpiArgument,
  type MpiArguments,
  type MpiFunctionName,
  type MpiFunctions,
  type MpiParameter,
} from "./functions.ts";
export type { MachinePlace } from "./without_mpi.ts";
export { isWithoutMpi, type Launcher, launcher } from "./launcher.ts";

/** An MPI that was opened, of whichever ABI; or what stands for it in jobs without one. */
export interface Mpi {
  /** How it represents what the standard leaves open. */
  abi: Abi["name"];
  vendor: "open_mpi" | "mpich" | "intel" | "cray" | "mvapich" | "unknown" | "none";
  /** The first line of the library's own description. */
  version: string;
  path: string;
  /** How it was found. */
  source: string;
  /** The C type of handles: numbers for `i32`, bigints for `u64`. */
  handle: Abi["handle"];
  constants: MpiConstants;
  status: StatusLayout;
  /** The names of error classes by number. */
  errorClasses: readonly string[];
  symbols: MpiFunctions;
  /** The place of this rank on its machine, which is known once the ranks have joined without MPI; else `null`. */
  place: () => MachinePlace | null;
  /** What the function threw that returned an error code last, where it is not MPI's; else `null`. */
  failure: () => Error | null;
}

/** An MPI function returned an error code: `symbol` is its error class, `failure.text` is MPI's own text. */
export class MpiError extends NativeError {}

/** The error for the code that an MPI function returned; where no MPI is in use, what the function threw. */
export function mpiError(functionName: string, code: number, hint?: string): Error {
  const { symbols, errorClasses, failure } = openMpi();
  const thrown = failure();
  if (thrown !== null) return thrown;
  const errorClass = new Int32Array(1);
  const text = new Uint8Array(1024);
  symbols.MPI_Error_class(code, errorClass);
  symbols.MPI_Error_string(code, text, new Int32Array(1));
  return new MpiError({
    functionName,
    code,
    symbol: errorClasses[errorClass[0]] ?? `MPI error class ${errorClass[0]}`,
    text: fromCString(text).trim().replaceAll(/\s*\n\s*/g, "; ").replace(/\.$/, ""),
    hint,
  });
}

/** Throw the {@linkcode MpiError} for a code other than success. */
export function checkMpi(code: number, functionName: string): void {
  if (code !== 0) throw mpiError(functionName, code);
}

const OPEN_MPI_FILES = ["libmpi.so.40"];
const MPICH_FILES = ["libmpi.so.12", "libmpich.so.12"];
const STANDARD_FILES = ["libmpi_abi.so.1", "libmpi_abi.so.0"];

const INSTALL = `${
  taskCommand("native install cpu")
}, or on Debian: apt-get install openmpi-bin libscalapack-openmpi2.2 libopenblas0-pthread`;

/** The symbols that tell the binary interfaces apart; opened with the library. */
const PROBE = {
  ompi_mpi_comm_world: { type: "pointer", optional: true },
  MPI_Abi_get_version: { parameters: ["buffer", "buffer"], result: "i32", optional: true },
  MPI_Get_library_version: { parameters: ["buffer", "buffer"], result: "i32" },
} as const satisfies Deno.ForeignLibraryInterface;

/** mpi4py's rule: the standard interface has a version of its own, Open MPI exports its handles, the rest is MPICH. */
function identify(path: string, symbols: Library<typeof PROBE>["symbols"]): Abi {
  const version = new Int32Array(2);
  if (symbols.ompi_mpi_comm_world !== null) return openMpiAbi(path);
  const isStandard = symbols.MPI_Abi_get_version?.(version.subarray(0, 1), version.subarray(1)) === 0 && version[0] > 0;
  return isStandard ? standardAbi : mpichAbi;
}

const VENDORS: readonly (readonly [RegExp, Mpi["vendor"]])[] = [
  [/open mpi/i, "open_mpi"],
  [/intel/i, "intel"],
  [/cray/i, "cray"],
  [/mvapich/i, "mvapich"],
  [/mpich/i, "mpich"],
];

/** The major release in Open MPI's description of itself; `null` if that is another MPI's. */
export function openMpiRelease(version: string): number | null {
  const match = /Open MPI v(\d+)/.exec(version);
  return match && Number(match[1]);
}

/** The names of the launcher's own library. */
function nativeFiles(starter: Launcher | null): string[] {
  if (starter?.kind === "open_mpi") return OPEN_MPI_FILES;
  if (starter?.kind === "mpich") return MPICH_FILES;
  return [...OPEN_MPI_FILES, ...MPICH_FILES, "libmpi.so"];
}

/**
 * Where to look, in order: what the user set, the launcher's own folder, the ordinary search. Open MPI 4.1 does not tell
 * its folder; it is the system's one, so that the system goes before an Open MPI 5 of `native install`.
 */
function mpiFolders(starter: Launcher | null): SearchFolder[] {
  const ordinary = searchFolders();
  const explicit = ordinary.filter(({ source }) => source === "DISTMATH_LIBRARY_PATH");
  const rest = ordinary.filter((folder) => !explicit.includes(folder));
  const own = starter ? launcherLibraryFolders().map((path) => ({ path, source: "the launcher's own" })) : [];
  const isSystem = ({ source }: SearchFolder) => source === "OS loader" || source === "system folder";
  const isOldOpenMpi = starter?.kind === "open_mpi" && starter.release === 4;
  return [
    ...explicit,
    ...own,
    ...(isOldOpenMpi ? [...rest.filter(isSystem), ...rest.filter((folder) => !isSystem(folder))] : rest),
  ];
}

/** A library that `DISTMATH_MPI` names: a file, or a folder with one. */
function openNamed(path: string, request: LibraryRequest): Library<typeof PROBE> {
  const [, folder, file] = /^(.*?)\/?([^/]*\.so[.\d]*)$/.exec(path) ?? [undefined, path, undefined];
  const files = file === undefined ? [...request.files, ...STANDARD_FILES] : [file];
  const folders = [{
    path: file !== undefined && folder === "" && path === file ? null : folder,
    source: "DISTMATH_MPI",
  }];
  return openLibrary({ ...request, files, folders }, PROBE);
}

/** The launcher's native library; the standard interface, for which no ScaLAPACK exists, only if there is none. */
function find(): Library<typeof PROBE> {
  const starter = launcher();
  const request = { name: "MPI", install: INSTALL, files: nativeFiles(starter) };
  const named = environment("DISTMATH_MPI");
  if (named) return openNamed(named, request);
  const folders = mpiFolders(starter);
  try {
    return openLibrary({ ...request, folders }, PROBE);
  } catch (error) {
    if (!(error instanceof LibraryNotFoundError) || starter?.kind === "open_mpi" || error.isDamaged) throw error;
    try {
      return openLibrary({ ...request, files: STANDARD_FILES, folders }, PROBE);
    } catch (second) {
      if (!(second instanceof LibraryNotFoundError) || second.isDamaged) throw second;
      throw new LibraryNotFoundError(request, [...error.attempts, ...second.attempts]);
    }
  }
}

const FAMILY_NAMES = { open_mpi: "Open MPI's mpirun", mpich: "MPICH's mpirun", slurm: "srun" } as const;

/** What to do when the library and the launcher do not belong together. */
export function howToStart(mpi: Mpi): string {
  if (launcher()?.kind === "slurm") {
    const plugin = mpi.vendor === "open_mpi" ? "pmix" : "pmi2";
    return `Start the script by srun --mpi=${plugin}, where srun --mpi=list names that, or by the mpirun of ${mpi.path} ` +
      `(${taskCommand("run -n 4 script.ts")} finds it).`;
  }
  return `Start the script by the mpirun of ${mpi.path} (${taskCommand("run -n 4 script.ts")} finds it), ` +
    `or set DISTMATH_MPI to the library file of the launcher's MPI.`;
}

/** Refuse a library that another MPI's launcher started: each process would be a rank 0 of 1. */
function refuseForeignLauncher(mpi: Mpi): void {
  const starter = launcher();
  if (starter === null || starter.kind === "slurm" || starter.kind === "torch") return;
  const isOpenMpi = mpi.vendor === "open_mpi";
  const release = openMpiRelease(mpi.version);
  const fits = isOpenMpi === (starter.kind === "open_mpi") &&
    (!isOpenMpi || release === null || release === starter.release);
  if (fits) return;
  const name = FAMILY_NAMES[starter.kind] + (starter.release === null ? "" : ` (release ${starter.release})`);
  throw new ConfigurationError(
    `${name} started ${starter.size} ranks, but the MPI in use is ${mpi.version}, from ${mpi.path} (${mpi.source}); ` +
      `they do not fit together, and every process would be alone. ${howToStart(mpi)}`,
  );
}

let current: Mpi | undefined;

/** What stands for MPI in a job that was started without it. */
function withoutMpi(): Mpi {
  const { name, ...abi } = standardAbi;
  const source = "RANK and WORLD_SIZE are set";
  return {
    abi: name,
    vendor: "none",
    version: "no MPI",
    path: "",
    source,
    symbols: functionsWithoutMpi(),
    place: machinePlace,
    failure: lastFailure,
    ...abi,
  };
}

/**
 * The MPI library, opened at the first call: `DISTMATH_MPI` (a file or a folder) and `DISTMATH_LIBRARY_PATH` first, then
 * the library in the launcher's own prefix, then the ordinary search for the launcher's family. In a job without MPI a
 * few of its functions, over TCP.
 *
 * @throws {ConfigurationError} if there is none, or if another MPI's launcher started this process.
 *
 * @example
 * ```ts no-eval
 * import { openMpi } from "@distmath/distmath/ffi";
 * console.log(openMpi().version);
 * ```
 */
export function openMpi(): Mpi {
  if (current) return current;
  if (isWithoutMpi()) return current = withoutMpi();
  const { path, source, symbols: probe } = find();
  const { name, ...abi } = identify(path, probe);
  const text = new Uint8Array(8192);
  probe.MPI_Get_library_version(text, new Int32Array(1));
  const description = fromCString(text);
  const version = description.split(/[\n,]/)[0].replaceAll(/\s+/g, " ").trim();
  const vendor = VENDORS.find(([pattern]) => pattern.test(description))?.[1] ?? "unknown";
  const symbols = mpiFunctions(path, abi.handle);
  const mpi: Mpi = {
    abi: name,
    vendor,
    version,
    path,
    source,
    symbols,
    place: () => null,
    failure: () => null,
    ...abi,
  };
  refuseForeignLauncher(mpi);
  setLibraryVersion("MPI", version);
  return current = mpi;
}
