/**
 * Commands that need the repository, not only the published package: `bench`, `test:abi`.
 *
 * @module
 */
import { readyLauncher } from "./setup.ts";
import { CommandError, scriptAddress } from "./terminal.ts";

/** The path of a file of the repository. */
function repositoryFile(path: string): string {
  const file = scriptAddress(`../${path}`);
  try {
    Deno.statSync(file);
  } catch {
    throw new CommandError(`${path} is in the repository, not in the package: clone it, and run the task there`);
  }
  return file;
}

async function runProgram(path: string, args: readonly string[]): Promise<number> {
  const child = new Deno.Command(Deno.execPath(), { args: ["run", "-A", path, ...args] }).spawn();
  return (await child.status).code;
}

/** `bench`: benchmarks against peers in the same run; hands its arguments to `bench/main.ts`. */
export async function bench(args: string[]): Promise<number> {
  const program = repositoryFile("bench/main.ts");
  if (!args.includes("--help")) await readyLauncher();
  return await runProgram(program, args);
}

/** `test:abi`: the declarations of `ffi/` against the vendors' headers and libraries, from their wheels. */
export async function abiTests(args: string[]): Promise<number> {
  return await runProgram(repositoryFile("tests/abi/check_against_wheels.ts"), args);
}
