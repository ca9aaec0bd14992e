/**
 * Commands that need the repository, not only the published package: `bench`, `soak`, `test:abi`.
 *
 * @module
 */
import { runProgram } from "../launch/job.ts";
import { CommandError, parseCommand, refuseArguments, scriptAddress } from "../terminal.ts";

/** Run a file of the repository, with the rest of the arguments. */
async function runFile(path: string, args: readonly string[]): Promise<number> {
  const file = scriptAddress(`../${path}`);
  try {
    Deno.statSync(file);
  } catch {
    throw new CommandError(`${path} is in the repository, not in the package: clone it, and run the task there`);
  }
  return await runProgram(Deno.execPath(), ["run", "-A", file, ...args]);
}

/** `bench`: benchmarks against peers in the same run; hands its arguments to `bench/main.ts`. */
export async function bench(args: string[]): Promise<number> {
  return await runFile("bench/main.ts", args);
}

/** `soak`: random operations against a plain model; hands its arguments to `tests/soak/main.ts`. */
export async function soak(args: string[]): Promise<number> {
  return await runFile("tests/soak/main.ts", args);
}

const abiHelp =
  `Compare the declarations of ffi/ with the vendors' headers and libraries, out of their wheels. Needs Python 3.9
with pip, gcc or clang. The first run downloads the wheels, and keeps about 2 GB in the folder that DISTMATH_ABI_CACHE
names; when it is unset, in distmath/abi in the user's cache folder.

Usage: test:abi [options]

  --update   write what the headers say to tests/abi/snapshot.json
`;

/** `test:abi`: the declarations of `ffi/` against the vendors' headers and libraries, from their wheels. */
export async function abiTests(args: string[]): Promise<number> {
  const { values, positionals } = parseCommand(args, {
    update: { type: "boolean", default: false },
  }, abiHelp);
  refuseArguments("test:abi", positionals);
  return await runFile("tests/abi/check_against_wheels.ts", values.update ? ["--update"] : []);
}
