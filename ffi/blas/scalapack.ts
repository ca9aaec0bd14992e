/**
 * ScaLAPACK: the distributed matrix product p?gemm, and the search for the ScaLAPACK that fits the MPI in use.
 *
 * Loading a ScaLAPACK that was built for another MPI would load that MPI too, and break the process, or, where it has
 * the same name, run on one that it was not built for. So the search takes only files that belong to the MPI in use: the
 * MPI that the file names as needed has to be that very file; where it cannot be found, by where the MPI functions lie.
 *
 * Sources: the ScaLAPACK user's guide, PBLAS 2 (ScaLAPACK 2.2), Intel's oneMKL link line advice.
 *
 * @module
 */
import { type BlacsSymbols, openBlacs } from "./blacs.ts";
import { type Blas, type BlasType, blasWarning, ofTypes, openBlas } from "./blas.ts";
import { loadMkl, loadWhole, type Mkl, neighbour } from "./mkl.ts";
import { dependenciesOf, realPath } from "../elf.ts";
import { ConfigurationError } from "../errors.ts";
import {
  environment,
  type Library,
  noteLibrary,
  openLibrary,
  type SearchFolder,
  searchFolders,
  setLibraryVersion,
} from "../library.ts";
import { addressOfFunction, fileOfFunction, loadGlobally } from "../memory.ts";
import { type Mpi, openMpi } from "../mpi/mod.ts";
import { taskCommand } from "../task_command.ts";
import { noteWaiting } from "../waiting.ts";

/**
 * The parameters of a distributed matrix: its local part, first row and column (from 1), and its descriptor of nine
 * integers.
 */
export const A = [/* a */ "u64", /* ia */ "u64", /* ja */ "u64", /* desca */ "u64"] as const;
/** The parameters of a second matrix, see {@linkcode A}. */
export const B = [/* b */ "u64", /* ib */ "u64", /* jb */ "u64", /* descb */ "u64"] as const;
/** The parameters of a third matrix, see {@linkcode A}. */
export const C = [/* c */ "u64", /* ic */ "u64", /* jc */ "u64", /* descc */ "u64"] as const;

/** `p?gemm_`: every argument is an address, and every integer that lies there has 32 bits. */
export const PGEMM = {
  // deno-fmt-ignore
  parameters: [
    /* transa */ "u64", /* transb */ "u64", /* m */ "u64", /* n */ "u64", /* k */ "u64",
    /* alpha */ "u64", ...A, ...B, /* beta */ "u64", ...C,
  ],
  result: "void",
} as const satisfies Deno.ForeignFunction;

/** `p?gemm_`: nineteen addresses. */
export type PgemmFunction = Deno.DynamicLibrary<{ pgemm: typeof PGEMM }>["symbols"]["pgemm"];

/** A ScaLAPACK that was opened, with the BLACS and the BLAS that it uses. */
export interface Scalapack {
  readonly vendor: "mkl" | "netlib";
  /** The library's own words; of netlib's, which has none, the file's name. */
  readonly version: string;
  readonly path: string;
  /** How it was found. */
  readonly source: string;
  /** The distributed matrix product of each type. */
  readonly pgemm: Readonly<Record<BlasType, PgemmFunction>>;
  readonly blacs: BlacsSymbols;
  /** The BLAS that ScaLAPACK itself uses. */
  readonly blas: Blas;
  /** What the user should know about this choice, in words. */
  readonly warnings: readonly string[];
}

const NAME = "ScaLAPACK";
const MKL_FILE = "libmkl_scalapack_lp64.so";

/** Which BLACS of MKL speaks to an MPI. */
const MKL_BLACS = { open_mpi: "openmpi", mpich: "intelmpi" } as const;

/** Names under which ScaLAPACK is packaged for one MPI, and names that do not say for which. */
const PACKAGED = {
  open_mpi: ["libscalapack-openmpi.so.2.2", "libscalapack-openmpi.so.2.1"],
  mpich: ["libscalapack-mpich.so.2.2", "libscalapack-mpich.so.2.1"],
};
const NEUTRAL = ["libscalapack.so.2.2", "libscalapack.so.2.1", "libscalapack.so"];

