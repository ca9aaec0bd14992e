/**
 * Where NVIDIA's libraries are looked for, and how they are opened.
 *
 * Besides the folders that every library is searched in, these are found in the prefix of `native install cuda` and in
 * the wheels of an active virtual environment or conda prefix, where each lies under `nvidia/`.
 *
 * @module
 */
import { ConfigurationError } from "../errors.ts";
import {
  absoluteFolder,
  environment,
  type Library,
  nativePrefix,
  openLibrary,
  type SearchFolder,
  searchFolders,
  setLibraryVersion,
} from "../library.ts";
import { taskCommand } from "../task_command.ts";

export interface CudaLibraryRequest {
  /** The name for people, such as `NCCL`. */
  name: string;
  /** File names in order of preference. */
  files: readonly string[];
  /** The library's folders inside `site-packages/nvidia`, such as `nccl/lib`. */
  wheelFolders: readonly string[];
}

/** The command that installs every library of this kind. */
const INSTALL = taskCommand("native install cuda");

/** Python's versions whose folder may hold the wheels; the folder is not read, so that no read permission is needed. */
const PYTHON_VERSIONS = ["3.14", "3.13", "3.12", "3.11", "3.10", "3.9"];

function cudaFolders(wheelFolders: readonly string[]): SearchFolder[] {
  const native = nativePrefix();
  const wheels = ["VIRTUAL_ENV", "CONDA_PREFIX"].flatMap((source) => {
    const prefix = absoluteFolder(source);
    if (!prefix) return [];
    return PYTHON_VERSIONS.flatMap((version) =>
      wheelFolders.map((folder) => ({ path: `${prefix}/lib/python${version}/site-packages/nvidia/${folder}`, source }))
    );
  });
  const all = searchFolders();
  const explicit = all.filter(({ source }) => source === "DISTMATH_LIBRARY_PATH");
  return [
    ...explicit,
    ...(native ? [{ path: `${native}/cuda/lib`, source: "native install" }] : []),
    ...wheels,
    ...all.filter(({ source }) => source !== "DISTMATH_LIBRARY_PATH" && source !== "native install"),
  ];
}

/**
 * Open one of NVIDIA's libraries.
 *
 * @throws {LibraryNotFoundError} listing every attempt and the command that installs it.
 */
export function openCudaLibrary<const S extends Deno.ForeignLibraryInterface>(
  request: CudaLibraryRequest,
  symbols: S,
): Library<S> {
  const { name, files, wheelFolders } = request;
  return openLibrary(
    { name, files, install: INSTALL, folders: cudaFolders(wheelFolders) },
    symbols,
  );
}

/** Open a further table of a library that is open already. */
export function openGroup<const S extends Deno.ForeignLibraryInterface>(
  library: { path: string },
  symbols: S,
): Deno.DynamicLibrary<S>["symbols"] {
  return Deno.dlopen(library.path, symbols).symbols;
}

/** The three numbers of a version such as 23007 or 130100. */
export function versionParts(version: number): [major: number, minor: number, patch: number] {
  return [Math.floor(version / 10000), Math.floor(version % 10000 / 100), version % 100];
}

/** Write down the version of an opened library in the form `major.minor.patch`. */
export function noteVersion(name: string, ...parts: readonly number[]): void {
  setLibraryVersion(name, parts.join("."));
}

/**
 * Make an environment variable have a value before a native library reads it.
 *
 * @throws {ConfigurationError} if it has another value and may not be set.
 */
export function requireEnvironment(name: string, value: string): void {
  if (environment(name) === value) return;
  try {
    Deno.env.set(name, value);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotCapable)) throw error;
    throw new ConfigurationError(
      `${name} has to be ${value}, but this process may not set it. ` +
        `Start with ${name}=${value} in the environment and --allow-env=${name}.`,
      { cause: error },
    );
  }
}

/** Whether NVLink multicast (NVLS) may be used. The first library that is opened decides for the process. */
export interface MulticastOptions {
  /** Leave NCCL's and NVSHMEM's settings as they are; by default multicast is switched off. */
  allowMulticast?: boolean;
}

/**
 * Switch NVLink multicast off in NCCL and in NVSHMEM, which may open NCCL itself. Both read their settings once.
 *
 * @throws {ConfigurationError} if the environment may not be set.
 */
export function settleMulticast({ allowMulticast = false }: MulticastOptions): void {
  if (allowMulticast) return;
  requireEnvironment("NCCL_NVLS_ENABLE", "0");
  requireEnvironment("NVSHMEM_DISABLE_NVLS", "1");
}
