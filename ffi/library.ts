/**
 * Finding and opening native libraries.
 *
 * The order of search: folders that the request puts first (the launcher's own), `DISTMATH_LIBRARY_PATH`, the prefix
 * of `native install` (`DISTMATH_NATIVE`), an active virtual environment or conda prefix, the OS loader,
 * `CUDA_HOME`/`CUDA_PATH`. A candidate is tried by opening it, not by reading the file system, so that no read
 * permission is needed. A library is opened once, and never closed: its threads may still run.
 *
 * @module
 */
import { ConfigurationError } from "./errors.ts";
import { keepLoaded } from "./memory.ts";

/** A folder to search, and why it is searched. */
export interface SearchFolder {
  /** An absolute path, or `null` for the OS loader's own search. */
  path: string | null;
  /** What put the folder on the list, such as `DISTMATH_LIBRARY_PATH`. */
  source: string;
}

/** One candidate that was tried. */
export interface LibraryAttempt {
  /** The file that was tried. */
  path: string;
  /** What put its folder on the list. */
  source: string;
  /** Why it was not taken. */
  reason: string;
}

/** What to look for. */
export interface LibraryRequest {
  /** The name for people, such as `ScaLAPACK`. */
  name: string;
  /** File names to try in each folder, in order of preference. */
  files: readonly string[];
  /** The command that makes the library available. */
  install: string;
  /** Where to look, in order; {@linkcode searchFolders} if left out. */
  folders?: readonly SearchFolder[];
  /** Called before a candidate is opened, to load what it needs; throws an Error to refuse the candidate. */
  prepare?: (path: string) => void;
}

/** An opened library. */
export interface Library<S extends Deno.ForeignLibraryInterface> {
  /** The name for people. */
  name: string;
  /** The file that was opened, by its absolute path, also where the OS loader found it. */
  path: string;
  /** What put its folder on the list. */
  source: string;
  /** The C functions. */
  symbols: Deno.DynamicLibrary<S>["symbols"];
}

/** One line of the list of libraries that are in use. */
export interface LibraryVersion {
  /** The name for people. */
  name: string;
  /** The library's own version, or `unknown`. */
  version: string;
  /** The file that was opened. */
  path: string;
  /** How it was found. */
  source: string;
}

/** A library that no candidate file could serve. */
export class LibraryNotFoundError extends ConfigurationError {
  /** Every file that was tried, and why it was not taken. */
  readonly attempts: readonly LibraryAttempt[];

  /** Make the error out of the list of attempts. */
  constructor(request: LibraryRequest, attempts: readonly LibraryAttempt[]) {
    const tried = attempts.map(({ path, source, reason }) => `  ${path} (${source}): ${reason}`).join("\n");
    super(`${request.name} was not found. Tried:\n${tried || "  nothing"}\nTo install it: ${request.install}`);
    this.attempts = attempts;
  }
}

const opened = new Map<string, LibraryVersion>();

/**
 * An environment variable, or `undefined` when it is unset or may not be read.
 *
 * @example
 * ```ts
 * import { environment } from "@distmath/distmath";
 * console.assert(environment("A_NAME_THAT_NOBODY_SETS") === undefined);
 * ```
 */
export function environment(name: string): string | undefined {
  try {
    return Deno.env.get(name);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return undefined;
    throw error;
  }
}

/** The prefix under which `native install` puts libraries: `DISTMATH_NATIVE`, else in the user's cache folder. */
export function nativePrefix(): string | undefined {
  const explicit = environment("DISTMATH_NATIVE");
  if (explicit) return explicit;
  const cache = environment("XDG_CACHE_HOME") || (environment("HOME") && `${environment("HOME")}/.cache`);
  return cache && `${cache}/distmath/native`;
}

function folder(path: string | undefined, source: string): SearchFolder[] {
  return path ? [{ path, source }] : [];
}

/** All folders that are searched, in order. */
export function searchFolders(): SearchFolder[] {
  const explicit = (environment("DISTMATH_LIBRARY_PATH") ?? "").split(":").filter((path) => path !== "");
  const native = nativePrefix();
  const prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"].flatMap((name) => {
    const prefix = environment(name);
    return folder(prefix && `${prefix}/lib`, name);
  });
  const cuda = ["CUDA_HOME", "CUDA_PATH"].flatMap((name) => {
    const home = environment(name);
    return folder(home && `${home}/lib64`, name);
  });
  return [
    ...explicit.flatMap((path) => folder(path, "DISTMATH_LIBRARY_PATH")),
    ...folder(native && `${native}/cpu/lib`, "native install"),
    ...prefixes,
    ...systemFolders(),
    ...cuda,
  ];
}

/** The OS loader, and its usual folders by absolute path, since `--allow-ffi=<folders>` refuses bare names. */
function systemFolders(): SearchFolder[] {
  const machine = Deno.build.arch === "aarch64" ? "aarch64-linux-gnu" : "x86_64-linux-gnu";
  const usual = [`/usr/lib/${machine}`, "/usr/lib64", "/usr/lib64/openmpi/lib", "/usr/lib64/mpich/lib"];
  return [
    { path: null, source: "OS loader" },
    ...usual.map((path) => ({ path, source: "system folder" })),
  ];
}

/** The loader's message without the words that Deno puts around it. */
function reasonOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replace(/^(Could not open library: )+/, "").split("\n")[0];
}

/**
 * Open a library: the first candidate that loads.
 *
 * @throws {LibraryNotFoundError} listing every attempt with its reason and the command that installs the library.
 */
export function openLibrary<const S extends Deno.ForeignLibraryInterface>(
  request: LibraryRequest,
  symbols: S,
): Library<S> {
  const attempts: LibraryAttempt[] = [];
  for (const { path: directory, source } of request.folders ?? searchFolders()) {
    for (const file of request.files) {
      const path = directory === null ? file : `${directory}/${file}`;
      try {
        request.prepare?.(path);
        const { name } = request;
        const { symbols: functions } = Deno.dlopen(path, symbols);
        const found = keepLoaded(path);
        if (!opened.has(name)) opened.set(name, { name, version: "unknown", path: found, source });
        return { name, path: found, source, symbols: functions };
      } catch (error) {
        attempts.push({ path, source, reason: reasonOf(error) });
      }
    }
  }
  throw new LibraryNotFoundError(request, attempts);
}

/** Note the version that an opened library gives of itself. */
export function setLibraryVersion(name: string, version: string): void {
  const entry = opened.get(name);
  if (entry) entry.version = version;
}

/** Note a library that another one brought along. */
export function noteLibrary(entry: LibraryVersion): void {
  opened.set(entry.name, { ...entry });
}

/** The libraries that this process has opened, with version, path and how each was found. */
export function openedLibraries(): LibraryVersion[] {
  return [...opened.values()].map((entry) => ({ ...entry }));
}