const INSTALL = {
  open_mpi: `${taskCommand("native install cpu")}   (or: apt-get install libscalapack-openmpi2.2 libopenblas0-pthread)`,
  mpich: `${taskCommand("native install cpu")}   (or: apt-get install libscalapack-mpich2.2 libopenblas0-pthread)`,
};

function fileName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** What `MKL_FILE + suffix` needs beside it: the suffixes of MKL's core, newest first. */
const MKL_CORE_SUFFIXES: Readonly<Record<string, readonly string[]>> = {
  ".2": [".3", ".2"],
  ".1": [".1"],
  "": [""],
};

/** What {@linkcode loadMklScalapack} loaded. */
interface MklParts extends Mkl {
  /** The library with the BLACS in it. */
  readonly blacs: string;
}

function loadMklScalapack(path: string, mpi: Mpi & { abi: keyof typeof MKL_BLACS }, threads: number): MklParts {
  const suffix = fileName(path).slice(MKL_FILE.length);
  loadGlobally(mpi.path);
  const mkl = loadMkl(path, MKL_CORE_SUFFIXES[suffix], threads);
  const warnings = mpi.abi === "open_mpi" && mkl.version !== ".3"
    ? [`${path} is older than MKL 2026; versions from 2020 crash under Open MPI, this one is not known to work`]
    : [];
  const blacs = neighbour(path, `libmkl_blacs_${MKL_BLACS[mpi.abi]}_lp64.so${suffix}`);
  loadWhole(blacs);
  loadWhole(path);
  return { ...mkl, blacs, warnings: [...warnings, ...mkl.warnings] };
}

/** The names of MPI libraries, among those that a library needs. */
const MPI_FILE = /^lib(mpi|mpich|mpi_abi)\.so/;

/**
 * The MPI that a library was built for: the file that it would load by itself, behind symbolic links; `null` if it names
 * none, or none that is found.
 */
function mpiNeededBy(path: string): string | null {
  const { files, folders } = dependenciesOf(path);
  const needed = files.find((file) => MPI_FILE.test(file));
  if (needed === undefined) return null;
  const system = searchFolders().flatMap(({ path, source }) => source === "system folder" && path ? [path] : []);
  for (const folder of [...folders, neighbour(path, "").slice(0, -1), ...loaderFolders(), ...system]) {
    const found = realPath(`${folder}/${needed}`);
    if (found !== null) return found;
  }
  return null;
}

/** How {@linkcode scalapackRefusal} learns about files. */
export interface LibraryFacts {
  /** The MPI that a library was built for, if it can be told without loading it. */
  mpiNeededBy(path: string): string | null;
  /** The file behind symbolic links. */
  realPath(path: string): string | null;
  /** Where a library, or one that it depends on, has a function: loads it. */
  addressOf(path: string, name: string): bigint;
}

/** Why a file with ScaLAPACK must not be opened beside the MPI in use; null if it may. */
export function scalapackRefusal(
  path: string,
  mpi: Pick<Mpi, "abi" | "path">,
  facts: LibraryFacts = { mpiNeededBy, realPath, addressOf: addressOfFunction },
): string | null {
  const file = fileName(path);
  if (file.startsWith(MKL_FILE)) {
    return mpi.abi === "open_mpi" && !file.endsWith(".2")
      ? "this MKL keeps Open MPI's handles in 32 bits and would crash; take MKL 2026.2, or MPICH"
      : null;
  }
  const needed = facts.mpiNeededBy(path);
  if (needed !== null) {
    return needed === facts.realPath(mpi.path) ? null : `it is built for ${needed}, another MPI than ${mpi.path}`;
  }
  return facts.addressOf(path, "MPI_Init") === facts.addressOf(mpi.path, "MPI_Init")
    ? null
    : `it is built for another MPI than ${mpi.path}`;
}

