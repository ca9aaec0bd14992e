/**
 * Which native libraries distmath uses here, so that the peers can use the very same files.
 *
 * @module
 */
import { basename, dirname } from "node:path";
import { fileURLToPath } from "node:url";
import type { Probe } from "./probe.ts";

/** The files of the libraries, and the launcher that belongs to them. */
export interface Libraries {
  /** What distmath says about itself. */
  versions: Probe["versions"];
  /** The MPI library. */
  mpi: string;
  /** What has to be loaded, in this order, for p?gemm. */
  scalapack: string[];
  /** What has to be loaded, in this order, for ?gemm with several threads; or why that is impossible. */
  threadedBlas: string[] | Error;
  /** The MPI's mpirun. */
  launcher: string;
}

/** Files that matter, in the order in which they can be loaded: MKL's libraries name no dependencies. */
const loadingOrder = [
  /^libiomp5\.so/,
  /^libmkl_core\.so/,
  /^libmkl_(sequential|intel_thread|gnu_thread)\.so/,
  /^libmkl_intel_lp64\.so/,
  /^libmkl_blacs_\w+_lp64\.so/,
  /^(libmkl_scalapack_lp64|libscalapack\S*)\.so/,
];

/** The mapped files that p?gemm needs, in loading order. */
export function scalapackFiles(mapped: readonly string[]): string[] {
  return loadingOrder.flatMap((pattern) => mapped.filter((file) => pattern.test(basename(file))));
}

/** A BLAS of the same make that uses several threads in one process. */
async function threadedBlas(mapped: readonly string[]): Promise<string[] | Error> {
  const core = mapped.find((file) => basename(file).startsWith("libmkl_core.so"));
  if (core === undefined) {
    const openblas = mapped.find((file) => /openblas/.test(file) && /^lib(open)?blas/.test(basename(file)));
    return openblas === undefined ? new Error("The BLAS in use is neither MKL nor OpenBLAS.") : [openblas];
  }
  const inFolder: string[] = [];
  for await (const { name } of Deno.readDir(dirname(core))) inFolder.push(`${dirname(core)}/${name}`);
  const names = [/^libiomp5\.so/, /^libmkl_core\.so/, /^libmkl_intel_thread\.so/, /^libmkl_intel_lp64\.so/];
  const files = names.map((pattern) => inFolder.find((file) => pattern.test(basename(file))));
  const missing = names.filter((_, index) => files[index] === undefined);
  if (missing.length > 0) return new Error(`${dirname(core)} has no file ${missing.map(({ source }) => source)}.`);
  return files.map((file) => file!);
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}

/** The mpirun that belongs to an MPI library. */
async function launcherOf(mpi: string): Promise<string> {
  const beside = `${dirname(dirname(mpi))}/bin/mpirun`;
  if (await exists(beside)) return beside;
  return basename(mpi).startsWith("libmpich") || basename(mpi).startsWith("libmpi.so.12")
    ? "mpirun.mpich"
    : "mpirun.openmpi";
}

/** Find out which libraries distmath uses when each rank has that many threads. */
export async function findLibraries(threads: number): Promise<Libraries> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", fileURLToPath(new URL("./probe.ts", import.meta.url)), String(threads)],
  }).output();
  if (code !== 0) throw new Error(`A matmul on one rank fails:\n${new TextDecoder().decode(stderr)}`);
  const { versions, files }: Probe = JSON.parse(new TextDecoder().decode(stdout));
  const mpi = files.find((file) => /^libmpi(ch|_abi)?\.so/.test(basename(file)));
  if (mpi === undefined) throw new Error("distmath runs without MPI here, and the benchmarks need one.");
  return {
    versions,
    mpi,
    scalapack: scalapackFiles(files),
    threadedBlas: await threadedBlas(files),
    launcher: await launcherOf(mpi),
  };
}
