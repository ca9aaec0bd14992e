/**
 * The modules of a script: fetched once, before all ranks ask for them, and watched for changes.
 *
 * @module
 */
import { dirname } from "node:path";
import { CommandError } from "../terminal.ts";
import { runProgram } from "./job.ts";

/** The flags of Deno that say where modules come from. */
const aboutModules =
  /^(--(import-map|config|cert|reload|lock|frozen|frozen-lockfile|no-lock|no-config|no-remote|no-npm|node-modules-dir|vendor|cached-only|unsafely-ignore-certificate-errors|allow-import|deny-import|quiet|preload|require|conditions)|-[crIq])(=|$)/;

/** Those of Deno's flags that say where modules come from, with the values that follow them. */
function moduleFlags(flags: readonly string[]): string[] {
  return flags.filter((flag, i) => {
    const isValue = !flag.startsWith("-");
    return aboutModules.test(isValue ? flags[i - 1] ?? "" : flag);
  });
}

/**
 * Fetch what a script imports, so that the ranks of this host find it in the cache.
 *
 * @throws {CommandError} if that fails; Deno has told why.
 */
export async function warmCache(script: string, flags: readonly string[]): Promise<void> {
  const isPermitted = flags.some((flag) => /^--allow-import|^-I/.test(flag));
  // As "-A" on the ranks, which allows every host.
  const permission = isPermitted ? [] : ["--allow-import"];
  const code = await runProgram(Deno.execPath(), ["cache", "--quiet", ...permission, ...moduleFlags(flags), script]);
  if (code !== 0) throw new CommandError(`the modules of ${script} cannot be loaded`, 1);
}

/** The files of a script: itself, and what it imports of this machine. */
export async function localModules(script: string): Promise<string[]> {
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", script],
    stdin: "null",
    stderr: "null",
  }).output();
  const { modules = [] } = JSON.parse(new TextDecoder().decode(stdout) || "{}") as { modules?: { local?: string }[] };
  const cache = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
  return modules.flatMap(({ local }) => local === undefined || local.startsWith(cache) ? [] : [local]);
}

/** Editors write a file in several steps. */
const settleMilliseconds = 100;

/** Waits for a change of one of these files; calls `onChange` at the first one. */
export function nextChange(files: readonly string[], onChange: () => void): Disposable & { happened: Promise<void> } {
  // Of folders, since editors put a new file in the place of the old one.
  const watcher = Deno.watchFs([...new Set(files.map(dirname))], { recursive: false });
  const watched = new Set(files);
  const happened = (async () => {
    for await (const { kind, paths } of watcher) {
      if (kind === "access" || !paths.some((path) => watched.has(path))) continue;
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
