/**
 * `bench`: benchmarks against peers in the same run. They are part of the repository, not of the published package.
 *
 * @module
 */
import { readyLauncher } from "./setup.ts";
import { CommandError, scriptAddress } from "./terminal.ts";

/** The command: hands its arguments to `bench/main.ts`. */
export async function bench(args: string[]): Promise<number> {
  const script = scriptAddress("../bench/main.ts");
  try {
    Deno.statSync(script);
  } catch {
    throw new CommandError("the benchmarks are in the repository: clone it, and run deno task bench there");
  }
  if (!args.includes("--help")) await readyLauncher();
  const child = new Deno.Command(Deno.execPath(), { args: ["run", "-A", script, ...args] }).spawn();
  return (await child.status).code;
}