let opened: Scalapack | undefined;

/**
 * The ScaLAPACK for the MPI in use; found and opened at the first call. `threads` is the number of threads that a local
 * product may use.
 *
 * @throws {ConfigurationError} if none is found, listing what was tried, or if none exists for the MPI in use.
 */
export function openScalapack(threads = 1): Scalapack {
  opened ??= findScalapack(openMpi(), threads);
  opened.blas.setThreads(threads);
  return opened;
}

/** The folders of `LD_LIBRARY_PATH`. */
function loaderFolders(): string[] {
  return (environment("LD_LIBRARY_PATH") ?? "").split(":").filter((folder) => folder.startsWith("/"));
}

/**
 * The ordinary folders, and the one of the MPI in use before those of the system. The OS loader's are searched one by one,
 * since what a bare name stands for is only known once it is loaded.
 */
function foldersFor(mpi: Mpi): SearchFolder[] {
  const own = mpi.path.slice(0, Math.max(0, mpi.path.lastIndexOf("/")));
  const folders = searchFolders().flatMap(({ path, source }) =>
    path !== null ? [{ path, source }] : [
      { path: own, source: "the folder of the MPI" },
      ...[...loaderFolders(), "/usr/local/lib"].map((path) => ({ path, source })),
    ]
  );
  return folders.filter(({ path }, i) => path !== "" && folders.findIndex((other) => other.path === path) === i);
}

/**
 * Refuse an MPI for which no ScaLAPACK exists.
 *
 * @throws {ConfigurationError} for the MPI standard ABI.
 */
export function checkScalapackAbi<M extends Pick<Mpi, "abi" | "path">>(
  mpi: M,
): asserts mpi is M & { abi: "open_mpi" | "mpich" } {
  if (mpi.abi !== "standard") return;
  throw new ConfigurationError(
    `no ScaLAPACK exists for the MPI standard ABI (${mpi.path}), so that there is no matrix product on CPUs with it. ` +
      `Start the script under Open MPI or MPICH with their own libmpi: ${taskCommand("native install cpu")}`,
  );
}

function findScalapack(mpi: Mpi, threads: number): Scalapack {
  checkScalapackAbi(mpi);
  const mkl: { parts?: MklParts } = {};
  const library: Library<Record<BlasType, typeof PGEMM>> = openLibrary({
    name: NAME,
    files: [...Object.keys(MKL_CORE_SUFFIXES).map((suffix) => MKL_FILE + suffix), ...PACKAGED[mpi.abi], ...NEUTRAL],
    install: INSTALL[mpi.abi],
    folders: foldersFor(mpi),
    refuse: (path) => scalapackRefusal(path, mpi),
    prepare: (path) => {
      if (fileName(path).startsWith(MKL_FILE)) mkl.parts = loadMklScalapack(path, mpi, threads);
    },
  }, ofTypes(PGEMM, "p?gemm_"));
  const { path, source, symbols: pgemm } = library;
  const parts = fileName(path).startsWith(MKL_FILE) ? mkl.parts : undefined;
  const blas = openBlas(parts?.interface ?? path);
  const slow = blasWarning(blas);
  const version = parts ? blas.version : fileName(path);
  setLibraryVersion(NAME, parts ? version : `${version} with ${blas.version}`);
  const file = fileOfFunction(blas.path, "dgemm_") ?? blas.path;
  noteLibrary({ name: "BLAS", version: blas.version, path: file, source: "ScaLAPACK's own" });
  noteWaiting(pgemm, { s: "psgemm", d: "pdgemm", c: "pcgemm", z: "pzgemm" });
  return {
    vendor: parts ? "mkl" : "netlib",
    version,
    path,
    source,
    pgemm,
    blacs: openBlacs(parts?.blacs ?? path, mpi.abi === "open_mpi" ? "u64" : "i32"),
    blas,
    warnings: [...parts?.warnings ?? [], ...slow ? [slow] : []],
  };
}
