/**
 * Running a job: starting the ranks, and the programs beside them.
 *
 * @module
 */
import { pathToFileURL } from "node:url";
import { removeAbandonedFiles, removeFilesOfDead } from "./abandoned_files.ts";
import { commandLine, type Launch, type Launcher, rankVariable } from "./launcher.ts";
import { CommandError, onSignals } from "../terminal.ts";
import { withPermissions } from "./deno_flags.ts";
import { runTree, sendSignal, type TreeOptions, type TreeResult } from "./process_tree.ts";
import { quote } from "./shell.ts";
import { withOwnInput } from "./standard_input.ts";

/** A job, whose working directory is the ranks'. */
export interface JobOptions extends Launch, Omit<TreeOptions, "showParts" | "hasInput"> {
  /**
   * Rank 0 reads this process's standard input, and a line is shown before it is complete if its end is long in coming,
   * unless lines begin with ranks.
   */
  isInteractive?: boolean;
}

/** How a job ended: its program is the launcher. */
export type JobResult = TreeResult;

/** Start a job and wait for its end. Ctrl-C, SIGTERM and what `onLine` throws end the job first. */
export async function runJob(launcher: Launcher, options: JobOptions): Promise<JobResult> {
  const { isInteractive = false, tag = false } = options;
  const ownInput = isInteractive ? withOwnInput(launcher, options) : null;
  const line = commandLine(launcher, { ...options, program: ownInput ?? options.program });
  const startedAt = Date.now();
  removeAbandonedFiles();
  const hasInput = isInteractive && ownInput === null;
  const result = await runTree(line, { ...options, showParts: isInteractive && !tag, hasInput });
  if (result.code !== 0) await removeFilesOfDead(startedAt);
  return result;
}

/**
 * Run a program with its output passed on; returns its exit code.
 *
 * @throws {CommandError} when Ctrl-C, SIGTERM or SIGHUP ends it, at once.
 */
export async function runProgram(program: string, args: readonly string[], cwd: string = Deno.cwd()): Promise<number> {
  let endedWith: number | null = null;
  using _signals = onSignals((code) => () => {
    endedWith ??= code;
    sendSignal(child.pid, "SIGTERM");
  });
  const child = new Deno.Command(program, { args: [...args], cwd, stdin: "null" }).spawn();
  const { code } = await child.status;
  if (endedWith !== null) throw new CommandError("interrupted", endedWith);
  return code;
}

/** The program and first arguments that start a script on a rank; `flags` are Deno's own. */
export function denoRun(script: string, args: readonly string[] = [], flags: readonly string[] = []): string[] {
  return [Deno.execPath(), "run", ...withPermissions(flags), script, ...args];
}

/** A path as `deno test` takes it: what it would take for a pattern, as an address. */
function withoutPattern(file: string): string {
  return /^\/.*[*?]/s.test(file) ? pathToFileURL(file).href.replaceAll("*", "%2A") : file;
}

/** The program and first arguments that run a file's tests on a rank, by its path or URL. */
export function denoTest(file: string, args: readonly string[] = [], flags: readonly string[] = []): string[] {
  // Types are checked by "deno check", once and not on every rank.
  const command = [Deno.execPath(), "test", ...withPermissions(["--no-check", ...flags])];
  const rest = args.length > 0 ? ["--", ...args] : [];
  if (!/^(https?|jsr|npm):/.test(file)) return [...command, withoutPattern(file), ...rest];
  // "deno test" takes files only: each rank makes one on its host, which removes itself when it is read.
  const module = `Deno.removeSync(import.meta.dirname, { recursive: true }); await import(${JSON.stringify(file)});`;
  const make = `folder=$(mktemp -d) && printf %s ${quote(module)} > "$folder/url_test.ts"`;
  return ["sh", "-c", `${make} && exec ${command.map(quote).join(" ")} "$folder/url_test.ts" "$@"`, "sh", ...rest];
}

/** Stands for the rank's number in the flags of {@linkcode perRank}. */
export const RANK = "{rank}";

/** A program that starts a rank, by its flags: those of one rank, and those of all others; both may name {@linkcode RANK}. */
export function perRank(
  { kind }: Pick<Launcher, "kind">,
  start: (flags: readonly string[]) => readonly string[],
  { flags = [], only }: { flags?: readonly string[]; only?: { rank: number; flags: readonly string[] } | undefined },
): readonly string[] {
  const own = only?.flags ?? [];
  if ([...flags, ...own].every((flag) => !flag.includes(RANK)) && only === undefined) return start(flags);
  const command = (flags: readonly string[]) =>
    start(flags).map((word) => flags.includes(word) ? quote(word).replaceAll(RANK, `'"$rank"'`) : quote(word)).join(
      " ",
    );
  const others = `exec ${command(flags)}`;
  const script = only === undefined
    ? others
    : `if [ "$rank" = ${only.rank} ]; then exec ${command([...flags, ...own])}; fi; ${others}`;
  return ["sh", "-c", `rank=$${rankVariable[kind]}; ${script}`];
}
