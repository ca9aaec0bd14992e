/**
 * The modules of a script: fetched once, before all ranks ask for them, and watched for changes.
 *
 * @module
 */
import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { CommandError } from "../terminal.ts";
import { runProgram } from "./job.ts";

/** The flags of Deno that say where modules come from, as far as "deno cache" and "deno info" take them. */
const aboutModules =
  /^(--(import-map|config|cert|reload|lock|frozen|frozen-lockfile|no-lock|no-config|no-remote|no-npm|node-modules-dir|node-modules-linker|min-dep-age|vendor|unsafely-ignore-certificate-errors|allow-import|deny-import|unstable[a-z-]*)|-[crI])(=|$)/;

/** With these nothing is to be fetched, or it is not known here what. */
const leavesModules = /^--(cached-only|conditions)(=|$)/;

/** Those of Deno's flags that say where modules come from, with the values that follow them. */
function moduleFlags(flags: readonly string[]): string[] {
  const own = flags.filter((flag, i) => {
    const isValue = !flag.startsWith("-");
    return aboutModules.test(isValue ? flags[i - 1] ?? "" : flag);
  });
  const isPermitted = own.some((flag) => /^(--allow-import|-I)(=|$)/.test(flag));
  // As "-A" on the ranks, which allows every host.
  return isPermitted ? own : ["--allow-import", ...own];
}

/**
 * Fetch what scripts import, so that the ranks of this host find it in the cache; paths in flags are as in the folder.
 * Whether all is there: if not, Deno has told why.
 */
export async function fetchModules(
  scripts: readonly string[],
  flags: readonly string[],
  folder: string,
): Promise<boolean> {
  if (flags.some((flag) => leavesModules.test(flag))) return true;
  return await runProgram(Deno.execPath(), ["cache", "--quiet", ...moduleFlags(flags), ...scripts], folder) === 0;
}

/**
 * {@linkcode fetchModules} for one script; returns the flags for ranks, which find in the cache what was fetched anew.
 *
 * @throws {CommandError} if that fails.
 */
export async function warmCache(script: string, flags: readonly string[], folder: string): Promise<string[]> {
  if (await fetchModules([script], flags, folder)) return withoutReload(flags);
  throw new CommandError(`the modules of ${script} cannot be loaded`, 1);
}

function withoutReload(flags: readonly string[]): string[] {
  return flags.filter((flag) => !/^(--reload|-r)(=|$)/.test(flag));
}

/** A module in what "deno info" tells, whether it can be loaded or not. */
interface Module {
  specifier: string;
}

/**
 * The files of a script: itself, and what it imports of this machine.
 *
 * @throws {CommandError} if there are none.
 */
export async function localModules(script: string, flags: readonly string[], folder: string): Promise<string[]> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", ...withoutReload(moduleFlags(flags)), script],
    cwd: folder,
    stdin: "null",
    stderr: "null",
  }).output();
  const { modules = [] } = JSON.parse(new TextDecoder().decode(stdout) || "{}") as { modules?: Module[] };
  const files = modules.flatMap(({ specifier }) => specifier.startsWith("file:") ? [fileURLToPath(specifier)] : []);
  if (files.length > 0) return files;
  throw new CommandError(`--watch: ${script} imports no file of this machine that could change`);
}

/** Editors write a file in several steps. */
const settleMilliseconds = 100;

/** A path with the one that it leads to by links. */
function withTarget(path: string): string[] {
  try {
    return [path, Deno.realPathSync(path)];
  } catch {
    // It is not there yet.
    return [path];
  }
}

/** The path, or the first folder on the way to it that is not there. */
function firstMissing(path: string): string {
  const folder = dirname(path);
  return folder === path || existsSync(folder) ? path : firstMissing(folder);
}

/** Waits for a change of one of these files; calls `onChange` at the first one. */
export function nextChange(files: readonly string[], onChange: () => void): Disposable & { happened: Promise<void> } {
  const watched = new Set(files.flatMap(withTarget).map(firstMissing));
  // Of folders, since editors put a new file in the place of the old one.
  const folders = new Set([...watched].map(dirname));
  const watcher = Deno.watchFs([...folders], { recursive: false });
  const happened = (async () => {
    for await (const { kind, paths } of watcher) {
      const isOurs = (path: string) => watched.has(path) || (kind === "remove" && folders.has(path));
      if (kind === "access" || !paths.some(isOurs)) continue;
      await new Promise((resolve) => setTimeout(resolve, settleMilliseconds));
      return onChange();
    }
  })();
  return {
    happened,
    [Symbol.dispose]() {
      try {
        watcher.close();
      } catch {
        // The loop has closed it.
      }
    },
  };
}
