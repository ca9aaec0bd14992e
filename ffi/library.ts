/**
 * Finding and opening native libraries.
 *
 * The order of search: folders that the request puts first (the launcher's own), `DISTMATH_LIBRARY_PATH`, the prefix
 * of `native install` (`DISTMATH_NATIVE`), an active virtual environment or conda prefix, the OS loader,
 * `CUDA_HOME`/`CUDA_PATH`. What the user's environment names by a relative path is ignored, but for distmath's own
 * variables. Files are looked at through libc, so that no read permission is needed. A library that is there but cannot
 * be loaded ends the search: no other is taken in its place. A library is opened once, and never closed: its threads may
 * still run.
 *
 * @module
 */
import { inspectLibrary, type LibraryFile } from "./elf.ts";
import { ConfigurationError } from "./errors.ts";
import { GLIBC_FOLDERS, keepLoaded, mayOpen } from "./memory.ts";
import { taskCommand } from "./task_command.ts";

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
  /**
   * What that means: there is no such file; `--allow-ffi` does not have it; it is for another MPI or machine, or of another version; it is there
   * and cannot be loaded, which ends the search.
   */
  outcome: "absent" | "denied" | "refused" | "damaged";
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
  /** Tells why a candidate that is there must not be opened; `null` if it may. */
  refuse?: (path: string) => string | null;
  /** Called before a candidate is opened, to load what it needs; throws an Error if that cannot be loaded. */
  prepare?: (path: string) => void;
}

export interface Library<S extends Deno.ForeignLibraryInterface> {
  /** The name for people. */
  name: string;
  /** The file that was opened, by its absolute path, also where the OS loader found it. */
  path: string;
  /** What put its folder on the list. */
  source: string;
  symbols: Deno.DynamicLibrary<S>["symbols"];
}

