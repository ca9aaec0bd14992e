/** Running the command line of the repository as a user does. */
import { statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { slowdown } from "../mpi_installations.ts";

/** The repository. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

/** How a command ended. */
export interface Ended {
  code: number;
  stdout: string;
  stderr: string;
}

/** Variables that an outer job or a developer's shell may have set. */
const foreign =
  /^(OMPI_|PRTE_|PMI|PMIX_|HYDRA_|MPI_LOCAL|DISTMATH_MPIRUN$|DISTMATH_LIBRARY_PATH$|INIT_CWD$|FORCE_COLOR$)/;

function environment(extra: Record<string, string>): Record<string, string> {
  const own = Object.entries(Deno.env.toObject()).filter(([name]) => !foreign.test(name));
  return { ...Object.fromEntries(own), NO_COLOR: "1", ...extra };
}

/** One that takes as long hangs, also on a busy machine. */
const LONGEST_MILLISECONDS = 600_000;

/** Start a program in a folder, with a clean environment. */
export function start(
  program: string,
  args: readonly string[],
  { cwd = root, env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Deno.ChildProcess {
  const child = new Deno.Command(program, {
    args: [...args],
    cwd,
    env: environment(env),
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), LONGEST_MILLISECONDS);
  child.status.then(() => clearTimeout(timer));
  return child;
}

/** Wait for the end of a process; it is killed after `seconds`, or later on a busy machine. */
export async function finish(child: Deno.ChildProcess, seconds = 120): Promise<Ended> {
  const timer = setTimeout(() => child.kill("SIGKILL"), seconds * slowdown() * 1000);
  const { code, stdout, stderr } = await child.output();
  clearTimeout(timer);
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

/** Wait for a file that a process makes, with so many bytes at least, or for its end. */
export async function isMade(file: string, process: Promise<unknown>, leastBytes = 0): Promise<void> {
  let isOver = false;
  process.then(() => isOver = true);
  const size = () => statSync(file, { throwIfNoEntry: false })?.size ?? -1;
  while (!isOver && size() < leastBytes) await new Promise((resolve) => setTimeout(resolve, 50));
}

/** Start a command of `scripts/main.ts`. */
export function startMain(args: readonly string[], options: Parameters<typeof start>[2] = {}): Deno.ChildProcess {
  return start(Deno.execPath(), ["run", "-A", `${root}scripts/main.ts`, ...args], options);
}

/** Run a command of `scripts/main.ts`. */
export async function main(
  args: readonly string[],
  options: { cwd?: string; env?: Record<string, string>; seconds?: number } = {},
): Promise<Ended> {
  return await finish(startMain(args, options), options.seconds);
}

/** A folder for a test, removed at its end. */
export function temporaryFolder(): { path: string } & Disposable {
  const path = Deno.makeTempDirSync({ prefix: "distmath-test-" });
  return { path, [Symbol.dispose]: () => Deno.removeSync(path, { recursive: true }) };
}