/** A table whose functions have other names in C, which follow from its keys. */
export function named<S extends Deno.ForeignLibraryInterface>(symbols: S, nameOf: (key: string) => string): S {
  return Object.fromEntries(
    Object.entries(symbols).map(([key, symbol]) => [key, { ...symbol, name: nameOf(key) }]),
  ) as S;
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

/** A library that no candidate file could serve, or whose first candidate is damaged. */
export class LibraryNotFoundError extends ConfigurationError {
  /** Every file that was tried, and why it was not taken. */
  readonly attempts: readonly LibraryAttempt[];

  /** Make the error out of the list of attempts. */
  constructor(request: LibraryRequest, attempts: readonly LibraryAttempt[]) {
    super(explain(request, attempts));
    this.attempts = attempts;
  }

  /** Whether the first file that is there is damaged, so that the search ended at it. */
  get isDamaged(): boolean {
    return this.attempts.at(-1)?.outcome === "damaged";
  }
}

function folderOf({ path }: LibraryAttempt): string | null {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : null;
}

/** A line for each folder without the library, and for each file that was not taken for another reason. */
function describeAttempts(attempts: readonly LibraryAttempt[]): string[] {
  const lines = attempts.map((attempt) => {
    const { path, source, reason, outcome } = attempt;
    if (outcome !== "absent") return `  ${path} (${source}): ${reason}`;
    const folder = folderOf(attempt);
    const files = attempts.filter((other) => other.outcome === "absent" && folderOf(other) === folder);
    const names = files.map(({ path }) => path.slice((folder?.length ?? -1) + 1));
    return `  ${folder === null ? "the OS loader" : `${folder} (${source})`}: no ${[...new Set(names)].join(", ")}`;
  });
  return [...new Set(lines)];
}

function explain(request: LibraryRequest, attempts: readonly LibraryAttempt[]): string {
  const { name, install } = request;
  const damaged = attempts.at(-1);
  if (damaged?.outcome === "damaged") {
    return `${name}: ${damaged.path} (${damaged.source}) is there, but cannot be loaded: ${damaged.reason}. ` +
      `No other library is taken in its place. Install it again (${install}), or let DISTMATH_LIBRARY_PATH name the ` +
      `folder of one that can be loaded.`;
  }
  const tried = describeAttempts(attempts.filter(({ outcome }) => outcome !== "denied"));
  const denied = attempts.filter(({ outcome }) => outcome === "denied");
  const lines = tried.length === 0 && denied.length > 0
    ? [`${name} was not found where this process may open libraries.`]
    : [`${name} was not found. Tried:`, ...tried.length > 0 ? tried : ["  nothing"]];
  return [...lines, ...explainDenied(request, denied)].join("\n");
}

/** What to permit: of folders that could be looked at, the first with the library; else those that may have it. */
function explainDenied({ name, install }: LibraryRequest, denied: readonly LibraryAttempt[]): string[] {
  const toInstall = `To install it: ${install}`;
  // The first file of each folder.
  const folders = [...new Map(denied.toReversed().map((attempt) => [folderOf(attempt), attempt]))].toReversed();
  if (folders.length === 0) return [toInstall];
  const lines = folders.map(([folder, { source, reason }]) =>
    folder === null
      ? "  the OS loader's own folders: take --allow-ffi without a list"
      : `  ${folder} (${source}): ${reason}`
  );
  const paths = folders.flatMap(([folder]) => folder ?? []);
  const isKnown = denied.some(({ path, reason }) => reason === hasFile(path));
  const advice = paths.length === 0
    ? toInstall
    : isKnown
    ? `Start the script with ${paths[0]} in its --allow-ffi.`
    : `Start the script with --allow-ffi, or with --allow-ffi=<the folder that has ${name}>,${GLIBC_FOLDERS[0]}, the ` +
      `second being glibc's. ${taskCommand("doctor")} tells which it is.`;
  return ["Not permitted by --allow-ffi:", ...lines, advice];
}

function hasFile(path: string): string {
  return `it has ${path.slice(path.lastIndexOf("/") + 1)}`;
}

const opened = new Map<string, LibraryVersion>();

/**
 * An environment variable, or `undefined` when it is unset or may not be read.
 *
 * @example
 * ```ts
 * import { environment } from "@distmath/distmath/internals";
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
  const home = absoluteFolder("HOME");
  const cache = absoluteFolder("XDG_CACHE_HOME") ?? (home && `${home}/.cache`);
  return cache && `${cache}/distmath/native`;
}

/**
 * The folder that an environment variable names. A relative path is none: it would mean another folder in each place
 * that a script is started in, and the XDG Base Directory Specification has it ignored.
 */
export function absoluteFolder(name: string): string | undefined {
  const path = environment(name);
  return path?.startsWith("/") ? path : undefined;
}

function folder(path: string | undefined, source: string): SearchFolder[] {
  return path ? [{ path, source }] : [];
}

/** All folders that are searched, in order. */
export function searchFolders(): SearchFolder[] {
  const explicit = (environment("DISTMATH_LIBRARY_PATH") ?? "").split(":").filter((path) => path !== "");
  const native = nativePrefix();
  const prefixes = ["VIRTUAL_ENV", "CONDA_PREFIX"].flatMap((name) => {
    const prefix = absoluteFolder(name);
    return folder(prefix && `${prefix}/lib`, name);
  });
  const cuda = ["CUDA_HOME", "CUDA_PATH"].flatMap((name) => {
    const home = absoluteFolder(name);
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

/** What is known of a candidate's file; `null` for a bare name, which is the loader's to find, and without libc. */
function fileAt(path: string): LibraryFile | null {
  if (!path.includes("/")) return null;
  try {
    return inspectLibrary(path);
  } catch (error) {
    if (error instanceof ConfigurationError) return null;
    throw error;
  }
}

/** What keeps a candidate from being opened, as far as it can be told before. */
function obstacle(request: LibraryRequest, path: string): Pick<LibraryAttempt, "outcome" | "reason"> | null {
  const file = fileAt(path);
  if (file?.state === "absent") return { outcome: "absent", reason: "there is no such file" };
  if (!mayOpen(path)) return { outcome: "denied", reason: file ? hasFile(path) : "not looked into" };
  if (file?.state === "foreign") return { outcome: "refused", reason: file.reason };
  if (file?.state === "damaged") return { outcome: "damaged", reason: file.reason };
  const refusal = request.refuse?.(path) ?? null;
  return refusal === null ? null : { outcome: "refused", reason: refusal };
}

/**
 * The outcome of a candidate that could not be opened. One that lacks a function is whole, of another version; where the
 * loader looked for a bare name, it alone knows.
 */
function outcomeOf(path: string, reason: string): LibraryAttempt["outcome"] {
  if (reason.startsWith("Failed to register symbol")) return "refused";
  return !path.includes("/") && reason.includes("cannot open shared object file") ? "absent" : "damaged";
}

/**
 * Open a library: the first candidate that is there.
 *
 * @throws {LibraryNotFoundError} if there is none, or the first one is damaged, listing every attempt with its reason, and
 * the command that installs the library or the permission that is missing.
 * @throws {ConfigurationError} if this process may not open the C library, which each one takes.
 */
export function openLibrary<const S extends Deno.ForeignLibraryInterface>(
  request: LibraryRequest,
  symbols: S,
): Library<S> {
  const { name } = request;
  const attempts: LibraryAttempt[] = [];
  for (const { path: directory, source } of request.folders ?? searchFolders()) {
    for (const file of request.files) {
      const path = directory === null ? file : `${directory}/${file}`;
      try {
        const found = obstacle(request, path);
        if (found === null) {
          request.prepare?.(path);
          const { symbols: functions } = Deno.dlopen(path, symbols);
          const loaded = keepLoaded(path);
          if (!opened.has(name)) opened.set(name, { name, version: "unknown", path: loaded, source });
          return { name, path: loaded, source, symbols: functions };
        }
        attempts.push({ path, source, ...found });
      } catch (error) {
        // It is not the library that cannot be loaded, but the C library.
        if (error instanceof ConfigurationError && !(error instanceof LibraryNotFoundError)) throw error;
        const reason = reasonOf(error);
        attempts.push({ path, source, reason, outcome: outcomeOf(path, reason) });
      }
      if (attempts.at(-1)!.outcome === "damaged") throw new LibraryNotFoundError(request, attempts);
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
